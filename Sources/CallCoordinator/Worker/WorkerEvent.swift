package import CallBus
package import CallCore
internal import CallTelemetry
package import CallWire
internal import Synchronization

/// What happens to the shards of a worker.
package enum WorkerEvent: Sendable {
  /// A `CommandBatch` from the bus.
  case commands(shard: Int, [UInt8], from: CommandSource)
  case appended(ShardTerm, number: UInt64, AppendResult)
  /// The journal's end was read, to learn what became of an append.
  case appendLookedUp(ShardTerm, number: UInt64, LookupResult)
  case registrationWritten(ShardTerm, RegistrationWrites.Key, AppendResult)
  /// What a registration's key holds; nil where it holds nothing, or nobody could tell.
  case registrationRead(ShardTerm, RegistrationWrites.Key, KeyValueEntry?)
  /// It was not even tried.
  case registrationFailed(ShardTerm, token: UInt64)
  /// What the work queue said of a push.
  case pushAdded(UInt64, AppendResult)
  case tokenStep(ShardTerm, token: UInt64, TokenStepResult)
  /// An `EdgeBatch` with answers of other shards.
  case peerAnswer([UInt8])
  /// Whether every coordinator reads what pushes leave in the journal.
  case mayPush(Bool)
  /// With the number of sessions, where the edge says it.
  case announceDone(shard: Int, AnnounceDone)
  /// Its sessions are dropped. Until `awaitedUntil` it may return with them.
  /// This node received its own heartbeat; since when it does without a gap.
  case receivedOwnHeartbeat(since: Timestamp)
  case edgeLost(UInt64, awaitedUntil: Timestamp)
  /// An edge that was not known, or was counted lost, lives: its sessions are wanted.
  case edgeReturned(UInt64)

  /// The lease is ours: the worker subscribes to the shard's commands, and keeps them until it is recovered.
  case beginRecovery(ShardTerm)
  /// The shard is read back and fenced.
  case adopt(RecoveredShard)
  /// The recovery came to nothing.
  case abandon(ShardTerm)
  /// The checkpoint at a record was written, or could not be.
  case checkpointEnded(ShardTerm, sequence: UInt64, ok: Bool)
  /// A checkpoint is wanted now, whatever was written since the last one.
  case checkpoint(ShardTerm, done: @Sendable (Bool) -> Void)
  case release(ShardTerm, deadline: Timestamp, done: @Sendable (Bool) -> Void)
  /// All that had arrived before the shard left the bus was taken.
  case drained(ShardTerm)
  /// The lease is another's: step down from every term of the shard before `epoch`.
  case deposed(shard: Int, epoch: UInt64)
}

/// Who speaks to a shard: each kind of node where NATS lets no other speak.
package enum CommandSource: Sendable, CaseIterable {
  case edges, gateways, coordinators

  package func subject(of shard: Int, _ subjects: Subjects) -> String {
    switch self {
    case .edges: subjects.commands(shard: shard)
    case .gateways: subjects.reports(shard: shard)
    case .coordinators: subjects.peers(shard: shard)
    }
  }

  func may(say body: Command.Body) -> Bool {
    switch body {
    case .pushReport: self == .gateways
    case .tokenTaken: self == .coordinators
    case .call(_, .query): self != .coordinators
    case .attach, .sessionClosed, .callerGone, .register, .unregister, .place, .ack, .call, .calls:
      self == .edges
    }
  }
}

/// One ownership of one shard. What comes late for an earlier one is told apart by the epoch.
package struct ShardTerm: Hashable, Sendable {
  package var shard: Int
  package var epoch: UInt64
  package init(shard: Int, epoch: UInt64) {
    self.shard = shard
    self.epoch = epoch
  }
}

/// The edges that a coordinator knows.
package struct KnownEdges: Sendable {
  package var living: Set<UInt64>
  /// Those that were lost and may return with their sessions, and until when.
  package var missing: [UInt64: Timestamp]
  package init(living: Set<UInt64>, missing: [UInt64: Timestamp] = [:]) {
    self.living = living
    self.missing = missing
  }
}

