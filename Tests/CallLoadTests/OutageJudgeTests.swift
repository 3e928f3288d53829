import CallCore
import CallJudge
import CallLoadKit
import CallWire
import Testing

/// A fault excuses that something is late, or refused. It never excuses a wrong end.
@Suite("The judge and outages") struct OutageJudgeTests {
  @Test(
    "unreachable is wrong while a device is attached, whatever is away",
    arguments: [
      // Attached before the call, its socket breaks at (nil: never), broken rules.
      (true, nil, 1), (false, nil, 0), (true, 12.0, 0), (true, 16.0, 1),
    ] as [(Bool, Double?, Int)])
  func unreachable(isAttached: Bool, breaks: Double?, broken: Int) throws {
    var call = JudgedCall(attached: isAttached ? [4] : [])
    call.outage(.killAllNATS, from: 9, to: 13)
    if let breaks, breaks < 15 {
      call.checker.detached(device: 4, from: [call.id], at: at(breaks))
    }
    call.tell(0, .stop(Stop(reason: .unreachable)), 15)
    #expect(try call.count(.unreachableThoughAttached) == broken)
  }

  @Test(
    "who sits on an edge that is stopped for longer than the cluster waits cannot be reached",
    arguments: [
      // The edge stops, goes on, when the caller is told.
      (9.0, 13.5, 14.0, 1), (9.0, 30.0, 12.0, 1), (2.0, 30.0, 12.0, 0), (2.0, 11.0, 12.0, 0),
      (2.0, 8.0, 12.0, 1),
    ])
  func beyondReach(from: Double, to: Double, told: Double, broken: Int) throws {
    var call = JudgedCall(attached: [4])
    call.outage(.freezeAllEdges, from: from, to: to, carried: [3, 4, 5])
    call.tell(0, .stop(Stop(reason: .unreachable)), told)
    #expect(try call.count(.unreachableThoughAttached) == broken)
  }

  @Test(
    "an attached device is rung, if the call rings for long enough once a fault is over",
    arguments: [
      // From when until when device 5's edge stands still (0: never), when device 3 answers.
      (0, 0, 12.0, 1), (0, 0, 10.5, 0), (9, 13, 12.0, 0), (9, 13, 19.0, 1), (13, 20, 15.0, 1),
    ] as [(Double, Double, Double, Int)])
  func rung(from: Double, to: Double, answered: Double, broken: Int) throws {
    var call = JudgedCall(attached: [3, 4, 5])
    if to > 0 { call.outage(.freezeEdge, from: from, to: to, carried: [5]) }
    call.accept()
    call.tell(3, .invite(call.invite), 10.1)
    call.tell(4, .invite(call.invite), 10.1)
    call.say(3, .call(call.address, .answer(description: "")), answered)
    #expect(try call.count(.attachedNotRung) == broken)
  }

  @Test(
    "an answer that a fault held up wins once it is over, if the call still rings",
    arguments: [
      // When the fault is over, whether another device declined before, broken rules.
      (13.0, false, 1, false), (37.0, false, 0, true), (13.0, true, 1, false),
      (37.0, true, 0, true),
    ])
  func heldAnswer(over: Double, declined: Bool, broken: Int, isExplained: Bool) throws {
    var call = JudgedCall(attached: [3, 4, 5])
    call.outage(.freezeAllNATS, from: 10.4, to: over)
    call.accept()
    for device in 3...5 { call.tell(device, .invite(call.invite), 10.1) }
    if declined {
      call.say(5, .call(call.address, .decline(.here)), 10.2)
      var state = CallState(call: call.id, callee: "u1", phase: .ended)
      (state.reason, state.by) = (.declined, call.roster.party(5))
      call.reply(5, .call(state), 10.3)
    }
    call.say(3, .call(call.address, .answer(description: "")), 10.5)
    for device in [0, 3, 4] + (declined ? [] : [5]) {
      call.tell(device, .stop(Stop(reason: .unanswered, missed: device != 0)), 41)
    }
    let verdict = try call.judge()
    #expect(verdict.violations.count { $0.rule == .noWinner } == broken)
    #expect((verdict.explainedBy != nil) == isExplained)
  }

