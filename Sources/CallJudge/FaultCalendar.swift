package import CallCore

/// When faults were under way in a cluster, or in a part of it.
package struct FaultCalendar: Sendable {
  package struct Window: Sendable {
    package var fault: Int
    package var from: Timestamp
    /// nil while it lasts.
    package var until: Timestamp?
    /// The time after its end in which lost messages are still retransmitted.
    package var afterglow: Span

    package init(
      fault: Int, from: Timestamp, until: Timestamp? = nil, afterglow: Span = Span(microseconds: 0)
    ) {
      self.fault = fault
      self.from = from
      self.until = until
      self.afterglow = afterglow
    }

    /// Whether it lies, with its afterglow, at least partly between two times.
    package func touches(_ begin: Timestamp, _ end: Timestamp) -> Bool {
      from <= end && (until.map { begin <= $0 + afterglow } ?? true)
    }
  }

  /// In the order in which they became known.
  package private(set) var windows: [Window] = []
  private var lastFault = 0

  package init() {}

  package mutating func add(_ window: Window) { windows.append(window) }

  package mutating func add(from: Timestamp, until: Timestamp) {
    windows.append(Window(fault: 0, from: from, until: until))
  }

  /// - Returns: the number to call `end` with.
  package mutating func begin(at time: Timestamp) -> Int {
    lastFault += 1
    windows.append(Window(fault: lastFault, from: time))
    return lastFault
  }

  /// Ends the oldest window of a fault that has no end.
  package mutating func end(_ fault: Int, at time: Timestamp) {
    guard let index = windows.firstIndex(where: { $0.fault == fault && $0.until == nil }) else {
      return
    }
    windows[index].until = time
  }

  package mutating func forget(before time: Timestamp) {
    windows.removeAll { $0.until.map { $0 < time } ?? false }
  }

  package var isEmpty: Bool { windows.isEmpty }

  package func isUnderWay(_ fault: Int) -> Bool {
    windows.contains { $0.fault == fault && $0.until == nil }
  }

  /// The first window that lies at least partly between two times.
  package func first(from begin: Timestamp, to end: Timestamp) -> Window? {
    windows.first { $0.touches(begin, end) }
  }

  /// Whether there was no fault between two times.
  package func isCalm(from start: Timestamp, until end: Timestamp) -> Bool {
    !windows.contains { $0.from < end && $0.until ?? .distantFuture > start }
  }

  /// The end of the first `stretch` without a fault that begins at `start` or later; nil if that is after `now`.
  package func calm(for stretch: Span, from start: Timestamp, now: Timestamp) -> Timestamp? {
    var begin = start
    while let window = windows.first(where: {
      $0.from < begin + stretch && $0.until ?? .distantFuture > begin
    }) {
      guard let until = window.until else { return nil }
      begin = until
    }
    let end = begin + stretch
    return end <= now ? end : nil
  }
}
