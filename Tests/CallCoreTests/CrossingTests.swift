import CallCore
import Testing

/// R8: two users call each other at the same time and get one call.
@Suite struct CrossingTests {
  /// Another session of b1's.
  private let again = Bench.session("b1", 1)

  @Test("R8: one call goes on, and both who placed are in it", arguments: [true, false])
  func r8OneCall(reportedByBobsEdge: Bool) {
    var bench = CrossingBench.placed()
    bench.report(fromBobs: reportedByBobsEdge)
    // Nothing is said of the surviving call yet: first the other one gives way.
    #expect(bench.alice.ends.map(\.reason) == [.glare])
    #expect(bench.alice.ends.map(\.survivor) == [bench.aliceCall])
    #expect(bench.bob.answers().isEmpty)
    bench.deliverAll()
    // Bob's call is over for him, and he learns which one goes on.
    let stop = bench.alice.stops("b1").first
    #expect(stop?.reason == .glare && stop?.survivor == bench.aliceCall)
    #expect(stop?.by?.device == "alice1")
    // Both who placed learn that they have the call.
    #expect(bench.bob.answers("alice1").map(\.by.device) == ["b1"])
    #expect(bench.bob.answers("b1").map(\.by.device) == ["b1"])
    #expect(bench.bob.invites("b1").last?.description == "alice's offer")
    // Everybody else is told that it was answered elsewhere.
    #expect(bench.bob.stops("b2").map(\.reason) == [.answeredElsewhere])
    #expect(bench.bob.stops("b2").first?.by?.device == "b1")
    #expect(bench.alice.stops("alice2").map(\.reason) == [.answeredElsewhere])
    #expect(bench.alice.stops("alice2").first?.by?.device == "alice1")
    #expect(bench.alice.stops("alice1").map(\.reason) == [.glare])
    #expect(bench.stateOfAlicesCall()?.phase == .answered)
    #expect(bench.stateOfBobsCall()?.survivor == bench.aliceCall)
    // Nobody missed a call.
    #expect(bench.alice.ends.allSatisfy { !$0.missed })
    #expect(bench.alice.stops("alice2").allSatisfy { !$0.missed })
  }

  @Test("R8: the lower id goes on, whoever placed it") func r8TheLowerID() {
    var bench = CrossingBench(aliceIsLow: false)
    bench.placeBoth()
    bench.report(fromBobs: true)
    bench.report(fromBobs: false)
    bench.deliverAll()
    #expect(bench.bob.ends.map(\.reason) == [.glare])
    #expect(bench.alice.ends.isEmpty)
    #expect(bench.stateOfBobsCall()?.phase == .answered)
    #expect(bench.stateOfBobsCall()?.by?.device == "alice1")
  }

