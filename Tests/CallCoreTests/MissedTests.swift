import CallCore
import Testing

/// Who has missed a call that came to several users: events to devices, notices and histories agree.
@Suite struct MissedTests {
  private static let carol = UserKey(app: Bench.app, user: "carol")

  private func bench(_ users: String...) -> DivertingBench {
    var bench = DivertingBench()
    bench.subscriptions = .history
    bench.owner.shard.storedParts = .history
    for user in users { bench.attach(user, "1") }
    return bench
  }

  private func entry(_ user: String, _ bench: DivertingBench) -> HistoryEntry? {
    bench.owner.shard.historyEntries(of: DivertingBench.id)
      .first { $0.user.user == user }?.entry
  }

  /// After this time calls to a user go on to another one.
  private func onNoAnswer(_ user: String, after seconds: UInt32) -> UserRules {
    UserRules(onNoAnswer: .init(users: [user]), noAnswerSeconds: seconds)
  }

  @Test("R6 who declines on one device has not missed it; others have") func declinedByOneMember() {
    var bench = bench("carol", "dave")
    bench.attach("carol", "2")
    bench.place(to: "carol", "dave")
    bench.say(.decline(.here), "carol", "1")
    bench.pass(.seconds(60))
    #expect(bench.owner.ends.map(\.missed) == [true])
    #expect(bench.stops("dave", "1") == [Stop(reason: .unanswered, missed: true)])
    #expect(bench.stops("carol", "2") == [Stop(reason: .unanswered)])
    #expect(entry("dave", bench)?.isMissed == true)
    #expect(entry("carol", bench)?.isMissed == false && entry("bob", bench)?.isMissed == true)
    #expect(bench.state("carol", "2")?.missed == false)
  }

  @Test("R6 R25 a callee who declined on one device has not missed what goes on")
  func declinedBeforeItWentOn() {
    var bench = bench("carol")
    bench.owner.attach("b1", "b2")
    bench.owner.set(onNoAnswer("carol", after: 10), of: "bob")
    bench.place()
    bench.owner.say(.decline(.here), "b1")
    bench.pass(.seconds(11))
    #expect(Set(bench.stopsOfBob("b2").map(\.missed)) == [false])
    bench.owner.caller(.cancel)
    #expect(entry("bob", bench)?.isMissed == false && entry("carol", bench)?.isMissed == true)
  }

  @Test("R25 R26 who missed it, and got it by a transfer, has not missed it") func secretary() {
    var bench = bench("carol")
    bench.owner.attach("b1")
    bench.owner.set(onNoAnswer("carol", after: 10), of: "bob")
    bench.place()
    bench.pass(.seconds(11))
    bench.say(.answer(description: ""), "carol", "1")
    bench.say(.handOver(to: "bob"), "carol", "1")
    let answeredAt = bench.owner.now
    #expect(bench.asBob(.answer(description: "offer"))?.won == true)
    bench.pass(.seconds(2))
    bench.asBob(.hangUp)
    let entry = entry("bob", bench)
    #expect(entry?.isMissed == false && entry?.wentOn == false)
    #expect(entry?.answeredAt == answeredAt && entry?.device == "b1" && entry?.reason == .hungUp)
    #expect(self.entry("alice", bench)?.answeredBy == "carol")
  }

  @Test("R25 R26 a transfer that is cancelled changes nobody's history") func beforeATransfer() {
    var bench = bench("carol", "dave", "erin")
    bench.guests.set(onNoAnswer("dave", after: 10), of: "carol")
    bench.place(to: "carol")
    bench.pass(.seconds(11))
    #expect(bench.stops("carol", "1").map(\.missed) == [true])
    bench.say(.answer(description: ""), "dave", "1")
    bench.say(.handOver(to: "erin"), "dave", "1")
    bench.say(.cancelTransfer, "dave", "1")
    bench.say(.hangUp, "dave", "1")
    let entry = entry("carol", bench)
    #expect(entry?.isMissed == true && entry?.wentOn == true && entry?.answeredBy == "dave")
  }

  @Test("R26 who was passed over by a transfer has missed it") func passedOver() {
    var bench = bench("carol", "dave", "erin")
    bench.guests.set(onNoAnswer("erin", after: 10), of: "dave")
    bench.place(to: "carol")
    bench.say(.answer(description: ""), "carol", "1")
    bench.say(.handOver(to: "dave"), "carol", "1")
    bench.pass(.seconds(11))
    #expect(bench.stops("dave", "1").map(\.missed) == [true])
    bench.say(.answer(description: ""), "erin", "1")
    bench.say(.hangUp, "erin", "1")
    let missed = entry("dave", bench)
    #expect(missed?.isMissed == true && missed?.divertedBy == "carol" && missed?.peer == "alice")
    #expect(entry("erin", bench)?.answeredAt != nil)
  }

