internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Who else is there: heartbeats, probes, and the connection without which silence means nothing.
extension ShardManager {
  func sendHeartbeat(_ state: NodeState) {
    var heartbeat = Heartbeat(
      node: configuration.nodeID, role: .coordinator, incarnation: dependencies.incarnation,
      state: state,
      version: configuration.version, shardCount: UInt32(configuration.shardCount))
    heartbeat.silentEdges = membership.silentEdges(
      within: configuration.silentEdgeAwaited, silence: Span(microseconds: 0),
      now: dependencies.clock.now())
    dependencies.bus.publish(dependencies.subjects.heartbeats, ClusterCodec.encode(heartbeat))
  }

  /// Asks whether anybody subscribes to a node's subject: the server answers at once where nobody does. An edge
  /// is asked at the subject of its deliveries, and ignores the empty message.
  nonisolated func probe(_ probe: Membership.Probe) async {
    let subject =
      probe.isEdge
      ? dependencies.subjects.replies(to: probe.incarnation)
      : dependencies.subjects.coordinator(probe.incarnation)
    var listens = true
    do {
      // Nobody answers. Who is not there is known at once.
      _ = try await dependencies.bus.request(subject, [], timeout: .milliseconds(500))
    } catch BusError.noResponders {
      listens = false
    } catch {}
    inbox.offer(.probed(incarnation: probe.incarnation, listens: listens))
  }

  func checkConnection(now: Timestamp) {
    let known = dependencies.bus.statistics
    if !known.connected {
      connectedSince = nil
    } else if connectedSince == nil || known.reconnects != reconnects {
      connectedSince = now
    }
    reconnects = known.reconnects
  }

  func received(_ bytes: [UInt8], from role: NodeRole?, now: Timestamp) {
    let heartbeat: Heartbeat
    do {
      heartbeat = try ClusterCodec.heartbeat(bytes)
    } catch {
      dependencies.metrics.heartbeatsUnreadable.increment()
      if let times = unreadableHeartbeats.admit(now: now) {
        dependencies.logger.warning(
          "Heartbeats that cannot be read were dropped.",
          metadata: .keys([.error: "\(error)", .count: "\(times)"]))
      }
      return
    }
    // A subject is one role's: no other is believed there.
    if let role, heartbeat.role != role {
      return dependencies.metrics.heartbeatsUnreadable.increment()
    }
    if heartbeat.role != .push, heartbeat.shardCount != UInt32(configuration.shardCount) {
      guard otherShardCounts.admit(now: now) != nil else { return }
      return dependencies.logger.error(
        "A node with another number of shards is ignored: its users' calls would be lost.",
        metadata: .keys([.owner: "\(heartbeat.node)", .count: "\(heartbeat.shardCount)"]))
    }
    if heartbeat.role == .coordinator, heartbeat.node == configuration.nodeID {
      return receivedOwnName(heartbeat, now: now)
    }
    changed(membership.received(heartbeat, now: now), now: now)
  }

  private func receivedOwnName(_ heartbeat: Heartbeat, now: Timestamp) {
    if heartbeat.incarnation == dependencies.incarnation {
      changed(membership.receivedOwnHeartbeat(now: now), now: now)
      for worker in workers {
        worker.inbox.offer(.receivedOwnHeartbeat(since: membership.receivesSince))
      }
      return
    }
    guard heartbeat.state != .gone else { return }
    namesake = (heartbeat.incarnation, now)
    // Of two that start together one goes on. A former incarnation that leaves is waited for.
    let yields =
      heartbeat.state == .serving
      || (heartbeat.state == .starting && heartbeat.incarnation < dependencies.incarnation)
    if state == .starting, yields { failure = .nodeIDTaken(configuration.nodeID) }
  }

  /// A node that was cut off claims nothing before the others had the time to be heard again.
  func mayClaim(now: Timestamp) -> Bool {
    membership.receivesOwnHeartbeats(now: now)
      && membership.receivesSince + configuration.settleTime <= now
  }

  func changed(_ events: [Membership.Event], now: Timestamp) {
    for event in events {
      switch event {
      case .coordinatorsChanged:
        place()
        updateMayPush()
      case .edgeJoined(let edge):
        dependencies.logger.debug("An edge joined.", metadata: .keys([.edge: "\(edge)"]))
        // It may have been there, and silent, when this node took its shards.
        for worker in workers { worker.inbox.offer(.edgeReturned(edge)) }
      case .edgeLost(let edge, let why):
        dependencies.metrics.edgesLost.increment()
        dependencies.logger.info(
          "An edge is gone, and its sessions with it.",
          metadata: .keys([.edge: "\(edge)", .reason: "\(why)"]))
        let until = now + configuration.awaits(why)
        for worker in workers { worker.inbox.offer(.edgeLost(edge, awaitedUntil: until)) }
      case .edgeReturned(let edge):
        dependencies.logger.warning(
          "An edge that was counted lost lives: all edges announce their sessions anew.",
          metadata: .keys([.edge: "\(edge)"]))
        for worker in workers { worker.inbox.offer(.edgeReturned(edge)) }
      case .edgeNameShared(let node):
        dependencies.logger.error(
          "Two living edges have the same name; give every node a name of its own.",
          metadata: .keys([.owner: "\(node)"]))
      }
    }
  }

  /// What a coordinator could not read must not be written while it may come to own a shard.
  private func updateMayPush() {
    let may = membership.allRead(ClusterCodec.pushFormat)
    guard may != mayPush else { return }
    mayPush = may
    dependencies.logger.notice(
      may
        ? "Every coordinator reads pushes: sleeping devices are woken."
        : "A coordinator of an earlier version is there: sleeping devices are not woken.")
    for worker in workers { worker.inbox.offer(.mayPush(may)) }
  }
}
