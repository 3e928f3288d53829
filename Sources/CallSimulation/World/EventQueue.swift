internal import CallCore

/// Something that is scheduled.
package final class SimEvent: @unchecked Sendable {
  fileprivate var body: (() -> Void)?

  fileprivate init(_ body: @escaping () -> Void) { self.body = body }

  /// Has no effect once the event has happened.
  package func cancel() {
    // Released at the end: that may cancel further events.
    _ = body.take()
  }
}

/// Scheduled events by time; those of the same time in the order of scheduling.
struct EventQueue {
  private struct Entry {
    var time: Timestamp
    var order: UInt64
    var event: SimEvent

    func isBefore(_ other: Entry) -> Bool {
      time != other.time ? time < other.time : order < other.order
    }
  }

  private var heap: [Entry] = []
  private var lastOrder: UInt64 = 0

  mutating func add(at time: Timestamp, _ body: @escaping () -> Void) -> SimEvent {
    let event = SimEvent(body)
    lastOrder += 1
    heap.append(Entry(time: time, order: lastOrder, event: event))
    rise()
    return event
  }

  /// Removes and returns the next event, unless it is after `limit`.
  mutating func next(until limit: Timestamp) -> (Timestamp, () -> Void)? {
    while let first = heap.first, first.time <= limit {
      heap.swapAt(0, heap.count - 1)
      heap.removeLast()
      sink()
      if let body = first.event.body.take() { return (first.time, body) }
    }
    return nil
  }

  private mutating func rise() {
    var index = heap.count - 1
    while index > 0, heap[index].isBefore(heap[(index - 1) / 2]) {
      heap.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  private mutating func sink() {
    var index = 0
    while 2 * index + 1 < heap.count {
      var child = 2 * index + 1
      if child + 1 < heap.count, heap[child + 1].isBefore(heap[child]) { child += 1 }
      guard heap[child].isBefore(heap[index]) else { return }
      heap.swapAt(index, child)
      index = child
    }
  }
}

extension Span {
  /// A duration, rounded down to microseconds.
  init(_ duration: Duration) {
    let parts = duration.components
    self.init(microseconds: parts.seconds * 1_000_000 + parts.attoseconds / 1_000_000_000_000)
  }
}
