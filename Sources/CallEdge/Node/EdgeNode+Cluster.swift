internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import FoundationEssentials
internal import Logging
internal import Synchronization

extension EdgeNode {
  /// Listens to what the cluster says to this edge.
  func subscribe(_ loops: [LoopHandle], _ state: EdgeStateBox) async throws
    -> [any BusSubscription]
  {
    var out: [any BusSubscription] = []
    do {
      out.append(contentsOf: try subscribeSessions(loops))
      out.append(try subscribeStatus(state))
      let node = configuration.nodeID
      out.append(
        try answer(shared.subjects.adminCall) { CallReport(found: false, node: node) })
      out.append(
        try answer(shared.subjects.adminUser) { UserReport(found: false, node: node) })
      out.append(try await watchLeases())
    } catch {
      for subscription in out { subscription.cancel() }
      throw error
    }
    return out
  }

  /// What shards say to the sessions of this edge, and ask of it.
  func subscribeSessions(_ loops: [LoopHandle]) throws -> [any BusSubscription] {
    [try subscribeDeliveries(loops), try subscribeAnnounceRequests(loops)]
  }

  /// Decodes on the bus's thread and hands each event loop its part.
  private func subscribeDeliveries(_ loops: [LoopHandle]) throws -> any BusSubscription {
    let shared = shared
    return try bus.subscribe(shared.subjects.edge(incarnation)) { message in
      guard let batch = try? ClusterCodec.edgeBatch(message.bytes) else {
        return shared.metrics.batchesUnreadable.increment()
      }
      if batch.unreadable > 0 {
        shared.metrics.itemsUnreadable.increment(by: UInt64(batch.unreadable))
      }
      Self.distribute(batch.items, to: loops, shared)
    }
  }

  private static func distribute(
    _ items: [EdgeItem], to loops: [LoopHandle], _ shared: EdgeShared
  ) {
    var busy: [LoopHandle] = []
    for (index, loop) in loops.enumerated() {
      let part =
        loops.count == 1
        ? items : items.filter { EdgeLoop.loopIndex(ofSession: $0.session) == index }
      guard !part.isEmpty else { continue }
      loop.offer(part, dropped: shared.metrics.deliveriesDropped)
      busy.append(loop)
    }
    recordRings(items.compactMap(\.ringsSince), of: busy, shared)
  }

  /// Records the ring latency of invites when all loops have written theirs: the devices of a call have their
  /// sessions on several. The clocks of two edges may differ, so a negative span counts as 0.
  private static func recordRings(
    _ rings: [Timestamp], of loops: [LoopHandle], _ shared: EdgeShared
  ) {
    guard !rings.isEmpty else { return }
    let left = Countdown(loops.count)
    for loop in loops {
      // Behind what was just offered.
      loop.execute { _ in
        guard left.isLast(adding: 0) != nil else { return }
        let now = shared.clock.now()
        for since in rings {
          shared.metrics.ringLatency.record(microseconds: max(0, (now - since).microseconds))
        }
      }
    }
  }

  /// A shard's new owner asks which sessions of its users are here.
  private func subscribeAnnounceRequests(_ loops: [LoopHandle]) throws -> any BusSubscription {
    let shared = shared
    let bus = bus
    return try bus.subscribe(shared.subjects.announceRequests) { message in
      guard let request = try? ClusterCodec.announceRequest(message.bytes),
        request.shard < UInt32(shared.configuration.shardCount)
      else { return shared.metrics.batchesUnreadable.increment() }
      let shard = Int(request.shard)
      // The last loop to finish says so: on one connection, that comes behind all that was said.
      let left = Countdown(loops.count)
      for loop in loops {
        loop.execute {
          guard let announced = left.isLast(adding: $0.announce(shard: shard)) else { return }
          let done = AnnounceDone(
            shard: request.shard, epoch: request.epoch, edge: shared.incarnation,
            sessions: announced, number: request.number, secret: shared.secret)
          bus.publish(shared.subjects.announceDone(shard: shard), ClusterCodec.encode(done))
        }
      }
    }
  }

  private func watchLeases() async throws -> any BusSubscription {
    let health = shared.health
    // An edge that starts while the store elects a leader waits for it.
    let limit = configuration.storeTimeout
    let retry = StoreRetryPolicy(clock: shared.clock, limit: limit) { [shared] error in
      shared.logger.notice("waits for the store", metadata: .keys([.error: "\(error)"]))
    }
    let bucket = try await retry {
      try await bus.openBucket(shared.subjects.leaseBucket, configuration.buckets)
    }
    return try await retry {
      try await bucket.watch(">") { entry in
        guard let shard = Int(entry.key) else { return }
        health.update(
          shard: shard, lease: entry.value.flatMap { try? ClusterCodec.lease($0) })
      }
    }
  }

  // MARK: Operators

  private func subscribeStatus(_ state: EdgeStateBox) throws -> any BusSubscription {
    let shared = shared
    let bus = bus
    return try answer(shared.subjects.adminStatus) {
      shared.status(state: state.value, bus: bus.statistics)
    }
  }

