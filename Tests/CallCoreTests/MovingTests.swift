import CallCore
import Testing

/// R24: another device of the same user takes an answered call over, on the caller's side or on the callee's.
@Suite struct MovingTests {
  /// Alice's phone and bob's b1 talk; b2 rang, too.
  private func answered(limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench.talking("b1", "b2", description: "sdp", limits: limits)
    bench.acknowledgeAll()
    _ = bench.take()
    return bench
  }

  /// Bob's b1 has called bob, and b2 has answered.
  private func answeredByOneself(others: [String] = ["b2", "b3"]) -> Bench {
    var bench = Bench()
    for device in ["b1"] + others { bench.attach(device) }
    bench.place(user: "bob", device: "b1")
    bench.answer("b2")
    return bench
  }

  private func pull(
    _ bench: inout Bench, _ device: String, of user: String = "bob", from: String,
    _ description: String = "offer 2", number: UInt64? = nil
  ) -> Reply? {
    let request = PullRequest(
      from: DeviceID(from), description: description, deviceName: "\(user)'s \(device)")
    return bench.say(.pull(request), device, of: user, number: number)
  }

  private func moves(_ bench: Bench, _ device: String) -> [Moved] {
    bench.deliveries(to: device).compactMap {
      if case .moved(let moved) = $0.event { moved } else { nil }
    }
  }

  private func moved(_ user: String, _ device: String) -> Moved {
    Moved(to: party(user, device), description: "offer 2", number: 1)
  }

  private func signal(_ kind: SignalKind, _ body: String) -> Command.Body {
    .call(Bench.callID, .signal(kind, body: body))
  }

  private func party(_ user: String, _ device: String) -> Party {
    Party(user: user, device: DeviceID(device), deviceName: "\(user)'s \(device)")
  }

  // MARK: What is told

  @Test("R24 the callee's side moves: the former device stops, the caller gets an offer")
  func ofTheCallee() {
    var bench = answered()
    let reply = pull(&bench, "b2", from: "b1")
    #expect(reply?.won == true)
    #expect(reply?.state?.phase == .answered && reply?.state?.by?.device == "b2")
    let stop = Stop(reason: .moved, by: party("bob", "b2"))
    #expect(bench.stops("b1") == [stop])
    #expect(moves(bench, "alice1") == [moved("bob", "b2")])
    #expect(bench.ends.isEmpty)
    bench.caller(signal(.description, "answer 2"))
    bench.say(signal(.candidate, "from b2"), device: "b2")
    #expect(bench.signals("b2").map(\.body) == ["answer 2"])
    #expect(bench.signals("alice1").map(\.body) == ["from b2"])
    bench.say(.hangUp, "b2")
    #expect(bench.ends.first?.by?.device == "b2")
    #expect(bench.stops("alice1").map(\.reason) == [.hungUp])
    #expect(bench.stops("b1") == [stop], "its part had ended")
  }

  @Test("R24 the caller's side, from a device that rang nowhere") func ofTheCaller() {
    var bench = answered()
    let reply = pull(&bench, "alice2", of: "alice", from: "alice1")
    #expect(reply?.won == true && reply?.state?.by?.device == "b1")
    #expect(bench.stops("alice1") == [Stop(reason: .moved, by: party("alice", "alice2"))])
    #expect(moves(bench, "b1") == [moved("alice", "alice2")])
    bench.say(signal(.candidate, "from b1"), device: "b1")
    #expect(bench.signals("alice2").map(\.body) == ["from b1"])
    bench.say(signal(.candidate, "c"), user: "alice", device: "alice2")
    #expect(bench.signals("b1").map(\.body) == ["c"])
    #expect(bench.caller(signal(.candidate, "late")) == .done, "dropped: it has no part in it")
    #expect(bench.signals("b1").count == 1)
    bench.say(.hangUp, "alice2", of: "alice")
    #expect(bench.ends.first?.by?.device == "alice2")
    #expect(bench.stops("b1").map(\.reason) == [.hungUp])
  }

