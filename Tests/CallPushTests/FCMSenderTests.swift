import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallTestKit
import Foundation
import Logging
import PushSimulators
import Testing

@Suite("FCM, sending", .timeLimit(.minutes(1)))
struct FCMSenderTests {
  @Test func aMessageArrivesAsTheContractWantsIt() async throws {
    let stage = try await FCMStage()
    let payload = #"{"call":"c1","name":"Zoë \"Z\" \n","empty":""}"#
    var message = stage.message(payload: payload, collapseKey: "call-c1")
    let alert = #"{"loc-key":"CALLMESH_INCOMING_CALL","loc-args":["Zoë"]}"#
    message.apple = Array(#"{"aps":{"alert":\#(alert)}}"#.utf8)
    let delivery = await stage.sender.deliver(message)
    #expect(delivery.outcome == .accepted)
    let accepted = try #require(stage.fcm.accepted.first)
    #expect(delivery.name == accepted.name)
    #expect(accepted.token == "device-1")
    #expect(accepted.data == ["call": "c1", "name": "Zoë \"Z\" \n", "empty": ""])
    #expect(accepted.ttlSeconds == 30)
    #expect(accepted.priority == "high" && accepted.urgency == "high")
    #expect(
      accepted.alert
        == FCMSimulator.Alert(
          expiration: stage.hand.nowSeconds + 30, collapseID: "call-c1",
          key: "CALLMESH_INCOMING_CALL", names: ["Zoë"]))
    #expect(accepted.httpVersion == 2)
    await stage.end()
  }

  @Test(
    "high priority for what changes what rings, and for nothing else",
    arguments: PushPurpose.allCases)
  func priorities(purpose: PushPurpose) async throws {
    let stage = try await FCMStage()
    #expect(await stage.send(stage.message(purpose: purpose)) == .accepted)
    let accepted = try #require(stage.fcm.accepted.first)
    let expected = purpose == .missedNotice ? "normal" : "high"
    #expect(accepted.priority == expected && accepted.urgency == expected)
    await stage.end()
  }

