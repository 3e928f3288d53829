/// A heap of deadlines, one entry per armed time. An entry that no longer matters stays until it is due, so whoever
/// takes one compares it with the time that is armed now. A heap of our own, since CallCore imports nothing.
struct DeadlineQueue<Key: Sendable>: Sendable {
  private var heap: [(at: Timestamp, key: Key)] = []

  var next: Timestamp { heap.first?.at ?? .distantFuture }
  var count: Int { heap.count }

  mutating func insert(_ key: Key, at time: Timestamp) {
    heap.append((time, key))
    var child = heap.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      guard heap[child].at < heap[parent].at else { break }
      heap.swapAt(child, parent)
      child = parent
    }
  }

  /// Takes the earliest entry if it is due.
  mutating func popDue(now: Timestamp) -> (at: Timestamp, key: Key)? {
    guard let first = heap.first, first.at <= now else { return nil }
    let last = heap.removeLast()
    if !heap.isEmpty {
      heap[0] = last
      siftDown()
    }
    return first
  }

  private mutating func siftDown() {
    var parent = 0
    while true {
      var least = parent
      let left = 2 * parent + 1
      if left < heap.count, heap[left].at < heap[least].at { least = left }
      if left + 1 < heap.count, heap[left + 1].at < heap[least].at { least = left + 1 }
      guard least != parent else { return }
      heap.swapAt(parent, least)
      parent = least
    }
  }
}
