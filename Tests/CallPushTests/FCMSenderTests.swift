import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallTestKit
import Foundation
import Logging
import Testing

/// A sender and Google's servers, on one clock.
private final class Stage: Sendable {
  let hand = HandClock()
  let authority: LoopbackAuthority?
  let fcm: FCMSimulator
  let sender: FCMSender
  let clock: ClusterClock

  /// - Parameter realTime: pauses take their time; the simulator's clock stands still all the same.
  init(
    secure: Bool = true, limits: SenderLimits = SenderLimits(), realTime: Bool = false
  ) async throws {
    authority = secure ? try LoopbackAuthority() : nil
    let hand = hand
    fcm = try await FCMSimulator.start(authority: authority) { hand.nowSeconds }
    var configuration = FCMConfiguration(
      name: "main", serviceAccountFile: fcm.serviceAccountFile, endpoint: fcm.origin,
      tokenEndpoint: fcm.tokenEndpoint, caFile: authority?.caFile)
    configuration.limits = limits
    guard realTime else {
      clock = hand.clock
      sender = try FCMSender(configuration, environment: hand.environment())
      return
    }
    clock = ClusterClock(wallMicroseconds: HandClock.startSeconds * 1_000_000)
    sender = try FCMSender(
      configuration, environment: SenderEnvironment(clock: clock, logger: Logger(label: "test")))
  }

  var now: Timestamp { clock.now() }

  func message(
    _ token: String = "device-1", seconds: Int64 = 30, purpose: PushPurpose = .ring,
    payload: String = #"{"call":"c1"}"#, collapseKey: String = ""
  ) -> PushMessage {
    .test(
      .fcm, token: token, purpose: purpose, payload: payload, deadline: now + .seconds(seconds),
      collapseKey: collapseKey)
  }

  func send(_ message: PushMessage) async -> PushOutcome { await sender.send(message) }

  /// Ends all; the sender has done nothing against the contract.
  func end(_ violations: [String] = []) async {
    await sender.close()
    await fcm.stop()
    #expect(fcm.violations == violations)
  }
}

private let quick: SenderLimits = {
  var limits = SenderLimits()
  limits.attemptTimeout = .seconds(2)
  return limits
}()

@Suite("FCM, sending", .timeLimit(.minutes(1)))
struct FCMSenderTests {
  @Test func aMessageArrivesAsTheContractWantsIt() async throws {
    let stage = try await Stage()
    let payload = #"{"call":"c1","name":"Zoë \"Z\" \n","empty":""}"#
    let delivery = await stage.sender.deliver(
      stage.message(payload: payload, collapseKey: "call-c1"))
    #expect(delivery.outcome == .accepted)
    let accepted = try #require(stage.fcm.accepted.first)
    #expect(delivery.name == accepted.name)
    #expect(accepted.token == "device-1")
    #expect(accepted.data == ["call": "c1", "name": "Zoë \"Z\" \n", "empty": ""])
    #expect(accepted.ttlSeconds == 30)
    #expect(accepted.collapseKey == "call-c1")
    #expect(accepted.httpVersion == 2)
    await stage.end()
  }

