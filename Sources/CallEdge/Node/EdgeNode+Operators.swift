internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// The requests of operators to this edge.
extension EdgeNode {
  func subscribeStatus() throws -> any BusSubscription {
    try bus.answer(shared.subjects.adminStatus) { [self] in
      shared.status(state: phase, bus: bus.statistics)
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
      }.merging(["kick": kickHandler(loops)]) { $1 })
  }

  /// The handler of the order that ends sessions: a user's, or those whose tokens were revoked.
  private func kickHandler(_ loops: [LoopHandle]) -> OrderDispatcher.Handler {
    let node = configuration.nodeID
    return { [shared] bytes in
      guard let request = BoundedJSON.decode(KickRequest.self, bytes) else { return nil }
      return OrderDispatcher.Action(about: request.about) {
        let ended = await Self.kick(request, loops, shared)
        return KickAnswer(node: node, sessions: ended).jsonBytes
      }
    }
  }

  /// - Returns: how many sessions ended.
  private static func kick(
    _ request: KickRequest, _ loops: [LoopHandle], _ shared: EdgeShared
  ) async -> Int {
    if let at = request.revokedAtSeconds {
      // The revocation also arrives by the bucket, perhaps later.
      shared.tokens.revoke(
        app: request.app, user: request.user, atSeconds: at,
        now: shared.clock.now().microseconds / 1_000_000)
    }
    let ended = await loops.sum { $0.carryOut(request) }
    shared.logger.notice(
      request.revokedAtSeconds == nil ? "sessions kicked" : "tokens revoked",
      metadata: .keys([
        .app: "\(request.app)", .user: "\(request.user)", .device: "\(request.device ?? "-")",
        .count: "\(ended)",
      ]))
    return ended
  }
}

extension EdgeShared {
  func status(state: EdgePhase, bus: BusStatistics) -> NodeStatus {
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
    let away = hooks.away
    edge.hooksAway = away.isEmpty ? nil : away
    var status = NodeStatus(
      node: configuration.nodeID, role: "edge", state: "\(state)", version: configuration.version,
      shardCount: configuration.shardCount, bus)
    status.edge = edge
    return status
  }
}
