import CallBus
import CallCore
import CallProcesses
import CallPush
import CallTelemetry
import CallTestKit
import Foundation
import Logging
import PushSimulators
import Testing

@Suite("FCM, in trouble", .timeLimit(.minutes(1)))
struct FCMTroubleTests {
  @Test func aQuotaIsWaitedForWhereThereIsTime() async throws {
    let stage = try await FCMStage()
    stage.fcm.sendScript.add(
      FCMSimulator.failure(
        429, "RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED", headers: [("Retry-After", "5")]))
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.hand.pauses == [.seconds(5)])
    // The time that is left by then.
    #expect(stage.fcm.accepted.first?.ttlSeconds == 25)
    stage.fcm.sendScript.add(
      FCMSimulator.failure(429, "RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED"))
    let notice = stage.message(purpose: .missedNotice)
    #expect(await stage.send(notice) == .failed(reason: "QUOTA_EXCEEDED"))
    #expect(stage.hand.pauses.count == 1)
    await stage.end()
  }

  @Test func anInternalErrorIsTriedAgainWithinTheDeadline() async throws {
    let stage = try await FCMStage()
    stage.fcm.sendScript.add(FCMSimulator.failure(500, "INTERNAL", fcm: "INTERNAL"), times: 3)
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.hand.pauses == [.milliseconds(500), .seconds(1), .seconds(2)])
    #expect(stage.sender.statistics.status.retriesTotal == 3)
    stage.fcm.sendScript.add(FCMSimulator.failure(500, "INTERNAL", fcm: "INTERNAL"), times: 9)
    #expect(await stage.send(stage.message()) == .accepted, "the tenth attempt, after 25 s")
    stage.fcm.sendScript.add(FCMSimulator.failure(500, "INTERNAL", fcm: "INTERNAL"), times: 100)
    #expect(await stage.send(stage.message()) == .failed(reason: "INTERNAL"))
    await stage.end()
  }

  @Test func aServiceThatWantsAPauseIsLeftAloneByNotices() async throws {
    let stage = try await FCMStage()
    func notice(_ seconds: Int64) -> PushMessage {
      stage.message(seconds: seconds, purpose: .missedNotice)
    }
    stage.fcm.sendScript.add(
      FCMSimulator.failure(503, "UNAVAILABLE", headers: [("retry-after", "20")]))
    // Too long for this one, which ends at once, and for the next, which is not even sent.
    #expect(await stage.send(notice(10)) == .failed(reason: "UNAVAILABLE"))
    #expect(await stage.send(notice(10)) == .failed(reason: "the service wants a pause"))
    #expect(stage.fcm.requests == 1)
    #expect(await stage.send(notice(30)) == .accepted)
    #expect(stage.hand.pauses == [.seconds(20)])
    #expect(stage.fcm.accepted.first?.ttlSeconds == 10)
    await stage.end()
  }

  @Test func anHourThatIsDemandedOfOneRingSilencesNone() async throws {
    let stage = try await FCMStage()
    stage.fcm.sendScript.add(
      FCMSimulator.failure(503, "UNAVAILABLE", headers: [("retry-after", "3600")]), times: 2)
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.hand.pauses.count == 2, "after 10 s, and a third of what was left then")
    #expect(await stage.send(stage.message("another")) == .accepted)
    #expect(stage.hand.pauses.count == 2, "no wait")
    await stage.end()
  }

  @Test func aRevokedAccessTokenIsRenewedOnce() async throws {
    let stage = try await FCMStage()
    #expect(await stage.send(stage.message()) == .accepted)
    stage.fcm.revokeTokens()
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.exchanges == 2)
    #expect(stage.hand.pauses.isEmpty)
    stage.fcm.sendScript.add(FCMSimulator.failure(401, "UNAUTHENTICATED"), times: 2)
    let notice = stage.message(purpose: .missedNotice)
    #expect(await stage.send(notice) == .rejected(reason: "UNAUTHENTICATED"))
    #expect(stage.fcm.exchanges == 3)
    await stage.end()
  }

  @Test func manyRefusedPushesAskForOneToken() async throws {
    let stage = try await FCMStage()
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
    let stage = try await FCMStage()
    #expect(await stage.send(stage.message()) == .accepted)
    stage.hand.advance(seconds: 2699)
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.exchanges == 1)
    // From here on the next token is fetched, and this one is used meanwhile.
    stage.hand.advance(seconds: 1)
    while Set(stage.fcm.accepted.map(\.accessToken)).count < 2 {
      #expect(await stage.send(stage.message()) == .accepted)
    }
    #expect(stage.fcm.exchanges == 2)
    // Long after, the push waits for a new token.
    stage.hand.advance(seconds: 7200)
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.exchanges == 3)
    await stage.end()
  }

  @Test func aTokenEndpointThatRefusesIsNotStormed() async throws {
    let stage = try await FCMStage()
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
    // At 0, 0.5, 1.5 and 3.5 s, then one each 4 s, for all.
    #expect(stage.fcm.exchanges <= 10)
    #expect(stage.fcm.requests == 0)
    await stage.end()
  }

  @Test func aTokenEndpointThatComesBackServesWhoWaited() async throws {
    let stage = try await FCMStage()
    stage.fcm.tokenScript.add(.answer(status: 503), .hangUp, .answer(status: 200, body: "{"))
    #expect(await stage.send(stage.message()) == .accepted)
    #expect(stage.fcm.exchanges == 4)
    #expect(stage.hand.pauses == [.milliseconds(500), .seconds(1), .seconds(2)])
    await stage.end()
  }

  @Test func aRingThatMayHaveArrivedIsRepeatedANoticeNever() async throws {
    for reply in [SimulatedReply.hangUp, .truncated(status: 200), .blackHole] {
      let stage = try await FCMStage(limits: quickFCMLimits)
      #expect(await stage.send(stage.message()) == .accepted)
      stage.fcm.sendScript.add(reply)
      #expect(await stage.send(stage.message()) == .accepted)
      #expect(stage.fcm.requests == 3)
      stage.fcm.sendScript.add(reply)
      #expect(await stage.send(stage.message(purpose: .missedNotice)).kind == .failed)
      #expect(stage.fcm.requests == 4)
      await stage.end()
    }
  }

  @Test func aRingOfACallThatEndedMeanwhileIsNotSent() async throws {
    let stage = try await FCMStage()
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
    let stage = try await FCMStage()
    #expect(await stage.send(stage.message()) == .accepted)
    stage.fcm.sendScript.add(.blackHole)
    var message = stage.message(purpose: .missedNotice)
    message.deadline = stage.now + .milliseconds(150)
    #expect(await stage.send(message) == .failed(reason: "no answer in time", mayHaveArrived: true))
    await stage.end()
  }

  @Test func whatCannotConnectIsTriedAgainAndThenFails() async throws {
    let stage = try await FCMStage()
    // Tokens come from one server. Messages go to another one, which does not exist.
    // No server of another test gets such a port from the system.
    let port = try FreePorts.reserve()
    var configuration = FCMConfiguration(for: stage.fcm)
    configuration.endpoint = "https://127.0.0.1:\(port)"
    configuration.caFile = stage.authority?.caFile
    let sender = try FCMSender(configuration, environment: stage.hand.environment())
    #expect(await sender.send(stage.message()) == .failed(reason: "no connection"))
    #expect(
      stage.hand.pauses.prefix(6)
        == [.milliseconds(500), .seconds(1), .seconds(2), .seconds(4), .seconds(4), .seconds(4)])
    let ringRetries = stage.hand.pauses.count
    // Not even a notice can have arrived.
    #expect(
      await sender.send(stage.message(purpose: .missedNotice))
        == .failed(reason: "no connection"))
    #expect(
      stage.hand.pauses.suffix(5)
        == [.milliseconds(500), .seconds(1), .seconds(2), .seconds(4), .seconds(8)])
    let statistics = sender.statistics.status
    #expect(statistics.retriesTotal == UInt64(ringRetries + 5))
    #expect(statistics.connected == 0)
    #expect(statistics.lastError == "no connection")
    #expect(stage.fcm.exchanges == 1)
    await sender.close()
    await stage.end()
  }

  /// In real time: the pool detects the lost connection during the pause between two attempts.
  @Test func connectionsThatDropAreMadeAnew() async throws {
    let stage = try await FCMStage(realTime: true)
    for _ in 0..<5 {
      #expect(await stage.send(stage.message()) == .accepted)
      stage.fcm.dropConnections()
    }
    #expect(stage.fcm.connectionCount >= 2)
    await stage.end()
  }

  @Test func aServerThatIsNotTrustedGetsNothing() async throws {
    let stage = try await FCMStage()
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
    let stage = try await FCMStage()
    #expect(await stage.send(stage.message()) == .accepted)
    await stage.sender.close()
    #expect(await stage.send(stage.message()) == .failed(reason: "closed"))
    await stage.fcm.stop()
    #expect(stage.fcm.requests == 1)
  }

  @Test func answersThatMakeNoSenseTrapNothing() async throws {
    let stage = try await FCMStage(secure: false)
    for status in [200, 400, 404, 418, 429, 599] {
      for body in ["", "{", String(repeating: "[", count: 20_000), "\u{0}\u{1}"] {
        stage.fcm.sendScript.add(.answer(status: status, body: body))
        #expect(await stage.send(stage.message(seconds: 5)).kind != .tokenGone)
      }
    }
    stage.fcm.sendScript.add(
      .answer(status: 400, body: String(repeating: "a", count: 200_000)))
    #expect(
      await stage.send(stage.message(purpose: .missedNotice))
        == .failed(reason: "the answer is too long", mayHaveArrived: true))
    await stage.end()
  }
}
