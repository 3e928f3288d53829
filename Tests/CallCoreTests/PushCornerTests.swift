import CallCore
import Testing

/// Corners where sessions, pushes and the store meet.
@Suite struct PushCornerTests {
  let day = Span.seconds(86_400)

  @Test("what it says by HTTP is no socket: the end is pushed") func alertingWithoutASocket() {
    var bench = Bench.sleeping("b1", can: [.cancel])
    bench.place()
    bench.say(.alerting, "b1", session: SessionRef(edge: 9, number: 9))
    bench.caller(.cancel)
    #expect(bench.pushes("b1") == [.ring, .cancel])
  }

  // MARK: What is under way when it ends

  func withdrawn(_ bench: Bench) -> Int {
    bench.effects.count {
      if case .withdrawPushes(PushRinging(call: Bench.callID)) = $0 { true } else { false }
    }
  }

  @Test(
    "R4: at its end a call's rings are withdrawn, but for those that the provider has",
    arguments: ["cancelled", "answered", "unanswered", "attached", "accepted", "never pushed"])
  func withdrawnAtTheEnd(how: String) {
    var bench = how == "never pushed" ? Bench() : Bench.sleeping("b1")
    bench.attach("b2")
    bench.place(seconds: 20)
    switch how {
    case "answered": bench.answer("b2")
    case "unanswered": bench.pass(.seconds(21))
    case "attached": bench.attach("b1")
    case "accepted": bench.report(.accepted, "b1")
    default: break
    }
    bench.caller(.cancel)
    let expected = how == "accepted" || how == "never pushed" ? 0 : 1
    #expect(withdrawn(bench) == expected)
    bench.caller(.hangUp)
    bench.pass(.seconds(5))
    #expect(withdrawn(bench) == expected, "once")
  }

  @Test(
    "a push of unknown fate: nobody counts on its ring, and it is cleaned up",
    arguments: [true, false])
  func unknownFate(attaches: Bool) {
    var bench = Bench.sleeping("b1", can: [.cancel])
    bench.attach("b2")
    bench.place()
    bench.report(.failed(reason: "no answer", mayHaveArrived: true), "b1")
    if attaches {
      bench.attach("b1")
      bench.acknowledgeAll()
      bench.caller(.cancel)
      #expect(bench.stops("b1").count == 1)
    } else {
      bench.close("b2", graceful: true)
      #expect(bench.ends.map(\.reason) == [.unreachable], "nobody is waited for")
    }
    #expect(bench.pushes("b1") == (attaches ? [.ring] : [.ring, .cancel]))
  }

  @Test("R10: alerted, lost and pushed: the new owner still expects it", arguments: [false, true])
  func alertedThenPushed(checkpoint: Bool) {
    var bench = Bench.sleeping("b1", can: [.cancel])
    bench.attach("b1")
    bench.place(seconds: 60)
    bench.say(.alerting, "b1")
    bench.close("b1")
    bench.pass(.seconds(5))
    #expect(bench.pushes("b1") == [.ring])
    var next = bench.takenOver(checkpoint: checkpoint, registered: ["b1"])
    next.caller(.resume)
    next.pass(.seconds(20))
    #expect(next.ends.isEmpty, "it rings to its deadline, as with the first owner")
    next.caller(.cancel)
    #expect(next.pushes("b1").last == .cancel)
  }

  @Test("who waits for a push when none may go any more is not waited for") func switchedOff() {
    var bench = Bench.sleeping("b1")
    bench.attach("b1")
    bench.place(seconds: 120)
    bench.say(.alerting, "b1")
    bench.close("b1")
    bench.shard.mayPush = false
    bench.pass(.seconds(25))
    #expect(bench.pushes.isEmpty)
    #expect(bench.ends.map(\.reason) == [.unreachable], "not at the deadline, two minutes later")
  }

  @Test("a job that the queue refused is offered while the call rings") func stillWanted() throws {
    var bench = Bench.sleeping("b1", "b2", can: [.cancel])
    bench.place()
    let ring = try #require(bench.pushes.first { $0.device == "b1" })
    let other = try #require(bench.pushes.first { $0.device == "b2" })
    #expect(bench.shard.isStillWanted(ring))
    bench.attach("b1")
    #expect(!bench.shard.isStillWanted(ring), "it is there")
    #expect(bench.shard.isStillWanted(other))
    bench.caller(.cancel)
    #expect(!bench.shard.isStillWanted(other))
    let cleanUp = try #require(bench.pushes.first { $0.purpose == .cancel })
    #expect(bench.shard.isStillWanted(cleanUp))
  }

  // MARK: The store

  @Test("R13: a token is taken while its device is being removed: nothing is written behind that")
  func takenWhileRemoved() {
    var bench = enrolled()
    #expect(bench.say(.unregister("b1"), device: "b1") == nil)
    #expect(bench.say(taken, device: "b1")?.error == .tryAgain)
    #expect(bench.stores.isEmpty, "a put behind the removal would bring the device back")
    bench.answerStores()
    #expect(bench.registration("b1") == nil)
    #expect(bench.say(taken, device: "b1") == .done)
    #expect(bench.stores.isEmpty)
  }

