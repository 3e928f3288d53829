import CallCore
import CallJudge
import CallSimulation
import Testing

/// Hand-made histories of second calls, where a user in an answered call is busy.
extension HistoryCheckerTests {
  private var second: CallID { CallID(high: 3, low: 3) }

  private func placedToBob(legs: [Party], inCall: Bool = true) -> JournalEntry.Change {
    var facts = PlacedFacts(
      callee: UserKey(app: "demo", user: "bob"), caller: party(Who("carol", "c1")),
      placedAt: at(2), deadline: at(12), video: false, description: "", headers: [], legs: legs,
      fingerprint: 3)
    facts.isCalleeInCall = inCall
    return .placed(facts)
  }

  private func talk(_ bench: inout Bench, busy: Bool = true) {
    bench.checker.busyWhileInCall = busy
    bench.journal(call, placed)
    bench.journal(call, answered(bob1))
    bench.now = 2
  }

  @Test func aUserInACallIsRung() {
    let rule = judge {
      talk(&$0)
      $0.journal(second, placedToBob(legs: [party(bob2)]))
    }
    #expect(rule == .busyInCall)
  }

  @Test func whereSecondCallsRingItMayBe() {
    let rule = judge {
      talk(&$0, busy: false)
      $0.journal(second, placedToBob(legs: [party(bob2)]))
    }
    #expect(rule == nil)
  }

  @Test func aUserInACallIsBusy() {
    let rule = judge {
      talk(&$0)
      $0.journal(second, placedToBob(legs: []), ended(.busy))
    }
    #expect(rule == nil)
  }

  @Test func aUserInNoCallIsBusy() {
    let rule = judge {
      $0.checker.busyWhileInCall = true
      $0.journal(second, placedToBob(legs: [], inCall: false), ended(.busy))
    }
    #expect(rule == .busyInCall)
  }
}
