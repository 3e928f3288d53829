internal import CallCore

package struct SimToken: Sendable, Equatable {
  fileprivate var slot: Int32
  fileprivate var generation: UInt32
  /// No event; cancelling it has no effect.
  package static let none = SimToken(slot: -1, generation: 0)
}

/// Scheduled events by time; those of the same time in the order of scheduling.
struct EventQueue {
  private struct Entry {
    var time: Int64
    var order: UInt64
    var slot: Int32
    var generation: UInt32

    func isBefore(_ other: Entry) -> Bool {
      time != other.time ? time < other.time : order < other.order
    }
  }
  private struct Slot {
    var generation: UInt32 = 0
    var body: (() -> Void)?
  }

  private var heap: [Entry] = []
  private var slots: [Slot] = []
  private var free: [Int32] = []
  private var lastOrder: UInt64 = 0

  mutating func add(at time: Timestamp, _ body: @escaping () -> Void) -> SimToken {
    let slot: Int32
    if let unused = free.popLast() {
      slot = unused
    } else {
      slot = Int32(slots.count)
      slots.append(Slot())
    }
    slots[Int(slot)].body = body
    let generation = slots[Int(slot)].generation
    lastOrder += 1
    heap.append(
      Entry(time: time.microseconds, order: lastOrder, slot: slot, generation: generation))
    rise(heap.count - 1)
    return SimToken(slot: slot, generation: generation)
  }

  /// Returns the cancelled action, which the caller must release: that may cancel further events.
  mutating func cancel(_ token: SimToken) -> (() -> Void)? {
    guard slots.indices.contains(Int(token.slot)),
      slots[Int(token.slot)].generation == token.generation
    else { return nil }
    let body = slots[Int(token.slot)].body
    release(token.slot)
    return body
  }

  /// Removes and returns the next event, unless it is after `limit`.
  mutating func next(until limit: Timestamp) -> (Timestamp, () -> Void)? {
    while let first = heap.first, first.time <= limit.microseconds {
      removeFirst()
      guard slots[Int(first.slot)].generation == first.generation else { continue }
      let body = slots[Int(first.slot)].body!
      release(first.slot)
      return (Timestamp(microseconds: first.time), body)
    }
    return nil
  }

  private mutating func release(_ slot: Int32) {
    slots[Int(slot)].body = nil
    slots[Int(slot)].generation &+= 1
    free.append(slot)
  }

  private mutating func removeFirst() {
    let last = heap.removeLast()
    guard !heap.isEmpty else { return }
    heap[0] = last
    sink(0)
  }

  private mutating func rise(_ start: Int) {
    var index = start
    let entry = heap[index]
    while index > 0 {
      let parent = (index - 1) / 2
      guard entry.isBefore(heap[parent]) else { break }
      heap[index] = heap[parent]
      index = parent
    }
    heap[index] = entry
  }

  private mutating func sink(_ start: Int) {
    var index = start
    let entry = heap[index]
    while true {
      var child = 2 * index + 1
      guard child < heap.count else { break }
      if child + 1 < heap.count, heap[child + 1].isBefore(heap[child]) { child += 1 }
      guard heap[child].isBefore(entry) else { break }
      heap[index] = heap[child]
      index = child
    }
    heap[index] = entry
  }
}
