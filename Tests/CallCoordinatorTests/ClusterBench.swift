import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Foundation
import Logging
import Synchronization
import Testing

/// Coordinators on one bus in memory, with one edge.
final class ClusterBench: Sendable {
  let bus = InProcessBus()
  let edge: FakeEdge
  let clock = testClock()
  let shards: Int
  let subjects: Subjects
  let leases: InProcessBucket
  let journal: InProcessJournal

  private struct Running {
    var node: CoordinatorNode<InProcessBus>
    var task: Task<Void, any Error>
    var metrics: CoordinatorMetrics
  }
  /// The bench owns the nodes' tasks: `finish` ends them.
  private let nodes = Mutex<[String: Running]>([:])

  init(shards: Int = 8) async throws {
    self.shards = shards
    subjects = Subjects(cluster: "test", shardCount: shards)
    edge = try FakeEdge(77, bus, shards: shards, clock: clock)
    leases = try await bus.openBucket(subjects.leaseBucket, BucketOptions())
    journal = try await bus.openJournal(JournalOptions())
    edge.startHeart()
  }

  /// Runs a cluster for as long as the body takes. The nodes that are named share its shards when the body begins.
  @inline(never)
  static func run(
    _ names: [String] = [], shards: Int = 8,
    changing change: (inout CoordinatorConfiguration) -> Void = { _ in },
    _ body: (ClusterBench) async throws -> Void
  ) async throws {
    let bench = try await ClusterBench(shards: shards)
    do {
      for name in names { bench.start(name, change) }
      if !names.isEmpty { try await bench.settled(names) }
      try await body(bench)
    } catch {
      await bench.finish()
      throw error
    }
    await bench.finish()
  }

  func start(
    _ name: String, registry: MetricsRegistry = MetricsRegistry(),
    _ change: (inout CoordinatorConfiguration) -> Void = { _ in }
  ) {
    var configuration = testConfiguration(name, shards: shards)
    change(&configuration)
    let node = CoordinatorNode(
      configuration: configuration, bus: bus, clock: clock, metrics: registry,
      logger: quietLogger())
    let running = Running(node: node, task: Task { try await node.run() }, metrics: node.metrics)
    nodes.withLock { $0[name] = running }
  }

  func metrics(_ name: String) -> CoordinatorMetrics {
    nodes.withLock { $0[name]!.metrics }
  }

  /// Waits until the node has given everything up.
  func stop(_ name: String) async throws {
    let running = nodes.withLock { $0.removeValue(forKey: name) }
    running?.node.beginShutdown()
    try await running?.task.value
  }

  /// Ends a node without a word.
  func crash(_ name: String) async {
    let running = nodes.withLock { $0.removeValue(forKey: name) }
    running?.task.cancel()
    _ = await running?.task.result
  }

  func finish() async {
    for name in nodes.withLock({ Array($0.keys) }) { await crash(name) }
    edge.die()
    await bus.close()
  }

  // MARK: Looking

  /// The lease of every shard.
  func owners() async throws -> [Lease?] {
    var owners: [Lease?] = Array(repeating: nil, count: shards)
    for entry in try await leases.entries(matching: ">") {
      guard let shard = Int(entry.key), let value = entry.value else { continue }
      owners[shard] = try ClusterCodec.lease(value)
    }
    return owners
  }

  /// As a node does that takes a shard, and finds that it cannot read it: the journal knows nothing of it.
  func releaseLeasesInPassing() async throws {
    for entry in try await leases.entries(matching: ">") {
      guard let value = entry.value else { continue }
      let former = try ClusterCodec.lease(value)
      let lease = Lease(owner: "passing", incarnation: 1, epoch: former.epoch + 1, released: true)
      let result = await leases.put(
        entry.key, ClusterCodec.encode(lease), expecting: entry.revision)
      guard case .appended = result else { throw Timeout(what: "lease: \(result)") }
    }
  }

  /// Waits until placement and leases agree, and every shard serves.
  func settled(_ names: [String]) async throws {
    try await eventually("shards are shared by \(names)") {
      let owners = try await self.owners()
      for shard in 0..<shards {
        guard let lease = owners[shard], !lease.released,
          lease.owner == Placement.desired(shard: shard, candidates: names)
        else { return false }
      }
      let statuses = try await status()
      let serving = statuses.values.flatMap { $0.coordinator?.shards ?? [] }
        .filter { $0.state == "serving" }.map(\.shard)
      return Set(statuses.keys) == Set(names) && serving.sorted() == Array(0..<shards)
    }
  }

