public import CallAuth
public import CallBus
public import CallCore
public import CallTelemetry
internal import CallWire
public import Logging
public import ServiceLifecycle

/// A push gateway: takes jobs from the work queue, sends their pushes, and reports the outcomes to the shards.
/// Stateless; any number may run. The jobs of one that dies go to the others.
///
/// `run` owns everything: pushes under way are its child tasks.
public struct PushGateway<Bus: ClusterBus>: Service {
  public typealias Encoder = @Sendable (PushContent) -> PayloadOutcome

  let configuration: PushGatewayConfiguration
  let bus: Bus
  let clock: ClusterClock
  let logger: Logger
  let pools: [GatewayPool]
  let keyring: PushKeyring
  let encode: Encoder
  let metrics: GatewayMetrics
  /// The number to which shards reply; never an edge's.
  let peer: UInt64
  let subjects: Subjects
  let depths = LaneDepths()
  /// Policy when full: refuse, and count. The queue redelivers a job that is lost here.
  let inbox: Inbox<GatewayEvent>

  public init(
    configuration: PushGatewayConfiguration, bus: Bus, clock: ClusterClock,
    metrics: MetricsRegistry, logger: Logger, pools: [GatewayPool], keyring: PushKeyring,
    peer: UInt64 = PeerKind.gateway.number(.random(in: 0 ... .max)),
    encode: @escaping Encoder = PayloadEncoder.encode
  ) {
    self.configuration = configuration
    self.bus = bus
    self.clock = clock
    self.logger = logger.with([.node: "\(configuration.nodeID)"])
    self.pools = pools
    self.keyring = keyring
    self.encode = encode
    self.peer = peer
    subjects = Subjects(cluster: configuration.cluster, shardCount: configuration.shardCount)
    self.metrics = GatewayMetrics(metrics, lanes: Set(pools.map(\.lane)), depths: depths)
    inbox = Inbox(
      capacity: 4 * configuration.inFlight(pools: pools.count) + 65_536, timers: clock.timers)
    GatewayMetrics.registerQueues(metrics, inbox: inbox, bus: bus)
  }

  /// The lanes that it consumes.
  var lanes: [PushLane] { PushLane.allCases.filter { lane in pools.contains { $0.lane == lane } } }

  /// Runs until graceful shutdown, for which pushes under way may finish, or until cancelled, which is like a crash.
  /// - Throws: `BusError`, if the work queue or the audit trail cannot be opened.
  public func run() async throws {
    guard let queue = try await openQueue() else { return }
    let subscriptions = try listen()
    defer { for subscription in subscriptions { subscription.cancel() } }
    let consumers = LaneConsumers(hasLanes: !lanes.isEmpty)
    let orders = try await orderDispatcher()
    await withGracefulShutdownHandler {
      await withTaskGroup(of: Void.self) { group in
        group.addTask { await sendHeartbeats(consumers) }
        group.addTask { await watchDepths(queue) }
        group.addTask { await orders.run() }
        await serve(queue, consumers)
        group.cancelAll()
      }
    } onGracefulShutdown: {
      inbox.offer(.shutDown)
    }
    publishHeartbeat(.gone)
  }

  /// nil if graceful shutdown begins before the queue is available.
  private func openQueue() async throws -> Bus.QueueType? {
    let retry = StoreRetryPolicy(clock: clock, limit: configuration.storeTimeout) {
      [logger] error in
      logger.notice("waits for the store", metadata: .keys([.error: "\(error)"]))
    }
    let leaving = Inbox<Never>(capacity: 1)
    return try await withGracefulShutdownHandler {
      try await leaving.unlessClosed {
        try await retry { try await bus.openWorkQueue(configuration.queue) }
      }
    } onGracefulShutdown: {
      leaving.close()
    }
  }

  /// Begins graceful shutdown.
  package func beginShutdown() { inbox.offer(.shutDown) }

  private func closeSenders() async {
    await withDiscardingTaskGroup { group in
      for pool in pools { group.addTask { await pool.sender.close() } }
    }
  }

