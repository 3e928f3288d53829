import CallCore
import CallPush
import CallTelemetry
import Testing

@Suite("What a sender counts")
struct SenderStatisticsTests {
  @Test func anUnusedSenderHasCountedNothing() {
    let now = SenderStatistics(name: "main", provider: .fcm).status
    #expect(now.name == "main")
    #expect(now.provider == "fcm")
    #expect(now.inFlight == 0)
    #expect(now.connected == 0)
    #expect(
      now.outcomes
        == Dictionary(uniqueKeysWithValues: PushOutcomeKind.allCases.map { ($0.rawValue, 0) }))
    #expect(now.retriesTotal == 0)
    #expect(now.p50 == 0)
    #expect(now.lastError == nil)
  }

  @Test func everyKindOfOutcomeIsCountedByItself() {
    let statistics = SenderStatistics(name: "main", provider: .apns)
    let outcomes: [PushOutcome] = [
      .accepted, .accepted, .tokenGone(at: nil), .rejected(reason: "x"), .expired,
      .failed(reason: "y"),
    ]
    for _ in outcomes { statistics.began() }
    #expect(statistics.status.inFlight == 6)
    for outcome in outcomes { statistics.ended(outcome) }
    let now = statistics.status
    #expect(now.inFlight == 0)
    #expect(
      now.outcomes == ["accepted": 2, "tokenGone": 1, "rejected": 1, "expired": 1, "failed": 1])
  }

  @Test func latencyAndTheNewestTroubleAreKept() {
    let statistics = SenderStatistics(name: "main", provider: .webPush)
    statistics.answered(after: 1000)
    statistics.answered(after: 64_000)
    statistics.retried()
    statistics.failed("first", at: Timestamp(microseconds: 1))
    statistics.failed(String(repeating: "é", count: 500), at: Timestamp(microseconds: 2000))
    let now = statistics.status
    #expect((1000...1250).contains(now.p50))
    #expect((64_000...80_000).contains(now.p99))
    #expect(now.retriesTotal == 1)
    #expect(now.lastError == String(repeating: "é", count: 100))
    #expect(now.lastErrorAtMilliseconds == 2)
  }

  @Test func connectionsAreCountedOrKnownToBeThere() {
    let statistics = SenderStatistics(name: "main", provider: .apns)
    statistics.connectionsChanged(by: 1)
    statistics.connectionsChanged(by: 1)
    statistics.connectionsChanged(by: -1)
    #expect(statistics.status.connected == 1)
    let other = SenderStatistics(name: "main", provider: .fcm)
    other.reachable(true)
    other.reachable(true)
    #expect(other.status.connected == 1)
    other.reachable(false)
    #expect(other.status.connected == 0)
  }

  @Test func theFiguresStandForPrometheusUnderProviderAndSender() {
    let metrics = MetricsRegistry()
    let statistics = SenderStatistics(name: "main", provider: .fcm, metrics: metrics)
    statistics.began()
    statistics.ended(.accepted)
    statistics.answered(after: 1000)
    let text = metrics.render()
    #expect(
      text.contains(
        #"callmesh_push_outcomes_total{provider="fcm",sender="main",outcome="accepted"} 1"#))
    #expect(text.contains(#"callmesh_push_in_flight{provider="fcm",sender="main"} 0"#))
    #expect(
      text.contains(#"callmesh_push_provider_seconds_count{provider="fcm",sender="main"} 1"#))
  }
}
