import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Every ended call is in the histories of both users, as the journal has it, and devices see that.
extension HistoryCheckerTests {
  private var bob: UserKey { UserKey(app: "demo", user: "bob") }
  private var aliceKey: UserKey { UserKey(app: "demo", user: "alice") }

  private func entry(
    isPlaced: Bool, _ change: (inout HistoryEntry) -> Void = { _ in }
  ) -> HistoryEvent {
    var entry = HistoryEntry(
      call: call, callee: "bob", isPlaced: isPlaced, peer: isPlaced ? "bob" : "alice",
      peerName: isPlaced ? "" : "ALICE of sim", device: isPlaced ? "a1" : "b1", placedAt: at(0),
      answeredAt: at(1), endedAt: at(2), reason: .hungUp)
    change(&entry)
    return .remembered(isPlaced ? aliceKey : bob, isPlaced ? 8 : 7, .entry(entry))
  }

  private var followed: JournalEntry.Change {
    guard case .placed(var facts) = placed else { return placed }
    facts.subscriptions = .history
    return .placed(facts)
  }

  /// A call that bob1 answered and alice ended, of an app with histories.
  private func endedFollowedCall() -> Bench {
    var bench = Bench()
    bench.checker.keepsHistory = true
    bench.say(bob1, 5, .call(.init(call: call), .answer(description: "")))
    bench.say(alice, 2, .call(.init(callee: "bob", call: call), .hangUp))
    bench.journal(call, followed)
    bench.journal(call, answered(bob1))
    bench.journal(call, ended(.hungUp, by: alice))
    return bench
  }

  @Test func anEndedCallIsOnBothSides() {
    var bench = endedFollowedCall()
    #expect(bench.checker.finish([]).map(\.rule) == [.historyOnBothSides])
    bench.note(entry(isPlaced: false))
    #expect(bench.checker.finish([]).map(\.rule) == [.historyOnBothSides])
    bench.note(entry(isPlaced: true))
    // A new owner stored it again.
    bench.note(entry(isPlaced: true))
    #expect(bench.found == nil && bench.checker.finish([]).isEmpty)
  }

  @Test func anEntryOfACallThatDidNotEnd() {
    var bench = Bench()
    bench.checker.keepsHistory = true
    bench.journal(call, followed)
    bench.note(entry(isPlaced: true))
    #expect(bench.found == .historyOnBothSides)
  }

  @Test(arguments: [false, true])
  func thePlacingSaysWhetherTheAppHasThem(keeps: Bool) {
    var bench = Bench()
    bench.checker.keepsHistory = keeps
    bench.journal(call, keeps ? placed : followed)
    #expect(bench.found == .historyOnBothSides)
  }

  @Test func theJournalSaysThatAllIsStored() {
    var bench = endedFollowedCall()
    bench.checker.keepsRecords = false
    bench.note(entry(isPlaced: false))
    bench.journal(call, .recorded)
    #expect(bench.found != nil)
  }

  @Test(arguments: [false, true])
  func anEntryThatTellsAnotherStory(isPlaced: Bool) {
    let lies: [(inout HistoryEntry) -> Void] = [
      { $0.reason = .failed }, { $0.endedAt = self.at(3) }, { $0.answeredAt = nil },
      { $0.placedAt = self.at(1) }, { $0.peer = "carol" }, { $0.callee = "carol" },
      { $0.device = "b2" }, { $0.isMissed = true }, { $0.video = true },
      { $0.peerName = "Mallory" }, { $0.isPlaced.toggle() },
    ]
    for (index, lie) in lies.enumerated() {
      var bench = endedFollowedCall()
      bench.note(entry(isPlaced: isPlaced, lie))
      #expect(bench.found == .historyOnBothSides, "lie \(index)")
    }
  }

  // MARK: Calls that go on to others

  private var carol: Who { Who("carol", "c1") }

  /// The call went on to carol, whose device answered.
  private func endedCallThatWentOn() -> Bench {
    var bench = Bench()
    bench.checker.keepsHistory = true
    // Nobody was told of these rules, so they are not judged.
    bench.note(.decided(user: "bob", UserRules(onNoAnswer: .init(users: ["carol"]))))
    bench.say(carol, 5, .call(.init(callee: "bob", call: call), .answer(description: "")))
    bench.say(alice, 2, .call(.init(callee: "bob", call: call), .hangUp))
    bench.journal(call, followed)
    bench.journal(
      call,
      .diverted(
        DivertedFacts(
          from: "bob", to: ["carol"], reason: .noAnswer, at: at(0), deadline: at(10))))
    bench.journal(call, answered(carol))
    bench.journal(call, ended(.hungUp, by: alice))
    return bench
  }

