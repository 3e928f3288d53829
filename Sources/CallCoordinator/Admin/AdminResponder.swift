internal import CallBus
internal import CallCore
package import CallTelemetry
internal import CallWire
internal import FoundationEssentials
internal import Logging

/// Answers operators' questions on the bus, in JSON.
final class AdminResponder: Sendable {
  private enum Kind { case status, call, user, users, calls }

  private struct Question: Sendable {
    var kind: Kind
    var bytes: [UInt8]
    var replyTo: String
  }

  let configuration: CoordinatorConfiguration
  private let subjects: Subjects
  let bus: any MessageBus
  private let journal: any Journal
  let manager: ShardManager
  private let metrics: CoordinatorMetrics
  let logger: Logger
  /// Policy when full: refuse; the operator's request then times out.
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
    let kinds: [(Kind, String)] = [
      (.status, subjects.adminStatus), (.call, subjects.adminCall), (.user, subjects.adminUser),
      (.users, subjects.adminUsers), (.calls, subjects.adminCalls),
    ]
    return try kinds.map { kind, subject in
      try bus.subscribe(subject) { [questions] message in
        guard let replyTo = message.replyTo else { return }
        questions.offer(Question(kind: kind, bytes: message.bytes, replyTo: replyTo))
      }
    }
  }

  private func answer(_ question: Question) async {
    let (bytes, replyTo) = (question.bytes, question.replyTo)
    switch question.kind {
    case .status: send(await status(), to: replyTo)
    case .call: send(await call(query(bytes)), to: replyTo)
    case .user: send(await user(query(bytes)), to: replyTo)
    case .users: send(list: await users(listQuery(bytes)), to: replyTo)
    case .calls: send(list: await calls(listQuery(bytes)), to: replyTo)
    }
  }

  /// A question that cannot be read is answered like one about something unknown.
  private func query(_ bytes: [UInt8]) -> AdminQuery {
    BoundedJSON.decode(AdminQuery.self, bytes) ?? AdminQuery()
  }

  private func send(_ answer: some Encodable, to subject: String) {
    publish(to: subject) { try Array(JSONEncoder().encode(answer)) }
  }

  func publish(to subject: String, _ answer: () throws -> [UInt8]) {
    do {
      bus.publish(subject, try answer())
    } catch {
      logger.error("An answer could not be written.", metadata: .keys([.error: "\(error)"]))
    }
  }

  private func status() async -> NodeStatus {
    var status = NodeStatus(
      node: configuration.nodeID, role: "coordinator", state: "\(await manager.state)",
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
        ShardStatus(shard: shard, state: .stopped, sequence: what.sequence ?? 0))
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
    if let id = query.call.flatMap({ CallID($0) }) {
      let callee = named(query)
      let only = callee.map { ShardHash.shard(of: $0, count: configuration.shardCount) }
      for worker in manager.workers {
        guard let (shard, found) = await worker.inspect(call: id, in: only),
          callee.map({ $0 == UserKey(app: found.app, user: found.state.callee) }) ?? true
        else { continue }
        return CallReport(node: configuration.nodeID, shard: shard, found)
      }
    }
    return CallReport(found: false, node: configuration.nodeID)
  }

  private func named(_ query: AdminQuery) -> UserKey? {
    query.app.flatMap { app in query.user.map { UserKey(app: app, user: $0) } }
  }

  private func user(_ query: AdminQuery) async -> UserReport {
    guard let key = named(query) else {
      return UserReport(found: false, node: configuration.nodeID)
    }
    let shard = ShardHash.shard(of: key, count: configuration.shardCount)
    var report = UserReport(found: false, node: configuration.nodeID)
    if let found = await manager.worker(of: shard).inspect(user: key, shard: shard) {
      report = UserReport(node: configuration.nodeID, shard: shard, found)
    }
    report.placed = await callsPlaced(by: key)
    return report
  }

  /// Searches all calls. They are in the shards of their callees, and a list of them would cost something with every
  /// call.
  private func callsPlaced(by user: UserKey) async -> UserReport.Placed {
    var calls = UserCalls()
    let shards = await eachShard { $0.add(callsPlacedBy: user, to: &calls) }
    return UserReport.Placed(calls, of: user, shards: shards, shardCount: configuration.shardCount)
  }
}

/// Lists of users and of calls.
extension AdminResponder {
  /// NATS accepts messages of 1 MB. An answer of 1,000 entries with the longest names is longer.
  static let answerBytesMax = 900_000

  /// A question that cannot be read is answered like one without a filter.
  func listQuery(_ bytes: [UInt8]) -> ListQuery {
    BoundedJSON.decode(ListQuery.self, bytes) ?? ListQuery()
  }

  func users(_ query: ListQuery) async -> ListReport<ListedUser> {
    var list = Shortlist<UserSummary>(countMax: query.entriesMax)
    let filter = ListFilter(app: query.app, user: query.user)
    let shards = await eachShard { $0.add(usersMatching: filter, to: &list) }
    return report(list.items.map(ListedUser.init), leftOut: list.leftOut, shards)
  }

  func calls(_ query: ListQuery) async -> ListReport<ListedCall> {
    var list = Shortlist<CallSummary>(countMax: query.entriesMax)
    let filter = ListFilter(app: query.app, user: query.user, isLive: query.live ?? false)
    let shards = await eachShard { $0.add(callsMatching: filter, to: &list) }
    let entries = list.items.map { call in
      ListedCall(
        call,
        shard: ShardHash.shard(
          of: UserKey(app: call.app, user: call.state.callee), count: configuration.shardCount),
        owner: configuration.nodeID)
    }
    return report(entries, leftOut: list.leftOut, shards)
  }

  /// Sorts the entries again: in milliseconds, two calls may be equally old.
  private func report<Entry>(
    _ entries: [Entry], leftOut: Int, _ shards: [Int]
  ) -> ListReport<Entry> {
    ListReport(
      node: configuration.nodeID, entries: entries.sorted { $0.precedes($1) }, leftOut: leftOut,
      shards: shards, shardCount: configuration.shardCount)
  }

  /// Calls `body` with every shard that this node serves, on another thread than the worker's, which only hands out a
  /// copy of the tables. One shard at a time, so that at most one shard's tables have two owners.
  /// - Returns: the shards, in order.
  func eachShard(_ body: (ShardDirectory) -> Void) async -> [Int] {
    var shards: [Int] = []
    for worker in manager.workers {
      for shard in await worker.heldShards {
        guard let directory = await worker.directory(of: shard) else { continue }
        body(directory)
        shards.append(shard)
      }
    }
    return shards.sorted()
  }

  func send<Entry>(list: ListReport<Entry>, to subject: String) {
    publish(to: subject) { try list.bounded(bytesMax: Self.answerBytesMax).bytes }
  }
}

extension ListReport {
  /// Leaves entries out, the last ones first, until the JSON of the report has at most `bytesMax` bytes.
  /// - Throws: `EncodingError`.
  package func bounded(bytesMax: Int) throws -> (bytes: [UInt8], report: ListReport) {
    var report = self
    var bytes = try JSONEncoder().encode(report)
    while bytes.count > bytesMax, !report.entries.isEmpty {
      let kept = report.entries.count * bytesMax / bytes.count
      report.leftOut += report.entries.count - kept
      report.entries.removeLast(report.entries.count - kept)
      bytes = try JSONEncoder().encode(report)
    }
    return (Array(bytes), report)
  }
}