  private func enrolled() -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    _ = bench.take()
    return bench
  }

  private var taken: Command.Body {
    .tokenTaken(
      TokenTaken(
        fingerprint: "fp-v1", byUser: "carol", byDevice: "c1", at: Timestamp(microseconds: 1)))
  }

  @Test("R13: asked again while the loss is being stored: not confirmed before the store has it")
  func askedAgainWhileStoring() {
    var bench = enrolled()
    #expect(bench.say(taken, device: "b1") == nil)
    #expect(bench.stores.count == 1)
    #expect(bench.say(taken, device: "b1", again: true)?.error == .tryAgain)
    // The write fails: the store has the token yet, and the next question brings it there anew.
    bench.refuseStores()
    _ = bench.take()
    #expect(bench.say(taken, device: "b1", again: true) == nil)
    #expect(bench.stores.count == 1)
    bench.answerStores()
    #expect(bench.effects.contains { $0.isDone })
    #expect(bench.say(taken, device: "b1", again: true) == .done)
  }

  @Test("who attaches while it is being removed is not written again") func seenWhileRemoved() {
    var bench = Bench.sleeping("b1")
    bench.pass(day)
    bench.pass(day)
    bench.say(.unregister("b1"), device: "b1")
    bench.attach("b1")
    #expect(bench.stores.isEmpty)
    bench.answerStores()
    #expect(bench.registration("b1") == nil)
  }

  @Test("R12, R13: removed and registered anew: the claim stands")
  func claimOfTheNextRegistration() {
    var bench = Bench.sleeping("b1")
    bench.say(.unregister("b1"), device: "b1")
    bench.register(voip: "b1")
    // The removal ends while the claim is under way, in the same moment.
    let removals = bench.effects.compactMap { effect -> UInt64? in
      if case .remove(_, _, let token) = effect { token } else { nil }
    }
    bench.effects.removeAll { if case .remove = $0 { true } else { false } }
    for token in removals {
      bench.run { $0.registrationStored(token: token, ok: true, now: $1, into: &$2) }
    }
    bench.answerStores()
    #expect(bench.registration("b1")?.request.voipToken?.token == "b1")
    #expect(bench.released.isEmpty, "it would take the new claim away")
  }

  @Test("R12: reported gone while it is claimed anew: the new claim stands") func goneWhileClaimed()
  {
    var bench = Bench.sleeping("b1")
    bench.place()
    bench.pass(.seconds(1))
    bench.register(voip: "b1")
    bench.sendReport(.tokenGone(at: bench.now), token: "b1")
    bench.answerStores()
    #expect(bench.registration("b1")?.request.voipToken?.token == "b1")
    #expect(bench.released.isEmpty)
  }

  @Test("R13: tokens there and back: only what is not had again is released") func thereAndBack() {
    var bench = Bench.sleeping("b1")
    bench.enrol("b1", voip: "other")
    #expect(bench.released == ["fp-b1"])
    _ = bench.take()
    // The one back is being claimed while the one between is stored.
    for token in ["third", "other"] { bench.register(voip: token) }
    bench.answerStores()
    #expect(!bench.released.contains("fp-other"))
  }

  @Test("a device that is attached is not the one unseen for longest") func attachedIsSeen() {
    var bench = Bench.sleeping("desk")
    bench.attach("desk")
    for number in 1...9 {
      bench.pass(day)
      bench.enrol("m\(number)", voip: "m\(number)")
    }
    _ = bench.take()
    bench.enrol("m10", voip: "m10")
    #expect(bench.registration("desk") != nil)
    #expect(bench.registration("m1") == nil, "registered nine days ago, never attached")
  }

  @Test("a socket that lasted for months is not forgotten at its end", arguments: [false, true])
  func longSocket(graceful: Bool) {
    var bench = Bench.sleeping("desk")
    bench.attach("desk")
    _ = bench.take()
    bench.pass(Span(microseconds: day.microseconds * 100))
    bench.close("desk", graceful: graceful)
    #expect(bench.stores.map(\.seenAt) == [bench.now], "the store knows, too")
    bench.answerStores()
    bench.pass(Span(microseconds: day.microseconds * 89))
    bench.answerStores()
    #expect(bench.registration("desk") != nil)
    bench.pass(Span(microseconds: day.microseconds * 2))
    bench.answerStores()
    #expect(bench.registration("desk") == nil)
  }

  @Test("one user's sockets make a call no larger than its limit") func manySockets() {
    var bench = Bench()
    bench.enrol("b1", voip: "b1", can: [])
    for number in 0..<300 { bench.attach("socket\(number)") }
    bench.place()
    let legs = bench.shard.inspect(call: Bench.callID)?.legs.map(\.party.device.text) ?? []
    #expect(Set(legs) == Set(["b1"] + (0..<19).map { "socket\($0)" }), "all that could attach ring")
    for number in 0..<300 {
      bench.say(.alerting, "socket\(number)")
      bench.say(.call(CallID(high: 1, low: 1), .answer(description: "")), device: "socket\(number)")
    }
    #expect(bench.shard.inspect(call: Bench.callID)?.legs.count == CallLimits().legsPerCallLifetime)
    let late = bench.answer("socket299")
    #expect(late?.error == .tooManyDevices, "it is not told that it lost while the call rings")
    #expect(bench.say(.decline(.here), "socket299")?.error == .tooManyDevices)
  }
}
