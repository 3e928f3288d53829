import CallCore
import Testing

/// A registration goes only for what is true of its token. Gateways report what providers answered.
@Suite struct TokenStandingTests {
  private let hours = Span.seconds(3600)
  private let unknown = PushOutcome.tokenRefused(reason: "BadDeviceToken")

  /// bob's phone sleeps; its VoIP token was registered a minute ago.
  private func bench(hasWebhooks: Bool = false) -> Bench {
    var bench = Bench()
    if hasWebhooks { bench.shard.storedParts = .events }
    bench.enrol("b1", voip: "b1", can: [], hasWebhooks: hasWebhooks)
    bench.pass(.seconds(60))
    return bench
  }

  private func standing(_ bench: Bench) -> TokenStanding? {
    bench.registration("b1")?.standings.first
  }

  private func place(_ bench: inout Bench, _ number: UInt64) -> PushJob? {
    _ = bench.take()
    bench.place(CallID(high: 9, low: number))
    return bench.pushes.first
  }

  @Test func jobsSayWhatIsKnownOfTheToken() {
    var bench = bench()
    #expect(place(&bench, 1)?.trust == .unproven)
    bench.report(.accepted, "b1")
    #expect(place(&bench, 2)?.trust == .proven)
    bench.report(unknown, "b1")
    #expect(place(&bench, 3)?.trust == .doubted)
    bench.report(.accepted, "b1")
    #expect(place(&bench, 4)?.trust == .proven)
  }

  @Test("the reply follows once the store has it; a repetition changes nothing") func isStored() {
    var bench = bench()
    #expect(bench.sendReport(.accepted, token: "b1") == nil)
    #expect(standing(bench) == nil)
    #expect(bench.sendReport(.accepted, token: "b1", again: true)?.error == .tryAgain)
    bench.answerStores()
    #expect(standing(bench) == TokenStanding(fingerprint: "fp-b1", isProven: true))
    #expect(bench.sendReport(.accepted, token: "b1", again: true) == .done)
    #expect(bench.effects.allSatisfy { !$0.isForStore })
  }

  @Test("who registers anew keeps what was found of its token, but no doubts")
  func registersAnew() {
    var bench = bench()
    bench.report(.acceptedIn(environment: "sandbox"), "b1")
    let job = place(&bench, 1)
    #expect(job?.token.environment == "sandbox", "the next push goes there at once")
    #expect(job?.trust == .proven)
    bench.pass(hours)
    bench.report(unknown, "b1")
    #expect(standing(bench)?.refusals == 1)
    bench.enrol("b1", voip: "b1", can: [])
    #expect(standing(bench) == TokenStanding(fingerprint: "fp-b1", isProven: true))
    #expect(bench.registration("b1")?.request.voipToken?.environment == "sandbox")
    bench.enrol("b1", voip: "b2", can: [])
    #expect(standing(bench) == nil)
    #expect(bench.registration("b1")?.request.voipToken?.environment == Bench.production)
  }

  @Test("a token goes after three refusals half a day apart, none accepted between")
  func goesInTheEnd() {
    var bench = bench()
    bench.report(.accepted, "b1")
    for (pause, refusals) in [(0, 1), (1, 1), (10, 1), (1, 2), (11, 2)] as [(Int64, UInt32)] {
      bench.pass(.seconds(pause * 3600))
      #expect(bench.report(unknown, "b1") == .done)
      #expect(standing(bench)?.refusals == refusals, "\(pause)")
    }
    bench.report(.accepted, "b1")
    #expect(standing(bench)?.refusals == 0)
    for _ in 0..<2 {
      bench.pass(.seconds(12 * 3600))
      bench.report(unknown, "b1")
    }
    #expect(bench.registration("b1")?.request.voipToken != nil)
    bench.pass(.seconds(12 * 3600))
    _ = bench.take()
    #expect(bench.report(unknown, "b1") == .done)
    #expect(bench.registration("b1")?.request.voipToken == nil)
    #expect(bench.registration("b1")?.standings == [])
    #expect(bench.released == ["fp-b1"])
  }

  @Test("the app with webhooks learns of it before the store loses the token") func isTold() {
    var bench = bench(hasWebhooks: true)
    func report(_ bench: inout Bench) -> Reply? {
      var report = PushReport(
        call: Bench.callID, device: "b1", purpose: .ring, fingerprint: "fp-b1", outcome: unknown,
        at: bench.now, hasWebhooks: true)
      report.trust = .doubted
      return bench.say(.pushReport(report), device: "b1")
    }
    for _ in 0..<2 {
      _ = report(&bench)
      bench.answerStores()
      bench.pass(.seconds(12 * 3600))
    }
    _ = bench.take()
    #expect(report(&bench) == nil)
    let events = bench.effects.compactMap { effect -> (AppEvent, UInt64)? in
      if case .deviceEvent(let event, let token) = effect { (event, token) } else { nil }
    }
    #expect(events.map(\.0.gone?.cause) == [.refused])
    #expect(bench.effects.allSatisfy { !$0.isForStore })
    for (_, token) in events { bench.run { $0.appEventStored(token: token, now: $1, into: &$2) } }
    bench.answerStores()
    #expect(bench.registration("b1")?.request.voipToken == nil)
  }

  @Test("a token that was never accepted goes with its first refusal, unless that may be our fault")
  func neverAccepted() {
    var bench = bench()
    #expect(bench.report(unknown, "b1") == .done)
    #expect(standing(bench)?.refusals == 1)
    let sure = PushOutcome.tokenRefused(reason: "BadDeviceToken", isSure: true)
    #expect(bench.report(sure, "b1", at: bench.now + .seconds(-120)) == .done, "R12")
    #expect(bench.registration("b1")?.request.voipToken != nil)
    #expect(bench.report(sure, "b1") == .done)
    #expect(bench.registration("b1")?.request.voipToken == nil)
  }

  @Test("R12: accepted since the push was decided that was refused: it stays") func acceptedSince()
  {
    var bench = bench()
    bench.report(.accepted, "b1")
    bench.report(.tokenRefused(reason: "BadDeviceToken", isSure: true), "b1")
    #expect(standing(bench)?.refusals == 1)
    #expect(bench.registration("b1")?.request.voipToken != nil)
  }

  @Test("R12: a refusal before the registration, or of another token, does not count")
  func earlier() {
    var bench = bench()
    #expect(bench.report(unknown, "b1", at: bench.now + .seconds(-120)) == .done)
    #expect(bench.report(unknown, "b1", token: "other") == .done)
    #expect(standing(bench) == nil)
  }

  @Test("the store is away: nothing is noted, and the gateway repeats its report") func storeAway()
  {
    var bench = bench()
    bench.sendReport(.accepted, token: "b1")
    bench.refuseStores()
    #expect(standing(bench) == nil)
    #expect(bench.effects.contains { if case .reply(_, _, .error) = $0 { true } else { false } })
    #expect(bench.sendReport(.accepted, token: "b1", again: true) == nil, "it is stored now")
  }
}
