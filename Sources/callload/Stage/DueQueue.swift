import CallCore

/// Calls that are looked at some time after they were queued, the oldest first.
struct DueQueue {
  private var calls: [(call: CallID, at: Timestamp)] = []
  private var first = 0

  var isEmpty: Bool { first == calls.count }

  /// - Parameter time: not before that of the call queued last.
  mutating func append(_ call: CallID, at time: Timestamp) { calls.append((call, time)) }

  /// The next call that is due.
  mutating func next(at now: Timestamp) -> CallID? {
    guard first < calls.count, calls[first].at <= now else { return nil }
    defer {
      first += 1
      if first > 4096 {
        calls.removeFirst(first)
        first = 0
      }
    }
    return calls[first].call
  }
}
