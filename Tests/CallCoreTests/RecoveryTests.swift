import CallCore
import Testing

/// A shard's new owner recovers from the journal, by replay and by checkpoint.
@Suite struct RecoveryTests {
  /// A takeover: by replay of the whole journal, or from a checkpoint.
  private func next(_ bench: Bench, checkpoint: Bool, attach devices: [String]) -> Bench {
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    for device in devices { next.say(.attach(Attach(announce: true)), device: device) }
    next.run { $0.begin(now: $1, into: &$2) }
    return next
  }

  @Test(arguments: [false, true])
  func ringingGoesOn(checkpoint: Bool) {
    var bench = Bench()
    bench.attach("b1", "b2", "b3")
    bench.place()
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c1")))
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    bench.say(.call(Bench.callID, .decline(.here)), device: "b3")
    let before = bench.deliveries(to: "b1").map(\.version).max() ?? 0
    var next = next(bench, checkpoint: checkpoint, attach: ["b1", "b2", "b3"])
    #expect(next.invites("b1").count == 1)
    #expect(next.invites("b1").first?.signals.map(\.body) == ["c1"])
    #expect(next.invites("b2").first?.description == "offer")
    #expect(next.invites("b3").isEmpty, "it declined")
    #expect((next.deliveries(to: "b1").first?.version ?? 0) > before)
    #expect(next.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")?.won == true)
    let reply = next.caller(.call(Bench.callID, .resume), session: Bench.session("alice1", 2))
    #expect(reply?.state?.phase == .answered)
    #expect(!next.deliveries(to: Bench.session("alice1", 2)).isEmpty)
  }

  @Test(arguments: [false, true])
  func theCallersNameIsKept(checkpoint: Bool) {
    var bench = Bench()
    bench.attach("b1")
    let request = PlaceRequest(
      call: Bench.callID, description: "offer", deviceName: "phone", callerName: "Alice Liddell")
    bench.say(.place(request), user: "alice", device: "alice1")
    let caller = Party(user: "alice", device: "alice1", deviceName: "phone", name: "Alice Liddell")
    #expect(bench.invites("b1").map(\.caller) == [caller])
    var next = next(bench, checkpoint: checkpoint, attach: ["b1"])
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
    var bench = Bench()
    bench.attach("b1")
    bench.place(seconds: 5)
    bench.pass(.seconds(5))
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    next.say(.attach(Attach(announce: true)), device: "b1")
    next.caller(.call(Bench.callID, .resume))
    #expect(!next.journal.contains { $0.change == .settled })
    next.run { $0.begin(now: $1, into: &$2) }
    #expect(next.stops("b1").map(\.reason) == [.unanswered])
    #expect(next.stops("alice1").map(\.reason) == [.unanswered])
  }

