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

  /// A bucket that cannot be read while a test makes it fail.
  private final class Bucket: KeyValueBucket {
    private let whole: InProcessBucket
    private let fails = Atomic(false)
    private let reads = Atomic(0)

    init(_ whole: InProcessBucket) { self.whole = whole }

    func fail(_ isFailing: Bool) { fails.store(isFailing, ordering: .releasing) }
    /// How often it was read, or could not be.
    var readCount: Int { reads.load(ordering: .acquiring) }

    func get(_ key: String) async throws -> KeyValueEntry? {
      defer { reads.add(1, ordering: .acquiringAndReleasing) }
      if fails.load(ordering: .acquiring) { throw BusError.timeout }
      return try await whole.get(key)
    }
    func put(
      _ key: String, _ value: [UInt8], expecting: UInt64?, completion: @escaping AppendCompletion
    ) {
      whole.put(key, value, expecting: expecting, completion: completion)
    }
    func delete(_ key: String, expecting: UInt64?, completion: @escaping AppendCompletion) {
      whole.delete(key, expecting: expecting, completion: completion)
    }
    func entries(matching filter: String) async throws -> [KeyValueEntry] {
      try await whole.entries(matching: filter)
    }
    func watch(
      _ filter: String, handler: @escaping EntryHandler
    ) async throws -> any BusSubscription {
      try await whole.watch(filter, handler: handler)
    }
  }

  private let bus = InProcessBus()
  private let receiver = Receiver()
  private let settings = WebhookSettings(
    SignedEndpoint(url: "https://app.example/", secrets: [[1, 2, 3]]))
  private let clock = ClusterClock(
    wallMicroseconds: 1000 * CalendarTime.nowMilliseconds())

  private func bucket() async throws -> Bucket {
    Bucket(try await bus.openBucket("webhooks", BucketOptions()))
  }

  /// - Parameter clock: nil: the machine's time.
  private func lane(
    _ owner: String, _ clock: ClusterClock? = nil, _ bucket: Bucket? = nil
  ) async throws -> WebhookLane {
    let receiver = receiver
    let own = try await self.bucket()
    let environment = WebhookEnvironment(
      owner: owner, clock: clock ?? self.clock,
      events: try await bus.openAppStream(.events, .events),
      deadLetters: try await bus.openAppStream(.deadLetters, .deadLetters),
      bucket: bucket ?? own,
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

  /// The record of an owner that writes it no more.
  private func leaveBehind(_ owner: String, _ clock: ClusterClock) async throws {
    var progress = WebhookProgress(app: "demo", host: "app.example", since: clock.now())
    progress.owner = owner
    let bucket = try await bucket()
    let result = await bucket.put(
      "demo.\(settings.endpoint.id)", ClusterCodec.encode(progress), expecting: 0)
    guard case .appended = result else { throw BusError.failed("\(result)") }
  }

  @Test func theWebhookOfAGatewayThatDiedIsClaimed() async throws {
    let hand = HandClock()
    try await leaveBehind("dead", hand.clock)
    let lane = try await lane("next", hand.clock)
    let begin = hand.clock.now()
    let running = Task { await lane.run() }
    try await until {
      hand.advance(seconds: 1)
      return try await stored()?.owner == "next"
    }
    #expect(hand.clock.now() >= begin + WebhookClaim.lease)
    lane.stop()
    await running.value
    await bus.close()
  }

  /// While the store is away, no owner can write. When it is back, the owner has the whole lease again.
  @Test func silenceThatCannotBeSeenDoesNotCount() async throws {
    let hand = HandClock()
    try await leaveBehind("one", hand.clock)
    let bucket = try await bucket()
    let lane = try await lane("next", hand.clock, bucket)
    let running = Task { await lane.run() }
    func isReadAgain() async throws {
      let before = bucket.readCount
      try await until {
        hand.advance(seconds: 1)
        return bucket.readCount > before
      }
    }
    try await isReadAgain()
    bucket.fail(true)
    // One read may have been under way.
    for _ in 0..<2 { try await isReadAgain() }
    hand.advance(seconds: 60)
    let back = hand.clock.now()
    bucket.fail(false)
    try await until {
      hand.advance(seconds: 1)
      return try await stored()?.owner == "next"
    }
    #expect(hand.clock.now() >= back + WebhookClaim.lease)
    lane.stop()
    await running.value
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
