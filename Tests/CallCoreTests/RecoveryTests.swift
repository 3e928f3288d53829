import CallCore
import Testing

/// A shard's new owner recovers from the journal, by replay and by checkpoint.
@Suite struct RecoveryTests {
  @Test(arguments: [false, true]) func ringingGoesOn(checkpoint: Bool) {
    var bench = Bench.ringing("b1", "b2", "b3")
    bench.caller(.signal(.candidate, body: "c1"))
    bench.say(.alerting, "b1")
    bench.say(.decline(.here), "b3")
    let before = bench.deliveries(to: "b1").map(\.version).max() ?? 0
    var next = bench.nextOwner("b1", "b2", "b3", checkpoint: checkpoint)
    #expect(next.invites("b1").map { $0.signals.map(\.body) } == [["c1"]])
    #expect(next.invites("b2").first?.description == "offer")
    #expect(next.invites("b3").isEmpty, "it declined")
    #expect((next.deliveries(to: "b1").first?.version ?? 0) > before)
    #expect(next.answer("b1", "sdp")?.won == true)
    let back = Bench.session("alice1", 2)
    #expect(next.caller(.resume, session: back)?.state?.phase == .answered)
    #expect(!next.deliveries(to: back).isEmpty)
  }

  @Test(arguments: [false, true]) func theCallersNameIsKept(checkpoint: Bool) {
    var bench = Bench()
    bench.attach("b1")
    let request = PlaceRequest(
      call: Bench.callID, description: "offer", deviceName: "phone", callerName: "Alice Liddell")
    bench.say(.place(request), user: "alice", device: "alice1")
    let caller = Party(user: "alice", device: "alice1", deviceName: "phone", name: "Alice Liddell")
    #expect(bench.invites("b1").map(\.caller) == [caller])
    var next = bench.nextOwner("b1", checkpoint: checkpoint)
    #expect(next.invites("b1").map(\.caller) == [caller])
    // Its token has another name since, and the caller's device repeats the command.
    var again = request
    again.callerName = "Alice Hargreaves"
    let reply = next.say(.place(again), user: "alice", device: "alice1")
    #expect(reply?.state?.phase == .placed)
  }

  /// Its caller announces itself before the new owner has notified any device.
  @Test(arguments: [false, true])
  func anEndThatNobodyHeardIsToldAfterTheCallerWasAnnounced(checkpoint: Bool) {
    var bench = Bench.ringing("b1", seconds: 5)
    bench.pass(.seconds(5))
    let next = bench.nextOwner("b1", checkpoint: checkpoint, callerIsBack: true)
    #expect(!next.journal.contains { $0.change == .settled })
    for device in ["b1", "alice1"] {
      #expect(next.stops(device).map(\.reason) == [.unanswered])
    }
  }

  /// A journal of an earlier version does not say under which number a candidate came.
  @Test(
    "R9, R10: a candidate retransmitted to the new owner is handed over once",
    arguments: [false, true])
  func candidatesAreNotDoubled(isOldJournal: Bool) {
    var bench = Bench.ringing("b1")
    bench.caller(.signal(.candidate, body: "c1"), number: 31)
    for index in bench.journal.indices where isOldJournal {
      guard case .signal(true, let device, var signal) = bench.journal[index].change else {
        continue
      }
      signal.request = 0
      bench.journal[index].change = .signal(fromCaller: true, device, signal)
    }
    var next = bench.nextOwner("b1")
    next.caller(.signal(.candidate, body: "c1"), number: 31)
    #expect(next.signals("b1").isEmpty)
    #expect(next.invites("b1").first?.signals.map(\.body) == ["c1"])
    // The same text is another candidate, where the journal has the number.
    if !isOldJournal { next.caller(.signal(.candidate, body: "c1"), number: 32) }
    next.caller(.signal(.candidate, body: "c2"), number: 33)
    #expect(next.signals("b1").map(\.body) == (isOldJournal ? ["c2"] : ["c1", "c2"]))
  }