  @Test("the caller's display name goes with the call") func name() {
    var bench = Bench()
    bench.attach("b1")
    let request = PlaceRequest(call: Bench.callID, callerName: "Alice Liddell")
    bench.say(.place(request), user: "alice", device: "alice1")
    bench.answer("b1")
    _ = pull(&bench, "alice2", of: "alice", from: "alice1")
    #expect(moves(bench, "b1").first?.to.name == "Alice Liddell")
  }

  @Test("R24 two pull at once: one has it, the other learns who") func twoAtOnce() {
    var bench = answered()
    bench.attach("b3")
    _ = bench.take()
    #expect(pull(&bench, "b2", from: "b1")?.won == true)
    let late = pull(&bench, "b3", from: "b1")
    #expect(late?.won == false)
    #expect(late?.state?.phase == .ended)
    #expect(moves(bench, "alice1").count == 1)
    #expect(pull(&bench, "b3", from: "b2", "offer 3")?.won == true, "who knows its holder may")
    #expect(moves(bench, "alice1").last?.number == 2)
  }

  @Test("R24 a late answer: the holder has the call, a former one has not") func lateAnswer() {
    var bench = answered()
    let answer = Command.Body.call(Bench.callID, .answer(description: "late"))
    #expect(bench.say(answer, device: "b2")?.won == false)
    #expect(pull(&bench, "b2", from: "b1")?.won == true)
    let facts = bench.journal.count
    let reply = bench.say(answer, device: "b2")
    #expect(reply?.won == true && reply?.state?.by?.device == "b2")
    #expect(bench.say(answer, device: "b1")?.won == false)
    #expect(pull(&bench, "b1", from: "b2")?.won == true)
    #expect(bench.say(answer, device: "b2")?.won == false)
    #expect(bench.say(answer, device: "b1")?.won == true)
    #expect(bench.journal.count == facts + 1, "answers change nothing")
    #expect(bench.deliveries(to: "alice1").allSatisfy { !"\($0.event)".contains("late") })
  }

  @Test("R9 a pull that is repeated has the same answer, and no second effect") func repeated() {
    var bench = answered()
    #expect(pull(&bench, "b2", from: "b1", number: 70)?.won == true)
    let facts = bench.journal.count
    #expect(pull(&bench, "b2", from: "b1", number: 70)?.won == true)
    #expect(bench.journal.count == facts)
    #expect(moves(bench, "alice1").count == 1)
  }

  @Test(
    "R9 R10 a copy of a pull comes after the call was pulled back: it stays there",
    arguments: [nil, true, false])
  func copyAfterPullBack(byCheckpoint: Bool?) {
    for (user, first, second) in [("bob", "b1", "b2"), ("alice", "alice1", "alice2")] {
      var bench = answered()
      _ = pull(&bench, second, of: user, from: first, number: 70)
      _ = pull(&bench, first, of: user, from: second, "offer 3")
      if let byCheckpoint { bench = next(bench, checkpoint: byCheckpoint) }
      let facts = bench.journal.count
      let late = pull(&bench, second, of: user, from: first, number: 70)
      #expect(late?.won == false && late?.state?.reason == .moved)
      #expect(late?.state?.by?.device == DeviceID(first))
      #expect(bench.journal.count == facts)
      #expect(pull(&bench, second, of: user, from: first, number: 71)?.won == true)
    }
  }

  @Test("a pull is none of an app's former run, which counted alike") func afterRestart() {
    var bench = answered()
    _ = pull(&bench, "b2", from: "b1", number: 3)
    _ = pull(&bench, "b1", from: "b2")
    #expect(pull(&bench, "b2", from: "b1", "its new media", number: 3)?.won == true)
    _ = pull(&bench, "b1", from: "b2")
    bench.say(.connected, "b1")
    bench.pass(.seconds(60))
    #expect(pull(&bench, "b2", from: "b1", number: 3)?.won == true, "a minute later")
  }

