import CallCore
import Testing

/// R12 and R13: tokens that go, and tokens that change hands.
@Suite struct TokenTests {
  let day = Span.seconds(86_400)

  /// b1 sleeps, and has its token.
  private func enrolled(alert: String? = nil, can: PushCapabilities = []) -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: alert, can: can)
    return bench
  }

  // MARK: R12

  @Test("R12: a token reported gone goes, is stored so, and its claim is released") func gone() {
    var bench = enrolled(alert: "a1")
    bench.pass(.seconds(1))
    bench.place()
    _ = bench.take()
    let reply = bench.sendReport(.tokenGone(at: bench.now), token: "v1")
    #expect(reply == nil, "not before it is stored")
    #expect(bench.stores.map(\.request.voipToken) == [nil])
    #expect(bench.stores.map(\.request.alertToken?.token) == ["a1"])
    bench.answerStores()
    #expect(bench.released == ["fp-v1"])
    #expect(bench.effects.contains { $0.isDone })
    #expect(bench.ends.map(\.reason) == [.unreachable])
    bench.place(CallID(high: 9, low: 1))
    #expect(bench.pushes("b1").contains(.ring) == false)
  }

  @Test("R12: only the token that was reported; without a time, as registered before the answer")
  func anotherToken() {
    var bench = enrolled()
    var forgotten = bench
    bench.place()
    bench.enrol("b1", voip: "v2", can: [])
    #expect(bench.report(.tokenGone(at: nil), "b1", token: "v1") == .done)
    #expect(bench.registration("b1")?.request.voipToken?.token == "v2")
    forgotten.pass(.seconds(1))
    #expect(forgotten.report(.tokenGone(at: nil), "b1", token: "v1") == .done, "of no known call")
    #expect(forgotten.registration("b1")?.request.voipToken == nil)
  }

  @Test("R12: only when it was registered before the report") func registeredSince() {
    var bench = enrolled()
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

  @Test("R12: a registration is in flight: the report waits for it") func inFlight() {
    var bench = enrolled()
    bench.place()
    bench.pass(.seconds(1))
    bench.register(voip: "v1")
    answer(&bench, .read(nil, revision: 0))
    answer(&bench, .claimed)
    let gone = PushOutcome.tokenGone(at: bench.now)
    #expect(bench.sendReport(gone, token: "v1")?.error == .tryAgain)
    bench.answerStores()
    #expect(bench.report(gone, "b1", token: "v1") == .done)
    #expect(bench.registration("b1")?.request.voipToken?.token == "v1", "newer than the report")
  }

  @Test("R12: the store fails: retransmitted, it is stored again") func storeFails() {
    var bench = enrolled()
    bench.pass(.seconds(1))
    _ = bench.take()
    let gone = PushOutcome.tokenGone(at: bench.now)
    bench.sendReport(gone, token: "v1")
    bench.refuseStores()
    #expect(bench.effects.contains { $0.refuses(.tryAgain) })
    _ = bench.take()
    bench.sendReport(gone, token: "v1", again: true)
    #expect(bench.effects.contains { $0.isForStore })
    bench.answerStores()
    #expect(bench.effects.contains { $0.isDone })
    _ = bench.take()
    #expect(bench.sendReport(gone, token: "v1", again: true) == .done)
    #expect(!bench.effects.contains { $0.isForStore }, "the store has it")
  }

  @Test("other outcomes touch no token") func otherOutcomes() {
    var bench = enrolled()
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
    var bench = enrolled(alert: "a1")
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
    var bench = enrolled(can: .cancel)
    bench.place()
    bench.say(.unregister("b1"), device: "b1")
    bench.answerStores()
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(bench.pushes("b1") == [.ring])
  }

  @Test("a device is seen when it attaches, which is written once a day") func seen() {
    var bench = enrolled()
    let registered = bench.now
    _ = bench.take()
    bench.pass(.seconds(86_000))
    bench.attach("b1")
    #expect(!bench.effects.contains { $0.isForStore })
    bench.pass(.seconds(500))
    bench.attach("b1", edge: 2)
    #expect(bench.stores.map(\.seenAt) == [bench.now])
    #expect(bench.stores.first?.registeredAt == registered, "its tokens are not newer for that")
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
    bench.register(voip: "v1")
    #expect(steps(bench).isEmpty)
    bench.answerStores()
    #expect(bench.registration("b1") != nil)
  }

  // MARK: R13

  func steps(_ bench: Bench) -> [TokenStep] {
    bench.effects.compactMap { if case .token(let step, _) = $0 { step } else { nil } }
  }

  private func pending(_ bench: Bench) -> [UInt64] {
    bench.effects.compactMap { if case .token(_, let token) = $0 { token } else { nil } }
  }

  func answer(_ bench: inout Bench, _ result: TokenStepResult) {
    let pending = pending(bench)
    _ = bench.take()
    for token in pending {
      bench.run { $0.tokenStepDone(token: token, result, now: $1, into: &$2) }
    }
  }

  /// b1 registers a token that is not claimed yet.
  private func claiming() -> Bench {
    var bench = Bench()
    bench.register(voip: "v1")
    return bench
  }

  func former(_ user: String, _ device: String) -> TokenOwner {
    TokenOwner(
      user: UserKey(app: Bench.app, user: user), device: DeviceID(device),
      claimedAt: Timestamp(microseconds: 5))
  }

  @Test("R13: read, tell the former owner, claim what was read, store, reply") func takesOver() {
    var bench = claiming()
    #expect(steps(bench) == [.read(fingerprint: "fp-v1", app: Bench.app)])
    answer(&bench, .read(former("carol", "c1"), revision: 42))
    #expect(
      steps(bench) == [
        .notify(
          former: former("carol", "c1"),
          TokenTaken(fingerprint: "fp-v1", byUser: "bob", byDevice: "b1", at: bench.now))
      ])
    answer(&bench, .notified)
    #expect(steps(bench) == [.claim(fingerprint: "fp-v1", mine(bench), expecting: 42)])
    answer(&bench, .claimed)
    #expect(bench.registration("b1") == nil, "not before it is stored")
    bench.answerStores()
    #expect(bench.registration("b1")?.request.voipToken?.token == "v1")
    #expect(bench.effects.contains { $0.isRegistered })
  }

  @Test("R13: both tokens of a registration, one after the other") func twoTokens() {
    var bench = Bench()
    bench.say(
      .register(RegistrationRequest(voipToken: Bench.voip("v1"), alertToken: Bench.alert("a1"))),
      device: "b1")
    var seen: [TokenStep] = []
    while let step = steps(bench).first {
      seen.append(step)
      if case .read = step {
        answer(&bench, .read(nil, revision: 3))
      } else {
        answer(&bench, .claimed)
      }
    }
    let expected = ["fp-v1", "fp-a1"].flatMap {
      [
        TokenStep.read(fingerprint: $0, app: Bench.app),
        .claim(fingerprint: $0, mine(bench), expecting: 3),
      ]
    }
    #expect(seen == expected)
  }

  @Test("R13: what is its own already is claimed anew, so that a racing claim fails") func ownAnew()
  {
    var bench = claiming()
    answer(&bench, .read(former("bob", "b1"), revision: 9))
    #expect(steps(bench) == [.claim(fingerprint: "fp-v1", mine(bench), expecting: 9)])
  }

  private func mine(_ bench: Bench) -> TokenOwner {
    TokenOwner(user: UserKey(app: Bench.app, user: "bob"), device: "b1", claimedAt: bench.now)
  }

  @Test("R13: somebody else was faster: read again, tell that one") func raced() {
    var bench = claiming()
    answer(&bench, .read(nil, revision: 0))
    answer(&bench, .changed)
    #expect(steps(bench) == [.read(fingerprint: "fp-v1", app: Bench.app)])
    answer(&bench, .read(former("dave", "d1"), revision: 2))
    let taken = TokenTaken(fingerprint: "fp-v1", byUser: "bob", byDevice: "b1", at: bench.now)
    #expect(steps(bench) == [.notify(former: former("dave", "d1"), taken)])
  }

  @Test("R13: a failing step answers try again, as does an endless race") func failingSteps() {
    for failing in 0..<3 {
      var bench = Bench()
      bench.register(voip: "v1")
      if failing > 0 { answer(&bench, .read(former("carol", "c1"), revision: 1)) }
      if failing > 1 { answer(&bench, .notified) }
      answer(&bench, .failed)
      #expect(bench.effects.contains { $0.refuses(.tryAgain) })
      #expect(steps(bench).isEmpty)
      #expect(bench.registration("b1") == nil)
      _ = bench.take()
      #expect(bench.enrol("b1", voip: "v1") != nil, "the next attempt begins anew")
      #expect(bench.registration("b1") != nil)
    }
    var bench = claiming()
    for _ in 0..<5 {
      answer(&bench, .read(nil, revision: 0))
      answer(&bench, .changed)
    }
    #expect(bench.effects.contains { $0.refuses(.tryAgain) })
  }

  @Test("R9, R13: a register retransmitted while it waits is answered once") func saidAgain() {
    var bench = claiming()
    bench.register(voip: "v1", again: true)
    #expect(steps(bench).count == 1)
    bench.answerStores()
    #expect(bench.effects.count { $0.isRegistered } == 1)
  }

  @Test("a later registration of the device takes the place of one that waits") func superseded() {
    var bench = Bench()
    bench.register(voip: "old")
    let late = pending(bench)
    bench.register(voip: "new")
    #expect(bench.effects.contains { $0.refuses(.tryAgain) })
    bench.answerStores()
    for token in late {
      bench.run { $0.tokenStepDone(token: token, .claimed, now: $1, into: &$2) }
    }
    #expect(bench.registration("b1")?.request.voipToken?.token == "new")
    #expect(!bench.effects.contains { $0.isForStore })
  }

  @Test("unregister overtakes a registration that waits") func unregisterOvertakes() {
    var bench = claiming()
    #expect(bench.say(.unregister("b1"), device: "b1") == .done)
    answer(&bench, .claimed)
    bench.answerStores()
    #expect(bench.registration("b1") == nil)
  }

  // MARK: R13, the other side

  func taken(_ token: String = "v1") -> Command.Body {
    .tokenTaken(
      TokenTaken(
        fingerprint: "fp-\(token)", byUser: "carol", byDevice: "c1",
        at: Timestamp(microseconds: 1)))
  }

  @Test("R13: the former device loses the token in mid-ring, and its leg with it") func midRing() {
    var bench = enrolled(can: .cancel)
    bench.attach("b2")
    bench.place()
    #expect(bench.pushes("b1") == [.ring])
    _ = bench.take()
    #expect(bench.say(taken(), device: "b1") == nil, "confirmed once it is stored")
    #expect(bench.registration("b1")?.request.voipToken == nil, "gone at once")
    let leg = bench.shard.inspect(call: Bench.callID)?.legs.first { $0.party.device == "b1" }
    #expect(leg?.state == "gone")
    bench.answerStores()
    #expect(bench.effects.contains { $0.isDone })
    bench.caller(.cancel)
    #expect(bench.pushes.isEmpty, "nothing goes to a token that is another's")
    #expect(bench.released.isEmpty, "the claim is the other's to write")
  }

  @Test("R13: the only leg: unreachable at once; with a session it rings on") func onlyLeg() {
    var bench = enrolled()
    var attached = bench
    bench.place()
    bench.say(taken(), device: "b1")
    #expect(bench.ends.map(\.reason) == [.unreachable])
    attached.attach("b1")
    attached.place()
    attached.say(taken(), device: "b1")
    let notices = attached.effects.compactMap {
      if case .notice(Bench.session("b1"), let notice) = $0 { notice.kind } else { nil }
    }
    #expect(notices == [.tokenTaken])
    attached.pass(.seconds(20))
    #expect(attached.ends.isEmpty)
    #expect(attached.pushes.isEmpty, "silence wakes nobody without a token")
  }

  @Test("R13: retransmitted, or to whoever has no such token: confirmed") func saidAgainToFormer() {
    var bench = Bench()
    #expect(bench.say(taken(), device: "nobody") == .done)
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.say(taken(), device: "b1")
    bench.answerStores()
    #expect(bench.say(taken(), device: "b1", again: true) == .done)
    #expect(bench.say(taken("x"), device: "b1") == .done)
    #expect(bench.registration("b1")?.request.alertToken?.token == "a1")
  }

  @Test("R13: its own registration under way gives way, or the taker waits")
  func whileRegistering() {
    var bench = claiming()
    #expect(bench.say(taken(), device: "b1") == .done)
    #expect(bench.effects.contains { $0.refuses(.tryAgain) }, "before it is stored it gives way")
    var storing = claiming()
    answer(&storing, .read(nil, revision: 0))
    answer(&storing, .claimed)
    #expect(storing.say(taken(), device: "b1")?.error == .tryAgain)
    storing.answerStores()
    storing.say(taken(), device: "b1", again: true)
    storing.answerStores()
    #expect(storing.registration("b1")?.request.voipToken == nil)
  }

  @Test(
    "R13: the former owner is in this shard: no message; its leg is gone in mid-ring",
    arguments: [false, true])
  func sameShard(isRinging: Bool) {
    var bench = enrolled()
    if isRinging { bench.place() } else { bench.attach("b1") }
    _ = bench.take()
    bench.register("b9", voip: "v1")
    answer(&bench, .read(former("bob", "b1"), revision: 4))
    #expect(bench.registration("b1")?.request.voipToken == nil)
    #expect(bench.effects.contains { $0.isTokenNotice } == !isRinging)
    #expect(steps(bench).isEmpty, "first the store")
    #expect(bench.effects.count { $0.isForStore } == 1)
    bench.answerStores()
    #expect(bench.registration("b9")?.request.voipToken?.token == "v1")
    #expect(bench.registration("b1")?.request.voipToken == nil)
    #expect(bench.ends.map(\.reason) == (isRinging ? [.unreachable] : []))
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
