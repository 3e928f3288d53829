internal import CallBus
internal import CallCoordinator
internal import CallCore
internal import CallEdge
internal import CallPush
internal import CallTelemetry
internal import Logging
internal import NATSBus

extension Setting {
  static let coordinator = rows(.coordinator) {
    Setting("workers", \.coordinator.workers, .integer(1...64))
    "Threads that run shards. Give at most one per core. `callnode all` has at least one for each "
      + "event loop, up to 64."
    Setting("sessionTickets", \.coordinator.sessionTickets, .choice)
    "required: a coordinator accepts commands of edges only for sessions whose token a coordinator "
      + "has verified. offered: it also trusts nodes of earlier versions, during an upgrade."
    Setting("leaseTimeout", \.coordinator.leaseTimeout, .duration(0.2, 60))
    "How long a node may be silent before it counts as dead and its shards are taken over."
    Setting("probeTime", \.coordinator.probeTimeOrZero, .duration(0, 60))
    "How long NATS must report that a silent node no longer subscribes before it counts as dead, "
      + "without waiting for leaseTimeout; 0: silent nodes are not probed."
    Setting("probeAfterConnect", \.coordinator.probeAfterConnect, .duration(0, 600))
    "How long a coordinator must be connected before it trusts these probes: longer than the other "
      + "nodes need to reconnect after a NATS server restarts."
    Setting("journalReplicas", \.coordinator.journal.replicas, .integer(1...5))
    "The number of NATS servers that store each record: 1 on a laptop, 3 in production."
    Setting("appendTimeout", \.coordinator.journal.appendTimeout, .duration(0.1, 60))
    "How long a journal append waits for its acknowledgement before the shard looks up whether it "
      + "arrived."
    Setting("checkpointEveryRecords", \.coordinator.checkpointEveryRecords, .integer(1...1_000_000))
    "The number of records after which a shard writes a checkpoint. This and the next two settings "
      + "bound what a new owner replays."
    Setting(
      "checkpointEveryBytes", \.coordinator.checkpointEveryBytes, .integer(1000...1_000_000_000))
    "The bytes of records after which a shard writes a checkpoint."
    Setting("checkpointEvery", \.coordinator.checkpointEvery, .duration(1, 86_400))
    "The age of the oldest record since the last checkpoint at which a shard writes the next one."
    Setting("rebalanceInterval", \.coordinator.rebalanceInterval, .duration(0, 60))
    "The pause between two shards that a coordinator hands over to a new one while it stays itself."
    Setting(
      "journalBytes", \.coordinator.journal.bytesPerShard, .integer(4_000_000...1_000_000_000_000))
    "The size limit of a shard's journal on each NATS server, in bytes; at least four times "
      + "checkpointEveryBytes. Above half of it, calls are refused as overloaded. Applies when the "
      + "streams are created."
    Setting("bucketBytes", \.coordinator.buckets.bytesMax, .integer(1_000_000...1_000_000_000_000))
    "The size limit of each of the buckets of registrations, tokens and checkpoints, in bytes. "
      + "Applies when they are created."
    Setting(
      "pushQueueBytes", \.coordinator.pushQueue.bytesMax, .integer(1_000_000...1_000_000_000_000))
    "The size limit of the queue of push jobs, in bytes; further pushes are refused. Applies when "
      + "the queue is created."
    Setting("callRecordsKept", \.coordinator.records.kept, .duration(0, 3650 * 86_400))
    "How long the records of ended calls are kept, for callctl calls and callctl call; 0: none are "
      + "kept. Starting coordinators apply it to the existing stream."
    Setting(
      "callRecordBytes", \.coordinator.records.bytesMax, .integer(1_000_000...1_000_000_000_000))
    "The size limit of the stream of call records, in bytes; the oldest records are dropped. "
      + "Starting coordinators apply it to the existing stream."
    Setting("historyKept", \.coordinator.history.kept, .duration(0, 3650 * 86_400))
    "How long entries of users' histories are kept, for apps with history; 0: none are kept. Starting "
      + "coordinators apply it to the existing stream."
    Setting("historyEntries", \.coordinator.history.entriesPerUser, .integer(10...10_000))
    "How many calls of a user the history shows; the oldest are dropped."
    Setting(
      "historyBytes", \.coordinator.history.bytesMax, .integer(1_000_000...1_000_000_000_000))
    "The size limit of the stream of histories, in bytes; the oldest entries are dropped. Starting "
      + "coordinators apply it to the existing stream."
    Setting("eventsKept", \.coordinator.events.kept, .duration(0, 3650 * 86_400))
    "How long events of calls are kept for webhooks, which are retried for a day; 0: there are no "
      + "webhooks. Starting coordinators apply it to the existing stream."
    Setting("eventBytes", \.coordinator.events.bytesMax, .integer(1_000_000...1_000_000_000_000))
    "The size limit of the stream of events, in bytes; the oldest events are dropped. Starting "
      + "coordinators apply it to the existing stream."
    Setting("deadLettersKept", \.coordinator.deadLetters.kept, .duration(3600, 3650 * 86_400))
    "How long events are kept that a webhook did not take, for callctl webhooks. Starting "
      + "coordinators apply it to the existing stream."
    Setting(
      "deadLetterBytes", \.coordinator.deadLetters.bytesMax,
      .integer(1_000_000...1_000_000_000_000))
    "The size limit of the stream of these events, in bytes; the oldest are dropped. Starting "
      + "coordinators apply it to the existing stream."
    Setting("stoppedRetry", \.coordinator.stoppedRetry, .duration(0.1, 3600))
    "The interval at which a shard whose store cannot be read is retried."
  }

