import CallCore
import Testing

/// Registrations on their way to the store.
extension PushCornerTests {
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

  func stores(_ bench: Bench) -> [Registration] {
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