  @Test(arguments: [false, true]) func anAnsweredCallStaysAnswered(checkpoint: Bool) {
    var bench = Bench.talking("b1", "b2", description: "sdp")
    bench.caller(.signal(.description, body: "again"))
    var next = bench.nextOwner("b1", "b2", checkpoint: checkpoint)
    next.caller(.resume)
    #expect(next.answers().map(\.description).last == "sdp")
    #expect(next.stops("b2").map(\.reason) == [.answeredElsewhere])
    #expect(next.signals("b1").map(\.body) == ["again"])
    #expect(next.answer("b2", "x")?.won == false)
    #expect(next.answer("b1", "sdp")?.won == true)
    next.acknowledgeAll()
    next.pass(.seconds(600))
    #expect(next.ends.isEmpty, "both had connected")
  }

  @Test(
    "R5 R10 a device that had left comes back while the shard has no owner: it rings",
    arguments: [false, true])
  func backBeforeTheNewOwner(byCheckpoint: Bool) {
    var bench = Bench.ringing("b1", "b2")
    bench.close("b1", graceful: true)
    var next = bench.nextOwner("b1", "b2", checkpoint: byCheckpoint, callerIsBack: true)
    #expect(next.invites("b1").count == 1)
    #expect(next.answer("b1")?.won == true)
    #expect(next.stops("b2").map(\.reason) == [.answeredElsewhere])
  }

  @Test func signalsOfANewOwnerAreNew() {
    var bench = Bench.answered("b1")
    for number in 1...3 {
      bench.caller(.signal(.candidate, body: "c\(number)"))
    }
    bench.acknowledgeAll()
    let highest = bench.signals("b1").map(\.index).max() ?? 0
    var next = bench.nextOwner("b1", checkpoint: true)
    _ = next.take()
    next.caller(.resume)
    next.caller(.signal(.candidate, body: "c4"))
    #expect((next.signals("b1").last?.index ?? 0) > highest)
  }

  @Test(arguments: [false, true]) func whoHeardOfTheEndIsNotToldAgain(checkpoint: Bool) {
    var bench = Bench.ringing("b1", "b2")
    bench.caller(.cancel)
    let unsettled = bench.nextOwner("b1", "b2", checkpoint: checkpoint)
    #expect(unsettled.stops("b1").map(\.reason) == [.cancelled])
    bench.acknowledgeAll()
    var settled = bench.nextOwner("b1", "b2", checkpoint: checkpoint)
    #expect(settled.effects.isEmpty)
    #expect(settled.state("b1")?.reason == .cancelled)
  }

  @Test func timeoutsFireAfterATakeOver() {
    var bench = Bench.ringing("b1", seconds: 10)
    bench.pass(.seconds(4))
    var next = bench.nextOwner("b1", checkpoint: true)
    next.caller(.resume)
    next.acknowledgeAll()
    next.endsAfter(.seconds(6), .unanswered)
  }

