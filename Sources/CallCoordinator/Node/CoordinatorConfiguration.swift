public import CallBus
public import CallCore

/// The settings of a coordinator. The defaults are the product's.
public struct CoordinatorConfiguration: Sendable {
  /// Unique in the cluster. A second node with the same name does not start.
  public var nodeID: String
  /// The prefix of every subject, stream and bucket.
  public var cluster: String
  /// Fixed when the cluster is created, since it assigns users to shards.
  public var shardCount = 64
  /// The actors that share this node's shards; shard `s` belongs to worker `s % workers`.
  public var workers = 1
  /// Whether all workers run on the bus's thread even if there are several, for simulation.
  package var workersShareThread = false
  public var limits = CallLimits()
  public var version: String
  /// The number of this run of the node; 0 if no other process can have its name.
  package var incarnation: UInt64 = 0
  /// The name of this run in journals. A former process of the node that was frozen has the same name, and must not
  /// take this one's records for its own.
  package var writer: String {
    incarnation == 0 ? nodeID : "\(nodeID)/\(String(incarnation, radix: 36))"
  }

  public var heartbeatInterval = Span.milliseconds(500)
  /// The silence after which a node counts as dead: its shards are free, and its sessions are dropped.
  public var leaseTimeout = Span.seconds(3)
  /// How long a silent node's address must have no subscriber, as the bus reports, before the node counts as dead,
  /// instead of waiting for `leaseTimeout`. This begins within three fifths of `heartbeatInterval` after a
  /// coordinator's death, and within six fifths after an edge's. nil: silent nodes are not probed.
  public var probeTime: Span? = .milliseconds(200)
  /// How long this node must have been connected for such reports to count. Longer than the other nodes need to
  /// reconnect when a server restarts.
  public var probeAfterConnect = Span.seconds(2)
  /// How long the node waits for the store at the start.
  public var storeTimeout = Span.seconds(60)
  /// The time from the start to the first claim, so that coordinators which start together share the shards.
  public var settleTime = Span.seconds(1)
  /// How long a shard's new owner waits for the edges to announce their sessions.
  public var announceTimeout = Span.seconds(1)
  /// The same while no edge is known.
  public var announceTimeoutWithoutEdges = Span.milliseconds(500)
  /// The times after which a serving owner requests the sessions again; the last one repeats. This restores what the
  /// bus lost of announcements of devices that have no reason to reconnect.
  public var askForSessionsAgain: [Span] = [.seconds(1), .seconds(4), .seconds(30)]
  /// How long a silent edge may return with its sessions: its process may be stopped, or cut off from the bus, while
  /// its sockets live. By then its devices have noticed, since they drop a connection after three pings. Until then,
  /// calls to users who seem to have no device wait for `reattachGrace`.
  public var silentEdgeAwaited = Span.seconds(75)
  /// The pause before a claim is retried.
  public var claimRetry = Span.seconds(1)

  /// How long a push token's former owner is asked to give it up before its new owner must retry. Shorter than the time
  /// that an edge waits for a reply.
  public var formerOwnerTimeout = Span.seconds(4)

  /// The records since the last checkpoint after which a shard writes the next one. This and the two limits below bound
  /// what a new owner replays.
  public var checkpointEveryRecords = 2000
  /// The bytes of these records.
  public var checkpointEveryBytes = 4_000_000
  /// The age of the oldest of these records.
  public var checkpointEvery = Span.seconds(300)
  /// The pause before a failed checkpoint is retried.
  public var checkpointRetry = Span.seconds(5)
  /// The pause between attempts to read a shard whose store is unreadable, while no other node takes it: an operator
  /// may have repaired it.
  public var stoppedRetry = Span.seconds(10)

  /// The most shards that are released and not yet recovered by their next owners.
  public var releasesAtOnce = 2
  /// How long to wait for a shard's next owner.
  public var handoverTimeout = Span.milliseconds(500)
  /// The pause between two shards that this node releases to a newcomer. A node that leaves makes none.
  public var rebalanceInterval = Span.milliseconds(50)
  /// The most shards that are recovered at the same time.
  public var recoveriesAtOnce = 8
  /// How long one shard may take to append what it decided and part.
  public var releaseTimeout = Span.seconds(5)
  /// How long a graceful shutdown may take. Others claim the remaining shards once this node is gone.
  public var shutdownTimeout = Span.seconds(15)

  /// How often an append is attempted while the journal is readable and lacks the record. Then the shard is given up;
  /// none of the record's effects has left.
  public var appendAttemptsMax = 12

  public var sessionTickets = SessionTickets.required
  /// nil only if commands are not authenticated.
  public var authority: CommandAuthority?

