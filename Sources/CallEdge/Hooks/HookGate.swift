package import CallCore

/// Decides whether an app's hook is asked about one more call. It does no I/O and reads no clock.
///
/// A hook that does not answer would add its whole timeout to each call of the app. So after some failures in a row
/// the hook is not asked for a while; then one call tries whether it answers again.
package struct HookGate {
  /// The right to ask once. `settle` must follow.
  package struct Permit: Sendable, Equatable {
    /// A question that was asked before the last change of the phase says nothing of the present one.
    fileprivate let course: UInt64
  }

  /// Why the hook is not asked.
  package enum Skip: Sendable, Equatable {
    /// It does not answer.
    case away
    /// Too many questions wait for their answers.
    case full
  }

  package enum Admission: Sendable, Equatable {
    case ask(Permit)
    case skip(Skip)
  }

  package enum Change: Sendable, Equatable {
    /// From now on the hook is not asked.
    case wentAway
    /// It is asked again.
    case cameBack
  }

  private enum Phase: Equatable {
    /// Can become: away.
    case answering(failures: Int)
    /// Can become: trying.
    case away(until: Timestamp)
    /// One question waits for its answer. Can become: answering, away.
    case trying
  }

  /// Questions that may wait for their answers. Policy: further ones are not asked.
  package static let outstandingMax = 128
  /// After so many failures in a row the hook counts as away.
  package static let failuresMax = 5
  /// How long a hook that is away is not asked.
  package static let pause: Span = .seconds(5)

  private var phase = Phase.answering(failures: 0)
  private var course: UInt64 = 0
  package private(set) var outstanding = 0

  package init() {}

  package var isAway: Bool { if case .answering = phase { false } else { true } }

  package mutating func admit(now: Timestamp) -> Admission {
    switch phase {
    case .answering: break
    case .away(let until) where until <= now: break
    case .away, .trying: return .skip(.away)
    }
    guard outstanding < Self.outstandingMax else { return .skip(.full) }
    if isAway { phase = .trying }
    outstanding += 1
    return .ask(Permit(course: course))
  }

  /// A question is over.
  /// - Parameter isAnswered: with an answer that could be read.
  mutating package func settle(_ permit: Permit, isAnswered: Bool, now: Timestamp) -> Change? {
    outstanding -= min(1, outstanding)
    guard permit.course == course else { return nil }
    switch phase {
    case .answering(let failures):
      let failures = isAnswered ? 0 : failures + 1
      guard failures >= Self.failuresMax else {
        phase = .answering(failures: failures)
        return nil
      }
      become(.away(until: now + Self.pause))
      return .wentAway
    case .trying where isAnswered:
      become(.answering(failures: 0))
      return .cameBack
    case .trying:
      become(.away(until: now + Self.pause))
      return nil
    case .away: return nil
    }
  }

  /// The hook has other settings: what was learnt of the former one does not count.
  package mutating func restart() { become(.answering(failures: 0)) }

  private mutating func become(_ next: Phase) {
    phase = next
    course += 1
  }
}
