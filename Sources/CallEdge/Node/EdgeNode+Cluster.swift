internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import Synchronization

extension EdgeNode {
  /// Subscribes to everything that the cluster sends to this edge.
  /// - Throws: what the bus throws.
  func subscribe(_ loops: [LoopHandle]) async throws -> [any BusSubscription] {
    var out: [any BusSubscription] = []
    do {
      out.append(contentsOf: try subscribeSessions(loops))
      out.append(try subscribeStatus())
      let (node, subjects) = (configuration.nodeID, shared.subjects)
      out.append(try bus.answer(subjects.adminCall) { CallReport(found: false, node: node) })
      out.append(try bus.answer(subjects.adminUser) { UserReport(found: false, node: node) })
      out.append(try await watchLeases())
    } catch {
      for subscription in out { subscription.cancel() }
      throw error
    }
    return out
  }

  /// Subscribes to the shards' deliveries, and to the requests of their new owners.
  /// - Throws: what the bus throws.
  func subscribeSessions(_ loops: [LoopHandle]) throws -> [any BusSubscription] {
    let local = shared.exchange?.receive(
      edge: incarnation, at: { [shared] in shared.addressOffered },
      { [shared] in Self.distribute($0, to: loops, shared) })
    return [try subscribeDeliveries(loops), try subscribeAnnounceRequests(loops)]
      + (local.map { [$0] } ?? [])
  }

  /// Decodes batches on the bus's thread, and hands each event loop its part.
  private func subscribeDeliveries(_ loops: [LoopHandle]) throws -> any BusSubscription {
    try bus.subscribe(shared.subjects.replies(to: incarnation)) { [shared] message in
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
      loop.offer(part)
      busy.append(loop)
    }
    recordRings(items.compactMap(\.ringsSince), of: busy, shared)
  }

  /// Records the ring latency of invites when all loops have written theirs, since a call's devices may be on several
  /// loops. The clocks of two edges may differ, so a negative span counts as 0.
  private static func recordRings(
    _ rings: [Timestamp], of loops: [LoopHandle], _ shared: EdgeShared
  ) {
    guard !rings.isEmpty else { return }
    let left = Countdown(loops.count)
    for loop in loops {
      // Runs after what was just offered.
      loop.execute { _ in
        guard left.isLast(adding: 0) != nil else { return }
        let now = shared.clock.now()
        for since in rings {
          shared.metrics.ringLatency.record(microseconds: max(0, (now - since).microseconds))
        }
      }
    }
  }

  /// Subscribes to the requests of shards' new owners for the sessions of their users.
  private func subscribeAnnounceRequests(_ loops: [LoopHandle]) throws -> any BusSubscription {
    try bus.subscribe(shared.subjects.announceRequests) { [shared, bus] message in
      guard let request = try? ClusterCodec.announceRequest(message.bytes),
        request.shard < UInt32(shared.configuration.shardCount)
      else { return shared.metrics.batchesUnreadable.increment() }
      let shard = Int(request.shard)
      shared.exchange?.dismiss(shard, before: request.epoch)
      let isNews = shared.rules.nearer.note(shard: shard, epoch: request.epoch, request.nearer)
      // The last loop to finish reports it. On the bus's one connection that comes after all announcements.
      let left = Countdown(loops.count)
      for loop in loops {
        loop.execute {
          if isNews { $0.nearerChanged(ofShard: shard) }
          let count = $0.announce(shard: shard, epoch: request.epoch)
          guard let announced = left.isLast(adding: count) else { return }
          let done = AnnounceDone(
            shard: request.shard, epoch: request.epoch, edge: shared.incarnation,
            sessions: announced, number: request.number, secret: shared.secret)
          bus.publish(shared.subjects.announceDone(shard: shard), ClusterCodec.encode(done))
        }
      }
    }
  }

  private func watchLeases() async throws -> any BusSubscription {
    // The store may be electing a leader.
    let limit = configuration.storeTimeout
    let retry = StoreRetryPolicy(clock: shared.clock, limit: limit) { [shared] error in
      shared.logger.notice("waits for the store", metadata: .keys([.error: "\(error)"]))
    }
    let bucket = try await retry {
      try await bus.openBucket(shared.subjects.leaseBucket, configuration.buckets)
    }
    return try await retry {
      try await bucket.watch(">") { [health = shared.health] entry in
        guard let shard = Int(entry.key) else { return }
        health.update(
          shard: shard, lease: entry.value.flatMap { try? ClusterCodec.lease($0) })
      }
    }
  }
}

/// Finds the last of several threads to finish, and adds up their counts.
final class Countdown: Sendable {
  private let left: Atomic<Int>
  private let sum = Atomic(0)
  init(_ count: Int) { left = Atomic(count) }
  /// - Returns: the sum of all counts for the last caller, and nil for the others.
  func isLast(adding count: Int) -> Int? {
    sum.add(count, ordering: .relaxed)
    guard left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return nil }
    return sum.load(ordering: .relaxed)
  }
}
