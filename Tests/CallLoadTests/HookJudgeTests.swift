import CallCore
import CallLoadKit
import CallWire
import Testing

/// Device 0 calls devices 3 to 5, and the app's server is asked about it.
@Suite("The judge and the app's hook") struct HookJudgeTests {
  private func facts(_ terms: HookTerms, allows: Bool = false) -> CallChecker.HookFacts {
    CallChecker.HookFacts(terms, allowsWithoutAnswer: allows)
  }

  /// The call rings with a display name, and is answered.
  private func rings(_ hook: CallChecker.HookFacts, name: String) throws -> Int {
    var call = JudgedCall(attached: [3], hook: hook)
    var invite = call.invite
    invite.caller.name = name
    call.tell(3, .invite(invite), 10.1)
    call.answer(isInvited: false)
    return try call.count(.hookDisagrees)
  }

  /// The `place` is refused.
  private func refused(
    _ hook: CallChecker.HookFacts, _ error: CallError, fault: ChaosKind? = nil
  ) throws -> (disagrees: Int, unexplained: Int) {
    var call = JudgedCall(attached: [3], hook: hook)
    if let fault { call.outage(fault, from: 9, to: 12, carried: [0]) }
    call.say(0, .place(call.address, PlaceRequest(call: call.id)), 10)
    call.reply(0, .error(error), 10.1)
    let disagrees = try call.count(.hookDisagrees)
    return (disagrees, call.checker.counts[.unexplainedError] ?? 0)
  }

  @Test func theNameIsThatOfTheServer() throws {
    #expect(try rings(facts(.name("Ann")), name: "Ann") == 0)
    #expect(try rings(facts(.name("Ann")), name: "") == 1)
    #expect(try rings(facts(.slowName("Ann")), name: "Bob") == 1)
    #expect(try rings(facts(.allow), name: "") == 0)
    #expect(try rings(facts(.allow), name: "Ann") == 1)
  }

  @Test func whatIsRefusedDoesNotRing() throws {
    #expect(try rings(facts(.refuse(.forbidden)), name: "") == 2, "nor is it placed")
    #expect(try rings(facts(.late), name: "") == 2)
    #expect(try rings(facts(.late, allows: true), name: "") == 0)
  }

  @Test func theCallerIsToldWhy() throws {
    let sentence = HookTerms.sentence
    let unknown = CallError(.unknownUser, sentence)
    #expect(try refused(facts(.refuse(.unknownUser)), unknown) == (0, 0))
    #expect(try refused(facts(.refuse(.forbidden)), unknown) == (1, 0))
    #expect(try refused(facts(.allow), unknown) == (1, 0))
    #expect(try refused(facts(.refuse(.unknownUser)), CallError(.unknownUser)).disagrees == 1)
    #expect(try refused(facts(.broken), CallError(.appAway)) == (0, 0))
    #expect(try refused(facts(.broken, allows: true), CallError(.appAway)) == (1, 0))
    #expect(try refused(facts(.allow), CallError(.invalidField)) == (0, 1))
  }

  @Test("an edge that stood still had no answer in time, but was told none that there was not")
  func faults() throws {
    let away = CallError(.appAway)
    #expect(try refused(facts(.allow), away).disagrees == 1)
    #expect(try refused(facts(.allow), away, fault: .freezeEdge).disagrees == 0)
    let refusal = CallError(.refusedByApp, HookTerms.sentence)
    #expect(try refused(facts(.allow), refusal, fault: .freezeEdge).disagrees == 1)
  }
}
