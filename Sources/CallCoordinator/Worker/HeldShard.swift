internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import Logging

/// One shard as its worker holds it: its state machine, what waits for the journal, and its phase. Used by its worker
/// only. A class, since reading a field of so large a value in an array would copy all of it.
final class HeldShard {
  enum Phase {
    /// Sessions are being announced. Commands about calls wait. Next: serving, draining.
    case announcing(until: Timestamp, awaiting: Set<UInt64>)
    /// Next: draining.
    case serving
    /// Unsubscribed; what had arrived before is still taken. Next: parting.
    case draining
    /// Takes nothing more; appends its last record once everything else is stored.
    case parting
  }

  /// An append that is under way, or whose outcome is being looked up.
  final class Flight {
    var append: AppendMachine
    let number: UInt64
    let bytes: [UInt8]
    /// The record that it names as the last one that counts.
    let previous: UInt64
    let entries: [JournalEntry]
    var milestones: [(call: CallID, CallMilestone)] = []
    let startedAt: Timestamp
    /// Whether it is the record that gives the shard up.
    var isLast = false
    /// All calls as of this record, for a checkpoint.
    var snapshot: ShardSnapshot?

    /// - Parameter bytes: the encoded record.
    init(_ record: JournalRecord, _ bytes: [UInt8], _ append: AppendMachine, previous: UInt64) {
      (number, entries, startedAt) = (record.number, record.entries, record.at)
      (self.bytes, self.append, self.previous) = (bytes, append, previous)
    }
  }

  let term: ShardTerm
  var number: Int { term.shard }
  var machine: ShardMachine
  var pipeline: CommitPipeline
  /// The journal's last record; greater than the pipeline's if void records stand behind it.
  var journalEnd: UInt64
  var phase: Phase
  var subscriptions: [any BusSubscription]
  /// Commands that wait until the shard serves.
  var queue = CommandQueue()
  var storesOutstanding = 0
  var registrations: RegistrationWrites
  var flight: Flight?
  var release: (deadline: Timestamp, done: @Sendable (Bool) -> Void)?
  /// The part of the journal that a new owner would have to replay.
  var tail: JournalTail
  /// The tail that the newest checkpoint under way replaces, and the checkpoint's record; nil while none is written.
  var tailHandedOver: (sequence: UInt64, tail: JournalTail)?
  /// The bytes between the newest checkpoint and the one before, which the next one purges.
  var keptBytes = 0
  /// The earliest time of the next checkpoint after a failed one.
  var checkpointNotBefore = Timestamp(microseconds: 0)
  let checkpointPolicy: CheckpointPolicy
  /// Whether sessions may have broken, together with the former owner or with an edge, before the shard serves.
  var afterLoss: Bool
  var announcements = AnnouncementTracker()
  /// When the sessions are requested again, and how often they were since the shard serves.
  var askAgainAt = Timestamp.distantFuture
  var askedAgain = 0
  /// The time without an owner; nil once the shard serves.
  var paused: (since: Timestamp, isPlanned: Bool)?
  var checkpointWaiters: [@Sendable (Bool) -> Void] = []
  var countedLoad = ShardLoad()
  var countedRecordsLost: UInt64 = 0
  var countedHistoriesLost: UInt64 = 0
  /// Since the shard was claimed.
  var deliveriesTotal: UInt64 = 0

  /// - Parameter subscriptions: those that were made when the recovery began.
  init(
    _ recovered: RecoveredShard, subscriptions: [any BusSubscription],
    _ configuration: CoordinatorConfiguration, now: Timestamp
  ) {
    term = recovered.term
    machine = recovered.machine
    pipeline = CommitPipeline(
      epoch: term.epoch, writer: configuration.writer, lastSequence: recovered.sequence,
      limits: configuration.pipelineLimits)
    journalEnd = recovered.journalEnd
    // Without a known edge, the shard waits for edges that are not known yet; 0 is no edge's number.
    let edges = recovered.edges.living
    phase =
      edges.isEmpty
      ? .announcing(until: now + configuration.announceTimeoutWithoutEdges, awaiting: [0])
      : .announcing(until: now + configuration.announceTimeout, awaiting: edges)
    self.subscriptions = subscriptions
    registrations = RegistrationWrites(revisions: recovered.registrationRevisions)
    tail = recovered.tail
    checkpointPolicy = configuration.checkpointPolicy
    afterLoss = recovered.afterLoss
    paused = recovered.releasedAt.map { ($0, true) } ?? recovered.lostSince.map { ($0, false) }
    for (edge, until) in recovered.edges.missing {
      machine.edgeMissing(edge, until: until, now: now)
    }
  }

  /// Metadata for the log that names the shard's term.
  func keys(_ more: KeyValuePairs<LogKey, Logger.MetadataValue> = [:]) -> Logger.Metadata {
    Logger.Metadata.keys([.shard: "\(number)", .epoch: "\(term.epoch)"])
      .merging(.keys(more)) { $1 }
  }

  /// Returns the waiters for a checkpoint, and forgets them.
  func takeCheckpointWaiters() -> [@Sendable (Bool) -> Void] {
    defer { checkpointWaiters.removeAll() }
    return checkpointWaiters
  }

  /// When a checkpoint is due; `.distantFuture` while the tail is empty, or while one is being written.
  var checkpointDue: Timestamp {
    guard tailHandedOver == nil else { return .distantFuture }
    return max(tail.due(checkpointPolicy), checkpointNotBefore)
  }

  /// The room that is left in the journal. Half of its bytes are reserved for calls that were accepted.
  /// - Parameter most: the most bytes that it may hold; nil: no limit.
  func room(of most: Int64?) -> JournalRoom {
    guard let most else { return .enough }
    let used = Int64(keptBytes + (tailHandedOver?.tail.bytes ?? 0) + tail.bytes)
    return used < most / 2 ? .enough : used < most / 4 * 3 ? .short : .scarce
  }

  /// Whether the journal has everything that was decided.
  var isQuiet: Bool {
    flight == nil && !pipeline.inFlight && pipeline.nextDeadline == .distantFuture
  }

  /// Whether the state machine's deadlines count now.
  var keepsTime: Bool {
    switch phase {
    case .serving, .draining: true
    case .announcing, .parting: false
    }
  }

  /// Its state as operators see it.
  var shown: ShardState {
    switch phase {
    case .announcing: .recovering
    case .serving: .serving
    case .draining, .parting: .releasing
    }
  }

  /// When to advance the shard if no event touches it before.
  var nextDeadline: Timestamp {
    var next = release?.deadline ?? .distantFuture
    if keepsTime { next = min(next, machine.nextDeadline, askAgainAt) }
    if case .announcing(let until, _) = phase { next = min(next, until) }
    if let flight { return min(next, flight.append.nextDeadline) }
    // A shard that is not quiet takes its checkpoint with the next record.
    if isQuiet { next = min(next, checkpointDue) }
    return min(next, pipeline.nextDeadline)
  }
}

/// A shard whose lease this node has, while its recovery reads the store.
struct RecoveringShard {
  let term: ShardTerm
  let subscriptions: [any BusSubscription]
  /// Commands that wait, and their bytes.
  var parcels: [CommandParcel] = []
  var bytes = 0
  /// Edges that were lost meanwhile, and until when they may return.
  var lostEdges: [UInt64: Timestamp] = [:]
}