  @Test("R26 all whom a transfer rang in vain have a notice, whose number counts it, and an entry")
  func transferToSeveral() throws {
    var bench = bench("carol")
    for user in ["dave", "erin"] { bench.registerForNotices(user) }
    bench.guests.set(onNoAnswer("erin", after: 10), of: "dave")
    bench.place(to: "carol")
    bench.talk("carol")
    bench.pass(.seconds(1))
    let since = bench.owner.now
    bench.say(.handOver(to: "dave"), "carol", "1")
    bench.pass(.seconds(80))
    let notices = bench.pushes.filter { $0.purpose == .missedNotice }
    #expect(Set(notices.map(\.user.user)) == ["dave", "erin"] && notices.count == 2)
    // As its entry will have it, so that it counts once.
    let missed = [PlacedCall(DivertingBench.id, placedAt: since)]
    for isOver in [false, true] {
      if isOver { bench.say(.hangUp, "carol", "1") }
      let counted = notices.map { bench.owner.shard.unreadQuestion(of: $0)?.missed }
      #expect(counted == [missed, missed])
    }
    #expect(bench.owner.ends.map(\.reason) == [.hungUp])
    #expect(entry("dave", bench)?.isMissed == true && entry("erin", bench)?.isMissed == true)
  }

  @Test("R25 R26 a transfer rings in vain at who had sent the call on: that one has missed it now")
  func backInVain() {
    var bench = bench("carol")
    bench.owner.attach("b1")
    bench.owner.enrol("b2", alert: "a2")
    bench.place(to: "carol")
    bench.talk("carol")
    bench.pass(.seconds(1))
    let missed = [PlacedCall(DivertingBench.id, placedAt: bench.owner.now)]
    #expect(bench.say(.handOver(to: "bob"), "carol", "1")?.error == nil)
    bench.pass(.seconds(31))
    #expect(bench.stopsOfBob("b1").map(\.missed) == [true])
    let notices = bench.pushes.filter { $0.purpose == .missedNotice }
    #expect(notices.map(\.device) == ["b2"])
    for isOver in [false, true] {
      if isOver { bench.say(.hangUp, "carol", "1") }
      let counted = notices.map { bench.owner.shard.unreadQuestion(of: $0)?.missed }
      #expect(counted == [missed], "as its entry will have it")
    }
    let entry = entry("bob", bench)
    #expect(entry?.isMissed == true && entry?.divertedBy == "carol" && entry?.wentOn == false)
  }