  @Test(
    "R9 R24 the reply to a pull is lost with its session: the caller's side is where it is repeated"
  )
  func repeatedAfterBreak() {
    for isBreakKnown in [true, false] {
      var bench = answered()
      #expect(pull(&bench, "alice2", of: "alice", from: "alice1", number: 70)?.won == true)
      let gone = Command.Body.callerGone([Bench.callID])
      if isBreakKnown { bench.say(gone, user: "alice", device: "alice2") }
      let again = Bench.session("alice2", 1)
      let request = PullRequest(
        from: "alice1", description: "offer 2", deviceName: "alice's alice2")
      let reply = bench.say(.pull(request), "alice2", of: "alice", session: again, number: 70)
      #expect(reply?.won == true)
      if !isBreakKnown { bench.say(gone, user: "alice", device: "alice2") }
      bench.say(signal(.description, "answer 2"), device: "b1")
      #expect(bench.signals(again).map(\.body) == ["answer 2"])
      bench.say(.connected, "alice2", of: "alice", session: again)
      bench.pass(.seconds(100))
      #expect(bench.ends.isEmpty, "it is there")
    }
  }

  @Test("R9 R24 a resume, or a copy of the pull, comes late from a former session of the device")
  func lateOnFormerSessionOfCaller() {
    let former = Bench.session("alice1")
    let present = Bench.session("alice1", 1)
    let request = PullRequest(from: "alice2", description: "offer 3", deviceName: "alice's alice1")
    for late in [.resume, .pull(request)] as [CallVerb] {
      var bench = answered()
      func say(_ verb: CallVerb, _ session: SessionRef, attached seconds: Int64) {
        bench.say(
          .call(Bench.callID, verb), user: "alice", device: "alice1", session: session, number: 70,
          attachedAt: Timestamp(microseconds: seconds * 1_000_000))
      }
      _ = pull(&bench, "alice2", of: "alice", from: "alice1")
      say(.pull(request), present, attached: 2)
      say(late, former, attached: 1)
      bench.say(signal(.description, "answer 3"), device: "b1")
      #expect(bench.signals(present).map(\.body) == ["answer 3"])
      #expect(bench.signals(former).isEmpty)
    }
  }

  @Test("R6 R24 a pull comes after its device has begun another session: the call is on that one")
  func lateOnFormerSession() {
    var bench = answered()
    let again = Bench.session("b2", 1)
    bench.attach("b2", session: again)
    #expect(pull(&bench, "b2", from: "b1")?.won == true)
    bench.caller(signal(.description, "answer 2"))
    #expect(bench.signals(again).map(\.body) == ["answer 2"])
    bench.say(.connected, "b2", session: again)
    bench.close("b2", session: again)
    bench.endsAfter(CallLimits().resumeGraceAnswered, .hungUp)
  }

  @Test("back and forth: the caller's first device gets it again") func backAndForth() {
    var bench = answered()
    #expect(pull(&bench, "alice2", of: "alice", from: "alice1")?.won == true)
    bench.acknowledgeAll()
    #expect(pull(&bench, "alice1", of: "alice", from: "alice2")?.won == true)
    #expect(bench.stops("alice2").map(\.by?.device) == ["alice1"])
    #expect(moves(bench, "b1").last?.number == 2)
    bench.caller(signal(.candidate, "c"))
    #expect(bench.signals("b1").map(\.body) == ["c"])
    #expect(bench.caller(.query)?.state?.phase == .answered)
    #expect(bench.state("alice2", of: "alice")?.reason == .moved)
  }

  @Test("R9 a place that is repeated after the side has moved changes nothing") func placedAgain() {
    var bench = answered()
    #expect(pull(&bench, "alice2", of: "alice", from: "alice1")?.won == true)
    _ = bench.take()
    #expect(bench.place()?.state?.reason == .moved)
    bench.say(signal(.information, "hello"), device: "b1")
    #expect(bench.signals("alice2").map(\.body) == ["hello"])
    #expect(bench.signals("alice1").isEmpty)
  }