  /// Consumes jobs, sends and reports, until shutdown and until nothing is under way.
  private func serve(_ queue: Bus.QueueType, _ consumers: LaneConsumers) async {
    let loop = GatewayLoop(self)
    await withDiscardingTaskGroup { group in
      consumeAll(queue, consumers, &group)
      var end: Timestamp?
      while !Task.isCancelled {
        let batch = await inbox.next(until: loop.nextDeadline(end: end))
        let now = clock.now()
        for event in batch {
          switch event {
          case .shutDown:
            if end == nil { end = now + configuration.drain }
            fallthrough
          case .drain:
            consumers.end()
            loop.drain()
          case .resume:
            guard end == nil else { continue }
            loop.resume()
            consumeAll(queue, consumers, &group)
          default: loop.handle(event, now: now)
          }
        }
        loop.tick(now: now)
        for push in loop.takeSends() {
          group.addTask { [inbox] in
            inbox.offer(.sent(push.number, await send(push)))
          }
        }
        if let end, loop.isIdle || end <= now {
          loop.releaseAll()
          break
        }
      }
      consumers.end()
      // Also ends pushes that are still under way.
      await closeSenders()
      group.cancelAll()
    }
  }

  /// Begins to consume all lanes, each in a task of its own, so that an unavailable lane delays nothing else.
  private func consumeAll(
    _ queue: Bus.QueueType, _ consumers: LaneConsumers, _ group: inout DiscardingTaskGroup
  ) {
    guard let round = consumers.begin() else { return }
    for lane in lanes {
      group.addTask { await consume(lane, queue, consumers, round) }
    }
  }

  /// Begins to consume a lane; retries until that succeeds or the round is over. The subscription then continues by
  /// itself.
  private func consume(
    _ lane: PushLane, _ queue: Bus.QueueType, _ consumers: LaneConsumers, _ round: Int
  ) async {
    let inFlight = configuration.inFlight(pools: pools.count { $0.lane == lane })
    let counter = metrics.jobs[lane]
    var failures = LogOnce()
    while !Task.isCancelled, consumers.isCurrent(round) {
      do {
        let consumer = try await queue.consume(lane: lane.rawValue, inFlight: inFlight) {
          [inbox] item in
          counter?.increment()
          inbox.offer(.item(item))
        }
        if consumers.add(consumer, in: round) {
          logger.notice("push gateway serves", metadata: .keys([.reason: "\(lane.rawValue)"]))
        }
        return
      } catch {
        if !Task.isCancelled, let times = failures.admit(clock.now()) {
          logger.warning(
            "Jobs cannot be taken yet.",
            metadata: .keys([
              .reason: "\(lane.rawValue)", .error: "\(error)", .count: "\(times)",
            ]))
        }
        await clock.sleep(for: .milliseconds(500))
      }
    }
  }

  /// Mints the capability, encodes the push, and sends it.
  private func send(_ push: GatewayLoop<Bus>.Send) async -> PushOutcome {
    let job = push.job
    let capability =
      keyring.current?.mint(
        PushCapability(
          app: job.user.app, user: job.user.user, device: job.device.text,
          call: job.call.bytes,
          expires: (job.ringDeadline + configuration.capabilityGrace).microseconds / 1_000_000))
      ?? ""
    let outcome = encode(PushContent(job: job, capability: capability))
    guard case .payload(let payload) = outcome else {
      return outcome.rejection ?? .rejected(reason: "noPayload")
    }
    var message = payload.message(id: PushIdentity(job).uuid, for: job)
    message.cancellation = push.cancellation
    message.trust = job.trust
    if !message.isUrgent {
      message.onPause = { [inbox, number = push.number] until in
        if let until {
          inbox.offer(.paused(number, until: until))
        } else {
          inbox.offer(.resumed(number))
        }
      }
    }
    return await pools[push.pool].sender.send(message)
  }
}

/// The input of a gateway.
enum GatewayEvent: Sendable {
  case item(WorkItem)
  case sent(UInt64, PushOutcome)
  /// The sender of a push pauses between two attempts.
  case paused(UInt64, until: Timestamp)
  case resumed(UInt64)
  case answered(GatewayReporting.Answers)
  /// Calls that stopped ringing.
  case withdrawn([PushRinging])
  /// Rings that another gateway dropped unsent.
  case neverSent([PushLeg])
  case status(replyTo: String)
  case drain
  case resume
  case shutDown
}
