import CallCore
import Testing

/// R12 and R13 in apps with webhooks: the app's stream has it first that a registration or a token is gone, then the
/// store.
@Suite struct GoneEventTests {
  private static let bob = UserKey(app: Bench.app, user: "bob")

  /// b1 has registered two tokens, and b2 none a second later.
  private func registered(
    keeps: StoredParts = .events, hasWebhooks: Bool = true, limits: CallLimits = CallLimits()
  ) -> Bench {
    var bench = Bench(limits: limits)
    bench.shard.storedParts = keeps
    bench.enrol("b1", voip: "v1", alert: "a1", hasWebhooks: hasWebhooks)
    bench.pass(.seconds(1))
    bench.enrol("b2", hasWebhooks: hasWebhooks)
    _ = bench.take()
    return bench
  }

  private func refused(
    _ token: String, _ bench: Bench, since: Timestamp? = nil, hasWebhooks: Bool = true
  ) -> Command.Body {
    .pushReport(
      PushReport(
        call: Bench.callID, device: "b1", purpose: .ring, fingerprint: "fp-\(token)",
        outcome: .tokenGone(at: since), at: bench.now, hasWebhooks: hasWebhooks))
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

  private func dones(_ bench: Bench) -> Int { bench.effects.count { $0.isDone } }

  private func stored(_ token: UInt64, _ bench: inout Bench) {
    bench.run { $0.appEventStored(token: token, now: $1, into: &$2) }
  }

  /// How b1's registration ends, or its VoIP token.
  typealias Way = GoneCause

  @discardableResult
  private func end(
    _ way: Way, _ bench: inout Bench, again: Bool = false, hasWebhooks: Bool = true
  ) -> Reply? {
    switch way {
    case .refused:
      return bench.say(refused("v1", bench, hasWebhooks: hasWebhooks), device: "b1", again: again)
    case .taken:
      let taken = TokenTaken(fingerprint: "fp-v1", byUser: "carol", byDevice: "c1", at: bench.now)
      return bench.say(.tokenTaken(taken), device: "b1", again: again)
    case .unregistered: return bench.say(.unregister("b1"), device: "b1", again: again)
    case .removed: return bench.server(.remove("b1"))
    case .expired:
      bench.pass(Span(microseconds: bench.shard.limits.registrationLifetime.microseconds * 2))
    case .displaced:
      // Else it gives way first, since it cannot be woken.
      bench.enrol("b2", voip: "v2", hasWebhooks: true)
      let request = RegistrationRequest(voipToken: Bench.voip("v3"))
      bench.say(.register(request), device: "b3", devicesPerUser: 2, hasWebhooks: true)
      bench.answerClaims()
    }
    return nil
  }

  private func isGone(_ way: Way, _ bench: Bench) -> Bool {
    let request = bench.registration("b1")?.request
    return way.isOfToken
      ? request?.voipToken == nil && request?.alertToken != nil : request == nil
  }

  @Test("a token that is claimed again and again while the stream is away waits once")
  func claimedAgain() {
    var bench = registered(limits: .with { $0.registrationsWaiting = 4 })
    for _ in 0..<6 { #expect(end(.taken, &bench) == nil) }
    let events = takeEvents(&bench)
    #expect(events.count == 1)
    bench.enrol("b3", hasWebhooks: true)
    #expect(bench.registration("b3") != nil)
    events.first.map { stored($0.token, &bench) }
    bench.answerStores()
    #expect(isGone(.taken, bench))
  }

  @Test("the stream, then the store, then the reply", arguments: Way.allCases)
  func ends(way: Way) throws {
    var bench = registered()
    let former = try #require(bench.registration("b1"))
    #expect(end(way, &bench) == nil)
    let events = takeEvents(&bench)
    let first = try #require(events.first { $0.event.gone?.device == "b1" }).event
    let gone = GoneRegistration(
      device: "b1", deviceName: "Bob's b1", cause: way, provider: way.isOfToken ? .apns : .none,
      isVoIP: way.isOfToken, fingerprint: way.isOfToken ? "fp-v1" : "",
      registeredAt: former.registeredAt)
    #expect(first == AppEvent(gone, of: Self.bob, at: way == .expired ? first.at : bench.now))
    #expect(events.count == (way == .expired ? 2 : 1), "both were away for too long")
    if way == .unregistered || way == .taken {
      #expect(end(way, &bench, again: true) == nil, "retransmitted")
      #expect(takeEvents(&bench).isEmpty)
    }
    let removals = bench.effects.count { if case .remove = $0 { true } else { false } }
    #expect(removals == 0 && (!way.isOfToken || writes(bench) == 0) && dones(bench) == 0)
    #expect(bench.registration("b1") == former)
    for event in events { stored(event.token, &bench) }
    #expect(dones(bench) == 0)
    if way == .refused { #expect(writes(bench) == 1) }
    bench.answerStores()
    #expect(isGone(way, bench) && dones(bench) == (way.isRequest ? 1 : 0))
    if way == .taken { return }
    if way == .refused { #expect(bench.released.count == 1) }
    #expect(Set(bench.released) == (way == .refused ? ["fp-v1"] : ["fp-v1", "fp-a1"]))
    if !way.isRequest { return }
    #expect(end(way, &bench) == .done, "the reply was lost")
    #expect(takeEvents(&bench).isEmpty)
  }

  @Test(
    "without webhooks the store is asked at once", arguments: Way.allCases,
    [StoredParts.events, .record])
  func untold(way: Way, keeps: StoredParts) {
    var bench = registered(keeps: keeps, hasWebhooks: keeps != .events)
    #expect(end(way, &bench, hasWebhooks: keeps != .events) == nil, "not before the store has it")
    #expect(takeEvents(&bench).isEmpty)
    if way == .refused { #expect(writes(bench) == 1) }
    bench.answerStores()
    #expect(isGone(way, bench))
  }

  @Test func theTimeIsTheProvidersWhereItGaveOne() throws {
    var bench = registered()
    let since = bench.now + .milliseconds(-500)
    bench.say(refused("a1", bench, since: since), device: "b1")
    let event = try #require(takeEvents(&bench).first?.event)
    #expect(event.at == since && event.gone?.isVoIP == false && event.kind == .gone)
  }

  @Test("a report says whether the app has webhooks, whatever the registration says")
  func aReportSaysIt() {
    var bench = registered(hasWebhooks: false)
    #expect(end(.refused, &bench) == nil)
    #expect(takeEvents(&bench).count == 1 && writes(bench) == 0)
  }

  @Test func whatIsNotRemovedIsNotTold() {
    var bench = registered()
    let before = refused("v1", bench, since: bench.now + .seconds(-60))
    #expect(bench.say(before, device: "b1") == .done, "it registered since")
    #expect(bench.say(refused("other", bench), device: "b1") == .done)
    #expect(takeEvents(&bench).isEmpty && writes(bench) == 0)
  }

  @Test func meanwhileOtherRequestsAboutTheDeviceAreToBeRepeated() throws {
    var bench = registered()
    end(.refused, &bench)
    let token = try #require(takeEvents(&bench).first?.token)
    for other in ["v1", "a1"] {
      #expect(bench.say(refused(other, bench), device: "b1")?.error == .tryAgain)
    }
    #expect(bench.say(.unregister("b1"), device: "b1")?.error == .tryAgain)
    #expect(bench.server(.remove("b1"))?.error == .tryAgain)
    #expect(takeEvents(&bench).isEmpty)
    stored(token, &bench)
    bench.answerStores()
    bench.say(refused("a1", bench), device: "b1")
    #expect(takeEvents(&bench).count == 1)
  }

  @Test(
    "whoever registers anew meanwhile keeps that",
    arguments: [Way.refused, .unregistered, .removed])
  func again(way: Way) throws {
    var bench = registered()
    bench.attach("b1")
    end(way, &bench)
    let token = try #require(takeEvents(&bench).first?.token)
    bench.pass(.seconds(1))
    bench.enrol("b1", voip: way == .refused ? "v1" : "v2", hasWebhooks: true)
    _ = bench.take()
    stored(token, &bench)
    #expect(dones(bench) == 1 && writes(bench) == 0)
    #expect(bench.registration("b1")?.request.voipToken != nil)
    #expect(bench.closed.isEmpty == (way != .removed), "the app's server also ends the session")
    // The new registration ends with an event of its own.
    let first = try #require(bench.registration("b1")?.registeredAt)
    bench.say(.unregister("b1"), device: "b1")
    #expect(takeEvents(&bench).map(\.event.gone?.registeredAt) == [first])
  }

  /// The former owner died when the stream had the event.
  @Test(
    "R10 a new owner that is asked again stores the same event",
    arguments: [Way.refused, .unregistered])
  func newOwner(way: Way) throws {
    var bench = registered()
    end(way, &bench)
    let first = try #require(takeEvents(&bench).first?.event)
    var next = bench.takenOver(checkpoint: true, registered: ["b1"])
    next.shard.storedParts = .events
    _ = next.take()
    end(way, &next)
    #expect(takeEvents(&next).map(\.event) == [first])
    // Later it has the same identity.
    next = bench.takenOver(checkpoint: true, registered: ["b1"], after: .seconds(5))
    next.shard.storedParts = .events
    end(way, &next)
    let later = try #require(takeEvents(&next).first?.event)
    #expect(later.subject == first.subject && later.line == first.line)
    #expect(later.gone == first.gone)
  }

  /// The shard of a device does not know whether the app has webhooks: gateways repeat it.
  @Test(arguments: [Subscriptions.webhooks, .history])
  func jobsSayWhetherTheAppLearnsIt(subscriptions: Subscriptions) {
    var bench = registered()
    bench.caller(.place(PlaceRequest(call: Bench.callID, subscriptions: subscriptions)))
    #expect(bench.pushes.map(\.hasWebhooks) == [subscriptions == .webhooks])
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
    var bench = registered()
    end(.expired, &bench)
    let events = takeEvents(&bench)
    bench.attach("b1")
    for event in events { stored(event.token, &bench) }
    bench.answerStores()
    #expect(bench.registration("b1") != nil && bench.registration("b2") == nil)
  }

  @Test("R13 a claim in the same shard goes on once the app's stream has the event")
  func takenHere() throws {
    var bench = registered()
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
    var bench = registered(limits: .with { $0.registrationsWaiting = 2 })
    for device in ["b1", "b2"] { bench.say(.unregister(DeviceID(device)), device: device) }
    #expect(takeEvents(&bench).count == 2)
    bench.enrol("b3", hasWebhooks: true)
    #expect(bench.registration("b3") == nil)
    #expect(end(.taken, &bench)?.error == .tryAgain)
    #expect(takeEvents(&bench).isEmpty)
  }
}

extension GoneCause {
  fileprivate var isOfToken: Bool { self == .refused || self == .taken }
  /// Somebody waits for the reply.
  fileprivate var isRequest: Bool { self != .expired && self != .displaced }
}
