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

    func take(_ headers: [(String, String)]) {
      let id = headers.first { $0.0 == "webhook-id" }?.1 ?? ""
      ids.withLock { $0.append(String(id.split(separator: "_").last ?? "")) }
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

  private var key: String { "demo.\(settings.endpoint.id)" }

  private func bucket() async throws -> Bucket {
    Bucket(try await bus.openBucket("webhooks", BucketOptions()))
  }

  private func store(_ kinds: AppEventKind...) async throws {
    let stream = try await bus.openAppStream(.events, .events)
    let events = kinds.map { WebhookBench.event(2, $0) }
    let result = await stream.add(
      id: "\(kinds)", app: "demo", ClusterCodec.encode(events))
    guard case .appended = result else { throw BusError.failed("\(result)") }
  }

  private func stored() async throws -> WebhookProgress? {
    try await bucket().get(key)?.value.map { try ClusterCodec.webhookProgress($0) }
  }

  /// Runs a lane until `body` has returned.
  /// - Parameter clock: nil: the machine's time.
  private func run(
    _ owner: String, _ clock: ClusterClock? = nil, _ bucket: Bucket? = nil,
    until body: (WebhookLane) async throws -> Void
  ) async throws {
    let receiver = receiver
    let own = try await self.bucket()
    let environment = WebhookEnvironment(
      owner: owner, clock: clock ?? self.clock,
      events: try await bus.openAppStream(.events, .events),
      deadLetters: try await bus.openAppStream(.deadLetters, .deadLetters),
      bucket: bucket ?? own,
      logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    ) { _, headers, _ in
      receiver.take(headers)
      return nil
    }
    let lane = WebhookLane(
      app: "demo", settings, environment,
      WebhookMetrics(MetricsRegistry(), app: "demo", webhook: "w"))
    let running = Task { await lane.run() }
    try await body(lane)
    lane.stop()
    await running.value
  }

  @Test func aGatewayHandsTheWebhookBackAndTheNextOneGoesOn() async throws {
    try await store(.placed, .ringing)
    try await run("one") { _ in
      await until { receiver.taken == ["placed", "ringing"] }
      try await until { try await stored()?.owner == "one" }
    }
    let stopped = try #require(try await stored())
    #expect(stopped.owner == "" && stopped.delivered == 2 && stopped.open.isEmpty)
    #expect(stopped.host == "app.example" && stopped.app == "demo")

    try await store(.answered)
    try await run("two") { _ in
      await until { receiver.taken == ["placed", "ringing", "answered"] }
    }
    #expect(try await stored()?.delivered == 3)
    await bus.close()
  }

  /// While the store is away, no owner can write. When it is back, the owner has the whole lease again.
  @Test func silenceThatCannotBeSeenDoesNotCount() async throws {
    let hand = HandClock()
    let bucket = try await bucket()
    // An owner that writes its record no more.
    var progress = WebhookProgress(app: "demo", host: "app.example", since: hand.clock.now())
    progress.owner = "one"
    let result = await bucket.put(
      key, ClusterCodec.encode(progress), expecting: 0)
    guard case .appended = result else { throw BusError.failed("\(result)") }
    func isReadAgain() async {
      let before = bucket.readCount
      await until {
        hand.advance(seconds: 1)
        return bucket.readCount > before
      }
    }
    try await run("next", hand.clock, bucket) { _ in
      await isReadAgain()
      bucket.fail(true)
      // One read may have been under way.
      for _ in 0..<2 { await isReadAgain() }
      hand.advance(seconds: 60)
      let back = hand.clock.now()
      bucket.fail(false)
      try await until {
        hand.advance(seconds: 1)
        return try await stored()?.owner == "next"
      }
      #expect(hand.clock.now() >= back + WebhookClaim.lease)
    }
    await bus.close()
  }

  /// Another gateway has written the record: this one has lost the webhook.
  @Test func aGatewayThatLostTheWebhookClaimsItAnew() async throws {
    try await run("one") { lane in
      try await until { try await stored()?.owner == "one" }
      let bucket = try await bucket()
      var other = try #require(try await stored())
      (other.owner, other.delivered) = ("", 70)
      _ = await bucket.put(
        key, ClusterCodec.encode(other), expecting: nil)
      // It changes nothing of what the other has written before it has claimed the webhook again.
      try await store(.placed)
      lane.wake()
      try await until {
        let now = try await stored()
        return now?.owner == "one" && now?.delivered == 71
      }
    }
    await bus.close()
  }
}
