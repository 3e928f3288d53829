internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// The other nodes: heartbeats, probes, and the state of the connection, without which silence means nothing.
extension ShardManager {
  func sendHeartbeat(_ state: NodeState) {
    var heartbeat = Heartbeat(
      node: configuration.nodeID, role: .coordinator, incarnation: incarnation, state: state,
      version: configuration.version, shardCount: UInt32(configuration.shardCount))
    heartbeat.silentEdges = membership.silentEdges(
      awaits: configuration.awaits, silence: Span(microseconds: 0), now: dependencies.clock.now())
    bus.publish(subjects.heartbeats, ClusterCodec.encode(heartbeat))
  }

  /// Finds out whether a node's subject has a subscriber: if not, the server answers at once. For an edge this is the
  /// subject of its deliveries; it ignores the empty message.
  nonisolated func probe(_ probe: Membership.Probe) async {
    let subject =
      probe.isEdge
      ? subjects.replies(to: probe.incarnation)
      : subjects.coordinator(probe.incarnation)
    var listens = true
    do {
      // A living node does not reply, so the request then times out.
      _ = try await bus.request(subject, [], timeout: .milliseconds(500))
    } catch BusError.noResponders {
      listens = false
    } catch {}
    inbox.offer(.probed(probe, listens: listens))
  }

  func checkConnection(now: Timestamp) {
    let known = bus.statistics
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
      return unreadableHeartbeats.warn(
        logger, now: now, "Heartbeats that cannot be read were dropped.", [.error: "\(error)"])
    }
    // Each role has a subject of its own, on which no other role counts.
    if let role, heartbeat.role != role {
      return dependencies.metrics.heartbeatsUnreadable.increment()
    }
    if heartbeat.role != .push, heartbeat.shardCount != UInt32(configuration.shardCount) {
      guard otherShardCounts.admit(now: now) != nil else { return }
      return logger.error(
        "A node with another number of shards is ignored: its users' calls would be lost.",
        metadata: .keys([.owner: "\(heartbeat.node)", .count: "\(heartbeat.shardCount)"]))
    }
    if heartbeat.role == .coordinator, heartbeat.node == configuration.nodeID {
      return receivedOwnName(heartbeat, now: now)
    }
    changed(membership.received(heartbeat, now: now), now: now)
  }

  private func receivedOwnName(_ heartbeat: Heartbeat, now: Timestamp) {
    if heartbeat.incarnation == incarnation {
      changed(membership.receivedOwnHeartbeat(now: now), now: now)
      for worker in workers {
        worker.inbox.offer(.receivedOwnHeartbeat(since: membership.receivesSince))
      }
      return
    }
    guard heartbeat.state != .gone else { return }
    namesake = (heartbeat.incarnation, now)
    // If two nodes start together, one of them continues. This node waits for a former incarnation that leaves.
    let yields =
      heartbeat.state == .serving
      || (heartbeat.state == .starting && heartbeat.incarnation < incarnation)
    if state == .starting, yields { failure = .nodeIDTaken(configuration.nodeID) }
  }

  /// Whether this node may claim shards. After it was cut off, others must have had the time to send heartbeats.
  func mayClaim(now: Timestamp) -> Bool {
    membership.receivesOwnHeartbeats(now: now)
      && membership.receivesSince + configuration.settleTime <= now
  }

  func changed(_ events: [Membership.Event], now: Timestamp) {
    for event in events {
      switch event {
      case .coordinatorsChanged:
        place()
        updateFormat()
      case .edgeJoined(let edge):
        logger.debug("An edge joined.", metadata: .keys([.edge: "\(edge)"]))
        // It may have been alive, but silent, when this node claimed its shards.
        for worker in workers { worker.inbox.offer(.edgeReturned(edge)) }
      case .edgeLost(let edge, let why):
        dependencies.metrics.edgesLost.increment()
        logger.info(
          "An edge is gone, and its sessions with it.",
          metadata: .keys([.edge: "\(edge)", .reason: "\(why)"]))
        let until = now + configuration.awaits(why)
        for worker in workers { worker.inbox.offer(.edgeLost(edge, awaitedUntil: until)) }
      case .edgeReturned(let edge):
        logger.warning(
          "An edge that was counted lost lives: all edges announce their sessions anew.",
          metadata: .keys([.edge: "\(edge)"]))
        for worker in workers { worker.inbox.offer(.edgeReturned(edge)) }
      case .edgeNameShared(let node):
        logger.error(
          "Two living edges have the same name; give every node a name of its own.",
          metadata: .keys([.owner: "\(node)"]))
      }
    }
  }

  /// Journals must not contain what one of the coordinators cannot read, since it may come to own a shard.
  private func updateFormat() {
    let format = membership.formatOfAll
    guard format != journalFormat else { return }
    journalFormat = format
    logger.notice(
      format == ClusterCodec.format
        ? "Every coordinator reads what this version writes into journals."
        : "A coordinator of an earlier version is there: nothing is journalled that it cannot read."
    )
    for worker in workers { worker.inbox.offer(.journalFormat(format)) }
  }
}
