public import CallAuth
public import CallBus
internal import CallCore
public import CallTelemetry
internal import CallWire
public import Logging
internal import NIOCore
internal import NIOPosix
public import ServiceLifecycle

/// The part of a push gateway that delivers events to the webhooks of apps. Any number of gateways may run: each
/// webhook is delivered to by one at a time.
public struct WebhookDispatcher<Bus: ClusterBus>: Service {
  /// How long a webhook has to answer.
  static var postTimeout: Span { .seconds(10) }
  private static var lookInterval: Span { .seconds(2) }

  private let cluster: String
  private let existing: BucketOptions
  private let tokens: TokenAuthority
  private let bus: Bus
  private let clock: ClusterClock
  private let metrics: MetricsRegistry
  private let logger: Logger
  private let owner: String
  private let leaving = Inbox<Never>(capacity: 1)

  /// - Parameters:
  ///   - existing: the options of buckets that coordinators create.
  ///   - tokens: has the keys in force, and with them the webhooks.
  public init(
    nodeID: String, cluster: String, existing: BucketOptions, tokens: TokenAuthority, bus: Bus,
    clock: ClusterClock, metrics: MetricsRegistry, logger: Logger
  ) {
    self.cluster = cluster
    self.existing = existing
    self.tokens = tokens
    self.bus = bus
    self.clock = clock
    self.metrics = metrics
    self.logger = logger
    owner = "\(nodeID)-\(String(UInt64.random(in: .min ... .max), radix: 36))"
  }

  /// Runs until graceful shutdown, which hands all webhooks back, or until cancelled, which is like a crash.
  ///
  /// It runs on one thread with its connections: else a request and its answer pass through several.
  public func run() async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let loop = group.next()
    let executor = GuestExecutor { executor in loop.execute { executor.run() } }
    let http = ProviderHTTP(caFile: nil, limits: SenderLimits(), group: group)
    await withGracefulShutdownHandler {
      await withTaskExecutorPreference(executor) { await deliver(http) }
    } onGracefulShutdown: {
      leaving.close()
    }
    await http.close()
    try? await group.shutdownGracefully()
    executor.end()
  }

  private func deliver(_ http: ProviderHTTP) async {
    guard let environment = await open(http) else { return }
    let lanes = WebhookLanes(environment, metrics)
    let subjects = Subjects(cluster: cluster, shardCount: 1)
    // Only to be quick: the stream is read again and again without it.
    let subscription = try? bus.subscribe(subjects.appStream(.events, app: "*")) { message in
      lanes.wake(subject: message.subject)
    }
    defer { subscription?.cancel() }
    await withDiscardingTaskGroup { group in
      while !Task.isCancelled, !leaving.isClosed {
        for lane in lanes.follow(tokens.keys.webhooks) { group.addTask { await lane.run() } }
        _ = await leaving.next(until: clock.instant(at: clock.now() + Self.lookInterval))
      }
      lanes.stopAll()
    }
  }

  /// nil where graceful shutdown begins before the store is there.
  private func open(_ http: ProviderHTTP) async -> WebhookEnvironment? {
    let subjects = Subjects(cluster: cluster, shardCount: 1)
    var failures = LogOnce()
    while !Task.isCancelled, !leaving.isClosed {
      do {
        return WebhookEnvironment(
          owner: owner, clock: clock, events: try await bus.openAppStream(.events, .events),
          deadLetters: try await bus.openAppStream(.deadLetters, .deadLetters),
          bucket: try await bus.openBucket(subjects.webhookBucket, existing), logger: logger
        ) { url, headers, body in
          await Self.failure(
            http.post(url, headers: headers, body: body, within: Self.postTimeout),
            now: clock.now())
        }
      } catch {
        if let times = failures.admit(clock.now()) {
          logger.notice(
            "Webhooks wait for the store.",
            metadata: .keys([.error: "\(error)", .count: "\(times)"]))
        }
      }
      _ = await leaving.next(until: clock.instant(at: clock.now() + Self.lookInterval))
    }
    return nil
  }

  /// nil: the webhook took the message.
  private static func failure(_ reply: ProviderReply, now: Timestamp) -> WebhookFailure? {
    switch reply {
    case .answer(let answer) where 200...299 ~= answer.status: nil
    case .answer(let answer):
      WebhookFailure(
        status: answer.status,
        retryAfter: answer.headers["retry-after"].flatMap { RetryAfter.span($0, now: now) })
    case .notSent(let reason), .unknown(let reason): WebhookFailure(reason)
    }
  }
}
