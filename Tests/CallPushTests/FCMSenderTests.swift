import CallBus
import CallCore
import CallProcesses
import CallPush
import CallTelemetry
import CallTestKit
import Logging
import PushSimulators
import Testing

@Suite("FCM, sending", .timeLimit(.minutes(1)))
struct FCMSenderTests {
  let stage: FCMStage

  init() async throws { stage = try await FCMStage() }

  @Test func aMessageArrivesAsTheContractWantsIt() async throws {
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

  /// In clear text, to the loopback.
  @Test func highPriorityIsForWhatChangesWhatRings() async throws {
    let clear = try await FCMStage(secure: false)
    for purpose in PushPurpose.allCases {
      #expect(await clear.send(purpose) == .accepted)
    }
    let accepted = clear.fcm.accepted
    let expected = PushPurpose.allCases.map { $0 == .missedNotice ? "normal" : "high" }
    #expect(accepted.map(\.priority) == expected && accepted.map(\.urgency) == expected)
    #expect(accepted.allSatisfy { $0.httpVersion == 1 && $0.alert == nil })
    await clear.end()
    await stage.end()
  }

  @Test func theTimeToLiveIsWhatIsLeftInWholeSeconds() async throws {
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

  @Test func whatCannotGoIsNotSent() async throws {
    for payload in [
      "", "[]", "7", "{", "{}", #"{"a":1}"#, #"{"a":null}"#, #"{"a":{"b":"c"}}"#,
      #"{"from":"x"}"#, #"{"message_type":"x"}"#, #"{"google.c":"x"}"#, #"{"gcm":"x"}"#,
      #"{"":"x"}"#, #"{"collapse_key":"x"}"#, String(repeating: "[", count: 3000),
    ] {
      let outcome = await stage.send(stage.message(payload: payload))
      #expect(outcome.kind == .rejected, "\(payload.prefix(40))")
    }
    func filled(_ count: Int) -> PushMessage {
      stage.message(payload: #"{"a":"\#(String(repeating: "x", count: count))"}"#)
    }
    let rest = FCMMessage.dataBytesMax - #"{"a":""}"#.utf8.count
    #expect(
      await stage.send(filled(rest + 1))
        == .rejected(reason: "the payload is longer than 4096 bytes"))
    let none = ["", "a b", "ä", "a\nb", String(repeating: "x", count: 5000)]
    let other = PushMessage.test(.apns, token: "x", deadline: stage.now + .seconds(5))
    for message in none.map({ stage.message($0) }) + [other] {
      #expect(await stage.send(message) == .rejected(reason: "this is no FCM token"))
    }
    #expect(stage.fcm.requests == 0)
    #expect(await stage.send(filled(rest)) == .accepted)
    await stage.end()
  }

  @Test func devicesThatAreGoneAreReported() async throws {
    stage.fcm.refuse(device: "gone", with: "UNREGISTERED")
    stage.fcm.refuse(device: "other", with: "SENDER_ID_MISMATCH")
    stage.fcm.refuse(device: "bad", with: "INVALID_ARGUMENT")
    #expect(await stage.send(stage.message("gone")) == .tokenGone(at: nil))
    for (token, reason, trust) in [
      ("other", "SENDER_ID_MISMATCH", .proven), ("bad", "INVALID_ARGUMENT", .doubted),
    ] as [(String, String, TokenTrust)] {
      #expect(
        await stage.send(stage.message(token)) == .tokenRefused(reason: reason, isSure: true))
      #expect(
        await stage.send(stage.message(token, trust: trust)) == .tokenRefused(reason: reason))
    }
    #expect(await stage.send(stage.message("good")) == .accepted)
    let statistics = stage.sender.statistics.status
    #expect(statistics.outcomes["tokenGone"] == 3)
    #expect(statistics.outcomes["failed"] == 2)
    #expect(statistics.lastError == "INVALID_ARGUMENT")
    await stage.end()
  }

