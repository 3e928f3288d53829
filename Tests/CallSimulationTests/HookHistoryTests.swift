import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories of calls about which the app's hook is asked.
extension HistoryCheckerTests {
  private var address: CallAddress { CallAddress(callee: "bob", call: call) }

  private func judgeHooked(
    _ replies: HookReply..., attempts: UInt64 = 1, _ body: (inout Bench) -> Void
  ) -> HistoryRule? {
    judge {
      $0.checker.hasHook = true
      for id in 1...attempts { $0.say(alice, id, .place(address, PlaceRequest(call: call))) }
      for reply in replies { $0.note(.server(.hook(call, reply))) }
      body(&$0)
    }
  }

  private func named(_ name: String) -> JournalEntry.Change {
    guard case .placed(var facts) = placed else { return placed }
    facts.caller.name = name
    return .placed(facts)
  }

  private func forwarded(_ users: String...) -> JournalEntry.Change {
    .diverted(
      DivertedFacts(from: "bob", to: users, reason: .hook, at: at(0), deadline: at(20)))
  }

  @Test("what the hook says is done") func hookIsFollowed() {
    #expect(judgeHooked(.allow(name: "")) { $0.journal(call, placed) } == nil)
    #expect(judgeHooked(.noAnswer) { $0.journal(call, placed) } == nil)
    #expect(judgeHooked(.allow(name: "Ann")) { $0.journal(call, named("Ann")) } == nil)
    let way = HookReply.forward(["carol", "bob", "alice", "carol", "dave"])
    #expect(judgeHooked(way) { $0.journal(call, placed, forwarded("carol", "dave")) } == nil)
    let nobody = HookReply.forward(["bob", "alice"])
    #expect(judgeHooked(nobody) { $0.journal(call, placed) } == nil)
    for code in [CallError.Code.refusedByApp, .unknownUser, .userUnavailable] {
      #expect(judgeHooked(.refuse(code)) { $0.hear(alice, refusal(code)) } == nil)
    }
  }

  private func refusal(_ code: CallError.Code) -> ServerFrame {
    .reply(id: 1, .error(CallError(code)))
  }

  @Test("a refused call is placed, or a forwarded one rings, or goes elsewhere")
  func hookIsIgnored() {
    #expect(judgeHooked(.refuse(.refusedByApp)) { $0.journal(call, placed) } == .hookFollowed)
    #expect(judgeHooked(.forward(["carol"])) { $0.journal(call, placed) } == .hookFollowed)
    #expect(
      judgeHooked(.forward(["carol"])) { $0.journal(call, placed, forwarded("dave")) }
        == .hookFollowed)
    #expect(
      judgeHooked(.allow(name: "")) { $0.journal(call, placed, forwarded("dave")) }
        == .hookFollowed)
    #expect(judgeHooked(.allow(name: "Ann")) { $0.journal(call, placed) } == .hookFollowed)
  }

  @Test("a refusal that the hook did not give, or for another reason") func hookIsInvented() {
    for reply in [HookReply.allow(name: ""), .refuse(.unknownUser), .noAnswer] {
      #expect(judgeHooked(reply) { $0.hear(alice, refusal(.refusedByApp)) } == .hookFollowed)
    }
  }

  @Test("a call that is placed twice goes as one of the answers says") func hookIsAskedTwice() {
    let refused = HookReply.refuse(.refusedByApp)
    #expect(judgeHooked(refused, attempts: 2) { $0.journal(call, placed) } == nil, "it may be away")
    for way in [["carol"], ["dave"]] {
      let rule = judgeHooked(refused, .forward(["carol"]), attempts: 2) {
        $0.journal(
          call, placed,
          .diverted(
            DivertedFacts(from: "bob", to: way, reason: .hook, at: at(0), deadline: at(20))))
      }
      #expect(rule == (way == ["carol"] ? nil : .hookFollowed))
    }
  }
}