  static let push = rows(.push) {
    Setting(
      "pushProviders", \.pushProvidersFile, .path,
      unset: "none; `callnode push` needs one, or a `keysFile` for webhooks alone",
      remedy: "docs/configuration.md has a whole example.")
    "The JSON file with the push providers: teams, projects, and where their keys are."
    Setting("pushInFlight", \.gateway.sendsPerPool, .integer(1...100_000))
    "Pushes in flight in one pool. Each entry of the file is a pool."
    Setting("pushWaiting", \.gateway.waitingPerPool, .integer(0...1_000_000))
    "Jobs that may wait in one pool; further ones return to the queue for a moment."
  }

  static let calls = rows(.calls) {
    Setting("ringTimeout", \.limits.ringTimeout, .duration(1, 3600))
    "How long a call rings unless its caller asks for another time."
    Setting("ringTimeoutMinimum", \.limits.ringTimeoutMinimum, .duration(1, 3600))
    "The shortest ring time that a caller may ask for."
    Setting("ringTimeoutMaximum", \.limits.ringTimeoutMaximum, .duration(1, 3600))
    "The longest ring time that a caller may ask for."
    Setting("connectGrace", \.limits.connectGrace, .duration(1, 600))
    "How long both sides may take from the answer to report connected, before the call fails."
    Setting("resumeGraceRinging", \.limits.resumeGraceRinging, .duration(0, 600))
    "How long a call keeps ringing after its caller's session broke."
    Setting("resumeGraceAnswered", \.limits.resumeGraceAnswered, .duration(0, 3600))
    "How long an answered call outlives the session of one of its sides."
    Setting("reattachGrace", \.limits.reattachGrace, .duration(0, 60))
    "How long a call waits for a registered device whose session broke just before; 0: not at all."
    Setting("deliveryRepeats", \.limits.deliveryRepeats, .durations(0.05, 60))
    "The delays before an unacknowledged delivery is retransmitted the first, second, … time."
    Setting("endedCallKept", \.limits.endedCallKept, .duration(1, 86_400))
    "How long an ended call is kept, so that a late device learns its outcome."
    Setting("registrationLifetime", \.limits.registrationLifetime, .duration(3600, 3650 * 86_400))
    "How long a device's registration is kept after the device was last seen."
    Setting("devicesPerUser", \.limits.devicesPerUser, .integer(1...100))
    "Registered devices of one user. A new one displaces one that cannot be woken, else the one unseen for longest."
    Setting("liveCallsPerDevice", \.limits.liveCallsPerDevice, .integer(1...1000))
    "Live calls that one device may have placed, and live calls to one device: above that, further "
      + "calls do not ring it."
    Setting("callsPerPairPerMinute", \.limits.callsPerPairPerMinute, .integer(1...10_000))
    "Calls from one caller to one callee per minute."
    Setting("headersCount", \.limits.headersCount, .integer(0...256))
    "Custom headers of a call."
    Setting("headersBytes", \.limits.headersBytes, .integer(0...32_768))
    "Custom headers of a call, in bytes of all names and values."
    Setting("descriptionBytes", \.limits.descriptionBytes, .integer(0...98_304))
    "A session description, in bytes, at the start of a call or later. A frame has at most 131072."
    Setting("pushDataBytes", \.limits.pushDataBytes, .integer(0...2048))
    "What a caller adds to the pushes that ring, in bytes."
    Setting("signalsWaiting", \.limits.signalsWaiting, .integer(1...4096))
    "Descriptions and candidates that wait for one side of a call."
    Setting("signalBytes", \.limits.signalBytes, .integer(64...65_536))
    "One candidate, in bytes."
    Setting("informationBytes", \.limits.informationBytes, .integer(64...65_536))
    "One information sent during an answered call, in bytes."
    Setting("lazyAppend", \.limits.lazyAppend, .duration(0, 1))
    "How long records that are not urgent may wait to share a journal append."
    Setting("callsPerShard", \.limits.callsPerShard, .integer(100...10_000_000))
    "Calls that one shard keeps, ended ones included; more are refused as overloaded."
    Setting("busyWhileInCall", \.limits.busyWhileInCall, .boolean)
    "Whether a user in an answered call is busy for further calls. Otherwise they ring."
  }
}

extension CoordinatorConfiguration {
  /// `probeTime` as the setting has it: 0 stands for nil.
  fileprivate var probeTimeOrZero: Span {
    get { probeTime ?? Span(microseconds: 0) }
    set { probeTime = newValue.microseconds > 0 ? newValue : nil }
  }
}