  @Test("what is said of a call that was refused may be unknown")
  func afterRefusal() throws {
    var call = JudgedCall(attached: [3])
    call.say(0, .place(call.address, PlaceRequest(call: call.id)), 10)
    call.say(0, .call(call.address, .signal(.candidate, body: "x")), 10.1)
    call.checker.refused(device: 0, request: 1, .tryAgain, at: at(20))
    call.reply(0, .error(CallError(.unknownCall)), 20.1)
    #expect(try call.count(.unexplainedError) == 0)
  }

  @Test(
    "edges that are stopped again and again keep a device out of reach as one long stop does",
    arguments: [
      // The second stop begins, when the caller is told.
      (9.0, 13.0, 0), (12.5, 16.0, 1), (9.0, 11.0, 1),
    ])
  func stoppedAgain(second: Double, told: Double, broken: Int) throws {
    var call = JudgedCall(attached: [4])
    call.outage(.freezeEdge, from: 4.2, to: 8.7, carried: [4])
    call.outage(.partition, from: second, to: second + 4.5, carried: [4], number: 2)
    call.tell(0, .stop(Stop(reason: .unreachable)), told)
    #expect(try call.count(.unreachableThoughAttached) == broken)
  }

  @Test("a call that its caller gave up may be answered before the cancel arrives")
  func answeredAfterGivingUp() throws {
    var call = JudgedCall(attached: [3])
    call.outage(.killAllNATS, from: 9, to: 19)
    call.say(0, .place(call.address, PlaceRequest(call: call.id)), 10)
    call.checker.refused(device: 0, request: 1, .tryAgain, at: at(20))
    call.tell(0, .answered(Answered(by: call.roster.party(3))), 20.2)
    #expect(try call.count(.duplicateEnd) == 0)
  }

  @Test("who was told that it rings has not left when an attempt to place is refused")
  func refusedWhileItRings() throws {
    var call = JudgedCall(attached: [3])
    call.say(0, .place(call.address, PlaceRequest(call: call.id)), 10)
    call.tell(3, .invite(call.invite), 10.1)
    call.tell(0, .ringing(by: call.roster.party(3)), 10.2)
    call.checker.refused(device: 0, request: 1, .tryAgain, at: at(20))
    call.tell(3, .stop(Stop(reason: .unanswered, missed: true)), 40)
    #expect(try call.count(.ringingAfterEnd) == 0, "nobody had said that it is placed")
  }

  @Test(
    "a refusal of an attempt is an answer, also where the last attempt has none",
    arguments: [(true, 0), (false, 1)])
  func lastAttempt(isRefused: Bool, broken: Int) throws {
    var call = JudgedCall(attached: [3])
    call.say(0, .place(call.address, PlaceRequest(call: call.id)), 10)
    if isRefused { call.reply(0, .error(CallError(.tryAgain)), 15) }
    let place = ClientCommand.place(call.address, PlaceRequest(call: call.id))
    call.checker.gaveUp(device: 0, request: 1, place, at: at(30))
    #expect(try call.count(.commandLost) == broken)
  }

  @Test(
    "a call that was never sent for want of a connection is not placed, and only a fault of its edge explains that",
    arguments: [[0], [3]])
  func neverSent(carried: [Int]) throws {
    var call = JudgedCall(attached: [3])
    call.outage(.killAllEdges, from: 9, to: 41, carried: carried)
    let place = ClientCommand.place(call.address, PlaceRequest(call: call.id))
    call.checker.gaveUp(device: 0, request: 1, place, at: at(40))
    #expect(call.checker.isSettled(call.id))
    let verdict = try call.judge()
    #expect(verdict.outcome == .refused(.notAttached))
    #expect(verdict.violations.isEmpty)
    #expect(verdict.explainedBy == (carried == [0] ? .killAllEdges : nil))
  }

  @Test(
    "a caller that nothing lets back in has left: its call may end as hung up",
    arguments: [
      // Its edge and all NATS are away from and until, whether that explains the end.
      (11.0, 30.0, true), (25.0, 26.0, false),
    ])
  func callerKeptOut(from: Double, to: Double, isExplained: Bool) throws {
    var call = JudgedCall(attached: [3])
    call.outage(.killAllNATS, from: from, to: to)
    call.accept()
    call.checker.detached(device: 0, from: [call.id], at: at(11.2))
    call.tell(3, .invite(call.invite), 11.3)
    call.say(3, .call(call.address, .answer(description: "")), 11.4)
    let state = CallState(
      call: call.id, callee: "u1", phase: .answered, by: call.roster.party(3))
    call.reply(3, .answer(won: true, state), 11.5)
    call.tell(3, .stop(Stop(reason: .hungUp, by: call.roster.party(0))), 31)
    call.checker.attached(device: 0, in: [call.id], at: at(31))
    call.tell(0, .stop(Stop(reason: .hungUp, by: call.roster.party(0))), 31.1)
    let verdict = try call.judge()
    #expect((verdict.explainedBy != nil) == isExplained)
  }