  @Test("R24 R10 a call to oneself: who gave one side up keeps the other")
  func bothSidesOfOneself() {
    var bench = answeredByOneself()
    #expect(pull(&bench, "b3", from: "b2")?.won == true)
    #expect(pull(&bench, "b2", from: "b1")?.won == true)
    var next = bench.takenOver()
    for device in ["b1", "b2", "b3"] { next.announce(device) }
    for device in ["b1", "b2"] { next.say(.resume, device, number: 0) }
    next.begin()
    #expect(next.stops("b2").isEmpty)
    #expect(next.stops("b1").map(\.reason) == [.moved])
  }

  @Test("R7 a call to oneself: the caller's side answers or refuses too late")
  func lateRefusalOfOneself() {
    for rang in [true, false] {
      var bench = answeredByOneself(others: rang ? ["b2", "b3"] : ["b2"])
      if !rang { bench.attach("b3") }
      #expect(pull(&bench, "b3", from: "b1")?.won == true)
      for verb in [CallVerb.alerting, .decline(.here), .decline(.everywhere), .busy] {
        let reply = bench.say(verb, "b3")
        #expect(reply?.error == nil && reply?.state?.phase == .answered, "\(verb)")
        #expect(bench.say(verb, "b1")?.error == nil)
      }
      #expect(bench.answer("b3")?.won == true)
      #expect(bench.ends.isEmpty)
    }
  }

  /// Seed 94000175: the app gave up just when another device took the call over.
  @Test("R7 a former caller's device cancels too late: another has the call") func lateCancel() {
    var bench = answered()
    #expect(pull(&bench, "alice2", of: "alice", from: "alice1")?.won == true)
    #expect(pull(&bench, "alice3", of: "alice", from: "alice2")?.won == true)
    for device in ["alice1", "alice2"] {
      let reply = bench.say(.cancel, device, of: "alice")
      #expect(reply?.state?.reason == .moved, "\(device)")
    }
    #expect(bench.ends.isEmpty)
    #expect(bench.say(.cancel, "b1")?.error == .notParty)
  }

  @Test("a call to oneself: the device that is named says which side") func toOneself() {
    var bench = answeredByOneself()
    #expect(pull(&bench, "b1", from: "b2")?.error == .wrongState, "it has the other side")
    #expect(pull(&bench, "b3", from: "b1", number: 7)?.won == true)
    #expect(pull(&bench, "b2", from: "b1")?.error == .wrongState, "b3 was first")
    #expect(pull(&bench, "b3", from: "b1", number: 7)?.won == true, "the same again")
    #expect(bench.stops("b1").last?.reason == .moved)
    #expect(pull(&bench, "b1", from: "b2")?.won == true, "it has no side any more")
    bench.say(signal(.candidate, "c"), device: "b3")
    #expect(bench.signals("b1").map(\.body) == ["c"])
    bench.say(.hangUp, "b1")
    #expect(bench.ends.first?.reason == .hungUp)
  }

  // MARK: Refusals

  @Test("who may not, and when") func refusals() {
    var ringing = Bench.ringing("b1", "b2")
    #expect(pull(&ringing, "b2", from: "b1")?.error == .wrongState)
    #expect(pull(&ringing, "alice2", of: "alice", from: "alice1")?.error == .wrongState)
    var bench = answered()
    #expect(pull(&bench, "e1", of: "eve", from: "b1")?.error == .unknownCall)
    #expect(pull(&bench, "b2", from: "alice1")?.won == false, "the other user's")
    #expect(pull(&bench, "alice2", of: "alice", from: "b1")?.won == false)
    #expect(pull(&bench, "b1", from: "b1")?.won == true, "it has it")
    #expect(bench.journal.allSatisfy { if case .moved = $0.change { false } else { true } })
    bench.caller(.hangUp)
    #expect(pull(&bench, "b2", from: "b1")?.won == false)
    #expect(pull(&bench, "b1", from: "b2")?.won == false)
  }

