internal import CallBus
internal import CallCore
internal import CallTelemetry

/// One shard as its worker holds it: the rules, what waits for the journal, and where it stands in
/// its term. Its worker is the only one that touches it: it is an object, since to look at a field of
/// so large a value in an array copies all of it.
final class HeldShard {
  enum Phase {
    /// Sessions are being announced. Commands about calls wait. Next: serving, draining.
    case announcing(until: Timestamp, awaiting: Set<UInt64>)
    /// Next: draining.
    case serving
    /// Off the bus; what had arrived before is still taken. Next: parting.
    case draining
    /// Nothing is taken any more; once everything is said, the last record is written.
    case parting
  }

  /// An append that is under way, or whose fate is being looked up.
  struct Flight {
    var append: AppendMachine
    var number: UInt64
    var bytes: [UInt8]
    /// The record that it names as the last that counts.
    var follows: UInt64
    var entries: [JournalEntry]
    var milestones: [(call: CallID, CallMilestone)] = []
    var startedAt: Timestamp
    /// The record that gives the shard up.
    var isLast = false
    /// All calls as they are once this record is in the journal.
    var snapshot: ShardSnapshot?
  }

  /// Time without an owner.
  struct Pause {
    var since: Timestamp
    var isPlanned: Bool
  }

  struct Release {
    var deadline: Timestamp
    var done: @Sendable (Bool) -> Void
  }

  let term: ShardTerm
  var number: Int { term.shard }
  var machine: ShardMachine
  var pipeline: CommitPipeline
  /// The journal's last record; greater than the pipeline's where void ones stand behind it.
  var journalEnd: UInt64
  var phase: Phase
  var subscriptions: [any BusSubscription]
  /// Commands that wait until the shard serves.
  var queue = CommandQueue()
  var storesOutstanding = 0
  var registrations: RegistrationWrites
  var flight: Flight?
  var release: Release?
  /// What a new owner would have to replay.
  var tail: JournalTail
  /// What the newest checkpoint that is being written makes superfluous, and at which record it is;
  /// nil while none is.
  var tailHandedOver: (sequence: UInt64, tail: JournalTail)?
  /// What lies between the newest checkpoint and the one before, in bytes: it is purged with the next one.
  var keptBytes = 0
  /// Not before, where the last one could not be written.
  var checkpointNotBefore = Timestamp(microseconds: 0)
  /// How much may collect before a checkpoint.
  let checkpointPolicy: CheckpointPolicy
  /// Sessions may have broken together with the former owner, or with an edge, before it serves.
  var afterLoss = false
  var announcements = AnnouncementTracker()
  /// When edges are asked for their sessions again, and how often they were since it serves.
  var askAgainAt = Timestamp.distantFuture
  var askedAgain = 0
  /// Since when nobody served, until it serves.
  var pausedSince: Pause?
  /// Who waits for a checkpoint that was asked for.
  var checkpointWaiters: [@Sendable (Bool) -> Void] = []
  /// The shares of this shard in the gauges of what waits, and of live calls.
  var countedLoad = ShardLoad()
  var countedCalls = LiveCalls.none

  init(
    term: ShardTerm, machine: ShardMachine, pipeline: CommitPipeline, journalEnd: UInt64,
    phase: Phase,
    subscriptions: [any BusSubscription], tail: JournalTail, checkpointPolicy: CheckpointPolicy,
    registrations: RegistrationWrites
  ) {
    self.term = term
    self.machine = machine
    self.pipeline = pipeline
    self.journalEnd = journalEnd
    self.phase = phase
    self.subscriptions = subscriptions
    self.tail = tail
    self.checkpointPolicy = checkpointPolicy
    self.registrations = registrations
  }

  /// When a checkpoint is due; `.distantFuture` while nothing is behind the last one, or one is being
  /// written.
  var checkpointDue: Timestamp {
    guard tailHandedOver == nil else { return .distantFuture }
    return max(tail.due(checkpointPolicy), checkpointNotBefore)
  }

  /// What the journal takes yet. Half of what it may hold is for calls that were accepted.
  /// - Parameter most: how many bytes it may hold; nil: as many as come.
  func room(of most: Int64?) -> JournalRoom {
    guard let most else { return .enough }
    let used = Int64(keptBytes + (tailHandedOver?.tail.bytes ?? 0) + tail.bytes)
    return used < most / 2 ? .enough : used < most / 4 * 3 ? .short : .scarce
  }

  /// Nothing is decided that the journal does not have.
  var isQuiet: Bool {
    flight == nil && !pipeline.inFlight && pipeline.nextDeadline == .distantFuture
  }

  /// Whether the machine keeps time now.
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

  /// When the shard wants to be looked after, if nothing happens to it before.
  var nextDeadline: Timestamp {
    var next = release?.deadline ?? .distantFuture
    if keepsTime { next = min(next, machine.nextDeadline, askAgainAt) }
    if case .announcing(let until, _) = phase { next = min(next, until) }
    if let flight {
      return min(next, flight.append.nextDeadline)
    }
    // A shard that is not quiet takes its checkpoint along with the next record.
    if isQuiet { next = min(next, checkpointDue) }
    return min(next, pipeline.nextDeadline)
  }
}

/// A shard whose lease is ours while its recovery reads the store.
struct RecoveringShard {
  let term: ShardTerm
  let subscriptions: [any BusSubscription]
  /// Command batches as they came.
  var batches: [(bytes: [UInt8], source: CommandSource)] = []
  /// Of `batches`.
  var bytes = 0
  /// Edges that were lost meanwhile and have not come back, and until when they may.
  var lostEdges: [UInt64: Timestamp] = [:]
}
