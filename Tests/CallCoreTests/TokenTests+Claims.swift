import CallCore
import Testing

/// A registration claims its tokens.
extension TokenTests {
  // MARK: R13

  func steps(_ bench: Bench) -> [TokenStep] {
    bench.effects.compactMap { if case .token(let step, _) = $0 { step } else { nil } }
  }

  func answer(_ bench: inout Bench, _ result: TokenStepResult) {
    let pending = bench.effects.compactMap { effect -> UInt64? in
      if case .token(_, let token) = effect { return token }
      return nil
    }
    _ = bench.take()
    for token in pending {
      bench.run { $0.tokenStepDone(token: token, result, now: $1, into: &$2) }
    }
  }

  func begin(_ bench: inout Bench, _ device: String = "b1", _ token: String = "v1") {
    bench.say(.register(RegistrationRequest(voipToken: Bench.voip(token))), device: device)
  }

  func former(_ user: String, _ device: String) -> TokenOwner {
    TokenOwner(
      user: UserKey(app: Bench.app, user: user), device: DeviceID(device),
      claimedAt: Timestamp(microseconds: 5))
  }

  @Test("R13: read, tell the former owner, claim what was read, store, reply") func takesOver() {
    var bench = Bench()
    begin(&bench)
    #expect(steps(bench) == [.read(fingerprint: "fp-v1", app: Bench.app)])
    answer(&bench, .read(former("carol", "c1"), revision: 42))
    #expect(
      steps(bench) == [
        .notify(
          former: former("carol", "c1"),
          TokenTaken(fingerprint: "fp-v1", byUser: "bob", byDevice: "b1", at: bench.now))
      ])
    answer(&bench, .notified)
    let mine = TokenOwner(
      user: UserKey(app: Bench.app, user: "bob"), device: "b1", claimedAt: bench.now)
    #expect(steps(bench) == [.claim(fingerprint: "fp-v1", mine, expecting: 42)])
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
    let mine = TokenOwner(
      user: UserKey(app: Bench.app, user: "bob"), device: "b1", claimedAt: bench.now)
    #expect(
      seen == [
        .read(fingerprint: "fp-v1", app: Bench.app),
        .claim(fingerprint: "fp-v1", mine, expecting: 3),
        .read(fingerprint: "fp-a1", app: Bench.app),
        .claim(fingerprint: "fp-a1", mine, expecting: 3),
      ])
  }

  @Test("R13: what is its own already is claimed anew, so that a racing claim fails") func ownAnew()
  {
    var bench = Bench()
    begin(&bench)
    answer(&bench, .read(former("bob", "b1"), revision: 9))
    guard case .claim(_, _, 9) = steps(bench).first else {
      Issue.record("not claimed anew")
      return
    }
  }

  @Test("R13: somebody else was faster: read again, tell that one") func raced() {
    var bench = Bench()
    begin(&bench)
    answer(&bench, .read(nil, revision: 0))
    answer(&bench, .changed)
    #expect(steps(bench) == [.read(fingerprint: "fp-v1", app: Bench.app)])
    answer(&bench, .read(former("dave", "d1"), revision: 2))
    guard case .notify(let owner, _) = steps(bench).first else {
      Issue.record("the faster one is not told")
      return
    }
    #expect(owner.user.user == "dave")
  }

  @Test("R13: a failing step answers try again; a race that does not end, too")
  func failingSteps() {
    for failing in 0..<3 {
      var bench = Bench()
      begin(&bench)
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
    var bench = Bench()
    begin(&bench)
    for _ in 0..<5 {
      answer(&bench, .read(nil, revision: 0))
      answer(&bench, .changed)
    }
    #expect(bench.effects.contains { $0.refuses(.tryAgain) })
  }

  @Test("R9, R13: a register retransmitted while it waits is answered once") func saidAgain() {
    var bench = Bench()
    begin(&bench)
    bench.say(
      .register(RegistrationRequest(voipToken: Bench.voip("v1"))), device: "b1", again: true)
    #expect(steps(bench).count == 1)
    bench.answerStores()
    let replies = bench.effects.filter(\.isRegistered)
    #expect(replies.count == 1)
  }

  @Test("a later registration of the device takes the place of one that waits") func superseded() {
    var bench = Bench()
    begin(&bench, "b1", "old")
    let late = bench.effects.compactMap { effect -> UInt64? in
      if case .token(_, let token) = effect { return token }
      return nil
    }
    begin(&bench, "b1", "new")
    #expect(bench.effects.contains { $0.refuses(.tryAgain) })
    bench.answerStores()
    for token in late {
      bench.run { $0.tokenStepDone(token: token, .claimed, now: $1, into: &$2) }
    }
    #expect(bench.registration("b1")?.request.voipToken?.token == "new")
    #expect(!bench.effects.contains { $0.isForStore })
  }

  @Test("unregister overtakes a registration that waits") func unregisterOvertakes() {
    var bench = Bench()
    begin(&bench)
    #expect(bench.say(.unregister("b1"), device: "b1") == .done)
    answer(&bench, .claimed)
    bench.answerStores()
    #expect(bench.registration("b1") == nil)
  }
}