  @Test("so often and no more") func limit() {
    var bench = answered(limits: .with { $0.movesPerCall = 3 })
    for (to, from) in [("b2", "b1"), ("b1", "b2"), ("b2", "b1")] {
      #expect(pull(&bench, to, from: from)?.won == true)
    }
    let refused = pull(&bench, "b1", from: "b2")
    #expect(refused?.error == .tooManyMoves && refused?.message?.contains("3 times") == true)
    #expect(pull(&bench, "b2", from: "b1")?.won == true, "it has it")
  }

  @Test("not while an earlier version may read the journal, nor where that is nearly full")
  func notNow() {
    for (isScarce, error) in [(false, CallError.Code.unknownCommand), (true, .overloaded)] {
      var bench = answered()
      if isScarce { bench.shard.room = .scarce } else { bench.shard.mayMove = false }
      let facts = bench.journal.count
      #expect(pull(&bench, "b2", from: "b1")?.error == error)
      #expect(bench.journal.count == facts)
    }
  }

  // MARK: What was under way

  @Test("informations that wait go to the new device; the old media's signals do not")
  func waiting() {
    var bench = answered()
    bench.caller(signal(.candidate, "old"))
    bench.caller(signal(.information, "hold"))
    bench.caller(signal(.description, "old"))
    _ = bench.take()
    _ = pull(&bench, "b2", from: "b1")
    #expect(bench.signals("b2").map(\.body) == ["hold"])
    #expect(bench.signals("b2").map(\.index) == [2])
    bench.caller(signal(.candidate, "new"))
    let deliveries = bench.deliveries(to: "b2")
    #expect(deliveries.map(\.version) == deliveries.map(\.version).sorted())
    #expect(bench.signals("b2").map(\.index) == [2, 4])
  }

  @Test("the other side knows signals by indices that go on") func indices() {
    var bench = answered()
    bench.say(signal(.candidate, "1"), device: "b1")
    bench.say(signal(.candidate, "2"), device: "b1")
    _ = pull(&bench, "b2", from: "b1")
    bench.say(signal(.candidate, "3"), device: "b2")
    #expect(bench.signals("alice1").map(\.index) == [1, 2, 3])
    _ = pull(&bench, "alice2", of: "alice", from: "alice1")
    // It counts its requests for itself: this is no repetition of what the former device sent.
    bench.say(signal(.candidate, "a"), user: "alice", device: "alice2", number: 5)
    #expect(bench.signals("b2").last?.body == "a")
  }

  @Test("the newest move is retransmitted until acknowledged; an older one is not")
  func retransmitted() {
    var bench = answered()
    _ = pull(&bench, "b2", from: "b1")
    bench.pass(.milliseconds(500))
    #expect(moves(bench, "alice1").map(\.number) == [1, 1])
    #expect(bench.stops("b1").count == 2)
    _ = pull(&bench, "b1", from: "b2")
    #expect(bench.stops("b2") == [Stop(reason: .moved, by: party("bob", "b1"))])
    _ = bench.take()
    bench.pass(.milliseconds(500))
    #expect(moves(bench, "alice1").map(\.number) == [2])
    bench.acknowledgeAll()
    _ = bench.take()
    bench.pass(.seconds(10))
    #expect(moves(bench, "alice1").isEmpty)
  }

  @Test("a device that had the caller's side comes back, and learns where it went") func comesBack()
  {
    var bench = answered()
    bench.say(.callerGone([Bench.callID]), user: "alice", device: "alice1")
    _ = pull(&bench, "alice2", of: "alice", from: "alice1")
    #expect(bench.stops("alice1").isEmpty, "it is away")
    let session = Bench.session("alice1", 2)
    let reply = bench.caller(.resume, session: session)
    #expect(reply?.state?.reason == .moved && reply?.state?.by?.device == "alice2")
    #expect(bench.stops(session).map(\.reason) == [.moved])
    bench.say(.connected, "alice2", of: "alice")
    bench.pass(.seconds(100))
    #expect(bench.ends.isEmpty, "the call has a device that has connected")
  }

  // MARK: Time