  @Test func clearTextGoesToTheLoopback() async throws {
    let stage = try await Stage(secure: false)
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.accepted.first?.httpVersion == 1)
    #expect(stage.fcm.accepted.first?.collapseKey == nil)
    await stage.end()
  }

  @Test func manyGoOverOneConnectionWithOneToken() async throws {
    let stage = try await Stage()
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
    let statistics = stage.sender.statistics.snapshot
    #expect(statistics.outcomes[.accepted] == 300)
    #expect(statistics.inFlight == 0)
    #expect(statistics.connected == 1)
    #expect(statistics.latencyP50 > 0)
    #expect(statistics.retries == 0)
    await stage.end()
  }

  @Test func theTimeToLiveIsWhatIsLeftInWholeSeconds() async throws {
    let stage = try await Stage()
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
    let stage = try await Stage(secure: false)
    let outcome = await stage.send(stage.message(payload: payload))
    #expect(outcome.kind == .rejected)
    #expect(stage.fcm.requests == 0)
    await stage.end()
  }

  @Test func fourThousandAndNinetySixBytesAreTheMost() async throws {
    let stage = try await Stage(secure: false)
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
    let stage = try await Stage(secure: false)
    for token in ["", "a b", "ä", "a\nb", String(repeating: "x", count: 5000)] {
      #expect(
        await stage.send(stage.message(token)) == .rejected(reason: "this is no FCM token"))
    }
    let other = PushMessage.test(.apns, token: "x", deadline: stage.now + .seconds(5))
    #expect(await stage.send(other) == .rejected(reason: "this is no FCM token"))
    await stage.end()
  }

  @Test func devicesThatAreGoneAreReported() async throws {
    let stage = try await Stage()
    stage.fcm.refuse(device: "gone", with: "UNREGISTERED")
    stage.fcm.refuse(device: "other", with: "SENDER_ID_MISMATCH")
    stage.fcm.refuse(device: "bad", with: "INVALID_ARGUMENT")
    #expect(await stage.send(stage.message("gone")) == .tokenGone(at: nil))
    #expect(
      await stage.send(stage.message("other")) == .rejected(reason: "SENDER_ID_MISMATCH"))
    #expect(await stage.send(stage.message("bad")) == .tokenGone(at: nil))
    #expect(await stage.send(stage.message("good")) == .accepted)
    let statistics = stage.sender.statistics.snapshot
    #expect(statistics.outcomes[.tokenGone] == 2)
    #expect(statistics.outcomes[.rejected] == 1)
    #expect(statistics.lastError == "SENDER_ID_MISMATCH")
    await stage.end()
  }
}