  @Test func clearTextGoesToTheLoopback() async throws {
    let stage = try await FCMStage(secure: false)
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.accepted.first?.httpVersion == 1)
    #expect(stage.fcm.accepted.first?.alert == nil)
    await stage.end()
  }

  @Test func manyGoOverOneConnectionWithOneToken() async throws {
    let stage = try await FCMStage()
    let outcomes = await withTaskGroup(of: PushOutcome.self) { group in
      for number in 0..<300 {
        group.addTask { await stage.send(stage.message("device-\(number)")) }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(outcomes == Array(repeating: .accepted, count: 300))
    #expect(Set(stage.fcm.accepted.map(\.token)).count == 300)
    #expect(Set(stage.fcm.accepted.map(\.name)).count == 300)
    #expect(stage.fcm.exchanges == 1)
    let statistics = stage.sender.statistics.status
    #expect(statistics.outcomes["accepted"] == 300)
    #expect(statistics.inFlight == 0)
    #expect(statistics.connected == 1)
    #expect(statistics.p50 > 0)
    #expect(statistics.retriesTotal == 0)
    await stage.end()
  }

  @Test func theTimeToLiveIsWhatIsLeftInWholeSeconds() async throws {
    let stage = try await FCMStage()
    var message = stage.message()
    message.deadline = stage.now + .milliseconds(4999)
    #expect(await stage.send(message) == .accepted)
    message.deadline = stage.now + .seconds(90 * 86_400)
    #expect(await stage.send(message) == .accepted)
    #expect(stage.fcm.accepted.map(\.ttlSeconds) == [4, 2_419_200])
    message.deadline = stage.now
    #expect(await stage.send(message) == .expired)
    #expect(stage.fcm.requests == 2)
    // Less than a second: at once or never.
    message.deadline = stage.now + .milliseconds(999)
    let bytes = FCMMessage.body(message, data: message.payload, now: stage.now)
    #expect(String(decoding: bytes, as: UTF8.self).contains(#""ttl":"0s""#))
    await stage.end()
  }

  @Test(arguments: [
    "", "[]", "7", "{", "{}", #"{"a":1}"#, #"{"a":null}"#, #"{"a":{"b":"c"}}"#, #"{"from":"x"}"#,
    #"{"message_type":"x"}"#, #"{"google.c":"x"}"#, #"{"gcm":"x"}"#, #"{"":"x"}"#,
    #"{"collapse_key":"x"}"#, String(repeating: "[", count: 3000),
  ])
  func aPayloadThatCannotGoIsNotSent(_ payload: String) async throws {
    let stage = try await FCMStage(secure: false)
    let outcome = await stage.send(stage.message(payload: payload))
    #expect(outcome.kind == .rejected)
    #expect(stage.fcm.requests == 0)
    await stage.end()
  }

  @Test func fourThousandAndNinetySixBytesAreTheMost() async throws {
    let stage = try await FCMStage(secure: false)
    let rest = FCMMessage.dataBytesMax - #"{"a":""}"#.utf8.count
    let fits = #"{"a":"\#(String(repeating: "x", count: rest))"}"#
    #expect(await stage.send(stage.message(payload: fits)) == .accepted)
    let longer = #"{"a":"\#(String(repeating: "x", count: rest + 1))"}"#
    #expect(
      await stage.send(stage.message(payload: longer))
        == .rejected(reason: "the payload is longer than 4096 bytes"))
    await stage.end()
  }

  @Test func whatIsNoTokenIsNotSent() async throws {
    let stage = try await FCMStage(secure: false)
    for token in ["", "a b", "ä", "a\nb", String(repeating: "x", count: 5000)] {
      #expect(
        await stage.send(stage.message(token)) == .rejected(reason: "this is no FCM token"))
    }
    let other = PushMessage.test(.apns, token: "x", deadline: stage.now + .seconds(5))
    #expect(await stage.send(other) == .rejected(reason: "this is no FCM token"))
    await stage.end()
  }

  @Test func devicesThatAreGoneAreReported() async throws {
    let stage = try await FCMStage()
    stage.fcm.refuse(device: "gone", with: "UNREGISTERED")
    stage.fcm.refuse(device: "other", with: "SENDER_ID_MISMATCH")
    stage.fcm.refuse(device: "bad", with: "INVALID_ARGUMENT")
    #expect(await stage.send(stage.message("gone")) == .tokenGone(at: nil))
    #expect(
      await stage.send(stage.message("other"))
        == .tokenRefused(reason: "SENDER_ID_MISMATCH", isSure: true))
    var known = stage.message("other")
    known.trust = .proven
    #expect(await stage.send(known) == .tokenRefused(reason: "SENDER_ID_MISMATCH"))
    #expect(
      await stage.send(stage.message("bad"))
        == .tokenRefused(reason: "INVALID_ARGUMENT", isSure: true))
    known = stage.message("bad")
    known.trust = .doubted
    #expect(await stage.send(known) == .tokenRefused(reason: "INVALID_ARGUMENT"))
    #expect(await stage.send(stage.message("good")) == .accepted)
    let statistics = stage.sender.statistics.status
    #expect(statistics.outcomes["tokenGone"] == 3)
    #expect(statistics.outcomes["failed"] == 2)
    #expect(statistics.lastError == "INVALID_ARGUMENT")
    await stage.end()
  }

  @Test func oneRefusalOfTheTokenEndpointHoldsNoRingForLong() async throws {
    let stage = try await FCMStage()
    stage.fcm.tokenScript.add(.answer(status: 400, body: #"{"error":"invalid_grant"}"#))
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.exchanges == 2)
    #expect(stage.hand.pauses == [.milliseconds(500)])
    await stage.end()
  }

  @Test func aMomentInWhichTokensAreInvalidCostsNoTokenThatWasAccepted() async throws {
    let stage = try await FCMStage()
    let refusal = FCMSimulator.failure(
      400, "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT",
      message: "The registration token is not a valid FCM registration token")
    func message(_ number: Int, _ trust: TokenTrust = .unproven) -> PushMessage {
      var message = stage.message("device-\(number)")
      message.token.fingerprint = "fp-\(number)"
      message.trust = trust
      return message
    }
    stage.fcm.sendScript.add(refusal, times: 2)
    #expect(await stage.send(message(0, .proven)) == .accepted, "a ring is tried on")
    // Four tokens that were never accepted go. The fifth makes it a wave, in which none goes.
    stage.fcm.sendScript.add(refusal, times: 6)
    for number in 1...4 {
      #expect(
        await stage.send(message(number))
          == .tokenRefused(reason: "INVALID_ARGUMENT", isSure: true))
    }
    #expect(await stage.send(message(5)) == .accepted)
    await stage.end()
  }

  @Test(arguments: [301, 400, 405, 425])
  func anAnswerThatSaysNothingOfTheTokenEndsNoRing(status: Int) async throws {
    let stage = try await FCMStage()
    stage.fcm.sendScript.add(.answer(status: status, body: "<html>"), times: 3)
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.hand.pauses == [.milliseconds(500), .seconds(1), .seconds(2)])
    stage.fcm.sendScript.add(.answer(status: status, body: "<html>"))
    #expect(
      await stage.send(stage.message(purpose: .missedNotice))
        == .rejected(reason: "HTTP \(status)"))
    await stage.end()
  }
}