/// A shard as its recovery hands it over: fenced, but not serving yet.
package struct RecoveredShard: Sendable {
  package var term: ShardTerm
  package var machine: ShardMachine
  /// Of the fence.
  package var sequence: UInt64
  package var edges: KnownEdges
  /// What was replayed: all behind the checkpoint.
  package var tail: JournalTail
  /// The former owner did not hand it over: it crashed, or was cut off.
  package var afterLoss = false
  /// When the former owner that handed the shard over stopped, by that node's clock.
  package var releasedAt: Timestamp?
  /// When the former owner that was lost was last heard of.
  package var lostSince: Timestamp?
  /// The journal's last record, whether it counts or not.
  package var journalEnd: UInt64
  /// What the keys of its registrations held.
  package var registrationRevisions: [RegistrationWrites.Key: UInt64] = [:]
  package init(
    term: ShardTerm, machine: ShardMachine, sequence: UInt64, edges: KnownEdges,
    tail: JournalTail = JournalTail()
  ) {
    self.term = term
    self.machine = machine
    self.sequence = sequence
    journalEnd = sequence
    self.edges = edges
    self.tail = tail
  }
}

/// What a worker tells the node of its shards.
package enum WorkerReport: Sendable, Equatable {
  case serving(ShardTerm)
  case steppedDown(ShardTerm, reason: String)
  /// An edge of which this worker had not heard.
  case edgeSeen(UInt64)
}

/// The one way into a worker. Commands may be refused when too many wait; what the node says to
/// itself (acknowledgements, claims, losses) is bounded by what is under way and never refused.
package final class WorkerInbox: Sendable {
  package let events: Inbox<WorkerEvent>
  private let batchesWaiting = Atomic<Int>(0)
  private let bytesWaiting = Atomic<Int>(0)
  private let batchesMax: Int
  private let bytesMax: Int
  private let dropped: Counter

  package init(
    configuration: CoordinatorConfiguration, metrics: CoordinatorMetrics,
    timers: (any Timers)? = nil
  ) {
    events = Inbox(capacity: .max, timers: timers)
    batchesMax = configuration.commandBatchesMax
    bytesMax = configuration.commandBytesMax
    dropped = metrics.commandBatchesDropped
  }

  /// Takes a command batch without waking the worker: the bus says when its burst ends.
  package func offerCommands(
    shard: Int, _ bytes: [UInt8], from source: CommandSource = .edges
  ) {
    guard batchesWaiting.load(ordering: .relaxed) < batchesMax,
      bytesWaiting.load(ordering: .relaxed) < bytesMax
    else { return dropped.increment() }
    batchesWaiting.wrappingAdd(1, ordering: .relaxed)
    bytesWaiting.wrappingAdd(bytes.count, ordering: .relaxed)
    events.offerWithoutWaking(.commands(shard: shard, bytes, from: source))
  }

  package func offer(_ event: WorkerEvent) { events.offer(event) }

  /// Offers an event and waits for its answer; false when the worker has ended.
  package func ask(
    _ event: (_ done: @escaping @Sendable (Bool) -> Void) -> WorkerEvent
  ) async -> Bool {
    await withCheckedContinuation { continuation in
      let taken = events.offer(event { continuation.resume(returning: $0) })
      if !taken { continuation.resume(returning: false) }
    }
  }

  package func wake() { events.wake() }

  /// The worker took these events: the command batches among them make room.
  package func took(_ events: [WorkerEvent]) {
    var (batches, taken) = (0, 0)
    for case .commands(_, let bytes, _) in events {
      batches += 1
      taken += bytes.count
    }
    guard batches > 0 else { return }
    batchesWaiting.wrappingSubtract(batches, ordering: .relaxed)
    bytesWaiting.wrappingSubtract(taken, ordering: .relaxed)
  }

  package var depth: Int { events.depth }
}
