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

@Suite("Web Push, in trouble", .timeLimit(.minutes(1)))
struct WebPushTroubleTests {
  @Test func browsersThatAreGoneAreReported() async throws {
    let stage = try await WebPushStage()
    let first = stage.service.subscribe()
    let second = stage.service.subscribe()
    stage.service.unsubscribe(0, status: 410)
    stage.service.unsubscribe(1, status: 404)
    #expect(await stage.send(stage.message(first)) == .tokenGone(at: nil))
    #expect(await stage.send(stage.message(second)) == .tokenGone(at: nil))
    // Chrome names a subscription so that it has ended: nothing is sent there.
    let ended = first.replacing(
      "https://localhost:\(stage.service.port)", with: "https://permanently-removed.invalid")
    #expect(await stage.send(stage.message(ended)) == .tokenGone(at: nil))
    await stage.end()
  }

  @Test func tooManyRequestsHoldUpTheirPushAlone() async throws {
    let stage = try await WebPushStage()
    let subscription = stage.service.subscribe()
    stage.service.script.add(.answer(status: 429, headers: [("Retry-After", "5")]))
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    #expect(stage.hand.pauses == [.seconds(5)])
    stage.service.script.add(.answer(status: 429, headers: [("Retry-After", "60")]))
    #expect(
      await stage.send(stage.message(subscription, purpose: .missedNotice))
        == .failed(reason: "HTTP 429"))
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    #expect(stage.hand.pauses.count == 1)
    await stage.end()
  }

  @Test(arguments: [301, 400, 405, 425])
  func anAnswerThatSaysNothingOfTheSubscriptionEndsNoRing(status: Int) async throws {
    let stage = try await WebPushStage()
    let subscription = stage.service.subscribe()
    stage.service.script.add(.answer(status: status), times: 3)
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    #expect(stage.hand.pauses == [.milliseconds(500), .seconds(1), .seconds(2)])
    stage.service.script.add(.answer(status: status))
    #expect(
      await stage.send(stage.message(subscription, purpose: .missedNotice))
        == .rejected(reason: "HTTP \(status)"))
    await stage.end()
  }

  @Test func aServiceThatWantsAPauseIsLeftAloneByNoticesAndNoOther() async throws {
    let stage = try await WebPushStage(services: 2)
    let subscription = stage.services[0].subscribe()
    let other = stage.services[1].subscribe()
    stage.services[0].script.add(.answer(status: 503, headers: [("Retry-After", "60")]))
    func notice(_ subscription: String) -> PushMessage {
      stage.message(subscription, purpose: .missedNotice)
    }
    #expect(await stage.send(notice(subscription)) == .failed(reason: "HTTP 503"))
    #expect(await stage.send(notice(subscription)) == .failed(reason: "the service wants a pause"))
    #expect(stage.services[0].requests == 1)
    #expect(await stage.send(notice(other)) == .accepted)
    #expect(await stage.send(stage.message(subscription)) == .accepted, "a ring is tried")
    #expect(stage.hand.pauses.isEmpty)
    stage.hand.advance(seconds: 60)
    #expect(await stage.send(notice(subscription)) == .accepted)
    await stage.end()
  }

  @Test func anAuthorizationThatIsRefusedIsMadeAnewOnce() async throws {
    let stage = try await WebPushStage()
    let subscription = stage.service.subscribe()
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    stage.service.script.add(.answer(status: 403))
    #expect(await stage.send(stage.message(subscription)) == .accepted)
    #expect(Set(stage.service.accepted.map(\.authorization)).count == 2)
    stage.service.script.add(.answer(status: 401), times: 2)
    #expect(
      await stage.send(stage.message(subscription, purpose: .missedNotice))
        == .tokenRefused(reason: "HTTP 401"))
    stage.service.script.add(.answer(status: 401), times: 5)
    #expect(await stage.send(stage.message(subscription)) == .accepted, "a ring is tried on")
    await stage.end()
  }

  @Test func aRingThatMayHaveArrivedIsRepeatedAsTheSameMessage() async throws {
    let stage = try await WebPushStage(limits: quickWebPushLimits)
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
    let stage = try await WebPushStage(services: 2, limits: limits)
    let dead = (0..<20).map { _ in stage.message(stage.services[0].subscribe()) }
    let alive = (0..<20).map { _ in stage.message(stage.services[1].subscribe()) }
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

  @Test func morePushesThanMayWaitFailAtOnce() async throws {
    var limits = SenderLimits()
    limits.inFlightMax = 1
    limits.waitingMax = 0
    let stage = try await WebPushStage(limits: limits)
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
    let stage = try await WebPushStage(limits: limits)
    let message = stage.message(stage.service.subscribe(), purpose: .missedNotice)
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
    #expect(
      await stage.send(stage.message(subscription, purpose: .missedNotice))
        == .tokenRefused(reason: "HTTP 403"))
    #expect(
      stage.service.violations
        == ["authorization: another key", "authorization: another key"])
    await stage.sender.close()
    await stage.service.stop()
    try? FileManager.default.removeItem(atPath: stage.keyFile)
  }
}