  @Test("R9, R10: a candidate retransmitted to the new owner is handed over once")
  func candidatesAreNotDoubled() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c1")), number: 31)
    var next = next(bench, checkpoint: false, attach: ["b1"])
    next.caller(.call(Bench.callID, .signal(.candidate, body: "c1")), number: 31)
    #expect(next.signals("b1").isEmpty)
    #expect(next.invites("b1").first?.signals.map(\.body) == ["c1"])
    next.caller(.call(Bench.callID, .signal(.candidate, body: "c1")), number: 32)
    next.caller(.call(Bench.callID, .signal(.candidate, body: "c2")), number: 33)
    #expect(next.signals("b1").map(\.body) == ["c1", "c2"], "the same text is another candidate")
  }

  @Test("R9, R10: a journal of an earlier version does not say under which number it came")
  func candidatesOfAnEarlierVersion() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c1")), number: 31)
    for index in bench.journal.indices {
      guard case .signal(true, let device, var signal) = bench.journal[index].change else {
        continue
      }
      signal.request = 0
      bench.journal[index].change = .signal(fromCaller: true, device, signal)
    }
    var next = next(bench, checkpoint: false, attach: ["b1"])
    next.caller(.call(Bench.callID, .signal(.candidate, body: "c1")), number: 31)
    #expect(next.signals("b1").isEmpty)
    next.caller(.call(Bench.callID, .signal(.candidate, body: "c2")), number: 33)
    #expect(next.signals("b1").map(\.body) == ["c2"])
  }

  @Test(arguments: [false, true])
  func anAnsweredCallStaysAnswered(checkpoint: Bool) {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    bench.caller(.call(Bench.callID, .connected))
    bench.say(.call(Bench.callID, .connected), device: "b1")
    bench.caller(.call(Bench.callID, .signal(.description, body: "again")))
    var next = next(bench, checkpoint: checkpoint, attach: ["b1", "b2"])
    next.caller(.call(Bench.callID, .resume))
    #expect(next.answers().map(\.description).last == "sdp")
    #expect(next.stops("b2").map(\.reason) == [.answeredElsewhere])
    #expect(next.signals("b1").map(\.body) == ["again"])
    #expect(next.say(.call(Bench.callID, .answer(description: "x")), device: "b2")?.won == false)
    #expect(next.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")?.won == true)
    next.acknowledgeAll()
    next.pass(.seconds(600))
    #expect(next.ends.isEmpty, "both had connected")
  }

  @Test func signalsOfANewOwnerAreNew() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    for number in 1...3 {
      bench.caller(.call(Bench.callID, .signal(.candidate, body: "c\(number)")))
    }
    bench.acknowledgeAll()
    let highest = bench.signals("b1").map(\.index).max() ?? 0
    var next = next(bench, checkpoint: true, attach: ["b1"])
    _ = next.take()
    next.caller(.call(Bench.callID, .resume))
    next.caller(.call(Bench.callID, .signal(.candidate, body: "c4")))
    #expect((next.signals("b1").last?.index ?? 0) > highest)
  }

  @Test(arguments: [false, true])
  func whoHeardOfTheEndIsNotToldAgain(checkpoint: Bool) {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.caller(.call(Bench.callID, .cancel))
    let unsettled = next(bench, checkpoint: checkpoint, attach: ["b1", "b2"])
    #expect(unsettled.stops("b1").map(\.reason) == [.cancelled])
    bench.acknowledgeAll()
    var settled = next(bench, checkpoint: checkpoint, attach: ["b1", "b2"])
    #expect(settled.effects.isEmpty)
    #expect(settled.say(.call(Bench.callID, .query), device: "b1")?.state?.reason == .cancelled)
  }

  @Test func timeoutsFireAfterATakeOver() {
    var bench = Bench()
    bench.attach("b1")
    bench.place(seconds: 10)
    bench.pass(.seconds(4))
    var next = next(bench, checkpoint: true, attach: ["b1"])
    next.caller(.call(Bench.callID, .resume))
    next.acknowledgeAll()
    next.pass(.seconds(5))
    #expect(next.ends.isEmpty)
    next.pass(.seconds(1))
    #expect(next.ends.map(\.reason) == [.unanswered])
  }

  @Test("R10: the deadline passes meanwhile; nobody is told to ring again, all are told of the end")
  func pastItsDeadlineACallRingsNowhereAgain() {
    for answersInTime in [false, true] {
      var bench = Bench()
      bench.attach("b1", "b2")
      bench.place(seconds: 10)
      bench.say(.call(Bench.callID, .alerting), device: "b1")
      bench.now = bench.now + .seconds(12)
      var next = next(bench, checkpoint: true, attach: ["b1", "b2"])
      next.caller(.call(Bench.callID, .resume))
      // A command that was sent while nobody served is decided before time is looked at.
      if answersInTime {
        let reply = next.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
        #expect(reply?.won == true)
      }
      next.pass(.milliseconds(1))
      for device in ["b1", "b2"] { #expect(next.invites(device).isEmpty) }
      #expect(
        next.stops("b2").map(\.reason) == [answersInTime ? .answeredElsewhere : .unanswered])
      if !answersInTime { #expect(next.stops("b1").map(\.reason) == [.unanswered]) }
    }
  }

  /// Caller and callee may both call their device "phone".
  @Test func aWinnerHearsOfTheEndThatADeviceOfTheSameNameCaused() {
    var bench = Bench()
    bench.attach("alice1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "alice1")
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c")))
    bench.caller(.call(Bench.callID, .hangUp), session: Bench.session("caller"))
    let next = next(bench, checkpoint: false, attach: ["alice1"])
    #expect(next.stops("alice1").map(\.reason) == [.hungUp])
    #expect(next.signals("alice1").isEmpty)
  }

  /// Its session was lost for too long, which ended the call. No other node notifies it of that end.
  @Test func aCallerWhoseAbsenceEndedTheCallHearsOfItFromTheNewOwner() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.callerGone([Bench.callID]))
    bench.pass(.seconds(16))
    #expect(bench.ends.map(\.reason) == [.cancelled])
    var next = bench.takenOver()
    next.caller(.call(Bench.callID, .resume))
    next.run { $0.begin(now: $1, into: &$2) }
    #expect(next.stops("alice1").map(\.reason) == [.cancelled])
  }

  /// It had signed off, and is back before the owner dies.
  @Test(arguments: [false, true])
  func aLegThatCameBackRingsOn(checkpoint: Bool) {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.sessionClosed(graceful: true), device: "b1")
    bench.say(.attach(Attach()), device: "b1", session: Bench.session("b1", 2))
    var next = next(bench, checkpoint: checkpoint, attach: ["b1", "b2"])
    #expect(next.invites("b1").count == 1)
    next.caller(.call(Bench.callID, .cancel))
    #expect(next.stops("b1").map(\.reason) == [.cancelled])
  }

  @Test func replayTwiceIsReplayOnce() {
    var bench = Bench()
    bench.attach("b1", "b2", "b3")
    bench.place()
    bench.say(.call(Bench.callID, .signal(.candidate, body: "y")), device: "b2")
    bench.say(.call(Bench.callID, .decline(.here)), device: "b1")
    bench.say(.call(Bench.callID, .answer(description: "s")), device: "b2")
    bench.caller(.call(Bench.callID, .hangUp))
    var once = ShardMachine(shard: 0, epoch: 2, limits: CallLimits())
    once.replay(bench.journal, now: bench.now)
    var twice = ShardMachine(shard: 0, epoch: 2, limits: CallLimits())
    twice.replay(bench.journal, now: bench.now)
    twice.replay(bench.journal, now: bench.now)
    #expect(once.checkpointEntries() == twice.checkpointEntries())
    #expect(once.counts == twice.counts)
  }

  @Test func aStaleAnnouncementLosesToALaterSession() {
    var bench = Bench()
    let early = Bench.session("b1", 1)
    let late = Bench.session("b1", 2, edge: 2)
    bench.say(
      .attach(Attach(announce: true, attachedAt: bench.now + .seconds(2))), device: "b1",
      session: late)
    bench.say(
      .attach(Attach(announce: true, attachedAt: bench.now)), device: "b1", session: early)
    bench.place()
    #expect(bench.deliveries(to: late).count == 1)
    #expect(bench.deliveries(to: early).isEmpty)
  }

  /// A renewal of the token may reach the shard behind the attach of the device's next session.
  @Test func aRenewalDoesNotReplaceALaterSession() {
    var bench = Bench()
    let early = Bench.session("b1", 1)
    let late = Bench.session("b1", 2, edge: 2)
    let began = bench.now
    bench.say(.attach(Attach(attachedAt: began)), device: "b1", session: early)
    bench.say(.attach(Attach(attachedAt: began + .seconds(1))), device: "b1", session: late)
    _ = bench.take()
    let reply = bench.say(
      .attach(Attach(announce: true, attachedAt: began)), device: "b1", session: early, number: 7)
    #expect(
      reply == .error(CallError(.notAttached, "This device has attached with another session.")))
    #expect(bench.closed == [early])
    bench.place()
    #expect(bench.deliveries(to: late).count == 1)
    #expect(bench.deliveries(to: early).isEmpty)
  }

  @Test func aRenewalOfTheLatestSessionIsAnsweredAndChangesNothing() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    _ = bench.take()
    let reply = bench.say(
      .attach(Attach(announce: true, attachedAt: bench.now)), device: "b1", number: 7)
    #expect(reply == .attached(forCall: nil, ticket: nil))
    #expect(bench.closed.isEmpty)
  }

  /// No device waits for an answer to an edge's announcement.
  @Test func anAnnouncementIsNotAnswered() {
    var bench = Bench()
    let reply = bench.say(
      .attach(Attach(announce: true, attachedAt: bench.now)), device: "b1", number: 0)
    #expect(reply == nil && bench.effects.isEmpty)
    #expect(bench.shard.sessions(on: 1) == 1)
  }
}