  func ask<Answer: Decodable>(_ subject: String, _ query: some Encodable) async throws
    -> [Answer]
  {
    try await ask(subject, body: Array(JSONEncoder().encode(query)))
  }

  func ask<Answer: Decodable>(_ subject: String, body: [UInt8]) async throws -> [Answer] {
    let count = nodes.withLock { $0.count }
    let replies: [BusMessage]
    do {
      replies = try await bus.requestMany(subject, body, window: .seconds(2), limit: count)
    } catch BusError.noResponders {
      replies = []
    }
    return try replies.map { try JSONDecoder().decode(Answer.self, from: Data($0.bytes)) }
  }

  func status() async throws -> [String: NodeStatus] {
    let all: [NodeStatus] = try await ask(subjects.adminStatus, body: [])
    return Dictionary(all.map { ($0.node, $0) }) { $1 }
  }

  func shards(of name: String) async throws -> [ShardStatus] {
    try await status()[name]?.coordinator?.shards ?? []
  }

  func checkpoints() async throws -> InProcessBucket {
    try await bus.openBucket(subjects.checkpointStream, BucketOptions())
  }

  // MARK: Calls

  /// Users whose two devices are attached: sessions 2i and 2i + 1 of user i.
  func attachUsers(_ count: Int) async throws -> [UserKey] {
    let users = (0..<count).map { UserKey.user("callee-\($0)") }
    for (index, user) in users.enumerated() {
      try await edge.attach(user, "phone", session: UInt64(2 * index))
      try await edge.attach(user, "laptop", session: UInt64(2 * index + 1))
    }
    return users
  }

  static func call(_ index: Int) -> CallID { CallID(high: 0xca11, low: UInt64(index)) }
  static func callerSession(_ index: Int) -> UInt64 { UInt64(10_000 + index) }
  static func caller(_ index: Int) -> UserKey { .user("caller-\(index)") }

  /// Attaches users, and calls all of them.
  @inline(never)
  func ring(_ count: Int) async throws -> [UserKey] {
    let users = try await attachUsers(count)
    try await callAll(users)
    return users
  }

  /// Calls every user, and waits until both devices of each ring.
  func callAll(_ users: [UserKey]) async throws {
    for (index, user) in users.enumerated() {
      try await edge.place(
        Self.call(index), from: Self.callerSession(index), Self.caller(index), to: user)
    }
    try await eventually("every device rings") {
      users.indices.allSatisfy { isRinging($0, 2 * $0) && isRinging($0, 2 * $0 + 1) }
    }
  }

  func isRinging(_ call: Int, _ session: Int) -> Bool {
    edge.deliveries(to: UInt64(session)).contains {
      if case .invite = $0.event { $0.call == Self.call(call) } else { false }
    }
  }

  func stops(_ call: Int, _ session: UInt64) -> Set<EndReason> {
    Set(edge.stops(to: session, of: Self.call(call)).map(\.reason))
  }

  /// Answers every call on the first device. Each must be won, each second device must hear why it
  /// stopped, each caller must hear of the answer.
  func answerAll(_ users: [UserKey]) async throws {
    for (index, user) in users.enumerated() {
      let reply = try await edge.ask(
        .call(Self.call(index), .answer(description: "sdp")), from: UInt64(2 * index), user,
        "phone",
        to: user)
      guard case .answer(won: true, _) = reply else {
        throw Timeout(what: "answer of call \(index): \(reply)")
      }
    }
    try await eventually("every second device is stopped") {
      users.indices.allSatisfy { stops($0, UInt64(2 * $0 + 1)) == [.answeredElsewhere] }
    }
    try await eventually("every caller hears of the answer") {
      users.indices.allSatisfy { index in
        edge.answers(to: Self.callerSession(index)).contains { $0.device == "phone" }
      }
    }
    for index in users.indices {
      #expect(stops(index, UInt64(2 * index)).isEmpty)
      #expect(stops(index, Self.callerSession(index)).isEmpty)
    }
  }
}
