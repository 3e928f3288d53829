package import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
package import Logging

/// Owns several shards and drives them: decide, append, then speak.
///
/// Several shards share one actor so that one wake-up serves all of them, their appends leave together, and an edge
/// gets one message for all of them. At some hundred calls a second, each of 64 shards rarely has more than one command
/// waiting. A second worker pays off only when one core is not enough.
///
/// Methods that touch a shard's state are not `async`, so nothing of a shard is read before a suspension and used after
/// it. Child tasks do what takes time (`WorkerJob`); the result comes back as an event.
package actor ShardWorker {
  private nonisolated let executor: any SerialExecutor
  package nonisolated var unownedExecutor: UnownedSerialExecutor {
    executor.asUnownedSerialExecutor()
  }

  private nonisolated let taskExecutor: (any TaskExecutor)?

  package nonisolated let index: Int
  package nonisolated let inbox: WorkerInbox
  package nonisolated let busy = BusyMeter()

  let configuration: CoordinatorConfiguration
  let subjects: Subjects
  let bus: any MessageBus
  /// The way from and to the edge of this process; nil without one.
  let exchange: LocalExchange?
  let journal: any Journal
  let registrations: any KeyValueBucket
  /// The owners of push tokens, by fingerprint.
  let tokens: any KeyValueBucket
  let pushQueue: any WorkQueue
  /// nil: no call records are kept.
  let recordStream: (any RecordStream)?
  /// nil: no histories are kept.
  let historyStream: (any HistoryStream)?
  /// nil: no events are kept for webhooks.
  let eventStream: (any AppStream)?
  /// The number under which this worker receives other shards' answers. It has the form of an edge's number and never
  /// equals one.
  let peer: UInt64
  let clock: ClusterClock
  let metrics: CoordinatorMetrics
  let logger: Logger
  /// Takes checkpoints whose records are in the journal.
  let writeCheckpoint: @Sendable (CheckpointJob) -> Void
  let report: @Sendable (WorkerReport) -> Void

  /// By shard; nil where the shard is not held.
  var held: [HeldShard?]
  var recovering: [Int: RecoveringShard] = [:]
  /// The next deadline of each held shard.
  private var due: ShardDeadlines
  private var touched: [Int] = []
  private var isTouched: [Bool]

  var outbox: EdgeOutbox
  var outcome = Outcome()
  var released: [Effect] = []
  /// The calls that the record being committed has placed, and when an edge received each `place`.
  var placedCalls: [CallID: Timestamp] = [:]
  /// Started as child tasks at the end of the batch.
  var jobs: [WorkerJob] = []
  /// Calls that stopped ringing, for the gateways.
  var withdrawals: [PushRinging] = []
  var pushes: [UInt64: PendingPush] = [:]
  var lastPush: UInt64 = 0
  /// When the next push is offered to the work queue again.
  var pushAgainAt = Timestamp.distantFuture
  var records = RecordOutbox()
  var appEvents = EventOutbox()
  var failedEventLogs = LogThrottle()
  var failedRecordLogs = LogThrottle()
  var histories: HistoryOutbox
  var historyReads: HistoryReads
  var failedHistoryLogs = LogThrottle()
  var unread: UnreadReads
  var exchanges: [UInt64: Exchange] = [:]
  var lastExchange: UInt64 = 0
  /// When the next question to another shard is due again.
  var exchangeAt = Timestamp.distantFuture
  var peerSubscription: (any BusSubscription)?
  /// Every coordinator reads this one.
  var journalFormat = ClusterCodec.format
  var knownEdges: Set<UInt64> = []
  /// The newest epoch in which each shard of the cluster was recovered, as far as this node knows.
  var recoveredEpochs: [Int: UInt64] = [:]
  var authenticator: CommandAuthenticator
  /// When this node last received its own heartbeat, and since when without a gap; nil before the first one.
  var ownHeartbeat: (at: Timestamp, since: Timestamp)?
  var unreadableCommands = LogThrottle()
  var droppedCommands = LogThrottle()
  var forgedCommands = LogThrottle()
  var failedPushes = LogThrottle()
  var internalFaults = LogThrottle()
  var pushRates: PushRates
  var countedWaiting = WaitingCounts()
  var refusedCommands = LogThrottle()

  /// - Parameter thread: nil: a thread of its own.
  package init(
    index: Int, configuration: CoordinatorConfiguration, subjects: Subjects, bus: any MessageBus,
    journal: any Journal, registrations: any KeyValueBucket, tokens: any KeyValueBucket,
    pushQueue: any WorkQueue, records: (any RecordStream)? = nil,
    events: (any AppStream)? = nil, histories: (any HistoryStream)? = nil, peer: UInt64,
    clock: ClusterClock,
    metrics: CoordinatorMetrics, logger: Logger, thread: ActorThread?,
    exchange: LocalExchange? = nil,
    writeCheckpoint: @escaping @Sendable (CheckpointJob) -> Void,
    report: @escaping @Sendable (WorkerReport) -> Void
  ) {
    self.index = index
    self.configuration = configuration
    self.subjects = subjects
    self.bus = bus
    self.exchange = exchange
    self.journal = journal
    self.registrations = registrations
    self.tokens = tokens
    self.pushQueue = pushQueue
    recordStream = records
    historyStream = histories
    self.histories = HistoryOutbox(atOnce: configuration.historyWritesAtOnce)
    historyReads = HistoryReads(
      atOnce: configuration.historyReadsAtOnce, questionsMax: configuration.historyQuestionsMax)
    unread = UnreadReads(
      atOnce: configuration.unreadReadsAtOnce, pushesMax: configuration.unreadPushesMax)
    eventStream = events
    self.peer = peer
    self.clock = clock
    self.metrics = metrics
    self.logger = logger
    self.writeCheckpoint = writeCheckpoint
    self.report = report
    taskExecutor = thread?.taskExecutor
    executor = thread?.executor ?? ThreadExecutor(name: "worker-\(index)")
    held = Array(repeating: nil, count: configuration.shardCount)
    due = ShardDeadlines(shardCount: configuration.shardCount)
    isTouched = Array(repeating: false, count: configuration.shardCount)
    outbox = EdgeOutbox(subjects: subjects)
    authenticator = CommandAuthenticator(
      configuration.authority, configuration.sessionTickets, metrics)
    pushRates = PushRates(configuration.authority?.tokens)
    inbox = WorkerInbox(
      configuration: configuration, metrics: metrics,
      timers: thread?.timers ?? clock.timers)
    // Queued commands do not wake the worker; the end of a burst does. The bus keeps this handler for its own lifetime,
    // so the handler must not retain the worker.
    bus.onReadComplete { [weak inbox] in inbox?.wake() }
  }

  /// Runs until it is cancelled; then leaves the bus without a message, as a crash would.
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
        let next = min(
          due.earliest, pushAgainAt, exchangeAt, records.nextDeadline, appEvents.nextDeadline,
          histories.nextDeadline, unread.nextDeadline)
        let events = await inbox.events.nextUntilClosed(
          deadline: next == .distantFuture ? nil : clock.instant(at: next))
        process(events)
        for job in jobs { group.addTask { await self.perform(job) } }
        jobs.removeAll(keepingCapacity: true)
      }
      group.cancelAll()
    }
  }

  /// Completes what others wait for, and drops all shards.
  private func end() async {
    inbox.events.close()
    for event in await inbox.events.next(until: nil) {
      switch event {
      case .checkpoint(_, let done), .release(_, _, let done): done(false)
      case .commands, .appended, .appendLookedUp, .registrationWritten, .registrationRead,
        .registrationFailed, .announceDone, .edgeLost, .edgeReturned, .beginRecovery, .adopt,
        .abandon, .checkpointEnded, .drained, .recovered, .deposed, .pushAdded, .recordsAdded,
        .historyAdded,
        .historyRead, .unreadRead, .tokenStep, .peerAnswer, .journalFormat, .ownEdgeChanged,
        .receivedOwnHeartbeat, .eventsAdded:
        break
      }
    }
    for case let shard? in held { dropSilently(shard) }
    for shard in Array(recovering.keys) { abandon(shard) }
    peerSubscription?.cancel()
  }

  private nonisolated func perform(_ job: WorkerJob) async {
    switch job {
    case .lookUp(let term, let question): await lookUp(question, term)
    case .readRegistration(let term, let key): await readRegistration(key, term)
    case .token(let term, let token, let step): await perform(step, token, term)
    case .releaseToken(let fingerprint, let owner): await release(fingerprint, owner)
    case .readHistory(let item): await readHistory(item)
    case .readUnread(let read): await readUnread(read)
    }
  }

  /// One batch: takes the events, advances the shards that they touched and those that are due, then publishes.
  private func process(_ events: [WorkerEvent]) {
    let begun = clock.now()
    for index in events.indices { handle(events[index], now: begun) }
    inbox.took(events)
    pushAgain(now: begun)
    sendUncounted(unread.expired(now: begun))
    askAgain(now: begun)
    sendRecords(now: begun)
    sendHistories(now: begun)
    sendAppEvents(now: begun)
    due.forEach(until: begun) { touch($0) }
    // Advancing a shard may touch it again, for example when it is given up.
    var index = 0
    while index < touched.count {
      tend(touched[index], now: begun)
      index += 1
    }
    touched.removeAll(keepingCapacity: true)
    beginUnreadReads()
    if !withdrawals.isEmpty {
      outbox.add(
        OutgoingMessage(
          subject: subjects.pushWithdrawals, bytes: ClusterCodec.encode(withdrawn: withdrawals)))
      withdrawals.removeAll(keepingCapacity: true)
    }
    if !outbox.isEmpty {
      let messages = outbox.drain(local: exchange)
      metrics.edgeBatches.increment(by: UInt64(messages.count))
      let dropped = bus.publish(messages)
      if dropped > 0 { metrics.publishesDropped.increment(by: UInt64(dropped)) }
    }
    countWaiting()
    let end = clock.now()
    busy.worked(from: begun, to: end)
  }

  /// Has the shard advanced at the end of this batch.
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
}

/// The work that a worker leaves to a child task, because it waits for the store.
enum WorkerJob: Sendable {
  /// Finds out whether the journal has a record.
  case lookUp(ShardTerm, LookupResult.Question)
  case readRegistration(ShardTerm, RegistrationWrites.Key)
  case token(ShardTerm, token: UInt64, TokenStep)
  case releaseToken(fingerprint: String, TokenOwner)
  case readHistory(HistoryReads.Item)
  case readUnread(UnreadReads.Read)
}
