/// The seam to a durable work queue: jobs wait in lanes until one of several takers has done them.
///
/// At least once: a job that its taker does not settle in time is handed out again.
public protocol WorkQueue: Sendable {
  /// Adds a job. `completion` is called exactly once, on the bus's thread: `.appended` when the queue
  /// keeps it, `.refused` when the queue is full. An `id` that was added within the queue's window is
  /// taken as done and adds nothing.
  func add(
    lane: String, id: String, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void)

  /// Begins to take jobs of a lane: at most `inFlight` unsettled ones at a time. `handler` runs on
  /// the bus's thread; it hands over and returns.
  ///
  /// Goes on until it is cancelled, whatever becomes of the connection and of the store meanwhile.
  func take(
    lane: String, inFlight: Int, handler: @escaping @Sendable (WorkItem) -> Void
  ) async throws -> any BusSubscription

  /// How many jobs of a lane wait, those that are under way included.
  func depth(lane: String) async throws -> Int
}

/// A job that somebody took. Settled once; not settled in time, it is handed out again.
public struct WorkItem: Sendable {
  public var bytes: [UInt8]
  /// Counts from 1: how often the job was handed out.
  public var attempt: Int
  private let settle: @Sendable (WorkSettlement) -> Void

  public init(
    bytes: [UInt8], attempt: Int, settle: @escaping @Sendable (WorkSettlement) -> Void
  ) {
    self.bytes = bytes
    self.attempt = attempt
    self.settle = settle
  }

  public func settle(_ settlement: WorkSettlement) { settle(settlement) }
}

public enum WorkSettlement: Sendable, Equatable {
  /// Done, or given up: it goes.
  case done
  /// Hand it out again, after a pause.
  case again(after: Duration)
  /// Still under way: the time until it is handed out again begins anew.
  case working
}

public struct WorkQueueOptions: Sendable, Equatable {
  public var replicas = 1
  public var inMemory = false
  /// Jobs older than this go unseen. No job is wanted for longer.
  public var maxAge: Duration = .seconds(3600)
  /// At most so many jobs in all; a further one is refused.
  public var maxJobs = 1_000_000
  /// At most so many jobs of one lane: one that nobody serves leaves room for the others.
  public var maxJobsPerLane = 250_000
  /// How much the queue may hold; nil: as much as comes. Policy: refuse.
  public var bytesMax: Int64?
  /// How many jobs of a lane may be with takers and not settled; the others wait.
  public var maxUnsettled = 50_000
  /// Within which a repeated id adds nothing. Longer than any call rings.
  public var duplicateWindow: Duration = .seconds(300)
  /// How long a taker may sit on a job without a word: so much later another takes over what a dead
  /// one had.
  public var settleWithin: Duration = .seconds(6)
  /// How long an addition waits for its answer.
  public var addTimeout: Duration = .seconds(2)
  /// Whether a missing queue is made; else opening it fails as `BusError.notReady`. For nodes that
  /// do not know how the cluster's streams are to be.
  public var createsMissing = true
  public init() {}
}

/// A lane's name stands in subjects and names of the store.
package func isLaneName(_ lane: String) -> Bool {
  !lane.isEmpty && lane.utf8.count <= 64
    && lane.utf8.allSatisfy { byte in
      switch byte {
      case 48...57, 65...90, 97...122, 45, 95: true
      default: false
      }
    }
}
