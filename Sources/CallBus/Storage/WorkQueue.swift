/// A durable work queue. A job waits in its lane until a consumer has settled it as done.
///
/// Delivers at least once: a job that its consumer does not settle in time is redelivered.
public protocol WorkQueue: Sendable {
  /// Adds a job. `completion` is called exactly once, on the bus's thread: `.appended` once the job is stored,
  /// `.refused` if the queue is full. An `id` that was added within the deduplication window succeeds and adds nothing.
  func add(lane: String, id: String, _ bytes: [UInt8], completion: @escaping AppendCompletion)

  /// Consumes a lane, with at most `inFlight` unsettled jobs at a time. `handler` runs on the bus's thread and must not
  /// block.
  ///
  /// Continues until cancelled, across reconnects and restarts of the store.
  /// - Throws: `BusError`, if consuming cannot begin.
  func consume(
    lane: String, inFlight: Int, handler: @escaping WorkHandler
  ) async throws -> any BusSubscription

  /// The number of jobs in a lane, including those that are being worked on.
  /// - Throws: `BusError`.
  func depth(lane: String) async throws -> Int
}

public typealias WorkHandler = @Sendable (WorkItem) -> Void

/// A delivered job. Settle it once; it is redelivered if it is not settled in time.
public struct WorkItem: Sendable {
  public var bytes: [UInt8]
  /// How often the job was delivered, from 1.
  public var attempt: Int
  private let settle: @Sendable (WorkSettlement) -> Void

  public init(bytes: [UInt8], attempt: Int, settle: @escaping @Sendable (WorkSettlement) -> Void) {
    self.bytes = bytes
    self.attempt = attempt
    self.settle = settle
  }

  public func settle(_ settlement: WorkSettlement) { settle(settlement) }
}

public enum WorkSettlement: Sendable, Equatable {
  /// Done, or given up: the queue removes it.
  case done
  /// Redeliver it, after a pause.
  case retry(after: Duration)
  /// Still being worked on: restarts the time until redelivery.
  case inProgress
}

public struct WorkQueueOptions: Sendable, Equatable {
  public var replicas = 1
  public var inMemory = false
  /// The age at which the queue removes a job undelivered.
  public var maxAge: Duration = .seconds(3600)
  /// The most jobs in all lanes. Policy: refuse.
  public var maxJobs = 1_000_000
  /// The most jobs of one lane, so that a lane without consumers leaves room for the others. Policy: refuse.
  public var maxJobsPerLane = 250_000
  /// The most bytes that the queue may hold; nil: no limit. Policy: refuse.
  public var bytesMax: Int64?
  /// The most unsettled jobs of a lane over all consumers. Policy: further ones wait.
  public var maxUnsettled = 50_000
  /// The deduplication window. Must exceed the longest ringing time of a call.
  public var duplicateWindow: Duration = .seconds(300)
  /// The time after delivery, or after `.inProgress`, when an unsettled job is redelivered (JetStream: `ack_wait`).
  public var settleWithin: Duration = .seconds(6)
  /// The time that `add` waits for the store's answer.
  public var addTimeout: Duration = .seconds(2)
  /// Whether to create a missing queue; otherwise opening it throws `BusError.notReady`. Nodes that do not know the
  /// settings of the cluster's streams set this to false.
  public var createsMissing = true
  public init() {}
}

/// Whether a lane's name may be part of a subject and of a consumer's name.
package func isLaneName(_ lane: String) -> Bool {
  !lane.isEmpty && lane.utf8.count <= 64
    && lane.utf8.allSatisfy { byte in
      switch byte {
      case 48...57, 65...90, 97...122, 45, 95: true
      default: false
      }
    }
}
