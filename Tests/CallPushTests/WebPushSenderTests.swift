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
    let stage = try await WebPushStage()
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
    #expect(stage.sender.statistics.status.outcomes["accepted"] == 200)
    await stage.end()
  }

  @Test func anAuthorizationIsRenewedBeforeItEnds() async throws {
    let stage = try await WebPushStage()
    let subscription = stage.service.subscribe()
    for _ in 0..<30 {
      #expect(await stage.send(stage.message(subscription)) == .accepted)
      stage.hand.advance(seconds: 3600)
    }
    #expect(Set(stage.service.accepted.map(\.authorization)).count == 5)
    await stage.end()
  }

  @Test func timeToLiveAndUrgency() async throws {
    let stage = try await WebPushStage()
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
    let stage = try await WebPushStage()
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
    let stage = try await WebPushStage()
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
    let stage = try await WebPushStage()
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
    let stage = try await WebPushStage(services: 2)
    let subscription = stage.services[0].subscribe()
    _ = stage.services[1].subscribe()
    for status in [301, 302, 303, 307, 308] {
      stage.services[0].script.add(
        .answer(status: status, headers: [("location", stage.services[1].origin + "/push/0")]))
      #expect(
        await stage.send(stage.message(subscription, purpose: .missedNotice))
          == .rejected(reason: "HTTP \(status)"))
    }
    #expect(stage.services[1].requests == 0)
    await stage.end()
  }
}