  @Test("R15 who takes it over and never connects: it fails for both") func neverConnected() {
    var bench = answered()
    bench.pass(.seconds(100))
    _ = pull(&bench, "b2", from: "b1")
    bench.endsAfter(.seconds(15), .failed)
    for device in ["b2", "alice1"] { #expect(bench.stops(device).map(\.reason) == [.failed]) }
  }

  @Test("the new device is gone for good: it hung up", arguments: [true, false])
  func lost(ofCaller: Bool) {
    var bench = answered()
    if ofCaller {
      _ = pull(&bench, "alice2", of: "alice", from: "alice1")
      bench.say(.connected, "alice2", of: "alice")
      bench.say(.callerGone([Bench.callID]), user: "alice", device: "alice2")
    } else {
      _ = pull(&bench, "b2", from: "b1")
      bench.say(.connected, "b2")
      bench.close("b2")
    }
    bench.pass(.seconds(61))
    #expect(bench.ends.map(\.by?.device) == [ofCaller ? "alice2" : "b2"])
    #expect(bench.ends.map(\.reason) == [.hungUp])
  }

  // MARK: New owners

  private func next(_ bench: Bench, checkpoint: Bool) -> Bench {
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    for device in ["b1", "b2"] { next.announce(device) }
    next.say(.resume, "alice2", of: "alice", number: 0)
    next.begin()
    return next
  }

  @Test("R10 a new owner goes on with the devices that have it", arguments: [false, true])
  func takenOver(checkpoint: Bool) {
    var bench = answered()
    _ = pull(&bench, "b2", from: "b1")
    _ = pull(&bench, "alice2", of: "alice", from: "alice1", "offer 3")
    var next = next(bench, checkpoint: checkpoint)
    #expect(next.stops("b1") == [Stop(reason: .moved, by: party("bob", "b2"))])
    let told = moves(next, "alice2")
    #expect(told.map(\.number) == [1] && told.first?.description == "", "it is of the former media")
    #expect(moves(next, "b2").map(\.description) == ["offer 3"])
    #expect(next.answers("alice2").allSatisfy { $0.description.isEmpty })
    next.say(signal(.candidate, "c"), device: "b2")
    #expect(next.signals("alice2").map(\.body) == ["c"])
    let session = Bench.session("alice1", 3)
    #expect(next.caller(.resume, session: session)?.state?.reason == .moved)
    #expect(!next.deliveries(to: session).isEmpty)
    next.say(.hangUp, "alice2", of: "alice")
    #expect(next.ends.last?.by?.device == "alice2")
    if checkpoint { return }
    let again = next.takenOver(epoch: 3).begun()
    #expect(again.shard.checkpointEntries() == next.shard.checkpointEntries())
  }

  @Test("after the end a new owner tells each device its own part", arguments: [false, true])
  func endTakenOver(checkpoint: Bool) {
    var bench = answered()
    _ = pull(&bench, "b2", from: "b1")
    bench.say(.hangUp, "b2")
    let next = next(bench, checkpoint: checkpoint)
    #expect(next.stops("b1").map(\.reason) == [.moved])
    #expect(next.stops("b2").map(\.reason) == [.hungUp])
  }

  @Test("a call with every side moved is settled once all acknowledge") func settled() {
    var bench = answered()
    _ = pull(&bench, "b2", from: "b1")
    bench.acknowledgeAll()
    bench.caller(.hangUp)
    bench.acknowledgeAll()
    #expect(bench.journal.contains { $0.change == .settled })
  }

  @Test("the app that was started again finds its call where it is") func liveCalls() {
    var bench = answered()
    _ = pull(&bench, "alice2", of: "alice", from: "alice1")
    func placed(_ device: String) -> [CallID] {
      guard case .calls(let live)? = bench.say(.calls(shard: 0), user: "alice", device: device)
      else { return [] }
      return live.placed.map(\.call)
    }
    for hasNewOwner in [false, true] {
      if hasNewOwner { bench = bench.takenOver().begun() }
      #expect(placed("alice1").isEmpty)
      #expect(placed("alice2") == [Bench.callID])
    }
  }
}
