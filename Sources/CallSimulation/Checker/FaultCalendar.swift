package import CallCore

/// When something was wrong in the cluster. Times of the rules count from when nothing was.
package struct FaultCalendar: Sendable {
  private var intervals: [(from: Timestamp, until: Timestamp)] = []
  /// Faults that have not ended.
  private var open: [Int: Timestamp] = [:]
  private var lastID = 0

  package init() {}

  /// Something begins to be wrong.
  /// - Returns: what `end` is to be called with.
  package mutating func begin(at time: Timestamp) -> Int {
    lastID += 1
    open[lastID] = time
    return lastID
  }

  package mutating func end(_ id: Int, at time: Timestamp) {
    guard let from = open.removeValue(forKey: id) else { return }
    add(from: from, until: time)
  }

  package mutating func add(from: Timestamp, until: Timestamp) {
    intervals.append((from, until))
  }

  /// Whether nothing was wrong between two times.
  package func isCalm(from start: Timestamp, until end: Timestamp) -> Bool {
    !intervals.contains { $0.from < end && $0.until > start }
      && !open.values.contains { $0 < end }
  }

  /// When nothing had been wrong for `stretch`, counted from `start` at the earliest; nil when that
  /// has not been so by `now`.
  package func calm(for stretch: Span, from start: Timestamp, now: Timestamp) -> Timestamp? {
    var begin = start
    var changed = true
    while changed {
      changed = false
      for interval in intervals
      where interval.until > begin && interval.from < begin + stretch {
        begin = interval.until
        changed = true
      }
    }
    for from in open.values where from < begin + stretch { return nil }
    let end = begin + stretch
    return end <= now ? end : nil
  }
}
