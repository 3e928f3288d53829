package import CallCore

/// When an event loop that drains notifies its sessions, and when it closes those that stay. It spreads both, since
/// all devices of an edge that attach elsewhere at the same moment would overload the other edges.
///
/// In the first two thirds of the time it notifies the sessions at an even rate of at least 250 a second, so that a
/// small edge is drained soon. Their devices then leave by themselves. In the last third it closes the sessions that
/// are left, at an even rate.
package struct DrainSchedule: Sendable {
  package let begins: Timestamp
  /// How long the whole drain takes.
  package let span: Span
  /// How many sessions there were when it began.
  package let count: Int
  private let notifiedPerSecond: Double
  /// How many sessions there were when closing began.
  private var stayed: Int?

  package static let notifiedPerSecondMin = 250.0

  package init(begins: Timestamp, span: Span, count: Int) {
    self.begins = begins
    self.span = span
    self.count = count
    let seconds = Double(span.microseconds) / 1_000_000 * 2 / 3
    notifiedPerSecond =
      seconds > 0 ? max(Double(count) / seconds, Self.notifiedPerSecondMin) : .infinity
  }

  private var closingBegins: Timestamp {
    begins + Span(microseconds: span.microseconds * 2 / 3)
  }

  /// How many sessions have to be notified by now.
  package func notified(at now: Timestamp) -> Int {
    guard now < closingBegins else { return count }
    let seconds = Double((now - begins).microseconds) / 1_000_000
    return min(count, Int(seconds * notifiedPerSecond) + 1)
  }

  /// How many sessions may be left now.
  /// - Parameter present: how many there are.
  package mutating func mayStay(of present: Int, at now: Timestamp) -> Int {
    guard closingBegins <= now else { return .max }
    let stayed = self.stayed ?? present
    self.stayed = stayed
    let left = (begins + span - now).microseconds
    let third = span.microseconds - span.microseconds * 2 / 3
    guard left > 0, third > 0 else { return 0 }
    return Int(Int64(stayed) * left / third)
  }
}
