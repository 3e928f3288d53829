import CallCore
import CallJudge
import CallLoadKit
import CallWire
import Testing

/// A group of users 1 and 2, whose devices are 3 to 5 and 6 to 8, is called at 10 s. Each rings for 5 s.
@Suite("The judge and groups") struct GroupJudgeTests {
  private func called(
    _ order: CallGroup.Order = .inTurn, isOrderKnown: Bool = true
  ) -> JudgedCall {
    var call = JudgedCall(
      attached: Set(3..<9), callees: 3..<9,
      route: .group(
        GroupTerms(
          name: "g", order: order, members: [1, 2], turn: .seconds(5), isOrderKnown: isOrderKnown)))
    call.accept()
    return call
  }

  private func shard(ofUser user: String) -> Int {
    ShardHash.shard(of: UserKey(app: "load", user: user), count: JudgedCall.shardCount)
  }

  private func ring(_ user: Int, _ time: Double, _ call: inout JudgedCall) {
    for device in call.roster.devices(of: user) { call.tell(device, .invite(call.invite), time) }
  }

  private func stop(
    _ devices: some Sequence<Int>, _ stop: Stop, _ time: Double, _ call: inout JudgedCall
  ) {
    for device in devices { call.tell(device, .stop(stop), time) }
  }

  /// The member who answers hangs up at once.
  private func answers(_ device: Int, _ time: Double, _ call: inout JudgedCall) {
    call.say(device, .call(call.address, .answer(description: "")), time)
    let party = call.roster.party(device)
    let state = CallState(call: call.id, callee: "g", phase: .answered, by: party)
    call.reply(device, .answer(won: true, state), time)
    call.tell(0, .answered(Answered(by: party)), time)
    for other in call.roster.devices(of: call.roster.user(of: device)) where other != device {
      call.tell(other, .stop(Stop(reason: .answeredElsewhere, by: party)), time)
    }
    call.say(device, .call(call.address, .hangUp), time + 1)
    call.reply(device, .call(call.ended(.hungUp, by: party)), time + 1)
    call.tell(0, .stop(Stop(reason: .hungUp, by: party)), time + 1)
  }

  private func broken(_ call: inout JudgedCall) throws -> Set<CorrectnessRule> {
    Set(try call.judge().violations.map(\.rule))
  }

  /// User 1 lets its turn pass until `next`, when its devices get `stop` and those of user 2 ring.
  private func passes(
    at next: Double, with stop: Stop = Stop(reason: .unanswered),
    _ prepare: (inout JudgedCall) -> Void = { _ in }
  ) throws -> Set<CorrectnessRule> {
    var call = called()
    prepare(&call)
    ring(1, 10.1, &call)
    self.stop(3..<6, stop, next, &call)
    ring(2, next, &call)
    answers(7, next + 1, &call)
    return try broken(&call)
  }

