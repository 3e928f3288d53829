import CallCore
import Testing

/// R12 and R13 in apps with webhooks: the app's stream has that a registration or a token is gone before the store loses it.
@Suite struct GoneEventTests {
  private static let bob = UserKey(app: Bench.app, user: "bob")

  /// b1 has registered two tokens a second ago.
  private func bench(keeps: StoredParts = .events) -> Bench {
    var bench = Bench()
    bench.shard.storedParts = keeps
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
    next.shard.storedParts = .events
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
  @Test(arguments: [Subscriptions.webhooks, .history]) func jobsSayWhetherTheAppLearnsIt(
    subscriptions: Subscriptions
  ) {
    var bench = bench()
    bench.say(
      .place(PlaceRequest(call: Bench.callID, subscriptions: subscriptions)), user: "alice",
      device: "alice1")
    #expect(bench.pushes.map(\.hasWebhooks) == [subscriptions == .webhooks])
  }

  // MARK: Ends of registrations

  /// b1 and b2 have registered while the app had webhooks.
  private func followed(limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    bench.shard.storedParts = .events
    bench.enrol("b1", voip: "v1", alert: "a1", hasWebhooks: true)
    bench.pass(.seconds(1))
    bench.enrol("b2", hasWebhooks: true)
    _ = bench.take()
    return bench
  }

  /// How a registration ends.
  enum Way: CaseIterable {
    case unregistered, removed, expired, displaced

    var cause: GoneCause {
      switch self {
      case .unregistered: .unregistered
      case .removed: .removed
      case .expired: .expired
      case .displaced: .displaced
      }
    }
  }

  /// b1's registration is to end.
  private func end(_ way: Way, _ bench: inout Bench) {
    switch way {
    case .unregistered: bench.say(.unregister("b1"), device: "b1")
    case .removed: bench.server(.remove("b1"))
    case .expired:
      bench.pass(Span(microseconds: bench.shard.limits.registrationLifetime.microseconds * 2))
    case .displaced:
      // Else it gives way first, since it cannot be woken.
      bench.enrol("b2", voip: "v2", hasWebhooks: true)
      let request = RegistrationRequest(voipToken: Bench.voip("v3"))
      bench.say(.register(request), device: "b3", devicesPerUser: 2, hasWebhooks: true)
      bench.answerClaims()
    }
  }

  @Test("the stream, then the store, then the reply", arguments: Way.allCases)
  func ends(way: Way) throws {
    var bench = followed()
    let registered = try #require(bench.registration("b1")?.registeredAt)
    end(way, &bench)
    let events = takeEvents(&bench)
    let first = try #require(events.first { $0.event.gone?.device == "b1" })
    #expect(
      first.event.gone
        == GoneRegistration(
          device: "b1", deviceName: "Bob's b1", cause: way.cause, registeredAt: registered))
    #expect(first.event.callee == Self.bob && first.event.kind == .gone)
    #expect(events.count == (way == .expired ? 2 : 1), "both were away for too long")
    let removals = bench.effects.count { if case .remove = $0 { true } else { false } }
    #expect(removals == 0 && !isDone(bench) && bench.registration("b1") != nil)
    for event in events { stored(event.token, &bench) }
    #expect(!isDone(bench))
    bench.answerStores()
    #expect(bench.registration("b1") == nil)
    #expect(isDone(bench) == (way == .unregistered || way == .removed))
    #expect(Set(bench.released) == ["fp-v1", "fp-a1"])
  }

  @Test("without webhooks the store is asked at once", arguments: Way.allCases)
  func untold(way: Way) {
    for keeps in [StoredParts.events, .record] {
      var bench = Bench()
      bench.shard.storedParts = keeps
      bench.enrol("b1", voip: "v1", hasWebhooks: keeps != .events)
      bench.enrol("b2", hasWebhooks: keeps != .events)
      _ = bench.take()
      end(way, &bench)
      #expect(takeEvents(&bench).isEmpty)
      bench.answerStores()
      #expect(bench.registration("b1") == nil)
    }
  }

  @Test("a request that is retransmitted has one reply; another one is to be repeated")
  func retransmitted() throws {
    var bench = followed()
    bench.say(.unregister("b1"), device: "b1")
    let token = try #require(takeEvents(&bench).first?.token)
    #expect(bench.say(.unregister("b1"), device: "b1", again: true) == nil)
    #expect(bench.server(.remove("b1"))?.error == .tryAgain)
    #expect(takeEvents(&bench).isEmpty)
    stored(token, &bench)
    bench.answerStores()
    #expect(bench.effects.count { $0.isDone } == 1)
    #expect(bench.server(.remove("b1")) == .done)
  }