  @Test("what a stopped nats-server had in hand may come when it goes on")
  func lateWords() {
    var timeline = FaultTimeline.quiet()
    timeline.begin(ChaosFault.test(1, .freezeNATS, shards: [1]), carried: [], at: at(10))
    timeline.lifted(fault: 1, at: at(20))
    timeline.begin(ChaosFault.test(2, .killNATS, shards: [1]), carried: [], at: at(40))
    timeline.lifted(fault: 2, at: at(41))
    let times = [9.9, 10.5, 21.0, 23.0, 40.5].map { timeline.mayComeLate(to: 3, at: at($0)) }
    #expect(times == [false, true, true, false, false], "a killed one has nothing any more")
  }

  /// Devices 0 and 3 call each other, and this call goes on. Device 3 learns it from a delivery alone.
  @Test(
    "who placed the crossing call may learn of its end alone, where it was away or cut off from before the answer",
    arguments: [
      // Whether it is away, from when its edge stands still, broken rules.
      (true, nil, 0), (false, nil, 1), (false, 10.5, 0), (false, 21, 1),
    ] as [(Bool, Double?, Int)])
  func crossing(isAway: Bool, frozenAt: Double?, broken: Int) throws {
    let roster = Roster(devices: 9, devicesPerUser: 3)
    var timeline = FaultTimeline(roster: roster, app: "load", shardCount: 12)
    if let frozenAt {
      var frozen = ChaosFault.test(1, .freezeEdge, shards: [])
      frozen.edges = [0]
      timeline.begin(frozen, carried: [3], at: at(frozenAt))
      timeline.lifted(fault: 1, at: at(frozenAt + 9))
    }
    var history = History(roster, timeline, .crossing, crosses: CallID(high: 3, low: 4))
    history.tell(3, 2, .invite(Invite(caller: roster.party(0), deadline: at(40))), 10.1)
    if isAway { history.checker.detached(device: 3, from: [history.call], at: at(10.5)) }
    history.tell(0, 3, .answered(Answered(by: roster.party(3))), 11)
    history.tell(0, 4, .stop(Stop(reason: .hungUp, by: roster.party(3))), 12)
    if isAway { history.checker.attached(device: 3, in: [history.call], at: at(20)) }
    history.tell(3, 5, .stop(Stop(reason: .hungUp, by: roster.party(3))), 20)
    #expect(try history.count(.noWinner) { _ in true } == broken)
  }

  /// A new owner does not know whether the device that has the call got the offer.
  @Test("who placed the crossing call may be invited again after the answer, and nobody else")
  func crossingInvited() throws {
    func count(_ device: Int) throws -> Int {
      let roster = Roster(devices: 9, devicesPerUser: 3)
      var history = History(
        roster, FaultTimeline(roster: roster, app: "load", shardCount: 12), .crossing,
        crosses: CallID(high: 3, low: 4))
      history.tell(0, 3, .answered(Answered(by: roster.party(3))), 11)
      history.tell(device, 4, .invite(Invite(caller: roster.party(0), deadline: at(40))), 20)
      return try history.count(.toldToRingAfterEnd) { _ in true }
    }
    #expect(try count(3) == 0)
    #expect(try count(4) == 1)
  }

  @Test("an invite may come after the ring timeout where it waited for a processor, and else not")
  func processorsAreBusy() throws {
    for isBusy in [true, false] {
      var call = JudgedCall(attached: [3, 4])
      call.accept()
      call.tell(3, .invite(call.invite), 10.1)
      if isBusy { call.checker.timeline.processorsWereBusy(from: at(38), until: at(40)) }
      call.tell(4, .invite(call.invite), 43)
      let broken = try call.count(.toldToRingAfterEnd)
      #expect(broken == (isBusy ? 0 : 1))
    }
  }
}
