internal import CallCore
internal import HeapModule

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
  private struct Entry: Comparable {
    var time: Timestamp
    var order: UInt64
    var event: SimEvent

    static func == (a: Entry, b: Entry) -> Bool { a.order == b.order }
    static func < (a: Entry, b: Entry) -> Bool { (a.time, a.order) < (b.time, b.order) }
  }

  private var heap: Heap<Entry> = []
  private var lastOrder: UInt64 = 0

  mutating func add(at time: Timestamp, _ body: @escaping () -> Void) -> SimEvent {
    let event = SimEvent(body)
    lastOrder += 1
    heap.insert(Entry(time: time, order: lastOrder, event: event))
    return event
  }

  /// Removes and returns the next event, unless it is after `limit`.
  mutating func next(until limit: Timestamp) -> (Timestamp, () -> Void)? {
    while let first = heap.min, first.time <= limit {
      heap.removeMin()
      if let body = first.event.body.take() { return (first.time, body) }
    }
    return nil
  }
}

extension Span {
  /// A duration, rounded down to microseconds.
  init(_ duration: Duration) {
    let parts = duration.components
    self.init(microseconds: parts.seconds * 1_000_000 + parts.attoseconds / 1_000_000_000_000)
  }
}
