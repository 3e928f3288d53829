import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Every ended call has a record that agrees with its history.
extension HistoryCheckerTests {
  private func record(_ change: (inout CallRecord) -> Void = { _ in }) -> HistoryEvent {
    var record = CallRecord(
      call: call, callee: UserKey(app: "demo", user: "bob"), caller: party(alice), placedAt: at(0))
    record.answer = .init(by: party(bob1), at: at(1))
    record.end = EndedFacts(reason: .hungUp, by: party(alice), at: at(2), missed: false)
    record.legs = [
      .init(party: party(bob1), fate: .won, endedAt: at(2)),
      .init(party: party(bob2), fate: .stopped, endedAt: at(1)),
    ]
    change(&record)
    return .recorded([record])
  }

  /// A call that bob1 answered and alice ended.
  private func endedCall() -> Bench {
    var bench = Bench()
    bench.checker.keepsRecords = true
    bench.say(bob1, 5, .call(.init(call: call), .answer(description: "")))
    bench.say(alice, 2, .call(.init(callee: "bob", call: call), .hangUp))
    bench.journal(call, placed)
    bench.journal(call, answered(bob1))
    bench.journal(call, ended(.hungUp, by: alice))
    return bench
  }

  @Test func anEndedCallHasARecord() {
    var bench = endedCall()
    #expect(bench.found == nil)
    #expect(bench.checker.finish([]).map(\.rule) == [.recordOfEachCall])
    bench.note(record())
    // A new owner stored it again.
    bench.note(record())
    bench.journal(call, .recorded)
    #expect(bench.found == nil && bench.checker.finish([]).isEmpty)
  }

  @Test func aRecordOfACallThatDidNotEnd() {
    var bench = Bench()
    bench.journal(call, placed)
    bench.note(record())
    #expect(bench.found == .recordOfEachCall)
  }

  @Test func theJournalSaysItIsStored() {
    var bench = endedCall()
    bench.journal(call, .recorded)
    #expect(bench.found == .recordOfEachCall)
  }

  @Test func aRecordThatTellsAnotherStory() {
    let lies: [(inout CallRecord) -> Void] = [
      { $0.end?.reason = .failed }, { $0.end?.by = nil }, { $0.end?.missed = true },
      { $0.answer = nil }, { $0.answer?.by.device = "b2" }, { $0.placedAt = self.at(5) },
      { $0.caller.user = "mallory" }, { $0.callee = UserKey(app: "demo", user: "carol") },
      { $0.legs.removeLast() },
      { $0.legs[1].fate = .won }, { $0.legs[0].fate = .stopped }, { $0.video = true },
    ]
    for (index, lie) in lies.enumerated() {
      var bench = endedCall()
      bench.note(record(lie))
      #expect(bench.found == .recordOfEachCall, "lie \(index)")
    }
  }
}
