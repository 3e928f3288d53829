import CallAuth
import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallWire
import Logging
import Synchronization
import Testing

/// Gateways that deliver to one webhook, on a bus in memory.
@Suite(.timeLimit(.minutes(2))) struct WebhookLaneTests {
  /// The app's server.
  private final class Receiver: Sendable {
    let ids = Mutex<[String]>([])
    let failure = Mutex<WebhookFailure?>(nil)

    func take(_ headers: [(String, String)]) -> WebhookFailure? {
      if let failure = failure.withLock({ $0 }) { return failure }
      let id = headers.first { $0.0 == "webhook-id" }?.1 ?? ""
      ids.withLock { $0.append(String(id.split(separator: "_").last ?? "")) }
      return nil
    }
    var taken: [String] { ids.withLock { $0 } }
  }

  private let bus = InProcessBus()
  private let receiver = Receiver()
  private let settings = WebhookSettings(
    SignedEndpoint(url: "https://app.example/", secrets: [[1, 2, 3]]))
  private let clock = ClusterClock(
    wallMicroseconds: 1000 * CalendarTime.nowMilliseconds())

  private func lane(_ owner: String) async throws -> WebhookLane {
    let receiver = receiver
    let environment = WebhookEnvironment(
      owner: owner, clock: clock, events: try await bus.openAppStream(.events, .events),
      deadLetters: try await bus.openAppStream(.deadLetters, .deadLetters),
      bucket: try await bus.openBucket("webhooks", BucketOptions()),
      logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    ) { _, headers, _ in receiver.take(headers) }
    return WebhookLane(
      app: "demo", settings, environment,
      WebhookMetrics(MetricsRegistry(), app: "demo", webhook: "w"))
  }

  private func store(_ kinds: AppEventKind...) async throws {
    let stream = try await bus.openAppStream(.events, .events)
    let now = clock.now()
    let events = kinds.map {
      AppEvent(
        call: CallID(high: 1, low: 2), kind: $0, at: now,
        callee: UserKey(app: "demo", user: "bob"), caller: Party(user: "ann", device: "a1"),
        video: false, placedAt: now)
    }
    let result = await stream.add(
      id: "\(kinds)", app: "demo", ClusterCodec.encode(events))
    guard case .appended = result else { throw BusError.failed("\(result)") }
  }

  private func stored() async throws -> WebhookProgress? {
    let bucket = try await bus.openBucket("webhooks", BucketOptions())
    let key = "demo.\(settings.endpoint.id)"
    return try await bucket.get(key)?.value.map { try ClusterCodec.webhookProgress($0) }
  }

  private func until(_ holds: () async throws -> Bool) async throws {
    while !(try await holds()) { try await Task.sleep(for: .milliseconds(5)) }
  }

  @Test func aGatewayHandsTheWebhookBackAndTheNextOneGoesOn() async throws {
    try await store(.placed, .ringing)
    let first = try await lane("one")
    let running = Task { await first.run() }
    try await until { receiver.taken == ["placed", "ringing"] }
    try await until { try await stored()?.owner == "one" }
    first.stop()
    await running.value
    let stopped = try #require(try await stored())
    #expect(stopped.owner == "" && stopped.delivered == 2 && stopped.open.isEmpty)
    #expect(stopped.host == "app.example" && stopped.app == "demo")

    try await store(.answered)
    let second = try await lane("two")
    let next = Task { await second.run() }
    try await until { receiver.taken == ["placed", "ringing", "answered"] }
    second.stop()
    await next.value
    #expect(try await stored()?.delivered == 3)
    await bus.close()
  }

  @Test func whatFailsIsOpenInTheRecord() async throws {
    receiver.failure.withLock { $0 = WebhookFailure("status 500") }
    try await store(.placed, .ended)
    let lane = try await lane("one")
    let running = Task { await lane.run() }
    try await until { (try await stored()?.failures ?? 0) > 0 }
    lane.stop()
    await running.value
    let progress = try #require(try await stored())
    #expect(progress.open.map(\.index) == [0, 1] && progress.lastFailure == "status 500")
    #expect(progress.delivered == 0 && progress.oldest != nil)
    await bus.close()
  }

  /// Another gateway has written the record: this one has lost the webhook.
  @Test func aGatewayThatLostTheWebhookClaimsItAnew() async throws {
    let lane = try await lane("one")
    let running = Task { await lane.run() }
    try await until { try await stored()?.owner == "one" }
    let bucket = try await bus.openBucket("webhooks", BucketOptions())
    var other = try #require(try await stored())
    (other.owner, other.delivered) = ("", 70)
    _ = await bucket.put(
      "demo.\(settings.endpoint.id)", ClusterCodec.encode(other), expecting: nil)
    // It changes nothing of what the other has written before it has claimed the webhook again.
    try await store(.placed)
    lane.wake()
    try await until {
      let now = try await stored()
      return now?.owner == "one" && now?.delivered == 71
    }
    lane.stop()
    await running.value
    await bus.close()
  }
}
