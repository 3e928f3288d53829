import CallCore
import Testing

/// R12 of apps with webhooks: the app's stream has that a token is gone before the store loses it.
@Suite struct GoneEventTests {
  private static let bob = UserKey(app: Bench.app, user: "bob")

  /// b1 has registered two tokens a second ago.
  private func bench(keeps: StoredParts = .events) -> Bench {
    var bench = Bench()
    bench.shard.keeps = keeps
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.pass(.seconds(1))
    _ = bench.take()
    return bench
  }

  private func gone(
    _ token: String, at: Timestamp, since: Timestamp? = nil, hasWebhooks: Bool = true
  ) -> PushReport {
    PushReport(
      call: Bench.callID, device: "b1", purpose: .ring, fingerprint: "fp-\(token)",
      outcome: .tokenGone(at: since), at: at, hasWebhooks: hasWebhooks)
  }

  /// The events that wait for the stream, with their tokens. Takes them away.
  private func takeEvents(_ bench: inout Bench) -> [(event: AppEvent, token: UInt64)] {
    let found = bench.effects.compactMap { effect -> (event: AppEvent, token: UInt64)? in
      if case .deviceEvent(let event, let token) = effect { (event, token) } else { nil }
    }
    bench.effects.removeAll { if case .deviceEvent = $0 { true } else { false } }
    return found
  }

  private func writes(_ bench: Bench) -> Int { bench.effects.count { $0.isForStore } }

  private func isDone(_ bench: Bench) -> Bool { bench.effects.contains { $0.isDone } }

  private func stored(_ token: UInt64, _ bench: inout Bench) {
    bench.run { $0.appEventStored(token: token, now: $1, into: &$2) }
  }

  @Test func theStreamFirstThenTheStoreThenTheReply() throws {
    var bench = bench()
    let registered = try #require(bench.registration("b1")?.registeredAt)
    #expect(bench.say(.pushReport(gone("v1", at: bench.now)), device: "b1") == nil)
    let events = takeEvents(&bench)
    let first = try #require(events.first)
    #expect(events.count == 1 && writes(bench) == 0)
    #expect(
      first.event
        == AppEvent(
          GoneRegistration(
            device: "b1", deviceName: "Bob's b1", provider: .apns, isVoIP: true,
            fingerprint: "fp-v1", registeredAt: registered), of: Self.bob, at: bench.now))
    #expect(bench.registration("b1")?.request.voipToken != nil)
    stored(first.token, &bench)
    #expect(writes(bench) == 1 && !isDone(bench))
    bench.answerStores()
    #expect(isDone(bench))
    #expect(bench.registration("b1")?.request.voipToken == nil)
    #expect(bench.registration("b1")?.request.alertToken != nil)
    #expect(bench.released == ["fp-v1"])
    // The gateway did not get the reply.
    #expect(bench.say(.pushReport(gone("v1", at: bench.now)), device: "b1") == .done)
    #expect(takeEvents(&bench).isEmpty)
  }

  @Test func theTimeIsTheProvidersWhereItGaveOne() throws {
    var bench = bench()
    let since = Timestamp(microseconds: bench.now.microseconds - 500_000)
    bench.say(.pushReport(gone("a1", at: bench.now, since: since)), device: "b1")
    let event = try #require(takeEvents(&bench).first?.event)
    #expect(event.at == since && event.gone?.isVoIP == false && event.kind == .gone)
  }

  @Test(arguments: [(StoredParts.events, false), (.record, true)])
  func withoutWebhooksTheStoreIsFirst(keeps: StoredParts, hasWebhooks: Bool) {
    var bench = bench(keeps: keeps)
    bench.say(
      .pushReport(gone("v1", at: bench.now, hasWebhooks: hasWebhooks)), device: "b1")
    #expect(takeEvents(&bench).isEmpty && writes(bench) == 1)
  }

  @Test func whatIsNotRemovedIsNotTold() {
    var bench = bench()
    let before = Timestamp(microseconds: bench.now.microseconds - 60_000_000)
    #expect(
      bench.say(.pushReport(gone("v1", at: bench.now, since: before)), device: "b1") == .done,
      "it registered since")
    #expect(bench.say(.pushReport(gone("other", at: bench.now)), device: "b1") == .done)
    #expect(takeEvents(&bench).isEmpty && writes(bench) == 0)
  }

  @Test func meanwhileReportsOfTheDeviceAreToBeRepeated() throws {
    var bench = bench()
    bench.say(.pushReport(gone("v1", at: bench.now)), device: "b1")
    let token = try #require(takeEvents(&bench).first?.token)
    for other in ["v1", "a1"] {
      let reply = bench.say(.pushReport(gone(other, at: bench.now)), device: "b1")
      #expect(reply?.error == .tryAgain)
    }
    #expect(takeEvents(&bench).isEmpty)
    stored(token, &bench)
    bench.answerStores()
    bench.say(.pushReport(gone("a1", at: bench.now)), device: "b1")
    #expect(takeEvents(&bench).count == 1)
  }

  @Test func whoRegistersMeanwhileKeepsItsToken() throws {
    var bench = bench()
    bench.say(.pushReport(gone("v1", at: bench.now)), device: "b1")
    let token = try #require(takeEvents(&bench).first?.token)
    bench.pass(.seconds(1))
    bench.enrol("b1", voip: "v1", alert: "a1")
    _ = bench.take()
    stored(token, &bench)
    #expect(isDone(bench) && writes(bench) == 0)
    #expect(bench.registration("b1")?.request.voipToken != nil)
  }

  /// The former owner died when the stream had the event: the gateway repeats its report.
  @Test func aNewOwnerStoresTheSameEvent() throws {
    var bench = bench()
    let report = gone("v1", at: bench.now)
    bench.say(.pushReport(report), device: "b1")
    let first = try #require(takeEvents(&bench).first?.event)
    var next = bench.takenOver(checkpoint: true, registered: ["b1"])
    next.shard.keeps = .events
    _ = next.take()
    next.say(.pushReport(report), device: "b1")
    let second = try #require(takeEvents(&next).first?.event)
    #expect(second == first)
    var later = report
    later.at = report.at + .seconds(5)
    bench.say(.pushReport(later), device: "b1")
    #expect(second.subject == first.subject && second.line == first.line)
  }

  /// The shard of a device does not know whether the app has webhooks: gateways repeat it.
  @Test(arguments: [Follows.webhooks, .history]) func jobsSayWhetherTheAppLearnsIt(follows: Follows)
  {
    var bench = bench()
    bench.say(
      .place(PlaceRequest(call: Bench.callID, follows: follows)), user: "alice", device: "alice1")
    #expect(bench.pushes.map(\.hasWebhooks) == [follows == .webhooks])
  }
}
