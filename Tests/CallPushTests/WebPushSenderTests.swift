import CallBus
import CallCore
import CallPush
import CallTestKit
import CallWire
import Crypto
import Foundation
import Testing

/// A sender and a push service or two, on one clock.
private final class Stage: Sendable {
  let hand = HandClock()
  let authority: LoopbackAuthority
  let keyFile: String
  let services: [WebPushSimulator]
  let sender: WebPushSender

  init(services count: Int = 1, limits: SenderLimits? = nil) async throws {
    authority = try LoopbackAuthority()
    keyFile = NSTemporaryDirectory() + "/callmesh-vapid-\(UUID().uuidString).pem"
    let key = P256.Signing.PrivateKey()
    try Data(key.pemRepresentation.utf8).write(to: URL(filePath: keyFile))
    let hand = hand
    var services: [WebPushSimulator] = []
    var configuration = WebPushConfiguration(
      name: "web", keyFile: keyFile, subject: "mailto:push@example.com")
    for _ in 0..<count {
      let service = try await WebPushSimulator.start(
        authority: authority,
        applicationServerKey: Base64URL.text(Array(key.publicKey.x963Representation))
      ) { hand.nowSeconds }
      services.append(service)
      configuration.furtherHosts.append("localhost:\(service.port)")
    }
    self.services = services
    configuration.caFile = authority.caFile
    configuration.allowsPrivateAddresses = true
    if let limits { configuration.limits = limits }
    sender = try WebPushSender(configuration, environment: hand.environment())
  }

  var service: WebPushSimulator { services[0] }
  var now: Timestamp { hand.clock.now() }

  func message(
    _ subscription: String, seconds: Int64 = 30, purpose: PushPurpose = .ring,
    payload: String = #"{"call":"c1"}"#, collapseKey: String = ""
  ) -> PushMessage {
    .test(
      .webPush, token: subscription, purpose: purpose, payload: payload,
      deadline: now + .seconds(seconds), collapseKey: collapseKey)
  }

  func send(_ message: PushMessage) async -> PushOutcome { await sender.send(message) }

  func end() async {
    await sender.close()
    for service in services {
      await service.stop()
      #expect(service.violations == [])
    }
    try? FileManager.default.removeItem(atPath: keyFile)
  }
}

private let quick: SenderLimits = {
  var limits = SenderLimits()
  limits.attemptTimeout = .seconds(2)
  return limits
}()

