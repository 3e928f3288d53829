public import CallAuth
public import CallBus
public import CallCore
public import CallTelemetry
internal import CallWire
public import Logging
public import ServiceLifecycle

/// One push gateway: takes jobs from the work queue, has them sent, and tells the shards what became
/// of them. Any number, stateless; one that dies leaves its jobs to the others.
///
/// `run` owns everything: pushes under way are its child tasks.
public struct PushGateway<Bus: ClusterBus>: Service {
  /// Writes the payload: a message for the sender, or why there is none.
  public typealias Encoder =
    @Sendable (_ job: PushJob, _ capability: String, _ id: String) -> PushEncoding

  let configuration: PushGatewayConfiguration
  let bus: Bus
  let clock: ClusterClock
  let logger: Logger
  let pools: [GatewayPool]
  let keyring: PushKeyring
  let encode: Encoder
  let metrics: GatewayMetrics
  /// Where replies of shards come to; never an edge's number.
  let peer: UInt64
  let subjects: Subjects
  let depths = LaneDepths()
  /// Policy when full: refuse, and count; a job that is lost here is handed out again.
  let inbox: Inbox<GatewayEvent>

  public init(
    configuration: PushGatewayConfiguration, bus: Bus, clock: ClusterClock,
    metrics: MetricsRegistry, logger: Logger, pools: [GatewayPool], keyring: PushKeyring,
    peer: UInt64 = PeerKind.gateway.number(.random(in: 0 ... .max)), encode: @escaping Encoder
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
  }

  /// The lanes that it takes jobs from.
  var lanes: [PushLane] { PushLane.allCases.filter { lane in pools.contains { $0.lane == lane } } }

  /// Runs until graceful shutdown has let what is under way finish, or until it is cancelled, which is
  /// as a crash would be.
  public func run() async throws {
    guard let queue = try await openQueue() else { return }
    let subscriptions = try listen()
    defer { for subscription in subscriptions { subscription.cancel() } }
    let takers = LaneConsumers()
    let orders = try await orderDispatcher()
    await withGracefulShutdownHandler {
      await withTaskGroup(of: Void.self) { group in
        group.addTask { await beat(takers) }
        group.addTask { await watchDepths(queue) }
        group.addTask { await orders.run() }
        await serve(queue, takers)
        group.cancelAll()
      }
    } onGracefulShutdown: {
      inbox.offer(.shutDown)
    }
    say(.gone)
  }

  /// nil where the node is asked to go before the queue is there.
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

  /// What graceful shutdown does.
  package func beginShutdown() { inbox.offer(.shutDown) }

  private func closeSenders() async {
    await withDiscardingTaskGroup { group in
      for pool in pools { group.addTask { await pool.sender.close() } }
    }
  }

  /// Takes, sends, reports, until it is to go and nothing is under way any more.
  private func serve(_ queue: Bus.QueueType, _ takers: LaneConsumers) async {
    let loop = GatewayLoop(self)
    await withDiscardingTaskGroup { group in
      takeAll(queue, takers, &group)
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
            takers.end()
            loop.drain()
          case .resume:
            guard end == nil else { continue }
            loop.resume()
            takeAll(queue, takers, &group)
          default: loop.handle(event, now: now)
          }
        }
        loop.tick(now: now)
        for push in loop.takeSends() {
          group.addTask { [inbox] in
            inbox.offer(.sent(push.number, await send(push.job, push.pool, push.cancellation)))
          }
        }
        if let end, loop.isIdle || end <= now {
          loop.releaseAll()
          break
        }
      }
      takers.end()
      // What they still have under way ends with them.
      await closeSenders()
      group.cancelAll()
    }
  }

  /// Begins to take from all lanes, each in a task of its own: one that cannot be taken from holds up
  /// neither the others nor what else the gateway does.
  private func takeAll(
    _ queue: Bus.QueueType, _ takers: LaneConsumers, _ group: inout DiscardingTaskGroup
  ) {
    guard let round = takers.begin() else { return }
    for lane in lanes {
      group.addTask { await take(lane, queue, takers, round) }
    }
  }

  /// Begins to take from a lane; tries again until it can, or is not wanted to. What it takes from then
  /// on, its subscription sees to.
  private func take(
    _ lane: PushLane, _ queue: Bus.QueueType, _ takers: LaneConsumers, _ round: Int
  ) async {
    let inFlight = configuration.inFlight(pools: pools.count { $0.lane == lane })
    let counter = metrics.jobs[lane]
    var failures = LogOnce()
    while !Task.isCancelled, takers.wants(round) {
      do {
        let taker = try await queue.take(lane: lane.rawValue, inFlight: inFlight) { [inbox] item in
          counter?.increment()
          inbox.offer(.item(item))
        }
        if takers.add(taker, in: round) {
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

  /// Has one push sent: mints what it allows, writes it, gives it to the sender.
  private func send(_ job: PushJob, _ pool: Int, _ cancellation: PushCancellation) async
    -> PushOutcome
  {
    let id = PushIdentity(job).uuid
    let capability =
      keyring.current?.mint(
        PushCapability(
          app: job.user.app, user: job.user.user, device: job.device.text,
          call: job.call.bytes,
          expires: (job.ringDeadline + configuration.capabilityGrace).microseconds / 1_000_000))
      ?? ""
    switch encode(job, capability, id) {
    case .message(var message):
      message.cancellation = cancellation
      return await pools[pool].sender.send(message)
    case .none(let outcome): return outcome
    }
  }
}

/// What becomes of a job when it is written.
public enum PushEncoding: Sendable, Equatable {
  case message(PushMessage)
  /// There is nothing to send; what the shard is told.
  case none(PushOutcome)
}

/// What happens to a gateway.
enum GatewayEvent: Sendable {
  case item(WorkItem)
  case sent(UInt64, PushOutcome)
  case answered(GatewayReporting.Answers)
  /// Calls that ring no more.
  case withdrawn([CallID])
  /// Rings that a gateway dropped before anybody sent them.
  case neverSent([PushLeg])
  case status(replyTo: String)
  case drain
  case resume
  case shutDown
}
