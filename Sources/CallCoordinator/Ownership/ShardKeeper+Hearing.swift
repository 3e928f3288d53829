internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Who else is there: heartbeats, probes, and the connection without which silence means nothing.
extension ShardKeeper {
  func say(_ state: NodeState) {
    var heartbeat = Heartbeat(
      node: configuration.nodeID, role: .coordinator, incarnation: with.incarnation, state: state,
      version: configuration.version, shardCount: UInt32(configuration.shardCount))
    heartbeat.silentEdges = membership.silentEdges(
      within: configuration.silentEdgeAwaited, silence: Span(microseconds: 0),
      now: with.clock.now())
    with.bus.publish(with.subjects.heartbeats, ClusterCodec.encode(heartbeat))
  }

  /// Asks whether anybody subscribes to a node's subject: the server answers at once where nobody does. An edge
  /// is asked at the subject of its deliveries, and ignores the empty message.
  nonisolated func probe(_ probe: Membership.Probe) async {
    let subject =
      probe.isEdge
      ? with.subjects.edge(probe.incarnation) : with.subjects.coordinator(probe.incarnation)
    var listens = true
    do {
      // Nobody answers. Who is not there is known at once.
      _ = try await with.bus.request(subject, [], timeout: .milliseconds(500))
    } catch BusError.noResponders {
      listens = false
    } catch {}
    inbox.offer(.probed(incarnation: probe.incarnation, listens: listens))
  }

  func lookAtConnection(now: Timestamp) {
    let known = with.bus.statistics
    if !known.connected {
      connectedSince = nil
    } else if connectedSince == nil || known.reconnects != reconnects {
      connectedSince = now
    }
    reconnects = known.reconnects
  }

  func heard(_ bytes: [UInt8], from role: NodeRole?, now: Timestamp) {
    let heartbeat: Heartbeat
    do {
      heartbeat = try ClusterCodec.heartbeat(bytes)
    } catch {
      with.metrics.heartbeatsUnreadable.increment()
      if let times = unreadableHeartbeats.admit(now: now) {
        with.logger.warning(
          "Heartbeats that cannot be read were dropped.",
          metadata: .keys([.error: "\(error)", .count: "\(times)"]))
      }
      return
    }
    // A subject is one role's: no other is believed there.
    if let role, heartbeat.role != role { return with.metrics.heartbeatsUnreadable.increment() }
    if heartbeat.role != .push, heartbeat.shardCount != UInt32(configuration.shardCount) {
      guard otherShardCounts.admit(now: now) != nil else { return }
      return with.logger.error(
        "A node with another number of shards is ignored: its users' calls would be lost.",
        metadata: .keys([.owner: "\(heartbeat.node)", .count: "\(heartbeat.shardCount)"]))
    }
    if heartbeat.role == .coordinator, heartbeat.node == configuration.nodeID {
      return heardOwnName(heartbeat, now: now)
    }
    changed(membership.heard(heartbeat, now: now), now: now)
  }

  private func heardOwnName(_ heartbeat: Heartbeat, now: Timestamp) {
    if heartbeat.incarnation == with.incarnation {
      changed(membership.heardItself(now: now), now: now)
      for worker in workers { worker.inbox.offer(.heardItself(since: membership.hearsSince)) }
      return
    }
    guard heartbeat.state != .gone else { return }
    namesake = (heartbeat.incarnation, now)
    // Of two that start together one goes on. A former incarnation that leaves is waited for.
    let yields =
      heartbeat.state == .serving
      || (heartbeat.state == .starting && heartbeat.incarnation < with.incarnation)
    if state == .starting, yields { failure = .nodeIDTaken(configuration.nodeID) }
  }

  /// A node that was cut off claims nothing before the others had the time to be heard again.
  func mayClaim(now: Timestamp) -> Bool {
    membership.hears(now: now) && membership.hearsSince + configuration.settleTime <= now
  }

  func changed(_ events: [Membership.Event], now: Timestamp) {
    for event in events {
      switch event {
      case .coordinatorsChanged:
        place()
        seeWhoReads()
      case .edgeJoined(let edge):
        with.logger.debug("An edge joined.", metadata: .keys([.edge: "\(edge)"]))
        // It may have been there, and silent, when this node took its shards.
        for worker in workers { worker.inbox.offer(.edgeReturned(edge)) }
      case .edgeLost(let edge, let why):
        with.metrics.edgesLost.increment()
        with.logger.info(
          "An edge is gone, and its sessions with it.",
          metadata: .keys([.edge: "\(edge)", .reason: "\(why)"]))
        let until = now + configuration.awaits(why)
        for worker in workers { worker.inbox.offer(.edgeLost(edge, awaitedUntil: until)) }
      case .edgeReturned(let edge):
        with.logger.warning(
          "An edge that was counted lost lives: all edges announce their sessions anew.",
          metadata: .keys([.edge: "\(edge)"]))
        for worker in workers { worker.inbox.offer(.edgeReturned(edge)) }
      case .edgeNameShared(let node):
        with.logger.error(
          "Two living edges have the same name; give every node a name of its own.",
          metadata: .keys([.owner: "\(node)"]))
      }
    }
  }

  /// What a coordinator could not read must not be written while it may come to own a shard.
  private func seeWhoReads() {
    let may = membership.allRead(ClusterCodec.pushFormat)
    guard may != mayPush else { return }
    mayPush = may
    with.logger.notice(
      may
        ? "Every coordinator reads pushes: sleeping devices are woken."
        : "A coordinator of an earlier version is there: sleeping devices are not woken.")
    for worker in workers { worker.inbox.offer(.mayPush(may)) }
  }
}