@Suite("Web Push, sending", .timeLimit(.minutes(1)))
struct WebPushSenderTests {
  @Test func aPushIsDecryptedByItsBrowser() async throws {
    let stage = try await Stage()
    _ = stage.service.subscribe()
    let second = stage.service.subscribe()
    let text = #"{"call":"c1","name":"Zoë"}"#
    #expect(
      await stage.send(stage.message(second, payload: text, collapseKey: "call-c1")) == .accepted)
    let accepted = try #require(stage.service.accepted.first)
    #expect(accepted.subscription == 1)
    #expect(accepted.text == Array(text.utf8))
    #expect(accepted.ttlSeconds == 30)
    #expect(accepted.urgency == "high")
    #expect(accepted.topic == "call-c1")
    #expect(accepted.httpVersion == 2)
    await stage.end()
  }

  @Test func manyToOneServiceShareAConnectionAndAnAuthorization() async throws {
    let stage = try await Stage()
    let subscriptions = (0..<200).map { _ in stage.service.subscribe() }
    let outcomes = await withTaskGroup(of: PushOutcome.self) { group in
      for subscription in subscriptions {
        group.addTask { await stage.send(stage.message(subscription)) }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(outcomes == Array(repeating: .accepted, count: 200))
    let accepted = stage.service.accepted
    #expect(Set(accepted.map(\.authorization)).count == 1)
    #expect(Set(accepted.map(\.salt)).count == 200)
    #expect(Set(accepted.map(\.subscription)).count == 200)
    #expect(stage.sender.statistics.snapshot.outcomes[.accepted] == 200)
    await stage.end()
  }

  @Test func anAuthorizationIsRenewedBeforeItEnds() async throws {
    let stage = try await Stage()
    let subscription = stage.service.subscribe()
    for _ in 0..<30 {
      #expect(await stage.send(stage.message(subscription)) == .accepted)
      stage.hand.advance(seconds: 3600)
    }
    #expect(Set(stage.service.accepted.map(\.authorization)).count == 5)
    await stage.end()
  }

  @Test func timeToLiveAndUrgency() async throws {
    let stage = try await Stage()
    let subscription = stage.service.subscribe()
    var message = stage.message(subscription, purpose: .missedNotice)
    message.deadline = stage.now + .seconds(60 * 86_400)
    #expect(await stage.send(message) == .accepted)
    message = stage.message(subscription, purpose: .cancel)
    message.deadline = stage.now + .milliseconds(9900)
    #expect(await stage.send(message) == .accepted)
    #expect(stage.service.accepted.map(\.ttlSeconds) == [2_419_200, 9])
    #expect(stage.service.accepted.map(\.urgency) == ["normal", "high"])
    #expect(stage.service.accepted.map(\.topic) == [nil, nil])
    message.deadline = stage.now
    #expect(await stage.send(message) == .expired)
    await stage.end()
  }

  @Test(
    arguments: [
      ("abc-_09Z", "abc-_09Z"),
      ("abcdefghijklmnopqrstuvwxyz012345", "abcdefghijklmnopqrstuvwxyz012345"),
      ("abcdefghijklmnopqrstuvwxyz0123456", nil), ("call:1", nil), ("ä", nil),
    ] as [(String, String?)])
  func aTopicIsTheCollapseKeyOrStandsForIt(_ key: String, _ topic: String?) async throws {
    let stage = try await Stage()
    let subscription = stage.service.subscribe()
    for _ in 0..<2 {
      #expect(
        await stage.send(stage.message(subscription, collapseKey: key)) == .accepted)
    }
    let topics = stage.service.accepted.map(\.topic)
    #expect(topics[0] == topics[1])
    if let topic {
      #expect(topics[0] == topic)
    } else {
      #expect(topics[0]?.utf8.count == 32)
    }
    await stage.end()
  }

  @Test func whatIsTooLongOrNoSubscriptionIsNotSent() async throws {
    let stage = try await Stage()
    let subscription = stage.service.subscribe()
    let most = String(repeating: "x", count: WebPushEncryption.textBytesMax)
    #expect(await stage.send(stage.message(subscription, payload: most)) == .accepted)
    #expect(
      await stage.send(stage.message(subscription, payload: most + "x"))
        == .rejected(reason: "the payload is longer than 3993 bytes"))
    #expect(
      await stage.send(stage.message("{}"))
        == .rejected(reason: "this is no Web Push subscription"))
    let other = PushMessage.test(
      .fcm, token: subscription, deadline: stage.now + .seconds(30))
    #expect(
      await stage.send(other) == .rejected(reason: "this is no Web Push subscription"))
    #expect(stage.service.requests == 1)
    await stage.end()
  }

  @Test func endpointsOutsideTheListGetNothing() async throws {
    let stage = try await Stage()
    let subscription = stage.service.subscribe()
    let strict = try WebPushSender(
      WebPushConfiguration(
        name: "web", keyFile: stage.keyFile, subject: "mailto:push@example.com"),
      environment: stage.hand.environment())
    #expect(
      await strict.send(stage.message(subscription))
        == .rejected(reason: "the endpoint is an address, not a push service"))
    let elsewhere = subscription.replacingOccurrences(of: "localhost", with: "127.0.0.1")
    #expect(
      await stage.send(stage.message(elsewhere))
        == .rejected(reason: "the endpoint is at no push service of the list"))
    #expect(stage.service.requests == 0)
    await strict.close()
    await stage.end()
  }

  @Test func redirectsAreNotFollowed() async throws {
    let stage = try await Stage(services: 2)
    let subscription = stage.services[0].subscribe()
    _ = stage.services[1].subscribe()
    for status in [301, 302, 303, 307, 308] {
      stage.services[0].script.add(
        .answer(status: status, headers: [("location", stage.services[1].origin + "/push/0")]))
      #expect(
        await stage.send(stage.message(subscription)) == .rejected(reason: "HTTP \(status)"))
    }
    #expect(stage.services[1].requests == 0)
    await stage.end()
  }
}

