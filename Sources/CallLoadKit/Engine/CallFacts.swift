package import CallCore

extension CallChecker {
  /// A call as it was planned.
  package struct Facts: Sendable {
    package var call: CallID
    package var part: Scenario.Kind
    package var caller: Int
    package var callees: Range<Int>
    package var placedAt: Timestamp
    package var ringTimeout: Span
    /// The callee's devices that had a session before the call was placed.
    package var attached: Set<Int>
    /// The call that is to cross this one.
    package var crosses: CallID?
    package var route: CallRoute
    /// How the call is to be handed over.
    package var transfer: TransferTerms?
    /// The answer that the app's server is to give about it; nil: the server is not asked.
    package var hook: HookFacts?
    /// The terms of a call that is placed while another one is answered.
    package var during: SecondCallTerms?

    /// Those of the caller and of the users whose devices ring.
    var devices: [Int] { [caller] + callees }

    package init(
      call: CallID, part: Scenario.Kind, caller: Int, callees: Range<Int>, placedAt: Timestamp,
      ringTimeout: Span, attached: Set<Int> = [], crosses: CallID? = nil,
      route: CallRoute = .direct, transfer: TransferTerms? = nil,
      during: SecondCallTerms? = nil, hook: HookFacts? = nil
    ) {
      self.hook = hook
      self.transfer = transfer
      self.during = during
      self.route = route
      self.crosses = crosses
      self.call = call
      self.part = part
      self.caller = caller
      self.callees = callees
      self.placedAt = placedAt
      self.ringTimeout = ringTimeout
      self.attached = attached
    }
  }

  package struct HookFacts: Sendable, Equatable {
    package var terms: HookTerms
    /// Without an answer the call goes on; else it is refused.
    package var allowsWithoutAnswer: Bool

    package init(_ terms: HookTerms, allowsWithoutAnswer: Bool) {
      self.terms = terms
      self.allowsWithoutAnswer = allowsWithoutAnswer
    }
  }
}
