internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import FoundationEssentials
internal import Logging

/// Answers operators' questions on the bus, in JSON.
final class AdminResponder: Sendable {
  private enum Question: Sendable {
    case status(replyTo: String)
    case call(replyTo: String, [UInt8])
    case user(replyTo: String, [UInt8])
    case users(replyTo: String, [UInt8])
    case calls(replyTo: String, [UInt8])
  }

  let configuration: CoordinatorConfiguration
  private let subjects: Subjects
  let bus: any MessageBus
  private let journal: any Journal
  let manager: ShardManager
  private let metrics: CoordinatorMetrics
  let logger: Logger
  /// Policy when full: refuse; whoever asks has a timeout.
  private let questions = Inbox<Question>(capacity: 256)

  var questionsWaiting: Int { questions.depth }
  var questionsDropped: UInt64 { questions.dropped }

  init(
    configuration: CoordinatorConfiguration, subjects: Subjects, bus: any MessageBus,
    journal: any Journal, manager: ShardManager, metrics: CoordinatorMetrics, logger: Logger
  ) {
    self.configuration = configuration
    self.subjects = subjects
    self.bus = bus
    self.journal = journal
    self.manager = manager
    self.metrics = metrics
    self.logger = logger
  }

  func run() async {
    let subscriptions: [any BusSubscription]
    do {
      subscriptions = try listen()
    } catch {
      return logger.error(
        "Operators' questions cannot be answered.", metadata: .keys([.error: "\(error)"]))
    }
    while !Task.isCancelled {
      for question in await questions.next(until: nil) { await answer(question) }
    }
    for subscription in subscriptions { subscription.cancel() }
  }

  private func listen() throws -> [any BusSubscription] {
    let questions = questions
    return [
      try bus.subscribe(subjects.adminStatus) { message in
        if let replyTo = message.replyTo { questions.offer(.status(replyTo: replyTo)) }
      },
      try bus.subscribe(subjects.adminCall) { message in
        if let replyTo = message.replyTo {
          questions.offer(.call(replyTo: replyTo, message.bytes))
        }
      },
      try bus.subscribe(subjects.adminUser) { message in
        if let replyTo = message.replyTo {
          questions.offer(.user(replyTo: replyTo, message.bytes))
        }
      },
      try bus.subscribe(subjects.adminUsers) { message in
        if let replyTo = message.replyTo {
          questions.offer(.users(replyTo: replyTo, message.bytes))
        }
      },
      try bus.subscribe(subjects.adminCalls) { message in
        if let replyTo = message.replyTo {
          questions.offer(.calls(replyTo: replyTo, message.bytes))
        }
      },
    ]
  }

  private func answer(_ question: Question) async {
    switch question {
    case .status(let replyTo): send(await status(), to: replyTo)
    case .call(let replyTo, let bytes): send(await call(query(bytes)), to: replyTo)
    case .user(let replyTo, let bytes): send(await user(query(bytes)), to: replyTo)
    case .users(let replyTo, let bytes): send(list: await users(listQuery(bytes)), to: replyTo)
    case .calls(let replyTo, let bytes): send(list: await calls(listQuery(bytes)), to: replyTo)
    }
  }

  /// A question that cannot be read is answered like one about something unknown.
  private func query(_ bytes: [UInt8]) -> AdminQuery {
    BoundedJSON.decode(AdminQuery.self, bytes) ?? AdminQuery()
  }

  private func send(_ answer: some Encodable, to subject: String) {
    do {
      bus.publish(subject, Array(try JSONEncoder().encode(answer)))
    } catch {
      logger.error("An answer could not be written.", metadata: .keys([.error: "\(error)"]))
    }
  }

  private func status() async -> NodeStatus {
    var status = NodeStatus(
      node: configuration.nodeID, role: "coordinator", state: await manager.state.name,
      version: configuration.version, shardCount: configuration.shardCount, bus.statistics)
    status.coordinator = await coordinator()
    return status
  }

  private func coordinator() async -> CoordinatorStatus {
    var status = CoordinatorStatus()
    for worker in manager.workers { status.shards += await worker.status() }
    let stopped = await manager.stoppedShards
    for (shard, what) in stopped {
      status.shards.append(
        ShardStatus(
          shard: shard, state: ShardState.stopped.rawValue, epoch: 0, sequence: what.sequence ?? 0,
          counts: ShardCounts()))
    }
    status.stopped = stopped.map { shard, what in
      StoppedShard(
        shard: shard, what: what.what.rawValue, sequence: what.sequence, reason: what.reason,
        remedy: what.remedy(shard, subjects))
    }
    status.handoverPause = LatencySummary(metrics.handoverPause)
    status.takeoverPause = LatencySummary(metrics.takeoverPause)
    status.shards.sort { $0.shard < $1.shard }
    status.journalReplicas = configuration.journal.replicas
    status.commandsTotal = metrics.commands.value
    status.appendLatency = LatencySummary(metrics.appendLatency)
    status.ringLatency = LatencySummary(metrics.ringLatency)
    status.appendsTotal = metrics.appends.value
    status.appendsRefusedTotal = metrics.appendsRefused.value
    status.appendsUnknownTotal = metrics.appendsUnknown.value
    if let store = try? await journal.statistics() {
      status.journalMessages = store.messages
      status.journalBytes = store.bytes
    }
    return status
  }

  private func call(_ query: AdminQuery) async -> CallReport {
    guard let id = query.call.flatMap({ CallID($0) }) else {
      return CallReport(found: false, node: configuration.nodeID)
    }
    for worker in manager.workers {
      if let (shard, found) = await worker.inspect(call: id) {
        return CallReport(node: configuration.nodeID, shard: shard, found)
      }
    }
    return CallReport(found: false, node: configuration.nodeID)
  }

  private func user(_ query: AdminQuery) async -> UserReport {
    guard let app = query.app, let name = query.user else {
      return UserReport(found: false, node: configuration.nodeID)
    }
    let key = UserKey(app: app, user: name)
    let shard = ShardHash.shard(of: key, count: configuration.shardCount)
    var report = UserReport(found: false, node: configuration.nodeID)
    if let found = await manager.worker(of: shard).inspect(user: key, shard: shard) {
      report = UserReport(node: configuration.nodeID, shard: shard, found)
    }
    report.placed = await callsPlaced(by: key)
    return report
  }

  /// They are in the shards of those whom the user calls. There is no list of them, which every call
  /// would pay for: all calls are looked at.
  private func callsPlaced(by user: UserKey) async -> UserReport.Placed {
    var calls = UserCalls()
    let shards = await eachShard { $0.add(callsPlacedBy: user, to: &calls) }
    return UserReport.Placed(
      calls, of: user, shards: shards, shardCount: configuration.shardCount)
  }
}

extension NodeState {
  var name: String {
    switch self {
    case .starting: "starting"
    case .serving: "serving"
    case .leaving: "leaving"
    case .gone: "gone"
    }
  }
}
