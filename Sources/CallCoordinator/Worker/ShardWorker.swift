package import CallBus
package import CallCore
package import CallTelemetry
internal import CallWire
package import Logging

/// Owns several shards and drives them: decide, append, then speak.
///
/// Why several shards share one actor: a worker takes everything that has arrived, for whichever of
/// its shards, at once. So one wake-up serves many shards, their appends leave together, and what
/// they have to say to one edge goes into one message. With an actor per shard each of these costs
/// would be paid per shard, and at some hundred calls a second over 64 shards a shard has rarely
/// more than one command at a time. More workers than one pay off only when one core is not enough.
///
/// The methods that touch a shard's state are not `async`: nothing of a shard is read before a
/// suspension and used after it. What takes time (reading the journal's end, writing a checkpoint)
/// is done in child tasks, and comes back as an event.
package actor ShardWorker {
  package struct Dependencies: Sendable {
    package var configuration: CoordinatorConfiguration
    package var subjects: Subjects
    package var bus: any MessageBus
    package var journal: any Journal
    package var registrations: any KeyValueBucket
    /// Whose push tokens are, by their fingerprints.
    package var tokens: any KeyValueBucket
    /// nil: nothing can be pushed, so nothing is decided to be.
    package var pushOutlet: (any PushOutlet)?
    /// Where this worker takes answers of other shards: as an edge's number, and never one.
    package var peer: UInt64
    package var clock: ClusterClock
    package var metrics: CoordinatorMetrics
    package var logger: Logger
    /// Where checkpoints go. Called with a checkpoint whose records are in the journal.
    package var writeCheckpoint: @Sendable (CheckpointJob) -> Void
    package var report: @Sendable (WorkerReport) -> Void

    package init(
      configuration: CoordinatorConfiguration, subjects: Subjects, bus: any MessageBus,
      journal: any Journal, registrations: any KeyValueBucket, tokens: any KeyValueBucket,
      pushOutlet: (any PushOutlet)?, peer: UInt64, clock: ClusterClock,
      metrics: CoordinatorMetrics, logger: Logger,
      writeCheckpoint: @escaping @Sendable (CheckpointJob) -> Void,
      report: @escaping @Sendable (WorkerReport) -> Void
    ) {
      self.configuration = configuration
      self.subjects = subjects
      self.bus = bus
      self.journal = journal
      self.registrations = registrations
      self.tokens = tokens
      self.pushOutlet = pushOutlet
      self.peer = peer
      self.clock = clock
      self.metrics = metrics
      self.logger = logger
      self.writeCheckpoint = writeCheckpoint
      self.report = report
    }
  }

  /// A single worker lives on the bus's thread: a command is then read, decided and its append
  /// written without a switch of threads. Several workers have a thread each.
  private nonisolated let executor: any SerialExecutor
  package nonisolated var unownedExecutor: UnownedSerialExecutor {
    executor.asUnownedSerialExecutor()
  }

  private nonisolated let taskExecutor: (any TaskExecutor)?

  package nonisolated let index: Int
  package nonisolated let inbox: WorkerInbox
  /// Share of time that this worker works instead of waiting.
  package nonisolated let busy = BusyMeter()
  nonisolated let dependencies: Dependencies

  /// By shard; nil where the shard is not held.
  var held: [HeldShard?]
  var recovering: [Int: RecoveringShard] = [:]
  /// When each held shard wants attention; a copy, so that the next one is found quickly.
  private var due: [Timestamp]
  private var touched: [Int] = []
  private var isTouched: [Bool]

  var outbox: EdgeOutbox
  var outcome = Outcome()
  var released: [Effect] = []
  /// The calls that the record which is being committed placed, with when an edge received that.
  var placedCalls: [CallID: Timestamp] = [:]
  var lookups: [Lookup] = []
  var registrationReads: [RegistrationRead] = []
  var tokenJobs: [TokenJob] = []
  /// Calls that ring no more, of which gateways are to be told.
  var withdrawals: [CallID] = []
  var releases: [(fingerprint: String, TokenOwner)] = []
  var pushes: [UInt64: PendingPush] = [:]
  var lastPush: UInt64 = 0
  /// When the next push is offered to the work queue again.
  var pushAgainAt = Timestamp.distantFuture
  var exchanges: [UInt64: Exchange] = [:]
  var lastExchange: UInt64 = 0
  /// When a question to another shard is due again.
  var exchangeAt = Timestamp.distantFuture
  var peerSubscription: (any BusSubscription)?
  /// Whether every coordinator reads what pushes leave in the journal.
  var allReadPushes = true
  var mayPush: Bool { allReadPushes && dependencies.pushOutlet != nil }
  var knownEdges: Set<UInt64> = []
  /// When this node heard itself through the bus last, and since when without a gap; nil before the first time.
  var authenticator: CommandAuthenticator
  var ownHeartbeat: (at: Timestamp, since: Timestamp)?
  var unreadableCommands = LogThrottle()
  var droppedCommands = LogThrottle()
  var forgedCommands = LogThrottle()
  var failedPushes = LogThrottle()
  var internalFaults = LogThrottle()
  var pushRates: PushRates
  var countedWaiting = (pushes: 0, questions: 0)
  var refusedCommands = LogThrottle()

  /// A read of the journal's end that is to be started.
  struct Lookup: Sendable {
    var term: ShardTerm
    var question: LookupResult.Question
  }

  package init(index: Int, _ dependencies: Dependencies) {
    self.index = index
    self.dependencies = dependencies
    let configuration = dependencies.configuration
    let single =
      configuration.workers == 1 || configuration.workersShareThread
      ? dependencies.bus.executor : nil
    taskExecutor = single == nil ? nil : dependencies.bus.taskExecutor
    executor = single ?? ThreadExecutor(name: "worker-\(index)")
    let count = dependencies.configuration.shardCount
    held = Array(repeating: nil, count: count)
    due = Array(repeating: .distantFuture, count: count)
    isTouched = Array(repeating: false, count: count)
    outbox = EdgeOutbox(subjects: dependencies.subjects)
    authenticator = CommandAuthenticator(
      configuration.authority, configuration.sessionTickets, dependencies.metrics)
    pushRates = PushRates(configuration.authority?.tokens)
    inbox = WorkerInbox(
      configuration: dependencies.configuration,
      metrics: dependencies.metrics,
      timers: (single == nil ? nil : dependencies.bus.timers) ?? dependencies.clock.timers)
    // Commands are queued without a wake-up each; the bus says when a burst of them ends. It keeps this
    // handler for its own life, which must not keep the worker.
    dependencies.bus.onReadComplete { [weak inbox] in inbox?.wake() }
  }

  /// Runs until it is cancelled; then leaves the bus without a word, as a crash would.
  package func run() async {
    let inbox = inbox
    await withTaskCancellationHandler {
      await withTaskExecutorPreference(taskExecutor) { await self.work() }
    } onCancel: {
      inbox.events.close()
    }
    await end()
  }

  private func work() async {
    await withDiscardingTaskGroup { group in
      while !Task.isCancelled {
        let next = min(due.min() ?? .distantFuture, pushAgainAt, exchangeAt)
        let events = await inbox.events.nextUntilClosed(
          deadline: next == .distantFuture ? nil : dependencies.clock.instant(at: next))
        process(events)
        for lookup in lookups { group.addTask { await self.lookUp(lookup) } }
        lookups.removeAll(keepingCapacity: true)
        for read in registrationReads { group.addTask { await self.perform(read) } }
        registrationReads.removeAll(keepingCapacity: true)
        for job in tokenJobs { group.addTask { await self.perform(job) } }
        tokenJobs.removeAll(keepingCapacity: true)
        for (fingerprint, owner) in releases {
          group.addTask { await self.release(fingerprint, owner) }
        }
        releases.removeAll(keepingCapacity: true)
      }
      group.cancelAll()
    }
  }

  /// Leaves nobody waiting for an answer.
  private func end() async {
    inbox.events.close()
    for event in await inbox.events.next(until: nil) {
      switch event {
      case .checkpoint(_, let done), .release(_, _, let done): done(false)
      case .commands, .appended, .appendLookedUp, .registrationWritten, .registrationRead,
        .registrationFailed, .announceDone, .edgeLost, .edgeReturned, .beginRecovery, .adopt,
        .abandon,
        .checkpointEnded, .drained, .deposed, .pushAdded, .tokenStep, .peerAnswer, .mayPush,
        .receivedOwnHeartbeat:
        break
      }
    }
    for case let shard? in held { dropSilently(shard) }
    for shard in Array(recovering.keys) { abandon(shard) }
    peerSubscription?.cancel()
  }

  /// One batch: take the events, look after the shards that they touched and those that are due,
  /// then speak.
  private func process(_ events: [WorkerEvent]) {
    let begun = dependencies.clock.now()
    for event in events { take(event, now: begun) }
    inbox.took(events)
    pushAgain(now: begun)
    askAgain(now: begun)
    for shard in due.indices where due[shard] <= begun { touch(shard) }
    // Tending a shard may touch it again, as when it is given up.
    var index = 0
    while index < touched.count {
      tend(touched[index], now: begun)
      index += 1
    }
    touched.removeAll(keepingCapacity: true)
    if !withdrawals.isEmpty {
      outbox.add(
        OutgoingMessage(
          subject: dependencies.subjects.pushWithdrawals,
          bytes: ClusterCodec.encode(withdrawn: withdrawals)))
      withdrawals.removeAll(keepingCapacity: true)
    }
    if !outbox.isEmpty {
      let messages = outbox.drain()
      dependencies.metrics.edgeBatches.increment(by: UInt64(messages.count))
      let dropped = dependencies.bus.publish(messages)
      if dropped > 0 { dependencies.metrics.publishesDropped.increment(by: UInt64(dropped)) }
    }
    countWaiting()
    let end = dependencies.clock.now()
    busy.worked(from: begun, to: end)
  }

  /// The shard will be looked after at the end of this batch.
  func touch(_ shard: Int) {
    guard !isTouched[shard] else { return }
    isTouched[shard] = true
    touched.append(shard)
  }

  private func tend(_ shard: Int, now: Timestamp) {
    isTouched[shard] = false
    if let held = held[shard] { advance(held, now: now) }
    due[shard] = held[shard]?.nextDeadline ?? .distantFuture
  }

  // MARK: For operators

  package func status() -> [ShardStatus] {
    let inRecovery = recovering.values.map {
      ShardStatus(
        shard: $0.term.shard, state: ShardState.recovering.rawValue, epoch: $0.term.epoch,
        sequence: 0,
        counts: ShardCounts())
    }
    return inRecovery
      + held.compactMap { shard in
        shard.map {
          ShardStatus(
            shard: $0.term.shard, state: $0.shown.rawValue, epoch: $0.term.epoch,
            sequence: $0.pipeline.lastSequence, counts: $0.machine.counts)
        }
      }
  }

  package func inspect(call: CallID) -> (shard: Int, CallInspection)? {
    for shard in held {
      if let shard, let found = shard.machine.inspect(call: call) {
        return (shard.term.shard, found)
      }
    }
    return nil
  }

  package func inspect(user: UserKey, shard: Int) -> UserInspection? {
    held[shard]?.machine.inspect(user: user)
  }

  package var heldShards: [Int] { held.compactMap { $0?.term.shard } }

  /// A shard's users and calls as they are now; nil where it is not held, or its sessions are not yet
  /// known.
  package func directory(of shard: Int) -> ShardDirectory? {
    guard let shard = held[shard] else { return nil }
    if case .announcing = shard.phase { return nil }
    return shard.machine.directory
  }

  package func holds(_ shard: Int) -> Bool { held[shard] != nil }
}
