import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallTestKit
import CallWire
import Crypto
import Foundation
import PushSimulators
import Testing

@Suite("Web Push, sending", .timeLimit(.minutes(1)))
struct WebPushSenderTests {
  @Test func aPushIsDecryptedByItsBrowser() async throws {
    let stage = try await WebPushStage()
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
    let stage = try await WebPushStage()
    let outcomes = await stage.sender.sendAll(stage.messages(200))
    #expect(outcomes == Array(repeating: .accepted, count: 200))
    let accepted = stage.service.accepted
    #expect(Set(accepted.map(\.authorization)).count == 1)
    #expect(Set(accepted.map(\.salt)).count == 200)
    #expect(Set(accepted.map(\.subscription)).count == 200)
    #expect(stage.sender.statistics.status.outcomes["accepted"] == 200)
    stage.hand.advance(seconds: 86_400)
    #expect(await stage.send() == .accepted)
    #expect(Set(stage.service.accepted.map(\.authorization)).count == 2)
    await stage.end()
  }

  @Test func timeToLiveAndUrgency() async throws {
    let stage = try await WebPushStage()
    var message = stage.message(purpose: .missedNotice)
    message.deadline = stage.now + .seconds(60 * 86_400)
    #expect(await stage.send(message) == .accepted)
    message = stage.message(purpose: .cancel)
    message.deadline = stage.now + .milliseconds(9900)
    #expect(await stage.send(message) == .accepted)
    #expect(stage.service.accepted.map(\.ttlSeconds) == [2_419_200, 9])
    #expect(stage.service.accepted.map(\.urgency) == ["normal", "high"])
    #expect(stage.service.accepted.map(\.topic) == [nil, nil])
    message.deadline = stage.now
    #expect(await stage.send(message) == .expired)
    await stage.end()
  }

  @Test func aTopicIsTheCollapseKeyOrStandsForIt() async throws {
    let stage = try await WebPushStage()
    let long = "abcdefghijklmnopqrstuvwxyz012345"
    for (key, topic) in [
      ("abc-_09Z", "abc-_09Z"), (long, long), (long + "6", nil), ("call:1", nil), ("ä", nil),
    ] as [(String, String?)] {
      for _ in 0..<2 { #expect(await stage.send(stage.message(collapseKey: key)) == .accepted) }
      let topics = stage.service.accepted.suffix(2).map(\.topic)
      #expect(topics[0] == topics[1])
      if let topic { #expect(topics[0] == topic) } else { #expect(topics[0]?.utf8.count == 32) }
    }
    await stage.end()
  }

  @Test func whatIsTooLongOrNoSubscriptionIsNotSent() async throws {
    let stage = try await WebPushStage()
    let most = String(repeating: "x", count: WebPushEncryption.textBytesMax)
    #expect(await stage.send(stage.message(payload: most)) == .accepted)
    #expect(
      await stage.send(stage.message(payload: most + "x"))
        == .rejected(reason: "the payload is longer than 3993 bytes"))
    #expect(
      await stage.send(stage.message("{}")) == .rejected(reason: "this is no Web Push subscription")
    )
    var other = stage.message()
    other.token.provider = .fcm
    #expect(await stage.send(other) == .rejected(reason: "this is no Web Push subscription"))
    #expect(stage.service.requests == 1)
    await stage.end()
  }

