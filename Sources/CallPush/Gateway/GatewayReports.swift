package import CallCore

/// The reports that no shard has answered yet: each is retransmitted until it is, and given up in the end.
/// A value; the time is an argument.
package struct GatewayReports: Sendable {
  package struct Pending: Sendable, Equatable {
    package var number: UInt64
    package var user: UserKey
    package var report: PushReport
  }
  private struct State {
    var pending: Pending
    var said = 1
    var nextAt: Timestamp
  }
  package enum Step: Sendable, Equatable {
    case say(Pending)
    /// Nobody answered, in all the time there was.
    case givenUp(Pending)
  }

  /// At most so many wait. Policy: a further one is said once, and nobody waits for its answer.
  private let capacity: Int
  /// How long after saying it for the first, second, … time it is retransmitted.
  private let repeats: [Span]
  private var waiting: [UInt64: State] = [:]
  private var lastNumber: UInt64 = 0
  private var nextLook = Timestamp.distantFuture

  package init(
    capacity: Int = 50_000,
    repeats: [Span] = [
      .milliseconds(500), .seconds(1), .seconds(2), .seconds(4), .seconds(4), .seconds(4),
    ]
  ) {
    self.capacity = capacity
    self.repeats = repeats
  }

  package var count: Int { waiting.count }

  /// A report is to be said, now. nil: nobody waits for its answer.
  package mutating func begin(_ user: UserKey, _ report: PushReport, now: Timestamp)
    -> (pending: Pending, isKept: Bool)
  {
    lastNumber += 1
    let pending = Pending(number: lastNumber, user: user, report: report)
    guard waiting.count < capacity, let first = repeats.first else { return (pending, false) }
    let next = now + first
    waiting[lastNumber] = State(pending: pending, nextAt: next)
    nextLook = min(nextLook, next)
    return (pending, true)
  }

  /// A shard answered. True the first time.
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
        guard state.said < repeats.count else {
          waiting[number] = nil
          steps.append(.givenUp(state.pending))
          continue
        }
        state.nextAt = now + repeats[state.said]
        state.said += 1
        waiting[number] = state
        steps.append(.say(state.pending))
      }
      nextLook = min(nextLook, state.nextAt)
    }
    return steps
  }
}
