import CallCore
import Testing

/// Corners where sessions, pushes and the store meet.
@Suite struct PushCornerTests {
  private let day = Span.seconds(86_400)

  private func sleeping(_ devices: String..., can: PushCapabilities = []) -> Bench {
    var bench = Bench()
    for device in devices { bench.enrol(device, voip: device, can: can) }
    _ = bench.take()
    return bench
  }

  // MARK: Awake after all

  @Test("acknowledged after it was pushed: it hears the end by its socket, and by no clean-up")
  func acknowledgedAfterThePush() {
    var bench = Bench()
    bench.enrol("b1", voip: "b1", alert: "a1", can: [.cancel, .missed, .missedNotice])
    bench.attach("b1")
    _ = bench.take()
    bench.place()
    bench.pass(.seconds(2))
    #expect(bench.pushes("b1") == [.ring])
    bench.pass(.milliseconds(300))
    bench.acknowledgeAll()
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.stops("b1").map(\.reason) == [.cancelled])
    #expect(bench.pushes("b1") == [.ring], "neither clean-up nor notice")
  }

  @Test("pushed, and its socket is silent: the clean-up goes, since nobody knows who hears")
  func silentAfterThePush() {
    var bench = Bench()
    bench.enrol("b1", voip: "b1", can: [.cancel])
    bench.attach("b1")
    bench.place()
    bench.pass(.seconds(3))
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes("b1") == [.ring, .cancel])
  }

  @Test("what it says by HTTP is no socket: the end is pushed") func alertingWithoutASocket() {
    var bench = sleeping("b1", can: [.cancel])
    bench.place()
    bench.say(.call(Bench.callID, .alerting), device: "b1", session: SessionRef(edge: 9, number: 9))
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes("b1") == [.ring, .cancel])
  }

  // MARK: What is under way when it ends

  private func withdrawn(_ bench: Bench) -> Int {
    bench.effects.count {
      if case .withdrawPushes(Bench.callID) = $0 { true } else { false }
    }
  }

  @Test("R4: a ring of which nothing is known is withdrawn when the call ends", arguments: 0..<3)
  func withdrawnAtTheEnd(how: Int) {
    var bench = sleeping("b1")
    bench.attach("b2")
    bench.place(seconds: 20)
    switch how {
    case 0: bench.caller(.call(Bench.callID, .cancel))
    case 1: bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")
    default: bench.pass(.seconds(21))
    }
    #expect(withdrawn(bench) == 1)
    bench.caller(.call(Bench.callID, .hangUp))
    bench.pass(.seconds(5))
    #expect(withdrawn(bench) == 1, "once")
  }

  @Test("R4: also where the device has attached meanwhile: its push may be on its way yet")
  func withdrawnThoughAttached() {
    var bench = sleeping("b1")
    bench.place()
    bench.attach("b1")
    bench.caller(.call(Bench.callID, .cancel))
    #expect(withdrawn(bench) == 1)
  }

  @Test("what the provider has is not withdrawn") func notWithdrawn() {
    var bench = sleeping("b1")
    bench.place()
    bench.report(.accepted, "b1")
    bench.caller(.call(Bench.callID, .cancel))
    #expect(withdrawn(bench) == 0)
    var plain = Bench()
    plain.attach("b1")
    plain.place()
    plain.caller(.call(Bench.callID, .cancel))
    #expect(withdrawn(plain) == 0)
  }

  @Test("a push of unknown fate fails: no ring is counted on, but its clean-up is sent")
  func unknownFate() {
    var bench = sleeping("b1", can: [.cancel])
    bench.attach("b2")
    bench.place()
    bench.report(.failed(reason: "no answer", mayHaveArrived: true), "b1")
    bench.say(.sessionClosed(graceful: true), device: "b2")
    #expect(bench.ends.map(\.reason) == [.unreachable], "nobody is waited for")
    #expect(bench.pushes("b1") == [.ring, .cancel])
  }

  @Test("a push that surely did not arrive has nothing to clean up") func surelyNot() {
    var bench = sleeping("b1", can: [.cancel])
    bench.place()
    bench.report(.failed(reason: "refused"), "b1")
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(bench.pushes("b1") == [.ring])
  }

  @Test("a push of unknown fate did arrive: who attaches is told over the socket alone")
  func unknownFateArrived() {
    var bench = sleeping("b1", can: [.cancel])
    bench.attach("b2")
    bench.place()
    bench.report(.failed(reason: "no answer", mayHaveArrived: true), "b1")
    bench.attach("b1")
    bench.acknowledgeAll()
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes("b1") == [.ring])
    #expect(bench.stops("b1").count == 1)
  }

  // MARK: A new owner

  @Test(
    "R10: it alerted, its socket broke, it was pushed: the new owner still expects it",
    arguments: [false, true])
  func alertedThenPushed(checkpoint: Bool) {
    var bench = sleeping("b1", can: [.cancel])
    bench.attach("b1")
    bench.place(seconds: 60)
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(5))
    #expect(bench.pushes("b1") == [.ring])
    var next = bench.takenOver(checkpoint: checkpoint, registered: ["b1"])
    next.caller(.call(Bench.callID, .resume))
    next.pass(.seconds(20))
    #expect(next.ends.isEmpty, "it rings to its deadline, as with the first owner")
    next.caller(.call(Bench.callID, .cancel))
    #expect(next.pushes("b1").last == .cancel)
  }

  // MARK: Pushes switched off

  @Test("who waits for a push when none may go any more is not waited for") func switchedOff() {
    var bench = sleeping("b1")
    bench.attach("b1")
    bench.place(seconds: 120)
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.shard.mayPush = false
    bench.pass(.seconds(25))
    #expect(bench.pushes.isEmpty)
    #expect(bench.ends.map(\.reason) == [.unreachable], "not at the deadline, two minutes later")
  }

  @Test("a job that the queue has not taken is offered for as long as the call rings")
  func stillWanted() throws {
    var bench = sleeping("b1", "b2", can: [.cancel])
    bench.place()
    let ring = try #require(bench.pushes.first { $0.device == "b1" })
    let other = try #require(bench.pushes.first { $0.device == "b2" })
    #expect(bench.shard.isStillWanted(ring))
    bench.attach("b1")
    #expect(!bench.shard.isStillWanted(ring), "it is there")
    #expect(bench.shard.isStillWanted(other))
    bench.caller(.call(Bench.callID, .cancel))
    #expect(!bench.shard.isStillWanted(other))
    let cleanUp = try #require(bench.pushes.first { $0.purpose == .cancel })
    #expect(bench.shard.isStillWanted(cleanUp))
  }

  // MARK: The store

  @Test("R13: a token is taken while its device is being removed: nothing is written behind that")
  func takenWhileRemoved() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    _ = bench.take()
    #expect(bench.say(.unregister("b1"), device: "b1") == nil)
    let taken = TokenTaken(
      fingerprint: "fp-v1", byUser: "carol", byDevice: "c1", at: Timestamp(microseconds: 1))
    #expect(bench.say(.tokenTaken(taken), device: "b1")?.error == .tryAgain)
    #expect(stores(bench).isEmpty, "a put behind the removal would bring the device back")
    bench.answerStores()
    #expect(bench.registration("b1") == nil)
    #expect(bench.say(.tokenTaken(taken), device: "b1") == .done)
    #expect(stores(bench).isEmpty)
  }

  @Test("R13: asked again while the loss is being stored: not confirmed before the store has it")
  func askedAgainWhileStoring() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    _ = bench.take()
    let taken = TokenTaken(
      fingerprint: "fp-v1", byUser: "carol", byDevice: "c1", at: Timestamp(microseconds: 1))
    #expect(bench.say(.tokenTaken(taken), device: "b1") == nil)
    let puts = bench.effects.compactMap { effect -> UInt64? in
      if case .store(_, let token) = effect { return token }
      return nil
    }
    #expect(puts.count == 1)
    #expect(bench.say(.tokenTaken(taken), device: "b1", again: true)?.error == .tryAgain)
    // The write fails: the store has the token yet, and the next question brings it there anew.
    for token in puts {
      bench.run { $0.registrationStored(token: token, ok: false, now: $1, into: &$2) }
    }
    _ = bench.take()
    #expect(bench.say(.tokenTaken(taken), device: "b1", again: true) == nil)
    #expect(stores(bench).count == 1)
    bench.answerStores()
    #expect(bench.effects.contains { if case .reply(_, _, .done) = $0 { true } else { false } })
    #expect(bench.say(.tokenTaken(taken), device: "b1", again: true) == .done)
  }

  @Test("a device that attaches while it is being removed is not written again")
  func seenWhileRemoved() {
    var bench = sleeping("b1")
    bench.pass(day)
    bench.pass(day)
    bench.say(.unregister("b1"), device: "b1")
    bench.attach("b1")
    #expect(stores(bench).isEmpty)
    bench.answerStores()
    #expect(bench.registration("b1") == nil)
  }

  @Test("R12, R13: removed and registered anew at once: the new claim stands")
  func claimOfTheNextRegistration() {
    var bench = sleeping("b1")
    bench.say(.unregister("b1"), device: "b1")
    bench.say(.register(RegistrationRequest(voipToken: Bench.voip("b1"))), device: "b1")
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
    var bench = sleeping("b1")
    bench.place()
    bench.pass(.seconds(1))
    bench.say(.register(RegistrationRequest(voipToken: Bench.voip("b1"))), device: "b1")
    let report = PushReport(
      call: Bench.callID, device: "b1", purpose: .ring, fingerprint: "fp-b1",
      outcome: .tokenGone(at: bench.now), at: bench.now)
    bench.say(.pushReport(report), device: "b1")
    bench.answerStores()
    #expect(bench.registration("b1")?.request.voipToken?.token == "b1")
    #expect(bench.released.isEmpty)
  }

  @Test("R13: tokens there and back: only what is not had again is released") func thereAndBack() {
    var bench = sleeping("b1")
    bench.enrol("b1", voip: "other")
    #expect(bench.released == ["fp-b1"])
    _ = bench.take()
    // The one back is being claimed while the one between is stored.
    bench.say(.register(RegistrationRequest(voipToken: Bench.voip("third"))), device: "b1")
    bench.say(.register(RegistrationRequest(voipToken: Bench.voip("other"))), device: "b1")
    bench.answerStores()
    #expect(!bench.released.contains("fp-other"))
  }

  private func stores(_ bench: Bench) -> [Registration] {
    bench.effects.compactMap { effect -> Registration? in
      if case .store(let registration, _) = effect { return registration }
      return nil
    }
  }

  // MARK: Seen

  @Test("a device that is attached is not the one unseen for longest") func attachedIsSeen() {
    var bench = sleeping("desk")
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

  @Test(
    "a socket that lasted for months is not forgotten when it breaks", arguments: [false, true])
  func longSocket(graceful: Bool) {
    var bench = sleeping("desk")
    bench.attach("desk")
    _ = bench.take()
    bench.pass(Span(microseconds: day.microseconds * 100))
    bench.say(.sessionClosed(graceful: graceful), device: "desk")
    #expect(stores(bench).map(\.seenAt) == [bench.now], "the store knows, too")
    bench.answerStores()
    bench.pass(Span(microseconds: day.microseconds * 89))
    bench.answerStores()
    #expect(bench.registration("desk") != nil)
    bench.pass(Span(microseconds: day.microseconds * 2))
    bench.answerStores()
    #expect(bench.registration("desk") == nil)
  }

  // MARK: Legs

  @Test("one user's sockets make a call no larger than its limit") func manySockets() {
    var bench = Bench()
    bench.enrol("b1", voip: "b1", can: [])
    for number in 0..<300 { bench.attach("socket\(number)") }
    bench.place()
    let legs = bench.shard.inspect(call: Bench.callID)?.legs.map(\.party.device.text) ?? []
    #expect(Set(legs) == Set(["b1"] + (0..<19).map { "socket\($0)" }), "all that could attach ring")
    for number in 0..<300 {
      bench.say(.call(Bench.callID, .alerting), device: "socket\(number)")
      bench.say(.call(CallID(high: 1, low: 1), .answer(description: "")), device: "socket\(number)")
    }
    #expect(bench.shard.inspect(call: Bench.callID)?.legs.count == CallLimits().legsPerCallLifetime)
    let late = bench.say(.call(Bench.callID, .answer(description: "")), device: "socket299")
    #expect(late?.error == .tooManyDevices, "it is not told that it lost while the call rings")
    #expect(
      bench.say(.call(Bench.callID, .decline(.here)), device: "socket299")?.error == .tooManyDevices
    )
  }
}