  @Test("whoever registers anew meanwhile keeps that", arguments: [Way.unregistered, .removed])
  func again(way: Way) throws {
    var bench = followed()
    bench.attach("b1")
    end(way, &bench)
    let token = try #require(takeEvents(&bench).first?.token)
    bench.pass(.seconds(1))
    bench.enrol("b1", voip: "v2", hasWebhooks: true)
    _ = bench.take()
    stored(token, &bench)
    #expect(isDone(bench) && bench.registration("b1")?.request.voipToken != nil)
    let closed = bench.effects.contains { if case .close = $0 { true } else { false } }
    #expect(closed == (way == .removed), "the app's server also ends the session")
    // The new registration ends with an event of its own.
    let first = try #require(bench.registration("b1")?.registeredAt)
    bench.say(.unregister("b1"), device: "b1")
    #expect(takeEvents(&bench).map(\.event.gone?.registeredAt) == [first])
  }

  @Test("a registration that is on its way to the store ends with an event, too")
  func onItsWay() throws {
    var bench = Bench()
    bench.shard.storedParts = .events
    bench.say(.register(RegistrationRequest()), device: "b1", hasWebhooks: true)
    bench.say(.unregister("b1"), device: "b1")
    let token = try #require(takeEvents(&bench).first?.token)
    bench.answerStores()
    #expect(bench.registration("b1") != nil)
    stored(token, &bench)
    bench.answerStores()
    #expect(bench.registration("b1") == nil)
  }

  @Test("an expired device that comes back meanwhile stays") func back() throws {
    var bench = followed()
    end(.expired, &bench)
    let events = takeEvents(&bench)
    bench.attach("b1")
    for event in events { stored(event.token, &bench) }
    bench.answerStores()
    #expect(bench.registration("b1") != nil && bench.registration("b2") == nil)
  }

  @Test("R10 a new owner that is asked again stores the same event") func newOwner() throws {
    var bench = followed()
    bench.say(.unregister("b1"), device: "b1")
    let first = try #require(takeEvents(&bench).first?.event)
    var next = bench.takenOver(checkpoint: true, registered: ["b1"])
    next.shard.storedParts = .events
    _ = next.take()
    next.say(.unregister("b1"), device: "b1")
    let second = try #require(takeEvents(&next).first?.event)
    #expect(second.subject == first.subject && second.gone == first.gone)
  }

  @Test("R13 the former owner's app learns that a token is taken, before that is confirmed")
  func taken() throws {
    var bench = followed()
    let taken = Command.Body.tokenTaken(
      TokenTaken(fingerprint: "fp-v1", byUser: "carol", byDevice: "c1", at: bench.now))
    #expect(bench.say(taken, device: "b1") == nil)
    let events = takeEvents(&bench)
    let first = try #require(events.first)
    #expect(events.count == 1 && first.event.gone?.cause == .taken)
    #expect(first.event.gone?.fingerprint == "fp-v1" && first.event.gone?.isVoIP == true)
    #expect(bench.say(taken, device: "b1", again: true) == nil)
    #expect(takeEvents(&bench).isEmpty, "retransmitted")
    #expect(!isDone(bench) && writes(bench) == 0)
    stored(first.token, &bench)
    bench.answerStores()
    #expect(isDone(bench) && bench.registration("b1")?.request.voipToken == nil)
    #expect(bench.registration("b1")?.request.alertToken != nil)
  }

  @Test("R13 a claim in the same shard goes on once the app's stream has the event")
  func takenHere() throws {
    var bench = followed()
    bench.say(
      .register(RegistrationRequest(voipToken: Bench.voip("v1"))), device: "b2", hasWebhooks: true)
    bench.answerStores(owner: TokenOwner(user: Self.bob, device: "b1", claimedAt: bench.now))
    let events = takeEvents(&bench)
    #expect(events.map(\.event.gone?.cause) == [.taken])
    #expect(bench.registration("b2")?.request.voipToken == nil)
    stored(try #require(events.first?.token), &bench)
    bench.answerStores()
    #expect(bench.registration("b1")?.request.voipToken == nil)
    #expect(bench.registration("b2")?.request.voipToken != nil)
  }

  @Test("no more of them wait than registrations may") func limit() {
    var limits = CallLimits()
    limits.registrationsWaiting = 2
    var bench = followed(limits: limits)
    bench.say(.unregister("b1"), device: "b1")
    bench.say(.unregister("b2"), device: "b2")
    #expect(takeEvents(&bench).count == 2)
    bench.enrol("b3", hasWebhooks: true)
    #expect(bench.registration("b3") == nil)
    let taken = Command.Body.tokenTaken(
      TokenTaken(fingerprint: "fp-v1", byUser: "carol", byDevice: "c1", at: bench.now))
    #expect(bench.say(taken, device: "b1")?.error == .tryAgain)
    #expect(takeEvents(&bench).isEmpty)
  }
}