@Suite("Web Push, in trouble", .timeLimit(.minutes(1)))
struct WebPushTroubleTests {
  @Test func browsersThatAreGoneAreReported() async throws {
    let stage = try await Stage()
    let first = stage.service.subscribe()
    let second = stage.service.subscribe()
    stage.service.unsubscribe(0, status: 410)
    stage.service.unsubscribe(1, status: 404)
    #expect(await stage.send(stage.message(first)) == .tokenGone(at: nil))
    #expect(await stage.send(stage.message(second)) == .tokenGone(at: nil))
    await stage.end()
  }

  @Test func tooManyRequestsHoldUpTheirPushAlone() async throws {
    let stage = try await Stage()
    let subscription = stage.service.subscribe()
    stage.service.script.add(.answer(status: 429, headers: [("Retry-After", "5")]))
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    #expect(stage.hand.pauses == [.seconds(5)])
    stage.service.script.add(.answer(status: 429, headers: [("Retry-After", "60")]))
    #expect(await stage.send(stage.message(subscription)) == .failed(reason: "HTTP 429"))
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    #expect(stage.hand.pauses.count == 1)
    await stage.end()
  }

  @Test func aServiceThatWantsAPauseIsLeftAloneAndNoOther() async throws {
    let stage = try await Stage(services: 2)
    let subscription = stage.services[0].subscribe()
    let other = stage.services[1].subscribe()
    stage.services[0].script.add(.answer(status: 503, headers: [("Retry-After", "60")]))
    #expect(await stage.send(stage.message(subscription)) == .failed(reason: "HTTP 503"))
    #expect(
      await stage.send(stage.message(subscription))
        == .failed(reason: "the service wants a pause"))
    #expect(stage.services[0].requests == 1)
    #expect(await stage.send(stage.message(other)) == .accepted)
    stage.hand.advance(seconds: 60)
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    await stage.end()
  }

  @Test func anAuthorizationThatIsRefusedIsMadeAnewOnce() async throws {
    let stage = try await Stage()
    let subscription = stage.service.subscribe()
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    stage.service.script.add(.answer(status: 403))
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    #expect(Set(stage.service.accepted.map(\.authorization)).count == 2)
    stage.service.script.add(.answer(status: 401), times: 2)
    #expect(await stage.send(stage.message(subscription)) == .rejected(reason: "HTTP 401"))
    await stage.end()
  }

  @Test func aRingThatMayHaveArrivedIsRepeatedOnceAsTheSameMessage() async throws {
    let stage = try await Stage(limits: quick)
    let subscription = stage.service.subscribe()
    for reply in [SimulatedReply.hangUp, .blackHole, .truncated(status: 201)] {
      let before = stage.service.requests
      stage.service.script.add(reply)
      #expect(await stage.send(stage.message(subscription)) == .accepted)
      #expect(stage.service.requests == before + 2)
      stage.service.script.add(reply)
      #expect(
        await stage.send(stage.message(subscription, purpose: .missedNotice)).kind == .failed)
      #expect(stage.service.requests == before + 3)
    }
    await stage.end()
  }

  @Test func aDeadServiceDelaysNoOther() async throws {
    var limits = SenderLimits()
    limits.inFlightMax = 2
    let stage = try await Stage(services: 2, limits: limits)
    let dead = (0..<20).map { _ in stage.message(stage.services[0].subscribe()) }
    let alive = (0..<20).map { _ in stage.message(stage.services[1].subscribe()) }
    stage.services[0].script.add(.blackHole, times: 100)
    await withTaskGroup(of: (Bool, PushOutcome).self) { group in
      for message in dead { group.addTask { (false, await stage.send(message)) } }
      for message in alive { group.addTask { (true, await stage.send(message)) } }
      // The living one's come first, all of them: those of the dead one wait until it is gone.
      for _ in 0..<20 {
        let (isAlive, outcome) = await group.next() ?? (false, .expired)
        #expect(isAlive)
        #expect(outcome == .accepted)
      }
      #expect(stage.services[0].requests <= 2)
      await stage.services[0].stop()
      for await (isAlive, outcome) in group {
        #expect(!isAlive)
        #expect(outcome.kind == .failed || outcome.kind == .expired)
      }
    }
    #expect(stage.sender.statistics.snapshot.inFlight == 0)
    await stage.end()
  }

  @Test func morePushesThanMayWaitFailAtOnce() async throws {
    var limits = SenderLimits()
    limits.inFlightMax = 1
    limits.waitingMax = 0
    let stage = try await Stage(limits: limits)
    let messages = (0..<10).map { _ in stage.message(stage.service.subscribe()) }
    stage.service.script.add(.blackHole)
    await withTaskGroup(of: PushOutcome.self) { group in
      for message in messages { group.addTask { await stage.send(message) } }
      for _ in 0..<9 {
        #expect(await group.next() == .failed(reason: "too many pushes wait"))
      }
      await stage.service.stop()
      #expect(await group.next()?.kind == .failed)
    }
    await stage.end()
  }

  @Test func closingEndsWhatHangs() async throws {
    var limits = SenderLimits()
    limits.closeGrace = .milliseconds(10)
    let stage = try await Stage(limits: limits)
    let message = stage.message(stage.service.subscribe(), purpose: .missedNotice)
    stage.service.script.add(.blackHole)
    async let outcome = stage.send(message)
    await until { stage.service.requests > 0 }
    async let closed: Void = stage.sender.close()
    // The grace is over when time goes on.
    while stage.sender.statistics.snapshot.inFlight > 0 {
      stage.hand.advance(seconds: 1)
      await Task.yield()
    }
    await closed
    #expect(await outcome.kind == .failed)
    #expect(await stage.send(message).kind != .accepted)
    await stage.end()
  }

  @Test func anotherKeyIsTakenWithoutARestart() async throws {
    let stage = try await Stage()
    let subscription = stage.service.subscribe()
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    let before = stage.sender.publicKey
    var configuration = WebPushConfiguration(
      name: "web", keyFile: "/nowhere", subject: "mailto:push@example.com")
    configuration.caFile = stage.authority.caFile
    #expect(throws: SenderConfigurationError.self) { try stage.sender.update(configuration) }
    #expect(stage.sender.publicKey == before)
    let key = P256.Signing.PrivateKey()
    try Data(key.pemRepresentation.utf8).write(to: URL(filePath: stage.keyFile))
    configuration.keyFile = stage.keyFile
    configuration.furtherHosts = ["localhost:\(stage.service.port)"]
    configuration.allowsPrivateAddresses = true
    try stage.sender.update(configuration)
    #expect(stage.sender.publicKey == Base64URL.text(Array(key.publicKey.x963Representation)))
    // The subscription is bound to the former key.
    #expect(await stage.send(stage.message(subscription)) == .rejected(reason: "HTTP 403"))
    #expect(
      stage.service.violations
        == ["authorization: another key", "authorization: another key"])
    await stage.sender.close()
    await stage.service.stop()
    try? FileManager.default.removeItem(atPath: stage.keyFile)
  }
}
