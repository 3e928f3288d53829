package import CallCore
package import CallTelemetry

package struct CoordinatorMetrics: Sendable {
  package let commands: Counter
  package let commandBatches: Counter
  package let commandBatchesUnreadable: Counter
  package let commandsUnreadable: Counter
  package let commandsForged: Counter
  package let commandBatchesDropped: Counter
  package let commandsDropped: Counter
  package let internalFaults: Counter
  package let commandsRefused: Counter
  package let recoveryQueue: Gauge
  package let tokensVerified: Counter
  package let ticketsChecked: Counter
  package let appends: Counter
  package let appendsRefused: Counter
  package let appendsUnknown: Counter
  package let entries: Counter
  package let appendLatency: DurationHistogram
  package let ringLatency: DurationHistogram
  package let replies: Counter
  package let deliveries: Counter
  package let invitesTooLate: Counter
  package let edgeBatches: Counter
  package let publishesDropped: Counter
  package let heldBack: Gauge
  package let bytesHeldBack: Gauge
  package let registrationWritesWaiting: Gauge
  package let pushesWaiting: Gauge
  package let tokenQuestionsWaiting: Gauge
  package let shards: Gauge
  package let shardsStopped: Gauge
  package let stepDowns: Counter
  package let claims: Counter
  package let releases: Counter
  package let recoveryLatency: DurationHistogram
  package let handoverPause: DurationHistogram
  package let takeoverPause: DurationHistogram
  package let recordsGivenUp: Counter
  package let recordsVoid: Counter
  package let recordsReplayed: Counter
  package let checkpoints: Counter
  package let checkpointsFailed: Counter
  package let registrationsUnreadable: Counter
  package let registrationWrites: Counter
  package let registrationWritesFailed: Counter
  package let heartbeatsUnreadable: Counter
  package let heartbeatsDropped: Counter
  package let announceRequestsDropped: Counter
  package let edgesLost: Counter
  package let pushJobs: [PushPurpose: Counter]
  package let pushesAdded: Counter
  package let pushRetries: Counter
  package let pushesFailed: Counter
  package let pushesUnwanted: Counter
  package let recordsStored: Counter
  package let recordMessages: Counter
  package let recordMessagesFailed: Counter
  package let recordsLost: Counter
  package let recordsWaiting: Gauge
  package let callsUnrecorded: Gauge
  package let historyMessages: Counter
  package let historyMessagesFailed: Counter
  package let historiesLost: Counter
  package let historyCallsWaiting: Gauge
  package let historyReads: Counter
  package let historyReadsFailed: Counter
  package let historyQuestionsRefused: Counter
  package let historyReadsWaiting: Gauge
  package let pushesUncounted: Counter
  package let eventMessages: Counter
  package let eventMessagesFailed: Counter
  package let eventsWaiting: Gauge
  package let tokenClaims: Counter
  package let peerAnswersUnreadable: Counter
  package let crossings: Counter
  package let visits: Counter
  package let visitsUnanswered: Counter
  package let crossingsUnconfirmed: Counter
  package let calls: CallMetrics
  private let pushReports: [String: Counter]
  private let registry: MetricsRegistry

  package init(_ registry: MetricsRegistry) {
    self.registry = registry
    calls = CallMetrics(registry)
    func counter(_ name: String, _ help: String) -> Counter {
      registry.counter("callmesh_coordinator_\(name)_total", help)
    }
    func gauge(_ name: String, _ help: String) -> Gauge {
      registry.gauge("callmesh_coordinator_\(name)", help)
    }
    func histogram(_ name: String, _ help: String) -> DurationHistogram {
      registry.histogram("callmesh_coordinator_\(name)_seconds", help)
    }
    commands = counter("commands", "Commands taken by shards.")
    commandBatches = counter("command_batches", "Command batches taken from the bus.")
    commandBatchesUnreadable = counter(
      "command_batches_unreadable", "Command batches that could not be decoded.")
    commandsForged = counter(
      "commands_forged",
      "Commands refused because their sender may not send them, or not for that user.")
    commandsUnreadable = counter(
      "commands_unreadable", "Commands of a kind that this version does not know, refused.")
    commandBatchesDropped = counter(
      "command_batches_dropped", "Command batches refused by a full inbox.")
    commandsDropped = counter(
      "commands_dropped", "Commands refused by the full queue of a shard in recovery.")
    internalFaults = counter(
      "internal_faults",
      "Events that a shard's state machine must never get, or cannot decide: bugs of Callmesh, each logged."
    )
    commandsRefused = counter(
      "commands_refused", "Commands dropped since too much waited for their shard's journal.")
    tokensVerified = counter("tokens_verified", "Tokens of attaches and HTTP requests checked.")
    ticketsChecked = counter(
      "tickets_checked", "Tickets whose code was computed; other codes were cached.")
    appends = counter("appends", "Journal appends acknowledged.")
    appendsRefused = counter(
      "appends_refused", "Journal appends refused: the shard has another owner.")
    appendsUnknown = counter(
      "appends_unknown", "Journal appends without an answer, settled by reading the journal.")
    entries = counter("journal_entries", "Journal entries acknowledged; with appends: batch size.")
    ringLatency = histogram(
      "ring",
      "From a call's placing until all of the callee's devices had acknowledged it; includes lost and "
        + "late acknowledgements. For what devices feel see callmesh_ring_seconds.")
    appendLatency = histogram("append", "From an append's start to its acknowledgement.")
    replies = counter("replies", "Replies sent to edges.")
    deliveries = counter("deliveries", "Deliveries sent to edges, repeats included.")
    invitesTooLate = counter(
      "invites_too_late",
      "Invites that were not sent, since the ring timeout had passed when the journal had them.")
    edgeBatches = counter("edge_batches", "Batches published to edges.")
    publishesDropped = counter("publishes_dropped", "Messages refused by the bus's full outbox.")
    heldBack = gauge("effects_held_back", "Effects that wait for the journal.")
    bytesHeldBack = gauge("bytes_held_back", "Bytes of journal entries that wait to be stored.")
    recoveryQueue = gauge(
      "recovery_queue_depth", "Commands, or batches of them, that wait for shards in recovery.")
    registrationWritesWaiting = gauge(
      "registration_writes_waiting", "Writes of registrations that the store has not answered.")
    pushesWaiting = gauge("pushes_waiting", "Pushes that the work queue has not confirmed.")
    tokenQuestionsWaiting = gauge(
      "token_questions_waiting", "Questions to former owners of push tokens without an answer.")
    shards = gauge("shards", "Shards that this node holds.")
    shardsStopped = gauge("shards_stopped", "Shards whose journal this node cannot read.")
    stepDowns = counter("step_downs", "Shards given up without a release.")
    claims = counter("claims", "Shards claimed and recovered.")
    releases = counter("releases", "Shards released.")
    recoveryLatency = histogram("recovery", "From a claim's start to the fence in the journal.")
    handoverPause = histogram(
      "handover_pause",
      "From a former owner's last record until the shard serves here, where it was handed over.")
    takeoverPause = histogram(
      "takeover_pause",
      "From the last sign of life of a lost owner until the shard serves here.")
    recordsVoid = counter(
      "records_void",
      "Journal records that do not count, since another one stands in their place: appends that "
        + "were repeated, or came from a former owner.")
    recordsGivenUp = counter(
      "records_given_up", "Journal records that an operator allowed to be lost.")
    recordsReplayed = counter("records_replayed", "Journal records replayed by recoveries.")
    checkpoints = counter("checkpoints", "Checkpoints written.")
    checkpointsFailed = counter("checkpoints_failed", "Checkpoints that could not be written.")
    registrationsUnreadable = counter(
      "registrations_unreadable", "Registrations that could not be decoded in a recovery.")
    registrationWrites = counter("registration_writes", "Registrations stored or removed.")
    registrationWritesFailed = counter(
      "registration_writes_failed", "Registrations that could not be stored or removed.")
    heartbeatsUnreadable = counter("heartbeats_unreadable", "Heartbeats that could not be decoded.")
    heartbeatsDropped = counter(
      "heartbeats_dropped", "Heartbeats that a full inbox refused; others follow.")
    announceRequestsDropped = counter(
      "announce_requests_dropped",
      "Owners' questions for sessions that a coordinator could not read or had no room for; "
        + "a hand-over counts as slow then.")
    edgesLost = counter("edges_lost", "Edges that fell silent or announced that they leave.")
    pushJobs = registry.counters(
      "callmesh_coordinator_push_jobs_total", "Pushes decided, by what they are for.",
      label: "purpose", PushPurpose.allCases, \.name)
    pushesAdded = counter("pushes_added", "Pushes that the work queue has.")
    pushRetries = counter("push_retries", "Retries of adding a push to the work queue.")
    pushesFailed = counter("pushes_failed", "Pushes that the work queue did not take.")
    pushesUnwanted = counter(
      "pushes_unwanted",
      "Pushes dropped before the work queue had them, since their call had stopped ringing or the "
        + "shard had another owner.")
    peerAnswersUnreadable = counter(
      "peer_answers_unreadable", "Answers of other shards that could not be decoded.")
    visits = counter(
      "visits", "Questions of diverted calls to the shards of the users that they ring.")
    visitsUnanswered = counter(
      "visits_unanswered", "Questions of diverted calls without an answer in time.")
    crossings = counter("crossings", "Calls that crossed another one, as reported to its shard.")
    crossingsUnconfirmed = counter(
      "crossings_unconfirmed",
      "Calls that crossed another one whose shard did not confirm that: that call rings on.")
    recordsStored = counter("call_records", "Records of ended calls that the stream has.")
    recordMessages = counter(
      "call_record_messages", "Messages with call records; with call_records: batch size.")
    recordMessagesFailed = counter(
      "call_record_messages_failed",
      "Attempts to store a message with call records that were not confirmed; each is repeated.")
    recordsLost = counter(
      "call_records_lost",
      "Calls that were forgotten before their records or events could be stored, since too many waited."
    )
    recordsWaiting = gauge(
      "call_records_waiting", "Call records that the stream does not have yet.")
    callsUnrecorded = gauge(
      "calls_unrecorded",
      "Ended calls that shards keep for longer than endedCallKept, since something of them is not stored."
    )
    eventMessages = counter(
      "event_messages", "Messages with events for webhooks that the stream has.")
    eventMessagesFailed = counter(
      "event_messages_failed",
      "Attempts to store a message with events for webhooks that were not confirmed; each is repeated."
    )
    historyMessages = counter("history_messages", "Entries of histories that the stream has.")
    historyMessagesFailed = counter(
      "history_messages_failed",
      "Attempts to store an entry of a history that were not confirmed; each is repeated.")
    historiesLost = counter(
      "histories_lost",
      "Calls that were forgotten before their entries could be stored, since too many waited.")
    historyCallsWaiting = gauge(
      "history_calls_waiting",
      "Ended calls whose entries the stream does not have, or their users' shards do not know of, yet."
    )
    historyReads = counter("history_reads", "Reads of a user's history.")
    historyReadsFailed = counter(
      "history_reads_failed", "Reads of a user's history that failed or did not end in time.")
    historyQuestionsRefused = counter(
      "history_questions_refused",
      "Users' commands about their histories that were refused, since too many waited.")
    historyReadsWaiting = gauge(
      "history_reads_waiting", "Reads of histories that wait, or are under way.")
    pushesUncounted = counter(
      "pushes_uncounted",
      "Pushes that left without the number of unread calls, since it was not known in time.")
    eventsWaiting = gauge(
      "call_events_waiting", "Events for webhooks that the stream does not have yet.")
    tokenClaims = counter("token_claims", "Push tokens claimed for a registration.")
    pushReports = registry.counters(
      "callmesh_coordinator_push_reports_total", "Reports of gateways, repeats included.",
      label: "outcome", ["accepted", "tokenGone", "rejected", "expired", "failed"], \.self)
  }

  /// Updates the gauges for a shard whose load changed; `ShardLoad()` stands for a shard that is not held.
  func load(_ now: ShardLoad, was before: ShardLoad) {
    guard now != before else { return }
    heldBack.add(Int64(now.effects - before.effects))
    bytesHeldBack.add(Int64(now.bytes - before.bytes))
    recoveryQueue.add(Int64(now.commands - before.commands))
    registrationWritesWaiting.add(Int64(now.registrationWrites - before.registrationWrites))
    callsUnrecorded.add(Int64(now.unrecorded - before.unrecorded))
    calls.live(now, was: before)
  }

  /// Counts something that was refused because of an app's limit.
  func limited(_ limit: AppLimit, app: String) {
    registry.counter(
      "callmesh_app_limited_total",
      "Requests refused because their app, or one of its users, had reached a limit.",
      labels: [("app", app), ("limit", limit.rawValue)]
    ).increment()
  }

  func count(_ outcome: PushOutcome) {
    let name =
      switch outcome {
      case .accepted, .acceptedIn: "accepted"
      case .tokenGone, .tokenRefused(_, isSure: true): "tokenGone"
      case .rejected: "rejected"
      case .expired: "expired"
      case .failed, .tokenRefused(_, isSure: false): "failed"
      }
    pushReports[name]?.increment()
  }
}

extension MetricsRegistry {
  /// One counter for each value of a label.
  func counters<Value: Hashable>(
    _ name: String, _ help: String, label: String, _ values: [Value], _ text: (Value) -> String
  ) -> [Value: Counter] {
    Dictionary(
      uniqueKeysWithValues: values.map {
        ($0, counter(name, help, labels: [(label, text($0))]))
      })
  }
}