  @Test func aMomentInWhichTokensAreInvalidCostsNoTokenThatWasAccepted() async throws {
    let refusal = FCMSimulator.failure(
      400, "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT",
      message: "The registration token is not a valid FCM registration token")
    func message(_ number: Int, _ trust: TokenTrust = .unproven) -> PushMessage {
      var message = stage.message("device-\(number)", trust: trust)
      message.token.fingerprint = "fp-\(number)"
      return message
    }
    stage.fcm.sendScript.add(refusal, times: 2)
    #expect(await stage.send(message(0, .proven)) == .accepted, "a ring is tried on")
    let doubted = #"callmesh_push_tokens_doubted_total{provider="fcm",sender="main"} 2"#
    #expect(stage.metrics.render().contains(doubted))
    // Four tokens that were never accepted go. The fifth makes it a wave, in which none goes.
    stage.fcm.sendScript.add(refusal, times: 6)
    for number in 1...4 {
      #expect(
        await stage.send(message(number)) == .tokenRefused(reason: "INVALID_ARGUMENT", isSure: true)
      )
    }
    #expect(await stage.send(message(5)) == .accepted)
    await stage.end()
  }

  @Test func anInternalErrorIsTriedAgainWithinTheDeadline() async throws {
    stage.fcm.sendScript.add(FCMSimulator.failure(500, "INTERNAL", fcm: "INTERNAL"), times: 3)
    #expect(await stage.send() == .accepted)
    #expect(stage.hand.pauses == [.milliseconds(500), .seconds(1), .seconds(2)])
    #expect(stage.sender.statistics.status.retriesTotal == 3)
    #expect(stage.fcm.accepted.first?.ttlSeconds == 26, "what is left by then")
    stage.fcm.sendScript.add(FCMSimulator.failure(500, "INTERNAL", fcm: "INTERNAL"), times: 9)
    #expect(await stage.send() == .accepted, "the tenth attempt, after 25 s")
    stage.fcm.sendScript.add(FCMSimulator.failure(500, "INTERNAL", fcm: "INTERNAL"), times: 100)
    #expect(await stage.send() == .failed(reason: "INTERNAL"))
    await stage.end()
  }

  @Test func aRevokedAccessTokenIsRenewedOnceForAll() async throws {
    #expect(await stage.send() == .accepted)
    stage.fcm.revokeTokens()
    #expect(await stage.send() == .accepted)
    #expect(stage.fcm.exchanges == 2)
    #expect(stage.hand.pauses.isEmpty)
    stage.fcm.revokeTokens()
    let outcomes = await stage.sender.sendAll((0..<100).map { stage.message("d\($0)") })
    #expect(outcomes == Array(repeating: .accepted, count: 100))
    #expect(Set(stage.fcm.accepted.map(\.name)).count == 102)
    #expect(stage.fcm.exchanges == 3)
    let statistics = stage.sender.statistics.status
    #expect(statistics.outcomes["accepted"] == 102 && statistics.inFlight == 0)
    #expect(statistics.connected == 1 && statistics.p50 > 0)
    stage.fcm.sendScript.add(FCMSimulator.failure(401, "UNAUTHENTICATED"), times: 2)
    #expect(await stage.send(.missedNotice) == .rejected(reason: "UNAUTHENTICATED"))
    #expect(stage.fcm.exchanges == 4)
    await stage.end()
  }

  /// The next token is fetched, and this one is used meanwhile.
  @Test func anAccessTokenIsRenewedBeforeItEnds() async throws {
    #expect(await stage.send() == .accepted)
    stage.hand.advance(seconds: 2700)
    while Set(stage.fcm.accepted.map(\.accessToken)).count < 2 {
      #expect(await stage.send() == .accepted)
    }
    #expect(stage.fcm.exchanges == 2)
    await stage.end()
  }

  @Test func aTokenEndpointThatComesBackServesWhoWaited() async throws {
    stage.fcm.tokenScript.add(
      .answer(status: 400, body: #"{"error":"invalid_grant"}"#), .answer(status: 503), .hangUp,
      .answer(status: 200, body: "{"))
    #expect(await stage.send() == .accepted)
    #expect(stage.fcm.exchanges == 5)
    #expect(stage.hand.pauses == [.milliseconds(500), .seconds(1), .seconds(2), .seconds(4)])
    await stage.end()
  }

  @Test func aTokenEndpointThatRefusesIsNotStormed() async throws {
    let refusal = SimulatedReply.answer(status: 400, body: #"{"error":"invalid_grant"}"#)
    stage.fcm.tokenScript.add(refusal, times: 100)
    let outcomes = await stage.sender.sendAll((0..<100).map { stage.message("d\($0)") })
    #expect(outcomes.allSatisfy { $0.kind == .failed || $0.kind == .expired })
    #expect(outcomes.contains(.failed(reason: "access token: invalid_grant")))
    // At 0, 0.5, 1.5 and 3.5 s, then one each 4 s, for all.
    #expect(stage.fcm.exchanges <= 10)
    #expect(stage.fcm.requests == 0)
    await stage.end()
  }

  /// In real time: the pool detects the lost connection during the pause between two attempts.
  @Test func connectionsThatDropAreMadeAnew() async throws {
    var configuration = FCMConfiguration(for: stage.fcm)
    configuration.caFile = stage.authority?.caFile
    let clock = ClusterClock(wallMicroseconds: HandClock.startSeconds * 1_000_000)
    let sender = try FCMSender(
      configuration,
      environment: SenderEnvironment(clock: clock, logger: Logger(label: "test")))
    for _ in 0..<5 {
      var message = stage.message()
      message.deadline = clock.now() + .seconds(30)
      #expect(await sender.send(message) == .accepted)
      stage.fcm.dropConnections()
    }
    #expect(stage.fcm.connectionCount >= 2)
    await sender.close()
    await stage.end()
  }

  @Test func aRingOfACallThatEndedMeanwhileIsNotSent() async throws {
    #expect(await stage.send() == .accepted)
    var message = stage.message()
    let cancellation = PushCancellation()
    message.cancellation = cancellation
    cancellation.cancel()
    #expect(await stage.send(message) == .expired)
    #expect(stage.fcm.requests == 1)
    await stage.end()
  }

  @Test func aRingOfACallThatEndedWhileItWaitedForATokenIsNotSent() async throws {
    stage.fcm.tokenScript.add(.answer(status: 503))
    let cancellation = PushCancellation()
    var environment = stage.hand.environment()
    let pause = environment.pause
    environment.pause = { span in
      cancellation.cancel()
      await pause?(span)
    }
    var configuration = FCMConfiguration(for: stage.fcm)
    configuration.caFile = stage.authority?.caFile
    let sender = try FCMSender(configuration, environment: environment)
    var message = stage.message()
    message.cancellation = cancellation
    #expect(await sender.send(message) == .expired)
    #expect(stage.fcm.exchanges == 1 && stage.fcm.requests == 0)
    await sender.close()
    await stage.end()
  }

  @Test func aRingDoesNotWaitForATokenWhenItsCallHasEnded() async throws {
    stage.fcm.tokenScript.add(.blackHole)
    let cancellation = PushCancellation()
    var message = stage.message()
    message.cancellation = cancellation
    let ring = message
    async let outcome = stage.send(ring)
    await until { stage.fcm.exchanges == 1 }
    cancellation.cancel()
    #expect(await outcome == .expired)
    #expect(stage.fcm.exchanges == 1, "the first one has no answer yet")
    await stage.end()
  }

  @Test func aBlackHoleEndsAtTheDeadline() async throws {
    #expect(await stage.send() == .accepted)
    stage.fcm.sendScript.add(.blackHole)
    var message = stage.message(purpose: .missedNotice)
    message.deadline = stage.now + .milliseconds(150)
    #expect(await stage.send(message) == .failed(reason: "no answer in time", mayHaveArrived: true))
    await stage.end()
  }

  @Test func whatCannotConnectIsTriedAgainAndThenFails() async throws {
    // Tokens come from one server. Messages go to another one, which does not exist.
    // No server of another test gets such a port from the system.
    let port = try FreePorts.reserve()
    var configuration = FCMConfiguration(for: stage.fcm)
    configuration.endpoint = "https://127.0.0.1:\(port)"
    configuration.caFile = stage.authority?.caFile
    let sender = try FCMSender(configuration, environment: stage.hand.environment())
    // Not even a notice can have arrived.
    #expect(
      await sender.send(stage.message(purpose: .missedNotice))
        == .failed(reason: "no connection"))
    #expect(
      stage.hand.pauses
        == [.milliseconds(500), .seconds(1), .seconds(2), .seconds(4), .seconds(8)])
    let statistics = sender.statistics.status
    #expect(statistics.retriesTotal == 5)
    #expect(statistics.connected == 0)
    #expect(statistics.lastError == "no connection")
    #expect(stage.fcm.exchanges == 1)
    await sender.close()
    await stage.end()
  }

  @Test func aServerThatIsNotTrustedGetsNothing() async throws {
    let stranger = try LoopbackAuthority()
    var configuration = FCMConfiguration(for: stage.fcm)
    configuration.caFile = stranger.caFile
    let sender = try FCMSender(configuration, environment: stage.hand.environment())
    #expect(await sender.send(stage.message()).kind == .failed)
    #expect(stage.fcm.exchanges == 0)
    #expect(stage.fcm.requests == 0)
    await sender.close()
    await stage.end()
  }

  @Test func afterClosingNothingIsSent() async throws {
    #expect(await stage.send() == .accepted)
    await stage.sender.close()
    #expect(await stage.send() == .failed(reason: "closed"))
    await stage.fcm.stop()
    #expect(stage.fcm.requests == 1)
  }

  @Test func anAnswerThatIsTooLongIsNotRead() async throws {
    let clear = try await FCMStage(secure: false)
    clear.fcm.sendScript.add(.answer(status: 400, body: String(repeating: "a", count: 200_000)))
    #expect(
      await clear.send(.missedNotice)
        == .failed(reason: "the answer is too long", mayHaveArrived: true))
    await clear.end()
    await stage.end()
  }
}
