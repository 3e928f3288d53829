import CallCore
import Testing

/// R25: a ringing call goes on to other users, whose devices are in other shards.
@Suite struct DivertingTests {
  @Test("R25 the other user's devices ring and are told who was called") func rings() throws {
    var bench = DivertingBench()
    bench.owner.attach("b1")
    bench.attach("carol")
    bench.attach("carol", "2")
    let reply = bench.place(to: "carol")
    #expect(reply?.state?.phase == .placed)
    #expect(bench.owner.invites("b1").isEmpty, "bob's devices do not ring")
    #expect(bench.diversions.map(\.to) == [["carol"]])
    #expect(bench.diversions.map(\.reason) == [.hook])
    for device in ["1", "2"] {
      let invite = try #require(bench.invites("carol", device).first)
      #expect(invite.divertedBy == "bob" && invite.caller.user == "alice")
      #expect(invite.description == "offer")
    }
    #expect(bench.deliveries("carol").map(\.callee) == ["bob"], "the call's address")
    #expect(bench.say(.alerting, "carol")?.state?.phase == .ringing)
    let carol = Party(user: "carol", device: "1", deviceName: "carol's 1")
    #expect(bench.toCaller() == [.ringing(by: carol)])
  }

  @Test("R25 one answers, the others stop and learn who") func oneWinner() throws {
    var bench = DivertingBench.ringing("carol", "dave")
    #expect(bench.say(.answer(description: "sdp"), "dave")?.won == true)
    #expect(bench.say(.answer(description: "late"), "carol")?.won == false)
    let dave = Party(user: "dave", device: "1", deviceName: "dave's 1")
    #expect(
      bench.stops("carol") == [Stop(reason: .answeredElsewhere, by: dave)],
      "another user's device of the same id is another device")
    #expect(bench.toCaller().contains(.answered(Answered(by: dave, description: "sdp"))))
    #expect(bench.owner.ends.isEmpty)
    bench.say(.signal(.candidate, body: "c"), "dave")
    #expect(bench.bob.signals("alice1").map(\.body) == ["c"])
    bench.say(.hangUp, "dave")
    #expect(bench.owner.ends.map(\.reason) == [.hungUp])
    #expect(bench.owner.ends.first?.by?.user == "dave")
  }

  @Test("R5 a device that attaches in mid-ring rings, too") func lateAttach() {
    var bench = DivertingBench.ringing("carol")
    bench.attach("carol", "2")
    #expect(bench.invites("carol", "2").isEmpty)
    bench.pass(.milliseconds(1100))
    #expect(bench.invites("carol", "2").count == 1)
    #expect(bench.invites("carol").count > 0)
  }

  @Test("R19 nobody is there: unreachable once the other shard says so, and not before")
  func unreachable() {
    var bench = DivertingBench.unheard("carol")
    bench.pass(.seconds(14))
    #expect(bench.owner.ends.isEmpty, "it is asked again and again")
    #expect(bench.asked.count == 14 + 1)
    bench.isConnected = true
    bench.pass(.seconds(1))
    #expect(bench.owner.ends.map(\.reason) == [.unreachable])
    #expect(bench.toCaller().count == 1)
  }

  @Test("R19 the other shard never answers") func silence() {
    var bench = DivertingBench.unheard("carol")
    bench.pass(.seconds(15))
    #expect(bench.owner.ends.map(\.reason) == [.unreachable])
  }

  @Test("R25 a shard that may lack sessions is asked again") func incomplete() {
    var bench = DivertingBench.unheard("carol")
    bench.hear("carol", VisitAnswer(isComplete: false))
    #expect(bench.owner.ends.isEmpty)
    bench.attach("carol")
    bench.isConnected = true
    bench.pass(.seconds(1))
    #expect(bench.invites("carol").count == 1)
  }

  @Test("R25 the session of a device that rings breaks, and another one begins") func newSession() {
    var bench = DivertingBench.ringing("carol")
    bench.say(.alerting, "carol")
    bench.leave("carol")
    bench.pass(.seconds(2))
    #expect(bench.owner.ends.isEmpty, "it may come back")
    bench.attach("carol", generation: 1)
    bench.pass(.seconds(1))
    #expect(bench.invites("carol", generation: 1).count == 1)
    #expect(bench.say(.answer(), "carol", generation: 1)?.won == true)
  }

  @Test("R25 the winner's session is followed for as long as the call goes on")
  func winnerComesBack() {
    var bench = DivertingBench.ringing("carol")
    bench.say(.answer(), "carol")
    bench.say(.connected, "carol")
    bench.owner.caller(.connected)
    bench.acknowledgeAll()
    bench.leave("carol")
    bench.pass(.seconds(6))
    #expect(
      bench.owner.journal.contains {
        if case .winnerLost(until: .some) = $0.change { true } else { false }
      })
    bench.attach("carol", generation: 1)
    bench.pass(.seconds(6))
    bench.acknowledgeAll(generation: 1)
    #expect(bench.owner.journal.last?.change == .winnerLost(until: nil))
    #expect(bench.deliveries("carol", generation: 1).contains { $0.event.kind == "answered" })
    #expect(bench.asked.last?.1.answeredBy == "1")
    bench.pass(.seconds(120))
    #expect(bench.owner.ends.isEmpty)
  }

  @Test("R16 a device that missed the end is stopped when it is back") func lateStop() {
    var bench = DivertingBench.ringing("carol")
    bench.say(.alerting, "carol")
    bench.acknowledgeAll()
    bench.leave("carol")
    bench.pass(.seconds(2))
    bench.caller(.cancel)
    #expect(bench.stops("carol").isEmpty)
    bench.pass(.seconds(30))
    bench.attach("carol", generation: 1)
    bench.pass(.seconds(5))
    #expect(bench.stops("carol", generation: 1).map(\.reason) == [.cancelled])
    #expect(bench.stops("carol", generation: 1).map(\.missed) == [true])
  }

  @Test("R6 one user declines, the other one rings on") func declinedByOne() {
    var bench = DivertingBench.ringing("carol", "dave", twoOf: "carol")
    let reply = bench.say(.decline(.everywhere), "carol")
    #expect(reply?.state?.phase == .ended && reply?.state?.reason == .declined)
    #expect(bench.owner.ends.isEmpty)
    let carol = Party(user: "carol", device: "1", deviceName: "carol's 1")
    #expect(bench.stops("carol", "2") == [Stop(reason: .declined, by: carol)])
    #expect(bench.stops("carol").isEmpty, "the reply says it")
    let late = bench.say(.answer(), "carol", "2")
    #expect(late?.won == false && late?.state?.reason == .declined, "its other device did")
    #expect(bench.say(.answer(), "carol")?.error == .wrongState, "it did itself")
    bench.attach("carol", "3")
    bench.pass(.seconds(2))
    #expect(bench.invites("carol", "3").isEmpty, "carol does not want the call")
    #expect(bench.say(.decline(.everywhere), "dave")?.state?.reason == .declined)
    #expect(bench.owner.ends.map(\.reason) == [.declined])
    #expect(bench.owner.ends.map(\.missed) == [false])
  }

  @Test("R6 the only user declines: the call ends") func declinedByAll() {
    var bench = DivertingBench.ringing("carol", twoOf: "carol")
    bench.say(.decline(.everywhere), "carol")
    #expect(bench.owner.ends.map(\.reason) == [.declined])
    #expect(bench.stops("carol", "2").map(\.reason) == [.declined])
  }

  // MARK: Chains

  @Test("R25 a user's own rules send the call on; it goes round no circle") func hops() {
    var bench = DivertingBench.unheard("u1")
    for hop in 1...4 {
      bench.hear(
        "u\(hop)", VisitAnswer(diverted: .always, to: ["bob", "u1", "alice", "u\(hop + 1)"]))
    }
    #expect(bench.diversions.map(\.to) == [["u1"], ["u2"], ["u3"], ["u4"], ["u5"]])
    #expect(bench.diversions.map(\.from) == ["bob", "u1", "u2", "u3", "u4"])
    bench.hear("u5", VisitAnswer(diverted: .always, to: ["u6"]))
    #expect(bench.diversions.count == 5, "five times at most")
    #expect(bench.owner.ends.map(\.reason) == [.unreachable])
  }

  @Test("R25 all rules name users who were rung") func circle() {
    var bench = DivertingBench.unheard("carol")
    bench.hear("carol", VisitAnswer(isBusy: true, diverted: .busy, to: ["bob", "alice", "carol"]))
    #expect(bench.diversions.count == 1)
    #expect(bench.owner.ends.map(\.reason) == [.busy])
  }

  @Test(
    "R25 nobody answers in time: the call goes on to others, and the first are stopped as missed")
  func noAnswer() {
    var bench = DivertingBench.unheard("carol")
    for user in ["carol", "dave"] { bench.attach(user) }
    let device = VisitAnswer.Device(id: "1", name: "x", session: DivertingBench.session("carol"))
    bench.hear("carol", VisitAnswer(devices: [device], to: ["dave"], noAnswerAfter: .seconds(10)))
    #expect(bench.invites("carol").count == 1)
    bench.isConnected = true
    bench.pass(.seconds(9))
    #expect(bench.invites("dave").isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.stops("carol") == [Stop(reason: .unanswered, missed: true)])
    #expect(bench.invites("dave").first?.divertedBy == "carol")
    let late = bench.say(.answer(), "carol")
    #expect(late?.won == false && late?.state?.reason == .unanswered)
    #expect(bench.say(.query, "carol")?.state?.reason == .unanswered)
    bench.pass(.seconds(29))
    #expect(bench.owner.ends.isEmpty, "the time to ring begins anew")
    bench.pass(.seconds(1))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
    #expect(bench.stops("carol").count == 1, "its own end stays")
  }

  // MARK: Pushes

  @Test("R25 a sleeping device is woken with the call's address, and told of the end") func push() {
    var bench = DivertingBench.ringing("carol", asleep: "carol")
    let ring = bench.pushes.first
    #expect(bench.pushes.map(\.purpose) == [.ring])
    #expect(ring?.user.user == "carol" && ring?.device == "1")
    #expect(ring?.callee.user == "bob")
    bench.attach("carol")
    #expect(bench.guests.shard.nextDeadline > bench.guests.now)
    let state = bench.guests.say(
      .attach(Attach(forCall: DivertingBench.id)), user: "carol", device: "1", callee: "carol",
      session: DivertingBench.session("carol"))
    #expect(state?.state?.phase == .ringing && state?.state?.callee == "bob")
    bench.pass(.seconds(1))
    #expect(bench.invites("carol").count == 1)
    bench.pass(.seconds(3))
    #expect(bench.pushes.count == 1)
  }

  @Test("R12 a token that is gone is gone in the user's own shard, and the leg ends")
  func tokenGone() {
    var bench = DivertingBench.ringing("carol", asleep: "carol")
    let report = PushReport(
      call: DivertingBench.id, device: "1", purpose: .ring,
      fingerprint: bench.pushes.first?.token.fingerprint ?? "", outcome: .tokenGone(at: nil),
      at: bench.owner.now)
    bench.owner.say(.pushReport(report), user: "carol", device: "1")
    bench.pump()
    #expect(bench.owner.ends.map(\.reason) == [.unreachable])
    let carol = UserKey(app: Bench.app, user: "carol")
    let told = bench.effects.contains {
      if case .tell(carol, "1", .pushReport(report), _) = $0 { true } else { false }
    }
    #expect(told)
  }

  @Test("R25 a phone that was pushed is told that the call went on to others") func cleanUp() {
    var bench = DivertingBench.ringing("carol", "dave", asleep: "carol")
    #expect(bench.pushes.map(\.purpose) == [.ring])
    bench.say(.answer(), "dave")
    #expect(bench.pushes.map(\.purpose).count == 2, "a clean-up")
    #expect(bench.pushes.last?.user.user == "carol")
    #expect(bench.pushes.last?.reason == .answeredElsewhere)
  }

  @Test("R25 who declines without a session gets no clean-up; the user's other phones do")
  func cleanUpOfDecliner() {
    var bench = DivertingBench.ringing("carol", "dave", twoOf: "carol", asleep: "carol")
    #expect(bench.pushes.map(\.purpose) == [.ring, .ring])
    bench.say(.decline(.everywhere), "carol")
    #expect(bench.pushes.dropFirst(2).map(\.device) == ["2"])
    #expect(bench.pushes.last?.reason == .declined)
  }

  // MARK: New owners

  @Test("R10 a new owner asks again, and rings the devices anew") func takeOver() {
    var bench = DivertingBench.ringing("carol", "dave")
    bench.say(.alerting, "carol")
    bench.say(.decline(.everywhere), "dave")
    var next = bench.takenOver()
    next.pass(.milliseconds(100))
    #expect(next.invites("carol").count == 1)
    #expect(next.invites("dave").isEmpty)
    #expect(next.say(.answer(), "carol")?.won == true)
    #expect(next.say(.query, "dave")?.state?.reason == .declined)
  }

  @Test("R10 a checkpoint rebuilds a diverted call") func checkpoint() {
    var bench = DivertingBench.ringing("carol", "dave", twoOf: "carol")
    bench.say(.alerting, "carol")
    bench.say(.signal(.candidate, body: "early"), "carol")
    bench.say(.decline(.everywhere), "dave")
    #expect(restored(bench) == bench.owner.shard.checkpointEntries())
    bench.say(.answer(description: "sdp"), "carol")
    #expect(restored(bench) == bench.owner.shard.checkpointEntries())
    bench.say(.hangUp, "carol")
    #expect(restored(bench) == bench.owner.shard.checkpointEntries())
  }

  private func restored(_ bench: DivertingBench) -> [JournalEntry] {
    bench.owner.restoredFromCheckpoint().shard.checkpointEntries()
  }

  @Test("R10 the new owner of an answered call finds the winner's session") func takeOverAnswered()
  {
    var bench = DivertingBench.ringing("carol", twoOf: "carol")
    bench.say(.answer(description: "sdp"), "carol")
    var next = bench.takenOver()
    next.pass(.milliseconds(100))
    #expect(next.stops("carol", "2").map(\.reason) == [.answeredElsewhere])
    next.owner.caller(.resume)
    next.caller(.hangUp)
    #expect(next.stops("carol").map(\.reason) == [.hungUp])
  }

  // MARK: Limits and versions

  @Test("while a node of an earlier version is there, nothing is diverted") func earlierVersions() {
    var bench = DivertingBench()
    bench.owner.shard.mayDivert = false
    bench.owner.attach("b1")
    bench.place(to: "carol")
    #expect(bench.bob.invites("b1").count == 1, "bob is called as ever")
    #expect(bench.diversions.isEmpty)
  }

  @Test("at most ten users are rung at once, each once") func manyUsers() {
    var bench = DivertingBench()
    bench.isConnected = false
    bench.place(to: (1...12).flatMap { ["u\($0)", "u\($0)"] })
    #expect(bench.diversions.map(\.to) == [(1...5).map { "u\($0)" }], "of the first ten names")
  }

  @Test("strangers have no part in it") func strangers() {
    var bench = DivertingBench.ringing("carol")
    #expect(bench.say(.answer(), "mallory")?.error == .unknownCall)
    #expect(bench.say(.query, "mallory")?.state?.phase == .unknown)
    #expect(bench.owner.ends.isEmpty)
  }

  @Test("R3 the caller cancels in mid-ring") func cancelled() {
    var bench = DivertingBench.ringing("carol")
    bench.caller(.cancel)
    #expect(bench.stops("carol").map(\.reason) == [.cancelled])
    bench.acknowledgeAll()
    let asked = bench.asked.count
    bench.pass(.seconds(60))
    #expect(bench.asked.count == asked, "nobody is asked any more")
  }

  @Test("the rate of calls between two users holds for calls that are sent on") func rate() {
    var bench = DivertingBench.attached("carol")
    func isBusy(_ number: UInt64, _ caller: String) -> Bool? {
      let call = CallID(high: 7, low: number)
      let request = VisitRequest(call: call, callee: "bob", caller: caller)
      return bench.visit(UserKey(app: Bench.app, user: "carol"), request)?.isBusy
    }
    for number: UInt64 in 1...11 {
      for _ in 0..<3 {
        #expect(isBusy(number, "alice") == (number == 11), "call \(number), asked repeatedly")
      }
    }
    #expect(isBusy(99, "erin") == false)
  }

  // MARK: The user's own shard

  @Test(
    "R25 a user who has answered a call of another shard is in a call there, at once",
    arguments: [true, false])
  func inCall(ofGroup: Bool) {
    var bench = DivertingBench()
    if ofGroup { bench.owner.set(CallGroup(users: ["carol", "dave"]), of: "bob") }
    bench.attach("carol")
    if ofGroup { bench.place() } else { bench.place(to: "carol") }
    bench.say(.answer(), "carol")
    func second(_ number: UInt64) -> CallState? {
      var request = PlaceRequest(call: CallID(high: 0, low: number))
      request.busyWhileInCall = true
      return bench.guests.say(.place(request), user: "erin", device: "1", callee: "carol")?.state
    }
    #expect(second(9)?.reason == .busy)
    // A new owner of carol's shard is told as soon as it has recovered the shard.
    let (before, carol) = (bench.guests, UserKey(app: Bench.app, user: "carol"))
    bench.guests = Bench()
    bench.guests.now = bench.owner.now
    bench.attach("carol")
    let number = ShardHash.shard(of: carol, count: 16)
    bench.owner.run { $0.recovered(shard: number, of: 16, now: $1, into: &$2) }
    bench.pump()
    #expect(second(10)?.reason == .busy)
    bench.guests = before
    bench.owner.run { $0.recovered(shard: (number + 1) % 16, of: 16, now: $1, into: &$2) }
    let asked = bench.asked.count
    bench.pump()
    #expect(bench.asked.count == asked, "another shard's users are none of its business")
    bench.say(.hangUp, "carol")
    #expect(second(11)?.phase == .placed, "and free at once")
  }
}