  @Test("R8: of equal ids the call of the lower user id goes on") func r8EqualIDs() {
    var bench = CrossingBench(sameID: CrossingBench.low)
    bench.placeBoth()
    bench.settle()
    #expect(bench.alice.ends.map(\.reason) == [.glare])
    #expect(bench.stateOfAlicesCall()?.phase == .answered)
    #expect(
      Crossing.survives(CrossingBench.low, caller: "a", over: CrossingBench.low, caller: "ab"))
  }

  @Test("R8: a report cannot make the call give way that has to go on") func r8TheWrongOne() {
    var bench = CrossingBench.placed()
    let wrong = CrossedCall(
      call: bench.aliceCall, caller: "alice", survivor: bench.bobCall, by: "b1")
    bench.bob.say(.crossed(wrong), device: "b1")
    #expect(bench.bob.ends.isEmpty)
  }

  @Test("R8: one side rings already") func r8OneSideRings() {
    var bench = CrossingBench()
    bench.placeAlice()
    bench.bob.acknowledgeAll()
    bench.bob.say(.call(bench.aliceCall, .alerting), device: "b1")
    bench.bob.say(.call(bench.aliceCall, .alerting), device: "b2")
    let invites = bench.bob.invites("b1").count
    bench.placeBob()
    bench.settle()
    #expect(bench.stateOfAlicesCall()?.by?.device == "b1")
    // It has the invite, and needs no second one.
    #expect(bench.bob.invites("b1").count == invites)
    #expect(bench.bob.stops("b2").map(\.reason) == [.answeredElsewhere])
  }

  @Test("R8: the caller of the surviving call cancels first") func r8CancelledSurvivor() {
    var bench = CrossingBench.placed()
    bench.report(fromBobs: true)
    bench.bob.caller(.call(bench.aliceCall, .cancel))
    bench.deliverAll()
    #expect(bench.stateOfAlicesCall()?.reason == .cancelled)
    #expect(bench.stateOfBobsCall()?.reason == .glare)
    #expect(bench.bob.answers("alice1").isEmpty)
    // One missed call, not two.
    #expect((bench.alice.ends + bench.bob.ends).count { $0.missed } == 1)
  }

  @Test("R8: the caller of the call that would give way cancels first") func r8CancelledBefore() {
    var bench = CrossingBench.placed()
    bench.bobsCaller(.call(bench.bobCall, .cancel))
    bench.report(fromBobs: false)
    bench.deliverAll()
    #expect(bench.stateOfBobsCall()?.reason == .cancelled)
    // Alice's call rings on.
    #expect(bench.stateOfAlicesCall()?.phase == .placed)
  }

  @Test("R8: another device answers the surviving call first") func r8AnsweredSurvivor() {
    var bench = CrossingBench.placed()
    bench.bob.say(.call(bench.aliceCall, .answer()), device: "b2")
    bench.settle()
    #expect(bench.stateOfAlicesCall()?.by?.device == "b2")
    #expect(bench.stateOfBobsCall()?.reason == .glare)
    #expect(bench.bob.stops("b1").map(\.reason) == [.answeredElsewhere])
  }

  @Test("R8: another device answers the call that would give way first: the other one does")
  func r8AnsweredOther() {
    var bench = CrossingBench.placed()
    bench.alice.say(.call(bench.bobCall, .answer()), device: "alice2")
    bench.settle()
    #expect(bench.stateOfBobsCall()?.by?.device == "alice2")
    #expect(bench.stateOfAlicesCall()?.reason == .glare)
    #expect(bench.stateOfAlicesCall()?.survivor == bench.bobCall)
    #expect(bench.bob.stops("b2").map(\.reason) == [.answeredElsewhere])
    #expect(bench.bob.stops("b2").first?.by?.device == "b1")
  }

  @Test("R8: the shard of the call that gave way moves before it has asked the other one")
  func r8TheShardMoves() {
    var bench = CrossingBench.placed()
    bench.report(fromBobs: true)
    bench.lose()
    bench.takeOver(bobs: false, epoch: 2)
    bench.deliverAll()
    #expect(bench.stateOfAlicesCall()?.by?.device == "b1")
  }

  @Test("R8: the surviving call's shard moves before and after it connects both")
  func r8TheOtherShardMoves() {
    var bench = CrossingBench.placed()
    bench.report(fromBobs: true)
    bench.takeOver(bobs: true, epoch: 2)
    bench.deliver(keeping: true)
    #expect(bench.bob.answers("b1").map(\.by.device) == ["b1"])
    bench.takeOver(bobs: true, epoch: 3)
    bench.deliverAll()
    // A new owner does not know whether the device has the invite.
    #expect(bench.bob.invites("b1").last?.description == "alice's offer")
    #expect(bench.bob.answers("b1").map(\.by.device) == ["b1"])
    #expect(bench.bob.answers("alice1").map(\.by.device) == ["b1"])
    #expect(bench.stateOfAlicesCall()?.by?.device == "b1")
  }

  @Test("R8: the device that takes the call lost its session, and has the grace to come back")
  func r8TheWinnerIsAway() {
    var bench = CrossingBench.placed()
    bench.report(fromBobs: true)
    bench.bob.say(.sessionClosed(graceful: false), device: "b1")
    bench.deliverAll()
    #expect(bench.bob.answers("alice1").map(\.by.device) == ["b1"])
    bench.bob.say(.attach(Attach(deviceName: "b1")), device: "b1", session: again)
    let news = bench.bob.deliveries(to: again)
    #expect(news.map(\.event.kind) == ["invite", "answered"])
    #expect(news.last?.after == news.first?.version)
  }

  @Test("R8 R26: the caller hands its side over before the other app has the call")
  func r8TheCallerTransfers() throws {
    var bench = CrossingBench.placed()
    bench.settle()
    let transfer = CallVerb.transfer(TransferRequest(to: "dave"))
    #expect(bench.bob.caller(.call(bench.aliceCall, transfer))?.state?.phase == .answered)
    bench.bob.say(.attach(Attach(deviceName: "b1")), device: "b1", session: again)
    #expect(bench.bob.deliveries(to: again).first?.event.kind == "invite")
    let invite = try #require(bench.bob.invites(again).first)
    #expect(invite.transferredBy == nil && invite.caller.user == "alice")
    #expect(invite.description == "alice's offer")
  }

  @Test("R8: a call that nobody confirms rings on, and the question ends") func r8NobodyConfirms() {
    var bench = CrossingBench.placed()
    bench.report(fromBobs: true)
    bench.lose()
    bench.alice.pass(.seconds(31))
    bench.takeOver(bobs: false, epoch: 2)
    #expect(bench.messages.isEmpty)
    bench.bob.pass(.seconds(30))
    #expect(bench.stateOfAlicesCall()?.reason == .unanswered)
  }

  @Test("R8: two devices of one user call each other") func r8OneUser() {
    var bench = CrossingBench()
    let (one, two) = (CrossingBench.low, CrossingBench.high)
    bench.bob.place(one, user: "bob", device: "b1")
    bench.bob.place(two, user: "bob", device: "b2")
    let crossed = CrossedCall(call: two, caller: "bob", survivor: one, by: "b1")
    bench.bob.say(.crossed(crossed), device: "b2")
    bench.collect()
    // Both are in bob's shard.
    let (_, request) = bench.messages[0]
    bench.bob.run { $0.handle(request, now: $1, into: &$2) }
    #expect(bench.bob.say(.call(one, .query), device: "b1")?.state?.by?.device == "b2")
    #expect(bench.bob.say(.call(two, .query), device: "b2")?.state?.reason == .glare)
  }

  @Test("R8: who placed the surviving call is not told that the other one was answered elsewhere")
  func r8WhoPlacedTheSurvivorAsks() {
    var bench = CrossingBench()
    bench.alice.say(.sessionClosed(graceful: true), device: "alice1")
    bench.alice.say(.attach(Attach(deviceName: "alice1", onlyPlaces: true)), device: "alice1")
    bench.placeBoth()
    bench.report(fromBobs: true)
    let state = bench.alice.say(.call(bench.bobCall, .query), device: "alice1")?.state
    #expect(state?.reason == .glare)
    #expect(state?.survivor == bench.aliceCall)
  }

  @Test("R8: where neither of both who place is rung, both calls ring") func r8BothOnlyPlace() {
    var bench = CrossingBench()
    let onlyPlaces = Command.Body.attach(Attach(onlyPlaces: true))
    bench.alice.say(.sessionClosed(graceful: true), device: "alice1")
    bench.alice.say(onlyPlaces, device: "alice1")
    bench.bob.say(.sessionClosed(graceful: true), device: "b1")
    bench.bob.say(onlyPlaces, device: "b1")
    bench.placeBoth()
    #expect(bench.alice.invites("alice1").isEmpty && bench.bob.invites("b1").isEmpty)
    #expect(bench.alice.invites("alice2").count == 1 && bench.bob.invites("b2").count == 1)
    bench.bob.say(.call(bench.aliceCall, .answer()), device: "b2")
    #expect(bench.stateOfAlicesCall()?.by?.device == "b2")
    #expect(bench.stateOfBobsCall()?.phase == .placed)
    #expect(bench.messages.isEmpty)
  }

  @Test("R8: the edge of both dies before it reports, and both come back to another one")
  func r8DeadEdge() {
    var bench = CrossingBench.placed()
    bench.alice.say(.sessionClosed(graceful: false), device: "alice1")
    bench.bob.say(.sessionClosed(graceful: false), device: "b1")
    bench.bob.say(.attach(Attach(deviceName: "b1")), device: "b1", session: again)
    // The new edge learns of both calls from the invite and from the reply to the resume, and reports them.
    #expect(bench.bob.deliveries(to: again).map(\.event.kind) == ["invite"])
    let resumed = bench.bobsCaller(.call(bench.bobCall, .resume), session: again)
    #expect(resumed?.state?.phase == .placed)
    let crossed = Command.Body.crossed(bench.crossed)
    let early = bench.bobsCaller(crossed, session: again)
    #expect(early?.error == .unknownDevice, "hers is not back yet, and its edge reports them, too")
    for body in [.attach(Attach(deviceName: "alice1")), crossed] {
      bench.alice.say(body, device: "alice1", session: Bench.session("alice1", 1))
    }
    bench.collect()
    bench.deliverAll()
    #expect(bench.stateOfAlicesCall()?.by?.device == "b1")
    #expect(bench.stateOfBobsCall()?.reason == .glare)
    #expect(bench.bob.deliveries(to: again).map(\.event.kind).contains("answered"))
  }

  @Test func strangersReportNothing() {
    var bench = CrossingBench.placed()
    let crossed = Command.Body.crossed(bench.crossed)
    #expect(bench.alice.say(crossed, user: "mallory", device: "m1")?.error == .unknownCall)
    // A device of the callee speaks for a call of its own only.
    #expect(bench.alice.say(crossed, device: "alice2")?.error == .notParty)
    // The caller cannot name a device that the callee does not have.
    let forged = CrossedCall(
      call: bench.bobCall, caller: "bob", survivor: bench.aliceCall, by: "forged")
    #expect(bench.bobsCaller(.crossed(forged))?.error == .unknownDevice)
    #expect(bench.alice.ends.isEmpty)
  }

  /// Alice's call to bob is answered, and somebody claims that carol's call to alice crosses it.
  @Test func aThirdUsersCallDoesNotGiveWay() {
    var bench = CrossingBench()
    let carols = CallID(high: 7, low: 7)
    bench.alice.say(.place(PlaceRequest(call: carols)), user: "carol", device: "c1")
    bench.placeAlice()
    bench.bob.say(.call(bench.aliceCall, .answer()), device: "b2")
    let claim = CrossedCall(call: bench.aliceCall, caller: "alice", survivor: carols, by: "b1")
    bench.bob.say(.crossed(claim), device: "b1")
    bench.collect()
    bench.deliverAll()
    #expect(bench.alice.ends.isEmpty)
  }

  @Test(
    "R8 R25: a call that had gone on is taken by the callee's own call: no history says that it was missed"
  )
  func r8HistoryOfADivertedCall() throws {
    var bench = CrossingBench()
    var rules = UserRules(doNotDisturb: .init())
    rules.onBusy = .init(users: ["carol"])
    bench.bob.set(rules, of: "bob")
    bench.bob.shard.storedParts = .history
    let request = PlaceRequest(call: bench.aliceCall, subscriptions: .history)
    bench.bob.say(.place(request), user: "alice", device: "alice1")
    #expect(bench.bob.invites("b1").isEmpty)
    bench.placeBob()
    bench.settle()
    #expect(bench.stateOfAlicesCall()?.by?.device == "b1")
    bench.bob.caller(.call(bench.aliceCall, .hangUp))
    let entries = bench.bob.shard.historyEntries(of: bench.aliceCall)
    #expect(entries.map(\.user.user) == ["bob", "alice"])
    #expect(entries.map(\.entry.reason) == [.hungUp, .hungUp])
    #expect(entries.allSatisfy { $0.entry.answeredAt != nil && !$0.entry.isMissed })
    let bobs = try #require(entries.first?.entry)
    #expect(bobs.device == "b1" && !bobs.wentOn && bobs.wentTo.isEmpty)
  }

  enum Stopped: CaseIterable { case declined, busy, wentOn }

  @Test(
    "R8: the survivor stopped ringing at the device, whose user calls back: the device has it",
    arguments: Stopped.allCases)
  func r8CalledBack(_ stopped: Stopped) {
    var bench = CrossingBench()
    let rules = UserRules(onNoAnswer: .init(users: ["carol"]), noAnswerSeconds: 7)
    if stopped == .wentOn { bench.bob.set(rules, of: "bob") }
    bench.placeAlice()
    switch stopped {
    case .declined: bench.bob.say(.call(bench.aliceCall, .decline(.here)), device: "b1")
    case .busy: bench.bob.say(.call(bench.aliceCall, .busy), device: "b1")
    case .wentOn:
      bench.bob.pass(.seconds(7))
      #expect(bench.bob.stops("b1").map(\.reason) == [.unanswered])
    }
    let state = bench.bob.say(.call(bench.aliceCall, .query), device: "b1")?.state
    #expect(state?.phase == .ended)
    bench.placeBob()
    bench.settle()
    #expect(bench.stateOfBobsCall()?.survivor == bench.aliceCall)
    #expect(bench.bob.answers("alice1").map(\.by.device) == ["b1"])
    #expect(bench.stateOfAlicesCall()?.by?.device == "b1")
    #expect(bench.bob.invites("b1").last?.merged == bench.bobCall)
    #expect(bench.bob.answers("b1").map(\.by.device) == ["b1"])
    if stopped != .wentOn {
      #expect(bench.bob.stops("b2").map(\.reason) == [.answeredElsewhere])
    }
    // A new owner says so again, until media flow: the app may have been restarted.
    bench.takeOver(bobs: true, epoch: 2)
    #expect(bench.bob.invites("b1").map(\.merged) == [bench.bobCall])
    #expect(bench.bob.answers("b1").map(\.by.device) == ["b1"])
    #expect(bench.bob.say(.call(bench.aliceCall, .connected), device: "b1") == .done)
  }

  @Test("R8 R25: another user has answered: the callee's own call to the caller rings beside it")
  func r8AnsweredByAnotherUser() {
    var bench = CrossingBench(aliceIsLow: false)
    bench.bob.set(UserRules(always: .init(users: ["carol"])), of: "bob")
    bench.placeAlice()
    let carol = UserKey(app: Bench.app, user: "carol")
    let device = VisitAnswer.Device(id: "c1", session: Bench.session("c1"))
    let request = VisitRequest(call: bench.aliceCall, callee: "bob", caller: "alice")
    bench.bob.run {
      $0.visited(carol, VisitAnswer(devices: [device]), to: request, now: $1, into: &$2)
    }
    let answer = bench.bob.say(
      .call(bench.aliceCall, .answer()), user: "carol", device: "c1", callee: "bob")
    #expect(answer?.won == true)
    bench.placeBob()
    bench.settle()
    #expect(bench.stateOfBobsCall()?.phase == .placed)
    #expect(bench.stateOfAlicesCall()?.phase == .answered)
  }

  @Test("R8 R25: a device of another user, of the same name as the one that placed the survivor")
  func r8NamesakeOfAnotherUser() {
    var bench = CrossingBench(aliceIsLow: false)
    bench.bob.set(UserRules(always: .init(users: ["carol"])), of: "bob")
    bench.placeAlice()
    let carols = Bench.session("carol's", edge: 2)
    for case .visit(let user, let question) in bench.bob.effects {
      let answer = VisitAnswer(devices: [.init(id: "b1", session: carols)])
      bench.bob.run { $0.visited(user, answer, to: question, now: $1, into: &$2) }
    }
    #expect(bench.bob.invites(carols).count == 1)
    bench.placeBob()
    bench.settle()
    #expect(bench.bob.ends.map(\.reason) == [.glare])
    #expect(bench.bob.stops(carols).map(\.reason) == [.answeredElsewhere])
    let query = Command.Body.call(bench.aliceCall, .query)
    let state = bench.bob.say(query, user: "carol", device: "b1", session: carols)?.state
    #expect(state?.reason == .answeredElsewhere && state?.survivor == nil)
  }

  @Test func aMergeIsOfBothUsersCallsOnly() {
    var bench = CrossingBench.placed()
    for (call, caller) in [(bench.aliceCall, "mallory"), (Bench.callID, "alice")] {
      let merge = MergeRequest(call: call, merged: bench.bobCall, caller: caller)
      #expect(bench.bob.say(.merge(merge), device: "b1")?.error == .unknownCall)
    }
  }
}

extension Delivery.Event {
  var kind: String {
    switch self {
    case .invite: "invite"
    case .ringing: "ringing"
    case .answered: "answered"
    case .stop: "stop"
    case .signal: "signal"
    case .moved: "moved"
    case .transfer: "transfer"
    case .ringsUntil: "ringsUntil"
    }
  }
}