  /// Messages for histories that one worker has under way to the store. Policy: the others wait, as few as the calls
  /// that shards keep.
  public var historyWritesAtOnce = 256
  /// Histories that one worker reads at the same time.
  public var historyReadsAtOnce = 64
  /// Commands of users about their histories that wait for one worker. Policy: refuse (`tryAgain`).
  public var historyQuestionsMax = 1000
  /// Histories that one worker reads at the same time for the numbers in pushes.
  public var unreadReadsAtOnce = 32
  /// Pushes of one worker that wait for such a number. Policy: further ones are sent without.
  public var unreadPushesMax = 1000

  // Policy at these limits: drop the commands, and count. Their senders retransmit them.

  /// The command batches that wait for one worker, and their bytes.
  public var commandBatchesMax = 50_000
  public var commandBytesMax = 64_000_000
  /// The commands that wait for one shard while it is recovered, and their bytes.
  public var queuedCommandsMax = 20_000
  public var queuedBytesMax = 16_000_000
  /// The limits for one shard's decisions that its journal does not have yet.
  public var pipelineLimits = CommitPipeline.Limits()

  public var journal = JournalOptions()
  public var buckets = BucketOptions()
  public var pushQueue = WorkQueueOptions()
  public var records = RecordOptions()
  public var history = HistoryOptions()
  public var events = AppStreamOptions.events
  public var deadLetters = AppStreamOptions.deadLetters

  public init(nodeID: String, cluster: String, version: String) {
    self.nodeID = nodeID
    self.cluster = cluster
    self.version = version
  }

  /// How long a lost edge may return with its sessions.
  func awaits(_ why: Membership.EdgeLoss) -> Span {
    switch why {
    case .gone: Span(microseconds: 0)
    case .unreachable: limits.reattachGrace
    case .silent: silentEdgeAwaited
    }
  }

  /// A longer time without its own heartbeats shows that a node was cut off or stopped.
  package var gapMax: Span { Membership.gapMax(of: leaseTimeout) }

  package var probing: Membership.Probing? {
    probeTime.map { time in
      let interval = Span(microseconds: max(1000, time.microseconds / 3))
      let beat = heartbeatInterval.microseconds
      return Membership.Probing(
        edgeSilence: Span(microseconds: beat * 6 / 5),
        coordinatorSilence: Span(microseconds: beat * 2 / 5), interval: interval,
        pause: Span(microseconds: beat * 3 / 5), span: time, strikes: 3,
        connected: probeAfterConnect)
    }
  }

  package var checkpointPolicy: CheckpointPolicy {
    CheckpointPolicy(
      records: checkpointEveryRecords, bytes: checkpointEveryBytes, age: checkpointEvery)
  }

  /// - Throws: `CoordinatorError.configuration`, with a sentence that names the value and its limits.
  package func validate() throws {
    func require(_ holds: Bool, _ sentence: String) throws {
      if !holds { throw CoordinatorError.configuration(sentence) }
    }
    try require(!nodeID.isEmpty, "nodeID is empty; give every node a name of its own")
    try require(!cluster.isEmpty, "cluster is empty; all nodes of a cluster share one name")
    try require(
      (1...4096).contains(shardCount), "shardCount is \(shardCount); it must be 1 to 4096")
    try require((1...64).contains(workers), "workers is \(workers); it must be 1 to 64")
    try require(
      heartbeatInterval > .milliseconds(0) && heartbeatInterval < leaseTimeout,
      "heartbeatInterval must be greater than 0 and less than leaseTimeout")
    try require(
      checkpointEveryRecords > 0 && checkpointEveryBytes > 0 && checkpointEvery > .milliseconds(0),
      "checkpointEveryRecords, checkpointEveryBytes and checkpointEvery must be greater than 0")
    try require(
      authority != nil || sessionTickets == .offered,
      "there are no keys to check tokens with; sessionTickets is \(sessionTickets.rawValue)")
    try require(
      releasesAtOnce > 0 && recoveriesAtOnce > 0,
      "releasesAtOnce and recoveriesAtOnce must be at least 1")
  }
}

/// Which commands coordinators accept.
public enum SessionTickets: String, Sendable, CaseIterable {
  /// From edges, only commands of sessions whose token a coordinator has verified.
  case required
  /// Also commands of nodes of earlier versions, which have no tickets: for the time of an upgrade.
  case offered
}

/// Why a coordinator does not start, or stops. Never on the wire.
public enum CoordinatorError: Error, Sendable, Equatable, CustomStringConvertible {
  case configuration(String)
  /// A living node has the same name.
  case nodeIDTaken(String)
  /// The store could not be opened.
  case store(String)

  public var description: String {
    switch self {
    case .configuration(let sentence): "configuration: \(sentence)"
    case .nodeIDTaken(let node):
      "another living coordinator is called \(node); give every node a name of its own"
    case .store(let sentence): "the store cannot be opened: \(sentence)"
    }
  }
}
