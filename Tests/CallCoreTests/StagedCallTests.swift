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
    #expect(bench.invitesOfBob("b1").count == 1)
    #expect(bench.invitesOfBob("b3").count == 1)
    bench.owner.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.pump()
    #expect(bench.stopsOfBob("b2").map(\.reason) == [.answeredElsewhere])
  }

  @Test(
    "each stage gets its share of the ring",
    arguments: [(8, 10, 4), (8, 40, 4), (30, 40, 20), (30, 10, 10), (60, 25, 25)])
  func shares(_ ring: UInt32, _ first: UInt32, _ others: Int64) {
    var bench = bench(UserRules(firstDevices: ["b2"], firstSeconds: first))
    bench.place(ring: ring)
    bench.pass(.milliseconds(others * 1000 - 100))
    #expect(bench.invitesOfBob("b1").isEmpty)
    bench.pass(.milliseconds(100))
    #expect(bench.invitesOfBob("b1").count == 1)
  }

  @Test("what ends the ring at a user counts: nobody answers there in time")
  func sharesBeforeNoAnswer() {
    var bench = bench(
      UserRules(
        onNoAnswer: UserRules.Forward(users: ["carl"]), noAnswerSeconds: 12, firstDevices: ["b2"],
        firstSeconds: 20))
    bench.place()
    bench.pass(.milliseconds(5900))
    #expect(bench.invitesOfBob("b1").isEmpty)
    bench.pass(.milliseconds(100))
    #expect(bench.invitesOfBob("b1").count == 1)
  }

  @Test("R25, R27 the first ones, the others and who is called instead share the caller's time")
  func sharesOfAChosenTime() {
    var bench = bench(
      UserRules(
        onNoAnswer: UserRules.Forward(users: ["carol"]), noAnswerSeconds: 60, firstDevices: ["b2"],
        firstSeconds: 60))
    bench.attach("carol", "1")
    bench.place(ring: 16)
    bench.pass(.milliseconds(3900))
    #expect(bench.invitesOfBob("b1").isEmpty)
    bench.pass(.milliseconds(100))
    #expect(bench.invitesOfBob("b1").count == 1)
    bench.pass(.milliseconds(3900))
    #expect(bench.invites("carol", "1").isEmpty)
    bench.pass(.milliseconds(100))
    #expect(bench.invites("carol", "1").count == 1)
    bench.pass(.seconds(8))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
  }

  @Test("none of the first devices is there, or left: all ring at once") func stagesAtOnce() {
    var absent = bench(UserRules(firstDevices: ["tv"]))
    absent.place()
    #expect(absent.invitesOfBob("b1").count == 1)
    var refused = bench(UserRules(firstDevices: ["b2"]))
    refused.place()
    refused.owner.say(.call(Bench.callID, .decline(.here)), device: "b2")
    refused.pump()
    #expect(refused.invitesOfBob("b1").count == 1)
    #expect(refused.owner.ends.isEmpty)
  }

  @Test("the first device is lost, and does not come back: all ring") func stagesAfterALoss() {
    var bench = bench(UserRules(firstDevices: ["b2"], firstSeconds: 25))
    bench.place()
    bench.owner.say(.sessionClosed(graceful: false), device: "b2")
    bench.pass(CallLimits().resumeGraceRinging)
    #expect(bench.invitesOfBob("b1").count == 1)
    #expect(bench.owner.ends.isEmpty)
  }

  @Test("the others' edge is lost, then the first device: the call waits for who comes back")
  func othersOnALostEdge() {
    var bench = bench(UserRules(firstDevices: ["b2"], firstSeconds: 25))
    bench.place()
    let grace = CallLimits().reattachGrace
    bench.owner.say(.sessionClosed(graceful: false), device: "b1")
    bench.owner.run { shard, now, _ in shard.edgeMissing(9, until: now + grace, now: now) }
    bench.owner.say(.sessionClosed(graceful: true), device: "b2")
    bench.pump()
    #expect(bench.owner.ends.isEmpty)
    bench.owner.attach("b1")
    bench.pump()
    #expect(bench.invitesOfBob("b1").count == 1)
    bench.owner.say(.sessionClosed(graceful: true), device: "b1")
    bench.pass(grace)
    #expect(bench.owner.ends.map(\.reason) == [.unreachable], "but not for ever")
  }

  @Test("R25 the call leaves bob: his stages keep it no longer") func stagesAndForwarded() {
    var bench = bench(
      UserRules(always: UserRules.Forward(users: ["nobody"]), firstDevices: ["b2"], firstSeconds: 4)
    )
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
    next.run { machine, _, _ in
      machine.restore(rules: [UserKey(app: Bench.app, user: "bob"): rules])
    }
    for device in ["b1", "b2"] {
      next.say(.attach(Attach(announce: true)), device: device)
    }
    next = next.begun()
    #expect(next.invites("b2").count == 1)
    #expect(next.invites("b1").isEmpty)
    next.pass(.seconds(3))
    #expect(next.invites("b1").count == 1)
  }

  @Test("the stages of a user to whom the call was diverted") func stagesOfAGuest() {
    var bench = DivertingBench()
    bench.guests.set(UserRules(firstDevices: ["2"], firstSeconds: 4), of: "carol")
    for device in ["1", "2"] { bench.attach("carol", device) }
    bench.place(to: "carol")
    #expect(bench.invites("carol", "2").count == 1)
    #expect(bench.invites("carol", "1").isEmpty)
    bench.pass(.milliseconds(4100))
    #expect(bench.invites("carol", "1").count == 1)
  }

  /// Carol's second device rings first, for longer than the call.
  private func staged() -> DivertingBench {
    var bench = DivertingBench()
    bench.guests.set(UserRules(firstDevices: ["2"], firstSeconds: 25), of: "carol")
    for device in ["1", "2"] { bench.attach("carol", device) }
    bench.place(to: "carol")
    return bench
  }

  @Test(
    "R25 the first device of a user to whom the call was diverted declines for itself: the others ring at once"
  )
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
    var bench = DivertingBench()
    bench.guests.set(UserRules(firstDevices: ["2"], firstSeconds: 25), of: "carol")
    for device in ["1", "2"] { bench.attach("carol", device) }
    bench.attach("dave", "1")
    bench.place(to: "carol", "dave")
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
