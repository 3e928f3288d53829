/// What the calls of a run are like: parts, each with its share.
package struct Scenario: Sendable, Equatable {
  package var name: String
  package var summary: String
  package var parts: [Part]

  /// A kind of call, and its delays. All ranges are drawn from evenly.
  package struct Part: Sendable, Equatable {
    package var kind: Kind
    /// The part's share, relative to the other parts'.
    package var weight: Double
    package var ringTimeoutSeconds: UInt32 = 30
    /// Invite → alerting, in milliseconds.
    package var alertMs: ClosedRange<Double> = 5...50
    /// First invite → what the part is about (answer, decline, busy, cancel, drop).
    package var actMs: ClosedRange<Double> = 100...1000
    /// After that → the part's second act, where it has one.
    package var thenMs: ClosedRange<Double> = 100...500
    /// Caller told of the answer → hang-up.
    package var talkMs: ClosedRange<Double> = 200...2000
    package var awayMs: ClosedRange<Double> = 100...1000
    /// Share of the calls whose sides exchange candidates.
    package var candidates: Double = 0
    /// Share of the calls that are answered after the first act, where the part allows both.
    package var answered: Double = 0.5

    package init(kind: Kind, weight: Double) {
      self.kind = kind
      self.weight = weight
    }
  }

  /// Raw values are those of scenario files.
  package enum Kind: String, Sendable, CaseIterable {
    /// One device answers; either side hangs up.
    case answered
    /// Two devices answer at the same moment.
    case twoAnswer
    /// A device declines for its user.
    case declinedEverywhere
    /// A device declines for itself; then another answers, or it rings out.
    case declinedHere
    /// The caller cancels while it rings.
    case cancelled
    /// The caller cancels at the moment when a device answers.
    case cancelAtAnswer
    /// Nobody does anything.
    case unanswered
    /// Every device says busy.
    case busy
    /// A callee's device drops its socket in mid-ring and comes back; then one of the user's answers.
    case calleeReturns
    /// The caller's device drops its socket in mid-ring and comes back; then a device answers.
    case callerReturns
  }
}
