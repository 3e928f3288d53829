import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

/// A journal whose acknowledgements wait until the test lets them go.
final class HeldJournal: Journal {
  private struct State {
    var held = false
    var waiting: [@Sendable () -> Void] = []
    var records: [JournalRecord] = []
  }
  let inner: InProcessJournal
  private let state = Mutex(State())

  init(_ inner: InProcessJournal) { self.inner = inner }

  /// Every record whose append was started, in order.
  var records: [JournalRecord] { state.withLock { $0.records } }
  /// Appends that are done but not acknowledged.
  var waiting: Int { state.withLock { $0.waiting.count } }

  func hold() { state.withLock { $0.held = true } }

  func letGo() {
    let waiting = state.withLock { state in
      state.held = false
      defer { state.waiting = [] }
      return state.waiting
    }
    for completion in waiting { completion() }
  }

  func append(
    shard: Int, expecting: UInt64, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    if let record = try? ClusterCodec.journalRecord(bytes) {
      state.withLock { $0.records.append(record) }
    }
    inner.append(shard: shard, expecting: expecting, bytes) { [self] result in
      let now = state.withLock { state in
        if state.held { state.waiting.append { completion(result) } }
        return !state.held
      }
      if now { completion(result) }
    }
  }

  func last(shard: Int) async throws -> StoredRecord? { try await inner.last(shard: shard) }
  func records(
    shard: Int, from sequence: UInt64, limit: Int
  ) async throws -> [StoredRecord] {
    try await inner.records(shard: shard, from: sequence, limit: limit)
  }
  func purge(shard: Int, through sequence: UInt64) async throws {
    try await inner.purge(shard: shard, through: sequence)
  }
  func statistics() async throws -> JournalStatistics { try await inner.statistics() }
}

/// One worker on a bus in memory, one edge, and a shard that is recovered from nothing.
final class WorkerBench: Sendable {
  static let shards = 4
  let bus = InProcessBus()
  let journal: HeldJournal
  let worker: ShardWorker
  let edge: FakeEdge
  let metrics: CoordinatorMetrics
  let clock: ClusterClock
  let subjects = Subjects(cluster: "test", shardCount: WorkerBench.shards)

  final class Records: Sendable {
    let reports = Mutex<[WorkerReport]>([])
    let checkpoints = Mutex<[CheckpointJob]>([])
    let failsCheckpoints = Mutex(false)
  }
  private let records: Records
  let outlet = TestOutlet()
  let tokens: InProcessBucket
  let registrations: InProcessBucket

  var reported: [WorkerReport] { records.reports.withLock { $0 } }
  var checkpointJobs: [CheckpointJob] { records.checkpoints.withLock { $0 } }

  func failCheckpoints(_ fails: Bool) { records.failsCheckpoints.withLock { $0 = fails } }

  init(
    registry: MetricsRegistry = MetricsRegistry(), exchange: LocalExchange? = nil,
    keeping kept: Set<Kept> = [],
    _ change: (inout CoordinatorConfiguration) -> Void = { _ in },
    histories: (any HistoryStream) -> any HistoryStream = { $0 }
  ) async throws {
    var configuration = testConfiguration("me", shards: Self.shards)
    change(&configuration)
    let records = Records()
    self.records = records
    tokens = try await bus.openBucket("tokens", BucketOptions())
    registrations = try await bus.openBucket("registrations", BucketOptions())
    let stream = kept.contains(.records) ? try await bus.openRecords(RecordOptions()) : nil
    let histories =
      kept.contains(.history) ? histories(try await bus.openHistories(HistoryOptions())) : nil
    let events = kept.contains(.events) ? try await bus.openAppStream(.events, .events) : nil
    journal = HeldJournal(try await bus.openJournal(JournalOptions()))
    metrics = CoordinatorMetrics(registry)
    clock = testClock()
    edge = try FakeEdge(
      77, bus, shards: Self.shards, clock: clock, announces: false, repeatsAfter: nil)
    worker = ShardWorker(
      index: 0, configuration: configuration, subjects: subjects, bus: bus, journal: journal,
      registrations: registrations, tokens: tokens, pushQueue: outlet, records: stream,
      events: events, histories: histories, peer: 4711, clock: clock, metrics: metrics,
      logger: quietLogger(),
      thread: bus.actorThread, exchange: exchange,
      writeCheckpoint: { job in
        records.checkpoints.withLock { $0.append(job) }
        job.done(!records.failsCheckpoints.withLock { $0 })
      },
      report: { report in records.reports.withLock { $0.append(report) } })
  }