  func orderDispatcher(_ loops: [LoopHandle]) async throws -> OrderDispatcher {
    let node = configuration.nodeID
    let audit = try await bus.openAudit(AuditOptions(role: "edge"))
    return OrderDispatcher(
      bus: bus, subjects: shared.subjects, audit: audit, node: node, role: "edge",
      logger: shared.logger,
      handlers: OrderDispatcher.draining(node) { [orders] request in
        switch request.action {
        case .drain: orders.offer(.drain(seconds: request.seconds))
        case .resume: orders.offer(.resume)
        }
      }.merging(kickHandlers(loops)) { $1 })
  }

  /// Operators end sessions: a user's, or those with tokens that were revoked.
  private func kickHandlers(_ loops: [LoopHandle]) -> [String: OrderDispatcher.Handler] {
    let node = configuration.nodeID
    func handler(revokes: Bool) -> OrderDispatcher.Handler {
      { [shared] bytes in
        guard let request = BoundedJSON.decode(KickRequest.self, bytes),
          (request.revokedAtSeconds != nil) == revokes
        else { return nil }
        let about = ([request.app, request.user] + [request.device].compactMap(\.self))
          .joined(separator: " ")
        return OrderDispatcher.Action(about: about) {
          let ended = await Self.kick(request, loops, shared)
          let answer = KickAnswer(node: node, sessions: ended)
          return (try? JSONEncoder().encode(answer)).map(Array.init)
        }
      }
    }
    return ["kick": handler(revokes: false), "revoke": handler(revokes: true)]
  }

  /// - Returns: how many sessions ended.
  private static func kick(
    _ request: KickRequest, _ loops: [LoopHandle], _ shared: EdgeShared
  ) async -> Int {
    if let at = request.revokedAtSeconds {
      // The bucket says so, too, and may say it later.
      shared.tokens.revoke(
        app: request.app, user: request.user, atSeconds: at,
        now: shared.clock.now().microseconds / 1_000_000)
    }
    var ended = 0
    for loop in loops { ended += (try? await loop.run { $0.carryOut(request) }) ?? 0 }
    shared.logger.notice(
      request.revokedAtSeconds == nil ? "sessions kicked" : "tokens revoked",
      metadata: .keys([
        .app: "\(request.app)", .user: "\(request.user)", .device: "\(request.device ?? "-")",
        .count: "\(ended)",
      ]))
    return ended
  }

  /// Answers each message on a subject with JSON.
  private func answer<Body: Encodable & SendableMetatype>(
    _ subject: String, _ body: @escaping @Sendable () -> Body
  ) throws -> any BusSubscription {
    let bus = bus
    return try bus.subscribe(subject) { message in
      guard let replyTo = message.replyTo, let json = try? JSONEncoder().encode(body()) else {
        return
      }
      bus.publish(replyTo, Array(json))
    }
  }
}

extension EdgeShared {
  func status(state: EdgePhase, bus: BusStatistics) -> NodeStatus {
    let process = ProcessSample.now()
    var health = BusHealth()
    health.connected = bus.connected
    health.server = bus.server
    health.serverVersion = bus.serverVersion
    health.reconnects = bus.reconnects
    health.messagesIn = bus.messagesIn
    health.messagesOut = bus.messagesOut
    health.dropped = bus.dropped
    var edge = EdgeStatus()
    edge.incarnation = incarnation
    edge.connections = Int(metrics.connections.value)
    edge.sessions = Int(metrics.sessions.value)
    edge.clockSeconds = clock.now().microseconds / 1_000_000
    edge.commandsTotal = metrics.commandsTotal.value
    edge.commandsRetriedTotal = metrics.commandsRetried.value
    edge.commandsTimedOutTotal = metrics.commandsTimedOut.value
    edge.deliveriesTotal = metrics.deliveriesTotal.value
    edge.errorsTotal = metrics.errorsTotal
    edge.commandLatency = LatencySummary(metrics.commandLatency)
    edge.ringLatency = LatencySummary(metrics.ringLatency)
    edge.certificateExpires = configuration.tls?.certificate.expires
    return NodeStatus(
      node: configuration.nodeID, role: "edge", state: "\(state)", version: configuration.version,
      processID: process.processID, uptimeSeconds: process.uptimeSeconds,
      cpuSeconds: process.cpuSeconds, memoryBytes: process.memoryBytes,
      shardCount: configuration.shardCount, bus: health, edge: edge)
  }
}

/// What the node says of itself, set by its one task and read by others.
final class EdgeStateBox: Sendable {
  private let state = Mutex(EdgePhase.starting)
  var value: EdgePhase { state.withLock { $0 } }
  func set(_ new: EdgePhase) { state.withLock { $0 = new } }
}

/// Tells the last of several that it is the last, and what all have counted.
final class Countdown: Sendable {
  private let left: Atomic<Int>
  private let sum = Atomic(0)
  init(_ count: Int) { left = Atomic(count) }
  func isLast(adding count: Int) -> Int? {
    sum.add(count, ordering: .relaxed)
    guard left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return nil }
    return sum.load(ordering: .relaxed)
  }
}