  @Test("a member rings when the turn before it is over, and that one is told so")
  func turns() throws {
    #expect(try passes(at: 15.1) == [])
    #expect(try passes(at: 13) == [.forwardedWrongly])
    // Nobody has missed the call yet, and nobody had answered it.
    #expect(
      try passes(at: 15.1, with: Stop(reason: .unanswered, missed: true)) == [.wrongReason])
    #expect(try passes(at: 15.1, with: Stop(reason: .cancelled)).contains(.wrongReason))
  }

  @Test(
    "who did not answer in its turn does not keep the call from ending as busy, who is not busy then does",
    arguments: [(6..<9, []), (6..<8, [.wrongReason])] as [(Range<Int>, Set<CorrectnessRule>)])
  func lastMemberIsBusy(busy: Range<Int>, broken: Set<CorrectnessRule>) throws {
    var call = called()
    ring(1, 10.1, &call)
    stop(3..<6, Stop(reason: .unanswered), 15.1, &call)
    ring(2, 15.1, &call)
    for device in busy {
      call.say(device, .call(call.address, .busy), 16)
      call.reply(device, .done, 16)
    }
    for device in [0] + Array(3..<9).filter({ !busy.contains($0) && $0 > 5 }) {
      call.tell(device, .stop(Stop(reason: .busy, by: call.roster.party(7))), 16.1)
    }
    #expect(try self.broken(&call) == broken)
  }

  @Test("a turn that a fault shortened is excused by the shards of the group and its members alone")
  func faults() throws {
    for name in ["g", "u1", "u2"] {
      let shards = [shard(ofUser: name)]
      #expect(
        try passes(at: 13) { $0.outage(.killCoordinator, from: 9, to: 12, shards: shards) } == [])
    }
    let all = Set(["g", "u1", "u2"].map(shard))
    let other = try #require((0..<JudgedCall.shardCount).first { !all.contains($0) })
    #expect(
      try passes(at: 13) { $0.outage(.killCoordinator, from: 9, to: 12, shards: [other]) }
        == [.forwardedWrongly])
  }

  @Test("who declines gives the turn on, for all devices of the user")
  func declined() throws {
    var call = called()
    ring(1, 10.1, &call)
    call.say(4, .call(call.address, .decline(.everywhere)), 11)
    let party = call.roster.party(4)
    call.reply(4, .call(call.ended(.declined, by: party)), 11)
    stop([3, 5], Stop(reason: .declined, by: party), 11, &call)
    ring(2, 11.1, &call)
    answers(7, 12, &call)
    #expect(try broken(&call) == [])
  }

  @Test("members ring in their order")
  func order() throws {
    for (order, isKnown, expected) in [
      (CallGroup.Order.inTurn, true, [CorrectnessRule.forwardedWrongly]),
      (.longestIdle, true, [.forwardedWrongly]), (.longestIdle, false, []),
      (.together, true, [.attachedNotRung]),
    ] {
      var call = called(order, isOrderKnown: isKnown)
      ring(2, 10.1, &call)
      answers(7, 13, &call)
      #expect(try broken(&call) == Set(expected), "\(order)")
    }
  }

  @Test("the next member rings")
  func nextMember() throws {
    for (answer, expected) in [(16, []), (19, [CorrectnessRule.forwardedWrongly])] {
      var call = called()
      ring(1, 10.1, &call)
      answers(4, Double(answer), &call)
      #expect(try broken(&call) == Set(expected))
    }
  }

  @Test("a group's call has one winner, and no user's decline ends it for others")
  func together() throws {
    var call = called(.together)
    ring(1, 10.1, &call)
    ring(2, 10.1, &call)
    call.say(4, .call(call.address, .decline(.everywhere)), 11)
    let party = call.roster.party(4)
    call.reply(4, .call(call.ended(.declined, by: party)), 11)
    // Those of user 2 ring on, but are told of the decline as well.
    stop([3, 5, 6, 7, 8], Stop(reason: .declined, by: party), 11, &call)
    call.tell(0, .stop(Stop(reason: .cancelled, by: call.roster.party(0))), 12)
    #expect(try broken(&call).isSuperset(of: [.wrongReason]))
  }

  @Test("an answer that comes when the turn is over may be refused")
  func lateAnswer() throws {
    for (time, expected) in [(15.2, []), (12, [CorrectnessRule.unexplainedError])] {
      var call = called()
      ring(1, 10.1, &call)
      call.say(4, .call(call.address, .answer(description: "")), time)
      call.reply(4, .error(CallError(.wrongState)), time)
      stop(3..<6, Stop(reason: .unanswered), 15.1, &call)
      ring(2, 15.1, &call)
      answers(7, 16, &call)
      let broken = try broken(&call)
      #expect(broken == Set(expected), "\(time)")
    }
  }

  @Test("a new owner invites anew: an answer is refused in what looks like the middle of the turn")
  func lateAnswerAfterTakeOver() throws {
    for isStopped in [true, false] {
      var call = called()
      call.outage(.killCoordinator, from: 10, to: 13, shards: [shard(ofUser: "g")])
      ring(1, 13.1, &call)
      call.say(4, .call(call.address, .answer(description: "")), 14)
      call.reply(4, .error(CallError(.wrongState)), 15.1)
      if isStopped {
        stop(3..<6, Stop(reason: .unanswered), 15.1, &call)
        ring(2, 15.1, &call)
      }
      answers(7, 16, &call)
      #expect(try broken(&call).contains(.unexplainedError) == !isStopped)
    }
  }

  @Test("a turn that began in an outage looks short, and the caller cancels when it is over")
  func shortTurnAfterTakeOver() throws {
    for (rungAt, expected) in [(13.9, []), (10.6, [CorrectnessRule.wrongReason])] {
      var call = called()
      call.outage(.killCoordinator, from: 10.4, to: rungAt, shards: [shard(ofUser: "g")])
      ring(1, 10.1, &call)
      for device in 3..<6 {
        call.say(device, .call(call.address, .busy), 10.3)
        call.reply(device, .call(call.ended(.busy, by: call.roster.party(device))), 10.3)
      }
      ring(2, rungAt, &call)
      let over = rungAt < 13 ? 13.0 : 15.6
      stop(6..<9, Stop(reason: .unanswered), over, &call)
      call.say(0, .call(call.address, .cancel), over + 0.1)
      call.reply(0, .call(call.ended(.cancelled, by: call.roster.party(0))), over + 0.1)
      let broken = try broken(&call)
      #expect(broken.isSuperset(of: expected) && broken.isEmpty == expected.isEmpty, "\(broken)")
    }
  }

  @Test("a call is unreachable if its last member is, whoever rang before")
  func lastMemberUnreachable() throws {
    for lastRings in [false, true] {
      var call = called()
      call.outage(.freezeEdge, from: 10, to: 16, carried: Array(4..<9))
      call.tell(3, .invite(call.invite), 10.1)
      call.say(3, .call(call.address, .busy), 10.3)
      call.reply(3, .call(call.ended(.busy, by: call.roster.party(3))), 10.3)
      if lastRings { call.tell(7, .invite(call.invite), 16.5) }
      let stop = Stop(reason: .unreachable, missed: true)
      call.tell(0, .stop(stop), 17)
      if lastRings { call.tell(7, .stop(stop), 17) }
      #expect(try broken(&call).contains(.wrongReason) == lastRings)
    }
  }

  @Test("where members ring in turn, a fault during an earlier turn explains that nobody answered")
  func missedTurn() throws {
    for (from, explained) in [(10.5, ChaosKind.freezeEdge), (2, nil)] as [(Double, ChaosKind?)] {
      var call = called()
      call.outage(.freezeEdge, from: from, to: from + 3, carried: [4])
      ring(1, 10.1, &call)
      stop(3..<6, Stop(reason: .unanswered), 15.1, &call)
      ring(2, 15.1, &call)
      stop(6..<9, Stop(reason: .unanswered, missed: true), 40, &call)
      call.tell(0, .stop(Stop(reason: .unanswered)), 40)
      let verdict = try call.judge()
      #expect(verdict.violations.isEmpty, "\(verdict.violations)")
      #expect(verdict.explainedBy == explained)
    }
  }
}