@Suite("FCM, in trouble", .timeLimit(.minutes(1)))
struct FCMTroubleTests {
  @Test func aQuotaIsWaitedForWhereThereIsTime() async throws {
    let stage = try await Stage()
    stage.fcm.sendScript.add(
      FCMSimulator.failure(
        429, "RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED", headers: [("Retry-After", "5")]))
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.hand.pauses == [.seconds(5)])
    // What is left by then.
    #expect(stage.fcm.accepted.first?.ttlSeconds == 25)
    stage.fcm.sendScript.add(
      FCMSimulator.failure(429, "RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED"))
    #expect(await stage.send(stage.message()) == .failed(reason: "QUOTA_EXCEEDED"))
    #expect(stage.hand.pauses.count == 1)
    await stage.end()
  }

  @Test func anInternalErrorIsTriedAgainWithinTheDeadline() async throws {
    let stage = try await Stage()
    stage.fcm.sendScript.add(FCMSimulator.failure(500, "INTERNAL", fcm: "INTERNAL"), times: 3)
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.hand.pauses == [.milliseconds(500), .seconds(1), .seconds(2)])
    #expect(stage.sender.statistics.snapshot.retries == 3)
    stage.fcm.sendScript.add(FCMSimulator.failure(500, "INTERNAL", fcm: "INTERNAL"), times: 9)
    #expect(await stage.send(stage.message()) == .failed(reason: "INTERNAL"))
    await stage.end()
  }

  @Test func aServiceThatWantsAPauseIsLeftAloneByAll() async throws {
    let stage = try await Stage()
    stage.fcm.sendScript.add(
      FCMSimulator.failure(503, "UNAVAILABLE", headers: [("retry-after", "20")]))
    // Too long for this one, which ends at once, and for the next, which is not even sent.
    #expect(await stage.send(stage.message(seconds: 10)) == .failed(reason: "UNAVAILABLE"))
    #expect(
      await stage.send(stage.message(seconds: 10))
        == .failed(reason: "the service wants a pause"))
    #expect(stage.fcm.requests == 1)
    #expect(await stage.send(stage.message(seconds: 30)) == .accepted)
    #expect(stage.hand.pauses == [.seconds(20)])
    #expect(stage.fcm.accepted.first?.ttlSeconds == 10)
    await stage.end()
  }

  @Test func aRevokedAccessTokenIsRenewedOnce() async throws {
    let stage = try await Stage()
    #expect(await stage.send(stage.message()) == .accepted)
    stage.fcm.revokeTokens()
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.exchanges == 2)
    #expect(stage.hand.pauses.isEmpty)
    stage.fcm.sendScript.add(FCMSimulator.failure(401, "UNAUTHENTICATED"), times: 2)
    #expect(await stage.send(stage.message()) == .rejected(reason: "UNAUTHENTICATED"))
    #expect(stage.fcm.exchanges == 3)
    await stage.end()
  }

  @Test func manyRefusedPushesAskForOneToken() async throws {
    let stage = try await Stage()
    #expect(await stage.send(stage.message()) == .accepted)
    stage.fcm.revokeTokens()
    let outcomes = await withTaskGroup(of: PushOutcome.self) { group in
      for number in 0..<100 { group.addTask { await stage.send(stage.message("d\(number)")) } }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(outcomes == Array(repeating: .accepted, count: 100))
    #expect(stage.fcm.exchanges == 2)
    await stage.end()
  }

  @Test func anAccessTokenIsRenewedBeforeItEnds() async throws {
    let stage = try await Stage()
    #expect(await stage.send(stage.message()) == .accepted)
    stage.hand.advance(seconds: 2699)
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.exchanges == 1)
    // From here on the next one is fetched, and this one used until it is there.
    stage.hand.advance(seconds: 1)
    while Set(stage.fcm.accepted.map(\.accessToken)).count < 2 {
      #expect(await stage.send(stage.message()) == .accepted)
    }
    #expect(stage.fcm.exchanges == 2)
    // Long after, it is fetched first.
    stage.hand.advance(seconds: 7200)
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.exchanges == 3)
    await stage.end()
  }

  @Test func aTokenEndpointThatRefusesIsNotStormed() async throws {
    let stage = try await Stage()
    let refusal = SimulatedReply.answer(
      status: 400, body: #"{"error":"invalid_grant","error_description":"secret"}"#)
    stage.fcm.tokenScript.add(refusal, times: 100)
    let messages = (0..<100).map { stage.message("d\($0)") }
    let outcomes = await withTaskGroup(of: PushOutcome.self) { group in
      for message in messages { group.addTask { await stage.send(message) } }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(outcomes.allSatisfy { $0.kind == .failed || $0.kind == .expired })
    #expect(outcomes.contains(.failed(reason: "access token: invalid_grant")))
    // At once, and after 10 seconds; the third would be after 30.
    #expect(stage.fcm.exchanges <= 2)
    #expect(stage.fcm.requests == 0)
    await stage.end()
  }

  @Test func aTokenEndpointThatComesBackServesWhoWaited() async throws {
    let stage = try await Stage()
    stage.fcm.tokenScript.add(.answer(status: 503), .hangUp, .answer(status: 200, body: "{"))
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.exchanges == 4)
    #expect(stage.hand.pauses == [.seconds(1), .seconds(2), .seconds(4)])
    await stage.end()
  }

  @Test func aRingThatMayHaveArrivedIsRepeatedOnceANoticeNever() async throws {
    for reply in [SimulatedReply.hangUp, .truncated(status: 200), .blackHole] {
      let stage = try await Stage(limits: quick)
      #expect(await stage.send(stage.message()) == .accepted)
      stage.fcm.sendScript.add(reply)
      #expect(await stage.send(stage.message()) == .accepted)
      #expect(stage.fcm.requests == 3)
      stage.fcm.sendScript.add(reply, times: 2)
      #expect(await stage.send(stage.message()).kind == .failed)
      #expect(stage.fcm.requests == 5)
      stage.fcm.sendScript.add(reply)
      #expect(await stage.send(stage.message(purpose: .missedNotice)).kind == .failed)
      #expect(stage.fcm.requests == 6)
      await stage.end()
    }
  }

  @Test func aRingOfACallThatEndedMeanwhileIsNotSent() async throws {
    let stage = try await Stage()
    #expect(await stage.send(stage.message()) == .accepted)
    var message = stage.message()
    let cancellation = PushCancellation()
    message.cancellation = cancellation
    cancellation.cancel()
    #expect(await stage.send(message) == .expired)
    #expect(stage.fcm.requests == 1)
    await stage.end()
  }

  @Test func aBlackHoleEndsAtTheDeadline() async throws {
    let stage = try await Stage()
    #expect(await stage.send(stage.message()) == .accepted)
    stage.fcm.sendScript.add(.blackHole)
    var message = stage.message(purpose: .missedNotice)
    message.deadline = stage.now + .milliseconds(150)
    #expect(await stage.send(message) == .failed(reason: "no answer in time", mayHaveArrived: true))
    await stage.end()
  }

  @Test func whatCannotConnectIsTriedAgainAndThenFails() async throws {
    let stage = try await Stage()
    // Tokens come from one server, messages go to another, which is not there.
    let absent = try await FCMSimulator.start(authority: stage.authority) { 0 }
    let endpoint = absent.origin
    await absent.stop()
    let sender = try FCMSender(
      FCMConfiguration(
        name: "main", serviceAccountFile: stage.fcm.serviceAccountFile, endpoint: endpoint,
        tokenEndpoint: stage.fcm.tokenEndpoint, caFile: stage.authority?.caFile),
      environment: stage.hand.environment())
    #expect(await sender.send(stage.message()) == .failed(reason: "no connection"))
    #expect(
      stage.hand.pauses
        == [.milliseconds(500), .seconds(1), .seconds(2), .seconds(4), .seconds(8)])
    // Not even a notice can have arrived.
    #expect(
      await sender.send(stage.message(purpose: .missedNotice))
        == .failed(reason: "no connection"))
    let statistics = sender.statistics.snapshot
    #expect(statistics.retries == 10)
    #expect(statistics.connected == 0)
    #expect(statistics.lastError == "no connection")
    #expect(stage.fcm.exchanges == 1)
    await sender.close()
    await stage.end()
  }

  /// In real time: the pool needs a moment to see that a connection is gone, and has it in the pause
  /// between two attempts.
  @Test func connectionsThatDropAreMadeAnew() async throws {
    let stage = try await Stage(realTime: true)
    for _ in 0..<5 {
      #expect(await stage.send(stage.message()) == .accepted)
      stage.fcm.dropConnections()
    }
    #expect(stage.fcm.connectionCount >= 2)
    await stage.end()
  }

  @Test func aServerThatIsNotTrustedGetsNothing() async throws {
    let stage = try await Stage()
    let stranger = try LoopbackAuthority()
    let sender = try FCMSender(
      FCMConfiguration(
        name: "main", serviceAccountFile: stage.fcm.serviceAccountFile,
        endpoint: stage.fcm.origin, tokenEndpoint: stage.fcm.tokenEndpoint,
        caFile: stranger.caFile), environment: stage.hand.environment())
    #expect(await sender.send(stage.message()).kind == .failed)
    #expect(stage.fcm.exchanges == 0)
    #expect(stage.fcm.requests == 0)
    await sender.close()
    await stage.end()
  }

  @Test func afterClosingNothingIsSent() async throws {
    let stage = try await Stage()
    #expect(await stage.send(stage.message()) == .accepted)
    await stage.sender.close()
    #expect(await stage.send(stage.message()) == .failed(reason: "closed"))
    await stage.fcm.stop()
    #expect(stage.fcm.requests == 1)
  }

  @Test func answersThatMakeNoSenseTrapNothing() async throws {
    let stage = try await Stage(secure: false)
    for status in [200, 400, 404, 418, 429, 599] {
      for body in ["", "{", String(repeating: "[", count: 20_000), "\u{0}\u{1}"] {
        stage.fcm.sendScript.add(.answer(status: status, body: body))
        #expect(await stage.send(stage.message(seconds: 5)).kind != .tokenGone)
      }
    }
    stage.fcm.sendScript.add(
      .answer(status: 400, body: String(repeating: "a", count: 200_000)), times: 2)
    #expect(
      await stage.send(stage.message())
        == .failed(reason: "the answer is too long", mayHaveArrived: true))
    await stage.end()
  }
}
