import CallCore
import Testing

/// R12 and R13: tokens that go, and tokens that change hands.
@Suite struct TokenTests {
  let day = Span.seconds(86_400)

  // MARK: R12

  @Test("R12: a token reported gone goes, is stored so, and its claim is released") func gone() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.pass(.seconds(1))
    bench.place()
    _ = bench.take()
    let report = PushReport(
      call: Bench.callID, device: "b1", purpose: .ring, fingerprint: "fp-v1",
      outcome: .tokenGone(at: bench.now), at: bench.now)
    #expect(bench.say(.pushReport(report), device: "b1") == nil, "not before it is stored")
    let stored = bench.effects.compactMap { effect -> Registration? in
      if case .store(let registration, _) = effect { return registration }
      return nil
    }
    #expect(stored.count == 1)
    #expect(stored.first?.request.voipToken == nil)
    #expect(stored.first?.request.alertToken?.token == "a1")
    bench.answerStores()
    #expect(bench.released == ["fp-v1"])
    #expect(bench.effects.contains { $0.isDone })
    #expect(bench.ends.map(\.reason) == [.unreachable])
    bench.place(CallID(high: 9, low: 1))
    #expect(bench.pushes("b1").contains(.ring) == false)
  }

  @Test("R12: only the token that was reported") func anotherToken() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.place()
    bench.enrol("b1", voip: "v2", can: [])
    #expect(bench.report(.tokenGone(at: nil), "b1", token: "v1") == .done)
    #expect(bench.registration("b1")?.request.voipToken?.token == "v2")
  }

  @Test("R12: only when it was registered before the report") func registeredSince() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.place()
    bench.pass(.seconds(2))
    let since = bench.now
    bench.pass(.seconds(1))
    bench.enrol("b1", voip: "v1", can: [])
    #expect(bench.registration("b1")?.registeredAt == bench.now, "fresh, also for the same token")
    #expect(bench.report(.tokenGone(at: since), "b1", token: "v1") == .done)
    #expect(bench.registration("b1")?.request.voipToken?.token == "v1")
    bench.pass(.seconds(1))
    #expect(bench.report(.tokenGone(at: bench.now), "b1", token: "v1") == .done)
    #expect(bench.registration("b1")?.request.voipToken == nil)
  }

  @Test("R12: without a time, what was registered before the answer goes") func noTime() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.pass(.seconds(1))
    #expect(bench.report(.tokenGone(at: nil), "b1", token: "v1") == .done, "of a forgotten call")
    #expect(bench.registration("b1")?.request.voipToken == nil)
  }

  @Test("R12: a registration is in flight: the report waits for it") func inFlight() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.place()
    bench.pass(.seconds(1))
    bench.say(
      .register(RegistrationRequest(voipToken: Bench.voip("v1"))), device: "b1", callee: "bob")
    for case .token(_, let token) in bench.take() {
      bench.run { $0.tokenStepDone(token: token, .read(nil, revision: 0), now: $1, into: &$2) }
    }
    for case .token(_, let token) in bench.take() {
      bench.run { $0.tokenStepDone(token: token, .claimed, now: $1, into: &$2) }
    }
    let report = PushReport(
      call: Bench.callID, device: "b1", purpose: .ring, fingerprint: "fp-v1",
      outcome: .tokenGone(at: bench.now), at: bench.now)
    #expect(bench.say(.pushReport(report), device: "b1")?.error == .tryAgain)
    bench.answerStores()
    #expect(bench.report(.tokenGone(at: report.at), "b1", token: "v1", at: report.at) == .done)
    #expect(bench.registration("b1")?.request.voipToken?.token == "v1", "newer than the report")
  }

  @Test("R12: the store fails: retransmitted, it is stored again") func storeFails() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.pass(.seconds(1))
    _ = bench.take()
    let report = PushReport(
      call: Bench.callID, device: "b1", purpose: .ring, fingerprint: "fp-v1",
      outcome: .tokenGone(at: bench.now), at: bench.now)
    bench.say(.pushReport(report), device: "b1")
    for case .store(_, let token) in bench.take() {
      bench.run { $0.registrationStored(token: token, ok: false, now: $1, into: &$2) }
    }
    #expect(bench.effects.contains { $0.refuses(.tryAgain) })
    _ = bench.take()
    bench.say(.pushReport(report), device: "b1", again: true)
    #expect(bench.effects.contains { $0.isForStore })
    bench.answerStores()
    #expect(bench.effects.contains { $0.isDone })
    _ = bench.take()
    #expect(bench.say(.pushReport(report), device: "b1", again: true) == .done)
    #expect(!bench.effects.contains { $0.isForStore }, "the store has it")
  }

  @Test("other outcomes touch no token") func otherOutcomes() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.place()
    for outcome: PushOutcome in [
      .accepted, .rejected(reason: "BadTopic"), .expired, .failed(reason: "x"),
    ] {
      #expect(bench.report(outcome, "b1", token: "v1") == .done)
    }
    #expect(bench.registration("b1")?.request.voipToken != nil)
    #expect(bench.report(.accepted, "stranger", token: "v1") == .done)
  }

  // MARK: Registrations come and go

  @Test("claims are released: unregister, other tokens, expiry, the device cap") func released() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    _ = bench.take()
    bench.enrol("b1", voip: "v2", alert: "a1")
    #expect(bench.released == ["fp-v1"])
    _ = bench.take()
    bench.say(.unregister("b1"), device: "b1")
    bench.answerStores()
    #expect(bench.released == ["fp-v2", "fp-a1"])
    _ = bench.take()
    bench.enrol("b2", voip: "v3")
    bench.pass(Span(microseconds: 91 * day.microseconds))
    bench.answerStores()
    #expect(bench.registration("b2") == nil, "expired while its shard lives")
    #expect(bench.released == ["fp-v3"])
    var full = Bench()
    for number in 0..<11 {
      full.now = full.now + .seconds(1)
      full.enrol("d\(number)", voip: "t\(number)")
    }
    #expect(full.released == ["fp-t0"])
  }

  @Test("logging out in mid-ring: the leg is gone") func logOut() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [.cancel])
    bench.place()
    bench.say(.unregister("b1"), device: "b1")
    bench.answerStores()
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(bench.pushes("b1") == [.ring])
  }

  @Test("a device is seen when it attaches, which is written once a day") func seen() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1")
    let registered = bench.now
    _ = bench.take()
    bench.pass(.seconds(86_000))
    bench.attach("b1")
    #expect(!bench.effects.contains { $0.isForStore })
    bench.pass(.seconds(500))
    bench.attach("b1", edge: 2)
    let stored = bench.effects.compactMap { effect -> Registration? in
      if case .store(let registration, _) = effect { return registration }
      return nil
    }
    #expect(stored.map(\.seenAt) == [bench.now])
    #expect(stored.first?.registeredAt == registered, "its tokens are not newer for that")
    bench.answerStores()
    _ = bench.take()
    bench.attach("b1", edge: 3)
    #expect(!bench.effects.contains { $0.isForStore })
  }

  @Test("a token without a fingerprint is stored unclaimed, and rings") func olderEdge() {
    var bench = Bench()
    var token = Bench.voip("v1")
    token.fingerprint = ""
    bench.say(.register(RegistrationRequest(voipToken: token)), device: "b1")
    #expect(steps(bench).isEmpty)
    bench.answerStores()
    bench.place()
    #expect(bench.pushes("b1") == [.ring])
    let report = PushReport(
      call: Bench.callID, device: "b1", purpose: .ring, fingerprint: "",
      outcome: .tokenGone(at: nil), at: bench.now + .seconds(1))
    #expect(bench.say(.pushReport(report), device: "b1") == .done)
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(bench.registration("b1")?.request.voipToken != nil, "nobody can say which it was")
  }

  @Test("before every node reads of pushes nothing is claimed") func switchedOff() {
    var bench = Bench()
    bench.shard.mayPush = false
    begin(&bench)
    #expect(steps(bench).isEmpty)
    bench.answerStores()
    #expect(bench.registration("b1") != nil)
  }
}

extension Effect {
  func refuses(_ code: CallError.Code) -> Bool {
    if case .reply(_, _, .error(let error)) = self { error.code == code } else { false }
  }

  var isDone: Bool {
    if case .reply(_, _, .done) = self { true } else { false }
  }

  var isRegistered: Bool {
    if case .reply(_, _, .registered) = self { true } else { false }
  }

  var isTokenNotice: Bool {
    if case .notice(_, let notice) = self { notice.kind == .tokenTaken } else { false }
  }
}
