internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire

/// A gateway's subscriptions, heartbeats and status.
extension PushGateway {
  func listen() throws -> [any BusSubscription] {
    let (inbox, node) = (inbox, configuration.nodeID)
    return [
      try bus.subscribe(subjects.replies(to: peer)) { message in
        guard let batch = try? ClusterCodec.edgeBatch(message.bytes) else { return }
        let answers = GatewayReporting.answers(batch)
        if !answers.isEmpty { inbox.offer(.answered(answers)) }
      },
      try bus.subscribe(subjects.adminStatus) { message in
        if let replyTo = message.replyTo { inbox.offer(.status(replyTo: replyTo)) }
      },
      try listen(subjects.pushWithdrawals) { .withdrawn(try ClusterCodec.pushWithdrawal($0)) },
      try listen(subjects.pushNeverSent) { .neverSent(try ClusterCodec.pushNeverSent($0)) },
      // Answered, so that a client that asks all nodes need not wait.
      try bus.answer(subjects.adminCall) { CallReport(found: false, node: node) },
      try bus.answer(subjects.adminUser) { UserReport(found: false, node: node) },
    ]
  }

  /// Offers what each message means to the inbox, and counts those that cannot be read.
  private func listen(
    _ subject: String, _ read: @escaping @Sendable ([UInt8]) throws -> GatewayEvent
  ) throws -> any BusSubscription {
    try bus.subscribe(subject) { [inbox, unreadable = metrics.unreadable] message in
      guard let event = try? read(message.bytes) else { return unreadable.increment() }
      inbox.offer(event)
    }
  }

  func orderDispatcher() async throws -> OrderDispatcher {
    let audit = try await bus.openAudit(AuditOptions(role: "push"))
    let node = configuration.nodeID
    return OrderDispatcher(
      bus: bus, subjects: subjects, audit: audit, node: node, role: "push", logger: logger,
      handlers: OrderDispatcher.draining(node) { [inbox] request in
        inbox.offer(request.action == .drain ? .drain : .resume)
      })
  }

  // MARK: Heartbeats

  func sendHeartbeats(_ consumers: LaneConsumers) async {
    while !Task.isCancelled {
      publishHeartbeat(consumers.nodeState)
      await clock.sleep(for: configuration.heartbeatInterval)
    }
  }

  func publishHeartbeat(_ state: NodeState) {
    bus.publish(
      subjects.heartbeats(of: "push"),
      ClusterCodec.encode(
        Heartbeat(
          node: configuration.nodeID, role: .push, incarnation: peer, state: state,
          version: configuration.version, shardCount: UInt32(configuration.shardCount))))
  }

  // MARK: Status

  func watchDepths(_ queue: Bus.QueueType) async {
    while !Task.isCancelled {
      for lane in lanes { depths.set(lane, try? await queue.depth(lane: lane.rawValue)) }
      await clock.sleep(for: .seconds(2))
    }
  }

  func answerStatus(_ replyTo: String, _ machine: GatewayMachine) {
    var status = NodeStatus(
      node: configuration.nodeID, role: "push", state: machine.isDraining ? "leaving" : "serving",
      version: configuration.version, shardCount: configuration.shardCount, bus.statistics)
    status.push = pushStatus(machine)
    if let json = status.jsonBytes { bus.publish(replyTo, json) }
  }

  private func pushStatus(_ machine: GatewayMachine) -> PushStatus {
    var status = PushStatus()
    status.lanes = lanes.map { PushStatus.Lane(lane: $0.rawValue, depth: depths[$0]) }
    status.jobsTotal = metrics.jobs.values.reduce(0) { $0 + $1.value }
    status.counts = Dictionary(
      uniqueKeysWithValues: machine.counts.map { ($0.key.rawValue, $0.value) })
    status.reportsWaiting = machine.reportsWaiting
    let now = clock.now()
    status.unserved = machine.unserved.all.map {
      PushStatus.Unserved(
        provider: $0.topic.provider.name, environment: $0.topic.environment, topic: $0.topic.topic,
        jobsTotal: $0.jobs, secondsAgo: Double((now - $0.newestAt).microseconds) / 1e6)
    }
    status.pools = zip(pools, machine.pools).map { pool, state in
      var out = pool.statistics.status
      out.name = pool.name
      out.lane = pool.lane.rawValue
      out.waiting = state.waiting
      out.inFlight = state.sending
      return out
    }
    return status
  }
}
