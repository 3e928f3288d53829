package import CallCore

/// The reports that no shard has acknowledged. Each is retransmitted until it is, and given up in the end. A value; the
/// time is an argument.
package struct GatewayReports: Sendable {
  package struct Pending: Sendable, Equatable {
    package var number: UInt64
    package var user: UserKey
    /// The callee, whose shard has the call.
    package var callee: UserKey
    package var report: PushReport
  }
  private struct State {
    var pending: Pending
    var sent = 1
    var nextAt: Timestamp
  }
  package enum Step: Sendable, Equatable {
    case retransmit(Pending)
    /// Not acknowledged after the last retransmission.
    case givenUp(Pending)
  }

  /// The most reports that wait. Policy: a further one is sent once and not retransmitted.
  package var capacity = 50_000
  /// The waits after the first, second, … transmission.
  package var repeats: [Span] = [
    .milliseconds(500), .seconds(1), .seconds(2), .seconds(4), .seconds(4), .seconds(4),
  ]
  private var waiting: [UInt64: State] = [:]
  private var lastNumber: UInt64 = 0
  private var nextLook = Timestamp.distantFuture

  package init() {}

  package var count: Int { waiting.count }

  /// Begins a report, which must be sent now. `isKept` is false if it will not be retransmitted.
  package mutating func begin(
    _ user: UserKey, callee: UserKey, _ report: PushReport, now: Timestamp
  ) -> (pending: Pending, isKept: Bool) {
    lastNumber += 1
    let pending = Pending(number: lastNumber, user: user, callee: callee, report: report)
    guard waiting.count < capacity, let first = repeats.first else { return (pending, false) }
    let next = now + first
    waiting[lastNumber] = State(pending: pending, nextAt: next)
    nextLook = min(nextLook, next)
    return (pending, true)
  }

  /// A shard acknowledged the report. Returns true the first time.
  package mutating func answered(_ number: UInt64) -> Bool {
    waiting.removeValue(forKey: number) != nil
  }

  package var nextDeadline: Timestamp? { waiting.isEmpty ? nil : nextLook }

  package mutating func expire(now: Timestamp) -> [Step] {
    guard nextLook <= now else { return [] }
    nextLook = .distantFuture
    var steps: [Step] = []
    for number in waiting.keys.sorted() {
      guard var state = waiting[number] else { continue }
      if state.nextAt <= now {
        guard state.sent < repeats.count else {
          waiting[number] = nil
          steps.append(.givenUp(state.pending))
          continue
        }
        state.nextAt = now + repeats[state.sent]
        state.sent += 1
        waiting[number] = state
        steps.append(.retransmit(state.pending))
      }
      nextLook = min(nextLook, state.nextAt)
    }
    return steps
  }
}