  /// Runs the worker for as long as the body takes.
  @inline(never)
  func run(_ body: (WorkerBench) async throws -> Void) async throws {
    let worker = worker
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await worker.run() }
      try await body(self)
      group.cancelAll()
    }
    await bus.close()
  }

  /// As `run`; the worker serves these shards when the body begins.
  @inline(never)
  func serve(
    _ shards: Range<Int> = 0..<1, _ body: (WorkerBench) async throws -> Void
  ) async throws {
    try await run { bench in
      for shard in shards { try await bench.adopt(shard) }
      try await body(bench)
    }
  }

  /// The first term of shard 0.
  static let term = ShardTerm(shard: 0, epoch: 1)

  /// Hands a shard over, as a recovery does, and waits until it serves.
  @discardableResult
  @inline(never)
  func adopt(
    _ shard: Int, epoch: UInt64 = 1, limits: CallLimits = CallLimits()
  ) async throws -> ShardTerm {
    let term = ShardTerm(shard: shard, epoch: epoch)
    worker.inbox.offer(.beginRecovery(term))
    let last = try await journal.last(shard: shard)
    recovered(
      term, ShardMachine(shard: shard, epoch: epoch, limits: limits),
      sequence: last?.sequence ?? 0)
    try await eventually("shard \(shard) serves") { await serves(term) }
    return term
  }

  /// As `adopt`, with what the journal has.
  @inline(never)
  func recover(_ shard: Int, epoch: UInt64) async throws {
    let term = ShardTerm(shard: shard, epoch: epoch)
    worker.inbox.offer(.beginRecovery(term))
    var machine = ShardMachine(shard: shard, epoch: epoch, limits: CallLimits())
    let records = try await journal.records(shard: shard, from: 1, limit: 1000)
    for record in records {
      machine.replay(try ClusterCodec.journalRecord(record.bytes).entries, now: clock.now())
    }
    recovered(term, machine, sequence: records.last?.sequence ?? 0)
    try await eventually("shard \(shard) serves") { await serves(term) }
  }

  /// A shard whose recovery began is read back.
  func recovered(
    _ term: ShardTerm, _ machine: ShardMachine? = nil, sequence: UInt64 = 0,
    living edges: Set<UInt64> = []
  ) {
    let empty = ShardMachine(shard: term.shard, epoch: term.epoch, limits: CallLimits())
    worker.inbox.offer(
      .adopt(
        RecoveredShard(
          term: term, machine: machine ?? empty, sequence: sequence,
          edges: KnownEdges(living: edges))))
  }

  /// Another owner has the shard.
  @inline(never)
  func depose(_ term: ShardTerm = WorkerBench.term) async throws {
    worker.inbox.offer(.deposed(shard: term.shard, epoch: term.epoch + 1))
    try await stepsDown(term)
  }

  @inline(never)
  func stepsDown(_ term: ShardTerm = WorkerBench.term) async throws {
    try await eventually("it steps down") { steppedDown == [term] }
  }

  @inline(never)
  func serves(_ term: ShardTerm) async -> Bool {
    await worker.status().contains {
      $0.shard == term.shard && $0.epoch == term.epoch && $0.state == ShardState.serving.rawValue
    }
  }

  /// A user of the given shard.
  func user(_ shard: Int, _ index: Int = 0) -> UserKey {
    var left = index
    for number in 0... {
      let user = UserKey.user("user-\(number)")
      guard ShardHash.shard(of: user, count: Self.shards) == shard else { continue }
      if left == 0 { return user }
      left -= 1
    }
    fatalError("unreachable")
  }

  /// A command whose reply tells that it was said.
  func query(_ request: UInt64, shard: Int = 0) {
    edge.send(
      .call(CallID(high: 1, low: request), .query), from: 1, user(shard), "d1", to: user(shard),
      request: request)
  }

  func isAnswered(_ request: UInt64) -> Bool { edge.reply(to: 1, request: request) != nil }

  /// Queries, and waits for the answer.
  @inline(never)
  func ask(_ request: UInt64, shard: Int = 0) async throws {
    query(request, shard: shard)
    try await eventually("reply \(request)") { isAnswered(request) }
  }

  /// Queries while the journal is held.
  @inline(never)
  func queryThatWaits(_ request: UInt64) async throws {
    journal.hold()
    query(request, shard: 0)
    try await eventually("the append waits") { journal.waiting == 1 }
  }

  /// Comes back when all that was published to the edge before has arrived there.
  @inline(never)
  func flush() async throws {
    let marker = UInt64.random(in: 1 << 40..<1 << 50)
    bus.publish(
      subjects.replies(to: edge.number),
      ClusterCodec.encode(
        EdgeBatch(items: [EdgeItem(session: 99, body: .reply(request: marker, .done))])))
    try await eventually("the marker arrives") { edge.reply(to: 99, request: marker) != nil }
  }

  var steppedDown: [ShardTerm] {
    reported.compactMap {
      if case .steppedDown(let term) = $0 { return term }
      return nil
    }
  }
}
