package import CallBus
package import CallCore
internal import CallTelemetry
package import CallWire
internal import Synchronization

/// An event of a worker's shards. Large and rare contents are indirect, so that an event is small.
package enum WorkerEvent: Sendable {
  case commands(shard: Int, CommandParcel)
  case appended(ShardTerm, number: UInt64, AppendResult)
  /// The journal was read, to find out whether an append was stored.
  indirect case appendLookedUp(ShardTerm, number: UInt64, LookupResult)
  indirect case registrationWritten(ShardTerm, RegistrationWrites.Key, AppendResult)
  /// The content of a registration's key; nil if it holds nothing, or if the read failed.
  indirect case registrationRead(ShardTerm, RegistrationWrites.Key, KeyValueEntry?)
  /// The write was not attempted.
  case registrationFailed(ShardTerm, token: UInt64)
  /// The work queue's answer to a push.
  case pushAdded(UInt64, AppendResult)
  /// The stream's answer to a message of records.
  case recordsAdded(UInt64, AppendResult)
  /// The store's answer to a message of a history.
  case historyAdded(UInt64, AppendResult)
  /// A history was read, and its command carried out: what it asked for, and the history's state; nil: it could not be.
  indirect case historyRead(HistoryReads.Item, HistoryPage?)
  /// The history for pushes that wait for the number of unread calls; nil: it could not be read.
  indirect case unreadRead(UInt64, HistoryLog?)
  /// The stream's answer to a message of an app's events.
  indirect case eventsAdded(app: String, UInt64, AppendResult)
  indirect case tokenStep(ShardTerm, token: UInt64, TokenStepResult)
  /// An `EdgeBatch` with other shards' answers.
  case peerAnswer([UInt8])
  /// Every coordinator reads this format of the journal.
  case journalFormat(UInt32)
  indirect case announceDone(shard: Int, AnnounceDone)
  /// This node received its own heartbeat, without a gap since then.
  case receivedOwnHeartbeat(since: Timestamp)
  /// Its sessions are dropped. Until `awaitedUntil` it may return with them.
  case edgeLost(UInt64, awaitedUntil: Timestamp)
  /// An edge is alive that was not known, or that counted as lost: its sessions are requested.
  case edgeReturned(UInt64)

  /// The edge of this process begins or ceases to take devices: all edges learn it with the next request.
  case ownEdgeChanged(ShardTerm)

  /// This node has the lease: the worker subscribes to the shard's commands and keeps them until it is recovered.
  case beginRecovery(ShardTerm)
  /// The shard is replayed and fenced.
  indirect case adopt(RecoveredShard)
  /// The recovery failed.
  case abandon(ShardTerm)
  /// The checkpoint at a record was written, or could not be.
  case checkpointEnded(ShardTerm, sequence: UInt64, ok: Bool)
  /// Take a checkpoint now, however little was written since the last one.
  case checkpoint(ShardTerm, done: @Sendable (Bool) -> Void)
  case release(ShardTerm, deadline: Timestamp, done: @Sendable (Bool) -> Void)
  /// The worker has taken all that had arrived before the shard unsubscribed.
  case drained(ShardTerm)
  /// An owner, perhaps another node, has recovered a shard, or asks for its sessions once more.
  case recovered(ShardTerm)
  /// Another node has the lease: step down from every term of the shard before `epoch`.
  case deposed(shard: Int, epoch: UInt64)
}

/// A batch of commands as it arrived: its bytes from the bus, or the batch itself from the edge of this process.
package struct CommandParcel: Sendable {
  package enum Content: Sendable {
    case encoded([UInt8])
    indirect case local(CommandBatch)
  }
  package let content: Content
  package let source: CommandSource
  /// How many it has on the bus; of a batch that was not encoded about how many.
  package let bytes: Int

  package init(encoded bytes: [UInt8], from source: CommandSource) {
    (content, self.source, self.bytes) = (.encoded(bytes), source, bytes.count)
  }
  package init(local batch: CommandBatch) {
    (content, source) = (.local(batch), .edges)
    bytes = batch.commands.reduce(0) { $0 + $1.approximateBytes }
  }

  /// - Throws: for bytes that are no batch.
  func batch() throws(WireError) -> CommandBatch {
    switch content {
    case .encoded(let bytes): try ClusterCodec.commandBatch(bytes)
    case .local(let batch): batch
    }
  }
}

/// The kind of node that sent a command. Each has a subject on which NATS lets no other kind publish.
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
    case .pushReport: self != .edges
    case .tokenTaken, .merge, .replaced, .visit, .history(.changed): self == .coordinators
    case .crossed(let crossed):
      self == (crossed.isSurvivorAnswered ? .coordinators : .edges)
    case .call(_, .query): self != .coordinators
    case .attach, .sessionClosed, .callerGone, .register, .unregister, .place, .ack, .call, .calls,
      .talking, .history, .rules, .app:
      self == .edges
    }
  }
}

/// One ownership of one shard. The epoch distinguishes late events of an earlier one.
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
  /// Edges that were lost and may return with their sessions, and until when.
  package var missing: [UInt64: Timestamp]
  package init(living: Set<UInt64>, missing: [UInt64: Timestamp] = [:]) {
    self.living = living
    self.missing = missing
  }
}

/// A recovered shard: fenced, but not serving yet.
package struct RecoveredShard: Sendable {
  package var term: ShardTerm
  package var machine: ShardMachine
  /// The fence's sequence.
  package var sequence: UInt64
  package var edges: KnownEdges
  /// The replayed part of the journal: everything behind the checkpoint.
  package var tail: JournalTail
  /// Whether the former owner crashed or was cut off, and so did not hand the shard over.
  package var afterLoss = false
  /// When the former owner handed the shard over, by its own clock.
  package var releasedAt: Timestamp?
  /// The last sign of life of a former owner that was lost.
  package var lostSince: Timestamp?
  /// The journal's last record, whether it counts or not.
  package var journalEnd: UInt64
  /// The revisions of its registrations' keys, and of its users' rules.
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

/// A report of a worker to the manager of the node's shards.
package enum WorkerReport: Sendable, Equatable {
  case steppedDown(ShardTerm)
  /// An edge that this worker did not know.
  case edgeSeen(UInt64)
}

/// The queue to a worker. Policy when too many commands wait: refuse, and count. The node's own events
/// (acknowledgements, claims, losses) are bounded by what is under way, and never refused.
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

  /// Queues a command batch without waking the worker: the end of the burst wakes it.
  package func offerCommands(shard: Int, _ parcel: CommandParcel) {
    guard batchesWaiting.load(ordering: .relaxed) < batchesMax,
      bytesWaiting.load(ordering: .relaxed) < bytesMax
    else { return dropped.increment() }
    batchesWaiting.wrappingAdd(1, ordering: .relaxed)
    bytesWaiting.wrappingAdd(parcel.bytes, ordering: .relaxed)
    events.offerWithoutWaking(.commands(shard: shard, parcel))
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

  /// The worker has taken these events: makes room for as many command batches.
  package func took(_ events: [WorkerEvent]) {
    var (batches, taken) = (0, 0)
    for case .commands(_, let parcel) in events {
      batches += 1
      taken += parcel.bytes
    }
    guard batches > 0 else { return }
    batchesWaiting.wrappingSubtract(batches, ordering: .relaxed)
    bytesWaiting.wrappingSubtract(taken, ordering: .relaxed)
  }

  package var depth: Int { events.depth }
}
