import CallCore
import Testing

/// Some devices of a user ring first (R27), where the call was placed to that user and where it went on to the user (R25).
@Suite struct StagedCallTests {
  /// Bob has rules and two devices.
  private func bench(_ rules: UserRules) -> DivertingBench {
    var bench = DivertingBench()
    bench.owner.set(rules, of: "bob")
    for device in ["b1", "b2"] { bench.owner.attach(device) }
    _ = bench.owner.take()
    return bench
  }

  @Test("first these devices, all after some seconds") func stages() {
    var bench = bench(UserRules(firstDevices: ["b2"], firstSeconds: 4))
    bench.place()
    #expect(bench.invitesOfBob("b2").count == 1)
    #expect(bench.invitesOfBob("b1").isEmpty)
    bench.owner.attach("b3")
    bench.pass(.milliseconds(3900))
    #expect(bench.invitesOfBob("b3").isEmpty, "R5 who comes late waits, too")
    bench.pass(.milliseconds(100))
    for device in ["b1", "b3"] { #expect(bench.invitesOfBob(device).count == 1) }
    bench.asBob(.answer(description: ""))
    #expect(bench.stopsOfBob("b2").map(\.reason) == [.answeredElsewhere])
  }

  @Test(
    "each stage gets its share of the ring, and of the time until a call goes on",
    arguments: [
      (8, 10, nil, 4), (8, 40, nil, 4), (30, 40, nil, 20), (30, 10, nil, 10), (60, 25, nil, 25),
      (0, 20, 12, 6),
    ] as [(UInt32, UInt32, UInt32?, Int64)])
  func shares(_ ring: UInt32, _ first: UInt32, noAnswer: UInt32?, _ others: Int64) {
    var rules = UserRules(firstDevices: ["b2"], firstSeconds: first)
    if let noAnswer {
      (rules.onNoAnswer, rules.noAnswerSeconds) = (.init(users: ["carl"]), noAnswer)
    }
    var bench = bench(rules)
    bench.place(ring: ring)
    bench.countsOne(after: .seconds(others)) { $0.invitesOfBob("b1").count }
  }

  @Test("R25, R27 the first ones, the others and who is called instead share the caller's time")
  func sharesOfAChosenTime() {
    var rules = UserRules(firstDevices: ["b2"], firstSeconds: 60)
    (rules.onNoAnswer, rules.noAnswerSeconds) = (.init(users: ["carol"]), 60)
    var bench = bench(rules)
    bench.attach("carol", "1")
    bench.place(ring: 16)
    bench.countsOne(after: .seconds(4)) { $0.invitesOfBob("b1").count }
    bench.countsOne(after: .seconds(4)) { $0.invites("carol", "1").count }
    bench.pass(.seconds(8))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
  }

  @Test("R25 a call that has nobody left to go to rings the first devices first") func nobodyLeft()
  {
    var rules = UserRules(always: .init(users: ["alice"]), firstDevices: ["b2"], firstSeconds: 4)
    var bench = bench(rules)
    bench.place()
    #expect(bench.invitesOfBob("b2").count == 1 && bench.invitesOfBob("b1").isEmpty)
    bench.countsOne(after: .seconds(4)) { $0.invitesOfBob("b1").count }
    // Where it came to that user.
    rules = UserRules(always: .init(users: ["bob"]), firstDevices: ["2"], firstSeconds: 4)
    var other = DivertingBench()
    for device in ["1", "2"] { other.attach("carol", device) }
    other.guests.set(rules, of: "carol")
    other.place(to: "carol")
    #expect(other.invites("carol", "2").count == 1 && other.invites("carol", "1").isEmpty)
  }

  @Test(
    "none of the first devices is there, is left, or comes back: all ring",
    arguments: ["absent", "refused", "lost"])
  func stagesAtOnce(how: String) {
    let first: DeviceID = how == "absent" ? "tv" : "b2"
    var bench = bench(UserRules(firstDevices: [first], firstSeconds: 25))
    bench.place()
    switch how {
    case "refused":
      bench.owner.say(.decline(.here), "b2")
      bench.pump()
    case "lost":
      bench.owner.close("b2")
      bench.pass(CallLimits().resumeGraceRinging)
    default: break
    }
    #expect(bench.invitesOfBob("b1").count == 1)
    #expect(bench.owner.ends.isEmpty)
  }

  @Test("the others' edge is lost, then the first device: the call waits")
  func othersOnALostEdge() {
    var bench = bench(UserRules(firstDevices: ["b2"], firstSeconds: 25))
    bench.place()
    let grace = CallLimits().reattachGrace
    bench.owner.close("b1")
    bench.owner.run { shard, now, _ in shard.edgeMissing(9, until: now + grace, now: now) }
    bench.owner.close("b2", graceful: true)
    bench.pump()
    #expect(bench.owner.ends.isEmpty)
    bench.owner.attach("b1")
    bench.pump()
    #expect(bench.invitesOfBob("b1").count == 1)
    bench.owner.close("b1", graceful: true)
    bench.pass(grace)
    #expect(bench.owner.ends.map(\.reason) == [.unreachable], "but not for ever")
  }

  @Test(
    "the first device is lost, and another one lost its session just before its time: the call waits"
  )
  func othersOnTheirWayBack() {
    var bench = bench(UserRules(firstDevices: ["b2"], firstSeconds: 14))
    bench.owner.enrol("b1")
    bench.place()
    bench.owner.close("b2")
    bench.pass(.seconds(13))
    bench.owner.close("b1")
    bench.pass(.seconds(3))
    #expect(bench.owner.ends.isEmpty, "b2 had its time")
    var other = bench
    bench.owner.attach("b1")
    bench.pump()
    #expect(bench.invitesOfBob("b1").count == 1)
    other.pass(.seconds(2))
    #expect(other.owner.ends.map(\.reason) == [.unreachable], "but not for ever")
  }

  @Test("R25 the call leaves bob: his stages keep it no longer") func stagesAndForwarded() {
    var bench = bench(
      UserRules(always: .init(users: ["nobody"]), firstDevices: ["b2"], firstSeconds: 4))
    bench.place()
    #expect(bench.owner.ends.map(\.reason) == [.unreachable])
    #expect(bench.invitesOfBob("b1").isEmpty && bench.invitesOfBob("b2").isEmpty)
  }

  @Test("R10 a new owner keeps the stage") func stagesTakenOver() {
    let rules = UserRules(firstDevices: ["b2"], firstSeconds: 4)
    var bench = bench(rules)
    bench.place()
    bench.pass(.seconds(1))
    var next = bench.owner.takenOver()
    next.restore(rules, of: "bob")
    for device in ["b1", "b2"] { next.announce(device) }
    next.begin()
    #expect(next.invites("b2").count == 1)
    #expect(next.invites("b1").isEmpty)
    next.pass(.seconds(3))
    #expect(next.invites("b1").count == 1)
  }

  @Test("the stages of a user to whom the call was diverted") func stagesOfAGuest() {
    var bench = staged(seconds: 4)
    #expect(bench.invites("carol", "2").count == 1)
    #expect(bench.invites("carol", "1").isEmpty)
    bench.pass(.milliseconds(4100))
    #expect(bench.invites("carol", "1").count == 1)
  }

  /// Carol's second device rings first, for longer than the call where nothing else is said.
  private func staged(seconds: UInt32 = 25, beside other: String? = nil) -> DivertingBench {
    var bench = DivertingBench()
    bench.guests.set(UserRules(firstDevices: ["2"], firstSeconds: seconds), of: "carol")
    for device in ["1", "2"] { bench.attach("carol", device) }
    if let other {
      bench.attach(other, "1")
      bench.place(to: "carol", other)
    } else {
      bench.place(to: "carol")
    }
    return bench
  }

  @Test("R25 a guest's first device declines for itself: the others ring")
  func firstOfAGuestDeclines() {
    var bench = staged()
    bench.say(.decline(.here), "carol", "2")
    #expect(bench.invites("carol", "1").count == 1)
    #expect(bench.owner.ends.isEmpty)
    bench.say(.decline(.here), "carol", "1")
    #expect(bench.owner.ends.map(\.reason) == [.declined])
  }

  @Test("R25 it is lost, and does not come back") func firstOfAGuestIsLost() {
    var bench = staged()
    bench.leave("carol", "2")
    bench.pass(CallLimits().resumeGraceRinging)
    bench.pass(.seconds(1))
    #expect(!bench.invites("carol", "1").isEmpty)
    #expect(bench.owner.ends.isEmpty)
  }

  @Test("R25 others of this user ring although another user's devices do") func besideAnotherGuest()
  {
    var bench = staged(beside: "dave")
    bench.say(.decline(.here), "carol", "2")
    #expect(bench.invites("carol", "1").count == 1)
  }

  @Test("R25 an answer to an earlier question does not end the call") func lateAnswer() throws {
    var bench = staged()
    let question = try #require(bench.asked.last)
    let carols = bench.visit(UserKey(app: Bench.app, user: "carol"), question.1)
    let early = try #require(carols)
    bench.isConnected = false
    bench.say(.decline(.here), "carol", "2")
    bench.hear("carol", early, to: question.1)
    #expect(bench.owner.ends.isEmpty)
    bench.isConnected = true
    bench.pass(.seconds(1))
    #expect(bench.invites("carol", "1").count == 1)
  }

  @Test("R25 the user's shard does not answer: the call ends after all") func noAnswerAboutOthers()
  {
    var bench = staged()
    bench.isConnected = false
    bench.say(.decline(.here), "carol", "2")
    bench.pass(.seconds(14))
    #expect(bench.owner.ends.isEmpty)
    bench.pass(.seconds(2))
    #expect(bench.owner.ends.map(\.reason) == [.declined])
  }

  @Test("R10 R25 a new owner lets the others ring, too") func othersAfterATakeover() {
    var bench = staged()
    bench.isConnected = false
    bench.say(.decline(.here), "carol", "2")
    var next = bench.takenOver()
    next.pass(.seconds(6))
    #expect(!next.invites("carol", "1").isEmpty)
    #expect(next.owner.ends.isEmpty)
  }
}