  @Test func endpointsOutsideTheListGetNothing() async throws {
    let stage = try await WebPushStage()
    let strict = try WebPushSender(
      WebPushConfiguration(
        name: "web", keyFile: stage.keyFile, subject: "mailto:push@example.com"),
      environment: stage.hand.environment())
    #expect(
      await strict.send(stage.message())
        == .rejected(reason: "the endpoint is an address, not a push service"))
    let elsewhere = stage.subscriptions[0].replacingOccurrences(of: "localhost", with: "127.0.0.1")
    #expect(
      await stage.send(stage.message(elsewhere))
        == .rejected(reason: "the endpoint is at no push service of the list"))
    #expect(stage.service.requests == 0)
    await strict.close()
    await stage.end()
  }

  @Test func redirectsAreNotFollowed() async throws {
    let stage = try await WebPushStage(services: 2)
    for status in [301, 302, 303, 307, 308] {
      let location = ("location", stage.services[1].origin + "/push/0")
      stage.services[0].script.add(.answer(status: status, headers: [location]))
      #expect(await stage.send(.missedNotice) == .rejected(reason: "HTTP \(status)"))
    }
    #expect(stage.services[1].requests == 0)
    await stage.end()
  }

  @Test func browsersThatAreGoneAreReported() async throws {
    let stage = try await WebPushStage()
    let second = stage.service.subscribe()
    stage.service.unsubscribe(0, status: 410)
    stage.service.unsubscribe(1, status: 404)
    #expect(await stage.send() == .tokenGone(at: nil))
    #expect(await stage.send(stage.message(second)) == .tokenGone(at: nil))
    // Chrome names a subscription so that it has ended: nothing is sent there.
    let ended = stage.subscriptions[0].replacing(
      "https://localhost:\(stage.service.port)", with: "https://permanently-removed.invalid")
    #expect(await stage.send(stage.message(ended)) == .tokenGone(at: nil))
    await stage.end()
  }

  @Test func tooManyRequestsHoldUpTheirPushAlone() async throws {
    let stage = try await WebPushStage()
    stage.service.script.add(.answer(status: 429, headers: [("Retry-After", "5")]))
    #expect(await stage.send() == .accepted)
    #expect(stage.hand.pauses == [.seconds(5)])
    stage.service.script.add(.answer(status: 429, headers: [("Retry-After", "60")]))
    #expect(await stage.send(.missedNotice) == .failed(reason: "HTTP 429"))
    #expect(await stage.send() == .accepted)
    #expect(stage.hand.pauses.count == 1)
    await stage.end()
  }

  @Test func aServiceThatWantsAPauseIsLeftAloneByNoticesAndNoOther() async throws {
    let stage = try await WebPushStage(services: 2)
    stage.services[0].script.add(.answer(status: 503, headers: [("Retry-After", "60")]))
    func notice(at service: Int = 0) -> PushMessage {
      stage.message(stage.subscriptions[service], purpose: .missedNotice)
    }
    #expect(await stage.send(notice()) == .failed(reason: "HTTP 503"))
    #expect(await stage.send(notice()) == .failed(reason: "the service wants a pause"))
    #expect(stage.services[0].requests == 1)
    #expect(await stage.send(notice(at: 1)) == .accepted)
    #expect(await stage.send() == .accepted, "a ring is tried")
    #expect(stage.hand.pauses.isEmpty)
    // One that has the time waits.
    var patient = notice()
    let end: Timestamp? = stage.now + .seconds(60)
    let pauses = Inbox<Timestamp?>(capacity: 10)
    patient.onPause = { pauses.offer($0) }
    patient.deadline = stage.now + .seconds(90)
    #expect(await stage.send(patient) == .accepted)
    #expect(stage.hand.pauses == [.seconds(60)])
    #expect(await pauses.next(until: nil) == [end, nil], "the gateway learns of it")
    await stage.end()
  }

  @Test func anAuthorizationThatIsRefusedIsMadeAnewOnce() async throws {
    let stage = try await WebPushStage()
    #expect(await stage.send() == .accepted)
    stage.service.script.add(.answer(status: 403))
    #expect(await stage.send() == .accepted)
    #expect(Set(stage.service.accepted.map(\.authorization)).count == 2)
    stage.service.script.add(.answer(status: 401), times: 2)
    #expect(await stage.send(.missedNotice) == .tokenRefused(reason: "HTTP 401"))
    stage.service.script.add(.answer(status: 401), times: 5)
    #expect(await stage.send() == .accepted, "a ring is tried on")
    await stage.end()
  }

  @Test func aRingThatMayHaveArrivedIsRepeatedAsTheSameMessage() async throws {
    let stage = try await WebPushStage(limits: SenderLimits { $0.attemptTimeout = .seconds(2) })
    for reply in [SimulatedReply.hangUp, .blackHole, .truncated(status: 201)] {
      let before = stage.service.requests
      stage.service.script.add(reply)
      #expect(await stage.send() == .accepted)
      #expect(stage.service.requests == before + 2)
      stage.service.script.add(reply)
      #expect(
        await stage.send(.missedNotice).kind == .failed)
      #expect(stage.service.requests == before + 3)
    }
    await stage.end()
  }

  @Test func aDeadServiceDelaysNoOther() async throws {
    let stage = try await WebPushStage(services: 2, limits: SenderLimits(inFlightMax: 2))
    let dead = stage.messages(20)
    let alive = stage.messages(20, at: 1)
    stage.services[0].script.add(.blackHole, times: 100)
    await withTaskGroup(of: (Bool, PushOutcome).self) { group in
      for message in dead { group.addTask { (false, await stage.send(message)) } }
      for message in alive { group.addTask { (true, await stage.send(message)) } }
      // All pushes to the living service end first. Those to the dead one wait for their deadline.
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
    #expect(stage.sender.statistics.status.inFlight == 0)
    await stage.end()
  }

  @Test func aRingThatWaitsBehindOthersEndsWithItsCall() async throws {
    let stage = try await WebPushStage(limits: SenderLimits(inFlightMax: 1))
    stage.service.script.add(.blackHole)
    let hanging = stage.message()
    var message = stage.message(stage.service.subscribe())
    let cancellation = PushCancellation()
    message.cancellation = cancellation
    let ring = message
    async let first = stage.send(hanging)
    await until { stage.service.requests == 1 }
    async let second = stage.send(ring)
    cancellation.cancel()
    #expect(await second == .expired)
    await stage.service.stop()
    _ = await first
    await stage.end()
  }

  @Test func morePushesThanMayWaitFailAtOnce() async throws {
    let stage = try await WebPushStage(
      limits: SenderLimits { ($0.inFlightMax, $0.waitingMax) = (1, 0) })
    let messages = stage.messages(10)
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
    let stage = try await WebPushStage(limits: SenderLimits { $0.closeGrace = .milliseconds(10) })
    let message = stage.message(purpose: .missedNotice)
    stage.service.script.add(.blackHole)
    async let outcome = stage.send(message)
    await until { stage.service.requests > 0 }
    async let closed: Void = stage.sender.close()
    // The grace ends when the clock advances.
    while stage.sender.statistics.status.inFlight > 0 {
      stage.hand.advance(seconds: 1)
      await Task.yield()
    }
    await closed
    #expect(await outcome.kind == .failed)
    #expect(await stage.send(message).kind != .accepted)
    await stage.end()
  }

  @Test func anotherKeyIsTakenWithoutARestart() async throws {
    let stage = try await WebPushStage()
    #expect(await stage.send() == .accepted)
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
    #expect(await stage.send(.missedNotice) == .tokenRefused(reason: "HTTP 403"))
    #expect(
      stage.service.violations
        == ["authorization: another key", "authorization: another key"])
    await stage.sender.close()
    await stage.service.stop()
    try? FileManager.default.removeItem(atPath: stage.keyFile)
  }
}