  @Test("R26 a transfer that rings in vain at who had the call before does not count")
  func backToAnswererInVain() {
    var bench = bench("carol", "dave")
    bench.register("carol", "2", forNotices: true)
    bench.place(to: "carol")
    bench.talk("carol")
    bench.say(.handOver(to: "dave"), "carol", "1")
    bench.say(.answer(description: ""), "dave", "1")
    bench.say(.handOver(to: "carol"), "dave", "1")
    bench.pass(.seconds(31))
    let jobs = bench.pushes.filter { $0.user.user == "carol" && $0.purpose == .missedNotice }
    #expect(jobs.map(\.device) == ["2"])
    for job in jobs { #expect(bench.owner.shard.unreadQuestion(of: job)?.missed == []) }
    bench.say(.hangUp, "dave", "1")
    #expect(entry("carol", bench)?.isMissed == false)
  }

  @Test("R26 who missed a transfer has missed it, also if the next user declines it")
  func declinedAfterItWentOn() {
    var bench = bench("carol", "dave", "erin")
    bench.guests.set(onNoAnswer("erin", after: 10), of: "dave")
    bench.place(to: "carol")
    bench.talk("carol")
    bench.say(.handOver(to: "dave"), "carol", "1")
    bench.pass(.seconds(11))
    #expect(bench.stops("dave", "1").map(\.missed) == [true])
    bench.say(.decline(.everywhere), "erin", "1")
    bench.say(.hangUp, "carol", "1")
    #expect(entry("dave", bench)?.isMissed == true)
    #expect(entry("erin", bench)?.isMissed == false)
  }

  @Test("R14 R25 a device that only shows notices has one, also where the call went on to its user")
  func onlyNotices() {
    var bench = bench("carol")
    let token = PushToken(
      provider: .apns, environment: "production", topic: "org.example.app", token: "t")
    let request = RegistrationRequest(
      deviceName: "2", alertToken: token, capabilities: [.missedNotice])
    bench.guests.say(.register(request), user: "carol", device: "2", callee: "carol")
    bench.guests.answerStores()
    bench.place(to: "carol")
    bench.pass(.seconds(40))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
    #expect(bench.pushes.map(\.purpose) == [.missedNotice])
    #expect(bench.pushes.map(\.device) == ["2"] && bench.joined.map(\.device) == ["1"])
  }

  @Test("R14 R25 a call ends before another user's shard has answered: notice and entry agree")
  func endedBeforeTheAnswer() {
    var bench = bench()
    bench.registerForNotices("carol")
    bench.isConnected = false
    bench.place(to: "carol")
    bench.owner.caller(.cancel)
    // The driver stores it now.
    #expect(entry("carol", bench)?.isMissed == true)
    bench.isConnected = true
    bench.pass(.seconds(6))
    #expect(bench.pushes.map(\.purpose) == [.missedNotice])
  }

  // MARK: New owners

  @Test("R10 R3 a new owner stops the phone of another user that a push made ring") func pushed() {
    var bench = bench()
    bench.register("carol", "1")
    bench.place(to: "carol")
    #expect(bench.pushes.map(\.purpose) == [.ring])
    var next = DivertingBench(owner: bench.owner.takenOver().begun(), guests: bench.guests)
    next.isConnected = false
    next.pump()
    next.owner.caller(.cancel)
    next.pump()
    #expect(!next.pushes.contains { $0.purpose == .missed }, "it does not know her devices yet")
    next.isConnected = true
    next.pass(.seconds(6))
    #expect(next.pushes.filter { $0.purpose == .missed }.map(\.user) == [Self.carol])
  }

  @Test("R10 R14 a notice that was due before is not sent again by a new owner") func noticedOnce()
  {
    var bench = bench("carol")
    bench.registerForNotices("carol")
    bench.register("dave", "1")
    bench.place(to: "carol", "dave")
    bench.owner.caller(.cancel)
    bench.pump()
    bench.leave("carol", "1")
    var next = bench.takenOver()
    next.pass(.seconds(6))
    let notices = (bench.pushes + next.pushes).count { $0.purpose == .missedNotice }
    #expect(notices <= 1)
  }

  @Test(
    "R25 whom the call has left has its notice by the registration of then",
    arguments: [true, false])
  func laterRegistration(hasSignedOut: Bool) {
    var bench = bench("dave")
    bench.registerForNotices("carol")
    bench.guests.set(onNoAnswer("dave", after: 10), of: "carol")
    bench.place(to: "carol")
    bench.pass(.seconds(11))
    if hasSignedOut { bench.signOut("carol") }
    bench.pass(.seconds(40))
    #expect(bench.owner.ends.map(\.missed) == [true])
    let notices = bench.pushes.filter { $0.purpose == .missedNotice && $0.user == Self.carol }
    #expect(notices.count == (hasSignedOut ? 0 : 1))
  }

  @Test("R26 who was not to be disturbed has one notice, also if the next transfer rings there")
  func noticedInAnEarlierRinging() {
    var bench = bench("carol", "erin")
    bench.registerForNotices("dave")
    bench.guests.set(UserRules(doNotDisturb: .init()), of: "dave")
    bench.guests.set(CallGroup(users: ["dave", "erin"]), of: "desk")
    bench.place(to: "carol")
    bench.talk("carol")
    bench.say(.handOver(to: "desk"), "carol", "1")
    bench.say(.cancelTransfer, "carol", "1")
    var over = bench
    over.say(.hangUp, "carol", "1")
    #expect(entry("dave", over)?.isMissed == true, "as its notice says")
    bench.guests.set(UserRules(), of: "dave")
    bench.say(.handOver(to: "dave"), "carol", "1")
    #expect(bench.pushes.map(\.purpose) == [.missedNotice, .ring])
    let stored = bench.owner.shard.checkpointEntries()
    #expect(bench.owner.restoredFromCheckpoint().shard.checkpointEntries() == stored)
  }

  @Test("R26 who declined on one device has not missed the transfer") func declinedTransfer() {
    var bench = bench("carol", "dave")
    bench.attach("dave", "2")
    bench.place(to: "carol")
    bench.talk("carol")
    bench.say(.handOver(to: "dave"), "carol", "1")
    bench.say(.decline(.here), "dave", "1")
    bench.pass(.seconds(60))
    #expect(bench.stops("dave", "2") == [Stop(reason: .unanswered)])
  }

  @Test("R10 R25 rules made in mid-ring do not take the call from who rings") func newRules() {
    var bench = bench("carol", "dave")
    bench.place(to: "carol")
    bench.guests.set(UserRules(always: .init(users: ["dave"])), of: "carol")
    var next = bench.takenOver()
    next.pass(.seconds(2))
    #expect(next.diversions.map(\.from) == ["bob"] && next.stops("carol", "1").isEmpty)
    #expect(next.say(.answer(description: ""), "carol", "1")?.won == true)
  }

  @Test("R10 R25 a new owner does not let it ring for longer before it goes on") func sameTime() {
    var bench = bench("carol", "dave")
    bench.guests.set(onNoAnswer("dave", after: 20), of: "carol")
    bench.place(to: "carol")
    bench.pass(.seconds(15))
    var next = bench.takenOver()
    next.pass(.seconds(6))
    #expect(next.diversions.map(\.reason) == [.hook, .noAnswer])
  }
}
