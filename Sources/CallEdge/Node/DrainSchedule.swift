package import CallCore

/// When an event loop that drains tells its sessions to go, and when it closes those that stay.
///
/// The first two thirds of the time are for telling: evenly, but at least 250 sessions a second, so
/// that a small edge is soon done. Who is told moves by itself. In the last third what is left is
/// closed, evenly. All devices of an edge that attach elsewhere at one moment would be a burden.
package struct DrainSchedule: Sendable {
  package let begins: Timestamp
  /// For all of it.
  package let span: Span
  /// Sessions when it began.
  package let count: Int
  private let toldPerSecond: Double
  /// Sessions when closing began.
  private var stayed: Int?

  package static let toldPerSecondMin = 250.0

  package init(begins: Timestamp, span: Span, count: Int) {
    self.begins = begins
    self.span = span
    self.count = count
    let seconds = Double(span.microseconds) / 1_000_000 * 2 / 3
    toldPerSecond = seconds > 0 ? max(Double(count) / seconds, Self.toldPerSecondMin) : .infinity
  }

  private var closingBegins: Timestamp {
    begins + Span(microseconds: span.microseconds * 2 / 3)
  }

  /// How many sessions are to have been told.
  package func told(at now: Timestamp) -> Int {
    guard now < closingBegins else { return count }
    let seconds = Double((now - begins).microseconds) / 1_000_000
    return min(count, Int(seconds * toldPerSecond) + 1)
  }

  /// How many sessions may be there still.
  ///
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