  @Test("R10: the deadline passes meanwhile: nobody rings again", arguments: [false, true])
  func pastItsDeadlineACallRingsNowhereAgain(answersInTime: Bool) {
    var bench = Bench.ringing("b1", "b2", seconds: 10)
    bench.say(.alerting, "b1")
    bench.now = bench.now + .seconds(12)
    var next = bench.nextOwner("b1", "b2", checkpoint: true)
    next.caller(.resume)
    // A command that was sent while nobody served is decided before time is looked at.
    if answersInTime { #expect(next.answer("b1", "sdp")?.won == true) }
    next.pass(.milliseconds(1))
    for device in ["b1", "b2"] { #expect(next.invites(device).isEmpty) }
    #expect(next.stops("b2").map(\.reason) == [answersInTime ? .answeredElsewhere : .unanswered])
    if !answersInTime { #expect(next.stops("b1").map(\.reason) == [.unanswered]) }
  }

  /// Caller and callee may both call their device "phone".
  @Test func aWinnerHearsOfTheEndThatADeviceOfTheSameNameCaused() {
    var bench = Bench.answered("alice1")
    bench.caller(.signal(.candidate, body: "c"))
    bench.caller(.hangUp, session: Bench.session("caller"))
    let next = bench.nextOwner("alice1")
    #expect(next.stops("alice1").map(\.reason) == [.hungUp])
    #expect(next.signals("alice1").isEmpty)
  }

  /// Its session was lost for too long, which ended the call. No other node notifies it of that end.
  @Test func aCallerWhoseAbsenceEndedTheCallHearsOfItFromTheNewOwner() {
    var bench = Bench.ringing("b1")
    bench.caller(.callerGone([Bench.callID]))
    bench.pass(.seconds(16))
    #expect(bench.ends.map(\.reason) == [.cancelled])
    let next = bench.nextOwner(callerIsBack: true)
    #expect(next.stops("alice1").map(\.reason) == [.cancelled])
  }

  /// It had signed off, and is back before the owner dies.
  @Test(arguments: [false, true]) func aLegThatCameBackRingsOn(checkpoint: Bool) {
    var bench = Bench.ringing("b1", "b2")
    bench.close("b1", graceful: true)
    bench.attach("b1", session: Bench.session("b1", 2))
    var next = bench.nextOwner("b1", "b2", checkpoint: checkpoint)
    #expect(next.invites("b1").count == 1)
    next.caller(.cancel)
    #expect(next.stops("b1").map(\.reason) == [.cancelled])
  }

  @Test func replayTwiceIsReplayOnce() {
    var bench = Bench.ringing("b1", "b2", "b3")
    bench.say(.signal(.candidate, body: "y"), "b2")
    bench.say(.decline(.here), "b1")
    bench.answer("b2", "s")
    bench.caller(.hangUp)
    var once = ShardMachine(shard: 0, epoch: 2, limits: CallLimits())
    once.replay(bench.journal, now: bench.now)
    var twice = ShardMachine(shard: 0, epoch: 2, limits: CallLimits())
    for _ in 1...2 { twice.replay(bench.journal, now: bench.now) }
    #expect(once.checkpointEntries() == twice.checkpointEntries())
    #expect(once.counts == twice.counts)
  }

  @Test func aStaleAnnouncementLosesToALaterSession() {
    var bench = Bench()
    announce(&bench, late, at: bench.now + .seconds(2))
    announce(&bench, early, at: bench.now)
    bench.place()
    #expect(bench.deliveries(to: late).count == 1)
    #expect(bench.deliveries(to: early).isEmpty)
  }

  private let early = Bench.session("b1", 1)
  private let late = Bench.session("b1", 2, edge: 2)

  /// An edge announces a session of b1.
  @discardableResult
  private func announce(
    _ bench: inout Bench, _ session: SessionRef, at: Timestamp, number: UInt64? = nil
  ) -> Reply? {
    bench.say(
      .attach(Attach(announce: true, attachedAt: at)), device: "b1", session: session,
      number: number)
  }

  /// A renewal of the token may reach the shard behind the attach of the device's next session.
  @Test func aRenewalDoesNotReplaceALaterSession() {
    var bench = Bench()
    let began = bench.now
    bench.say(.attach(Attach(attachedAt: began)), device: "b1", session: early)
    bench.say(.attach(Attach(attachedAt: began + .seconds(1))), device: "b1", session: late)
    _ = bench.take()
    let reply = announce(&bench, early, at: began, number: 7)
    #expect(
      reply == .error(CallError(.notAttached, "This device has attached with another session.")))
    #expect(bench.closed == [early])
    bench.place()
    #expect(bench.deliveries(to: late).count == 1)
    #expect(bench.deliveries(to: early).isEmpty)
  }

  /// No device waits for an answer to an edge's announcement.
  @Test func aRenewalOfTheLatestSessionIsAnsweredAndAnAnnouncementIsNot() {
    var bench = Bench()
    #expect(announce(&bench, Bench.session("b1"), at: bench.now, number: 0) == nil)
    #expect(bench.effects.isEmpty)
    #expect(bench.shard.sessions(on: 1) == 1)
    var ringing = Bench.ringing("b1")
    _ = ringing.take()
    let reply = announce(&ringing, Bench.session("b1"), at: ringing.now, number: 7)
    #expect(reply == .attached(forCall: nil, ticket: nil))
    #expect(ringing.closed.isEmpty)
  }
}
