internal import Synchronization

/// The bus, the journals and the buckets in memory, for development and tests: the nodes of a cluster in one process
/// share one bus.
///
/// Handlers and completions run on the bus's thread, never inside the call that caused them, as over a network.
public final class InProcessBus: ClusterBus {
  /// The most messages that may wait for the bus's thread. Policy: refuse, and count.
  public static let defaultOutboxCapacity = 65_536

  let core: InProcessCore
  private let audit = InProcessAuditTrail()

  public init(outboxCapacity: Int = InProcessBus.defaultOutboxCapacity) {
    core = InProcessCore(outboxCapacity: outboxCapacity)
    startThread(named: "inprocess-bus") { [core] in core.run() }
  }

  deinit { core.close(completion: {}) }

  package func setFaults(_ change: (inout InProcessFaults) -> Void) {
    core.faults.withLock { change(&$0) }
  }

  /// For tests: empties a bucket, as a store does that is restored from an early backup. Its watches learn nothing.
  package func lose(bucket name: String) {
    core.store.withLock { $0.buckets[name] = nil }
  }

  @discardableResult
  public func publish(_ subject: String, _ bytes: [UInt8], replyTo: String?) -> Bool {
    core.publish(CollectionOfOne(OutgoingMessage(subject: subject, bytes: bytes, replyTo: replyTo)))
      == 0
  }

  @discardableResult
  public func publish(_ messages: [OutgoingMessage]) -> Int { core.publish(messages) }

  public func subscribe(
    _ subject: String, queue: String?, handler: @escaping MessageHandler
  ) throws -> any BusSubscription {
    guard SubjectFilter.isValid(subject) else {
      throw BusError.failed("not a subject: '\(subject)'")
    }
    return try core.subscribe(subject, queue: queue, handler: handler)
  }

  public func onReadComplete(_ handler: @escaping @Sendable () -> Void) {
    core.addReadCompleteHandler(handler)
  }

  public func request(_ subject: String, _ bytes: [UInt8], timeout: Duration) async throws
    -> BusMessage
  {
    try await core.request(subject, bytes, timeout: timeout, limit: 1, needsReply: true)[0]
  }

  public func requestMany(_ subject: String, _ bytes: [UInt8], window: Duration, limit: Int)
    async throws -> [BusMessage]
  {
    try await core.request(subject, bytes, timeout: window, limit: limit, needsReply: false)
  }

  public var statistics: BusStatistics { core.statistics }

  public func close() async {
    await withCheckedContinuation { continuation in
      core.close { continuation.resume() }
    }
  }

  public func openJournal(_ options: JournalOptions) async throws -> InProcessJournal {
    InProcessJournal(core)
  }

  public func openBucket(_ name: String, _ options: BucketOptions) async throws -> InProcessBucket {
    InProcessBucket(core, name: name)
  }

  /// There is one queue; the options with which it is first opened count.
  public func openWorkQueue(_ options: WorkQueueOptions) async throws -> InProcessWorkQueue {
    InProcessWorkQueue(core, options)
  }

  public func openRecords(_ options: RecordOptions) async throws -> InProcessRecords {
    InProcessRecords(core)
  }

  public func openHistories(_ options: HistoryOptions) async throws -> InProcessHistories {
    InProcessHistories(core, options)
  }

  /// It publishes what is added in the name of a cluster `callmesh`, the default.
  public func openAppStream(
    _ kind: AppStreamKind, _ options: AppStreamOptions
  ) async throws -> InProcessAppStream {
    let subjects = Subjects(cluster: "callmesh", shardCount: 1)
    return InProcessAppStream(core, kind) { subjects.appStream(kind, app: $0) }
  }

  public func openAudit(_ options: AuditOptions) async throws -> InProcessAuditTrail { audit }
}

/// Faults for tests. Each closure runs on the bus's thread.
package struct InProcessFaults: Sendable {
  package enum Append: Sendable {
    /// The writer gets `unknown`, whether the record is stored or not.
    case unknown(stored: Bool)
    /// As if another writer had been faster.
    case refuse
    /// In a journal: another record that expects the same sequence is stored before it, and both are acknowledged, as a
    /// replicated store may do.
    case race(before: [UInt8])
  }
  /// Whether an acknowledgement does not prove which record precedes the stored one.
  package var takesRacingAppends = false
  /// Decides every append to a journal; nil lets it through.
  package var onAppend: (@Sendable (_ shard: Int, _ bytes: [UInt8]) -> Append?)?
  /// Decides every write to a bucket; nil lets it through.
  package var onPut: (@Sendable (_ bucket: String, _ key: String) -> Append?)?
  /// Decides every addition to the work queue; nil lets it through.
  package var onAdd: (@Sendable (_ lane: String, _ id: String) -> Append?)?
  /// Decides every addition to the stream of records; nil lets it through.
  package var onRecords: (@Sendable (_ id: String) -> Append?)?
  /// Decides every addition to a history; nil lets it through.
  package var onHistory: (@Sendable (_ id: String) -> Append?)?
  /// Decides every addition to a stream of apps; nil lets it through.
  package var onAppStream: (@Sendable (_ stream: AppStreamKind, _ id: String) -> Append?)?
  /// Called before a consumer of a lane begins; may wait, or throw, as a store without a leader does.
  package var onTake: (@Sendable (_ lane: String) async throws -> Void)?
  /// Returns true to lose the message.
  package var dropMessage: (@Sendable (OutgoingMessage) -> Bool)?
  package init() {}
}
