internal import Synchronization

/// The bus, the journals and the buckets in memory, for a cluster in one process: development and
/// tests. Nodes of one cluster share one bus.
///
/// Handlers and completions run on one thread of the bus's own, never inside the call that caused
/// them, so that whoever relies on that is wrong here as well as over a network.
public final class InProcessBus: ClusterBus {
  /// How many messages may wait for the bus's thread. Policy: refuse, and count.
  public static let defaultOutboxCapacity = 65_536

  let core: InProcessCore
  private let audit = InProcessAuditTrail()

  public init(outboxCapacity: Int = InProcessBus.defaultOutboxCapacity) {
    core = InProcessCore(outboxCapacity: outboxCapacity)
    startThread(named: "inprocess-bus") { [core] in core.run() }
  }

  deinit { core.close(completion: {}) }

  /// What tests make go wrong.
  package func setFaults(_ change: (inout InProcessFaults) -> Void) {
    core.faults.withLock { change(&$0) }
  }

  @discardableResult
  public func publish(_ subject: String, _ bytes: [UInt8], replyTo: String?) -> Bool {
    core.publish(CollectionOfOne(OutgoingMessage(subject: subject, bytes: bytes, replyTo: replyTo)))
      == 0
  }

  @discardableResult
  public func publish(_ messages: [OutgoingMessage]) -> Int {
    core.publish(messages)
  }

  public func subscribe(
    _ subject: String, queue: String?, handler: @escaping @Sendable (BusMessage) -> Void
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
    let replies = try await core.request(
      subject, bytes, window: timeout, limit: 1, emptyIsTimeout: true)
    guard let reply = replies.first else { throw BusError.timeout }
    return reply
  }

  public func requestMany(_ subject: String, _ bytes: [UInt8], window: Duration, limit: Int)
    async throws -> [BusMessage]
  {
    try await core.request(subject, bytes, window: window, limit: limit, emptyIsTimeout: false)
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

  /// There is one queue; the options of who opens it first count.
  public func openWorkQueue(_ options: WorkQueueOptions) async throws -> InProcessWorkQueue {
    InProcessWorkQueue(core, options)
  }

  /// There is one trail.
  public func openAudit(_ options: AuditOptions) async throws -> InProcessAuditTrail { audit }
}

/// Faults for tests. Each closure runs on the bus's thread.
package struct InProcessFaults: Sendable {
  package enum Append: Sendable {
    /// Stored or not, the writer hears nothing but `unknown`.
    case unknown(stored: Bool)
    /// As if somebody else had written.
    case refuse
    /// Of a journal: another record was under way at the same time, expected the same, and was stored
    /// before it; both are acknowledged, as a replicated store may.
    case race(before: [UInt8])
  }
  /// Acknowledgements do not prove what stands before a record.
  package var takesRacingAppends = false
  /// Asked for every append to a journal; nil lets it through.
  package var onAppend: (@Sendable (_ shard: Int, _ bytes: [UInt8]) -> Append?)?
  /// Asked for every write to a bucket; nil lets it through.
  package var onPut: (@Sendable (_ bucket: String, _ key: String) -> Append?)?
  /// Asked for every addition to the work queue; nil lets it through.
  package var onAdd: (@Sendable (_ lane: String, _ id: String) -> Append?)?
  /// Called before a lane is taken from; may wait, or throw, as a store without a leader does.
  package var onTake: (@Sendable (_ lane: String) async throws -> Void)?
  /// True loses the message.
  package var dropMessage: (@Sendable (OutgoingMessage) -> Bool)?
  package init() {}
}