  /// Bob's, as his devices know it.
  private func left(_ change: (inout HistoryEntry) -> Void = { _ in }) -> HistoryEvent {
    entry(isPlaced: false) {
      ($0.device, $0.answeredAt, $0.endedAt) = (nil, nil, self.at(0))
      ($0.reason, $0.isMissed, $0.wentOn) = (.unanswered, true, true)
      ($0.answeredBy, $0.wentTo) = ("carol", ["carol"])
      change(&$0)
    }
  }

  private func inPlace(_ change: (inout HistoryEntry) -> Void = { _ in }) -> HistoryEvent {
    let event = entry(isPlaced: false) {
      ($0.device, $0.divertedBy) = ("c1", "bob")
      change(&$0)
    }
    guard case .remembered(_, _, let message) = event else { return event }
    return .remembered(UserKey(app: "demo", user: "carol"), 9, message)
  }

  private func placedThatWentOn(_ change: (inout HistoryEntry) -> Void = { _ in }) -> HistoryEvent {
    entry(isPlaced: true) {
      ($0.answeredBy, $0.wentTo) = ("carol", ["carol"])
      change(&$0)
    }
  }

  @Test func whoAnsweredInPlaceOfTheCalleeHasTheCall() {
    var bench = endedCallThatWentOn()
    for event in [left(), placedThatWentOn()] {
      bench.note(event)
      #expect(bench.checker.finish([]).map(\.rule).contains(.historyOnBothSides))
    }
    bench.note(inPlace())
    #expect(bench.found == nil)
    #expect(!bench.checker.finish([]).map(\.rule).contains(.historyOnBothSides))
  }

  @Test func anEntryThatTellsAnotherStoryOfACallThatWentOn() {
    let lies: [HistoryEvent] = [
      entry(isPlaced: false), left { $0.wentOn = false }, left { $0.isMissed = false },
      left { $0.endedAt = self.at(2) }, left { $0.reason = .hungUp }, left { $0.device = "b1" },
      inPlace { $0.divertedBy = "" }, inPlace { $0.divertedBy = "dave" },
      inPlace { $0.wentOn = true }, inPlace { $0.isMissed = true }, inPlace { $0.device = "b1" },
      left { $0.answeredBy = "" },
      placedThatWentOn { $0.wentOn = true }, placedThatWentOn { $0.wentTo = [] },
      left { $0.wentTo = [] }, left { $0.wentTo = ["carol", "dave"] },
      inPlace { $0.wentTo = ["carol"] },
    ]
    for (index, lie) in lies.enumerated() {
      var bench = endedCallThatWentOn()
      bench.note(lie)
      #expect(bench.found == .historyOnBothSides, "lie \(index)")
    }
  }

  // MARK: What devices see

  private func state(_ cursor: UInt64, unread: UInt32 = 0) -> ServerFrame {
    .history(HistoryState(cursor: HistoryCursor(cursor), unread: unread))
  }

  /// bob1 is attached, and the store has bob's side of the call, with the number 7.
  private func watching() -> Bench {
    var bench = endedFollowedCall()
    bench.note(.opened(bob1, link: 1))
    bench.say(bob1, 20, .attach(AttachRequest(wantsHistory: true)))
    bench.hear(
      bob1,
      .reply(
        id: 20,
        .attached(
          AttachedInfo(
            session: "s", user: "bob", device: "b1", pingSeconds: 25, serverTime: at(0)))))
    bench.note(entry(isPlaced: false))
    bench.note(entry(isPlaced: true))
    return bench
  }

  @Test func anAttachedDeviceHasTheNewestState() {
    var bench = watching()
    #expect(bench.found == nil)
    #expect(bench.checker.finish([]).map(\.rule) == [.historySeen])
    bench.hear(bob1, state(7))
    #expect(bench.found == nil && bench.checker.finish([]).isEmpty)
  }

  @Test func aStateThatTheStoreDoesNotHave() {
    var bench = watching()
    bench.hear(bob1, state(9))
    #expect(bench.found == .historySeen)
  }

  @Test func aStateThatIsNoLaterOne() {
    var bench = watching()
    bench.hear(bob1, state(7))
    bench.hear(bob1, state(7))
    #expect(bench.found == .historySeen)
  }

  @Test func aCountThatIsWrong() {
    var bench = watching()
    bench.hear(bob1, state(7, unread: 1))
    #expect(bench.checker.finish([]).map(\.rule) == [.historySeen])
  }
}
