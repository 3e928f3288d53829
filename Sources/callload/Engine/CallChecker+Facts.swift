package import CallCore
package import CallJudge

extension CallChecker {
  package struct Facts: Sendable {
    package var call: CallID
    package var part: Scenario.Kind
    package var caller: Int
    package var callees: Range<Int>
    package var placedAt: Timestamp
    package var ringTimeout: Span
    /// The callee's devices that had a session before the call was placed.
    package var attached: Set<Int>
    package init(
      call: CallID, part: Scenario.Kind, caller: Int, callees: Range<Int>, placedAt: Timestamp,
      ringTimeout: Span, attached: Set<Int> = []
    ) {
      self.call = call
      self.part = part
      self.caller = caller
      self.callees = callees
      self.placedAt = placedAt
      self.ringTimeout = ringTimeout
      self.attached = attached
    }
  }

  package struct Verdict: Sendable, Equatable {
    package var outcome: CallOutcome
    package var violations: [Violation<CorrectnessRule>]
    /// What the cluster answered in place of taking the call, where it did so.
    package var refusal: CallError.Code?
    /// The fault that explains an outcome which is not the planned one.
    package var explainedBy: ChaosKind?
    /// The call's history, where its outcome is neither planned nor explained.
    package var story: String?
  }
}
