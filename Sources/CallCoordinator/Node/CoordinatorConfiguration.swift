public import CallBus
public import CallCore

/// What a coordinator is told at start. Defaults are the product's.
public struct CoordinatorConfiguration: Sendable {
  /// Unique in the cluster. A second node of the same name is refused at its start.
  public var nodeID: String
  /// Prefix of every subject, stream and bucket.
  public var cluster: String
  /// Fixed when the cluster is created: it decides which shard a user belongs to.
  public var shardCount = 64
  /// Actors that share this node's shards; shard `s` belongs to worker `s % workers`.
  public var workers = 1
  /// All workers live on the bus's thread, also where there are several: for simulation.
  package var workersShareThread = false
  public var limits = CallLimits()
  public var version: String
  /// Which of its runs this is; 0 where nobody else can have its name.
  package var incarnation: UInt64 = 0
  /// Who writes in journals. A former process of the node that was frozen and thaws has its name, and
  /// must not take this one's records for its own.
  package var writer: String {
    incarnation == 0 ? nodeID : "\(nodeID)/\(String(incarnation, radix: 36))"
  }

  public var heartbeatInterval = Span.milliseconds(500)
  /// A node that was not heard for so long counts as dead: its shards are free, its sessions gone.
  public var leaseTimeout = Span.seconds(3)
  /// A silent node at whose address, as the bus says, nobody listens counts as dead after this, in
  /// place of `leaseTimeout`; about `heartbeatInterval` later than it died. nil: it is not asked.
  public var probeTime: Span? = .milliseconds(300)
  /// How long this node must have been connected before it believes that. Longer than what the other
  /// nodes need to connect again when a server restarts.
  public var probeAfterConnect = Span.seconds(2)
  /// How long a store that is not there, or not yet, is waited for at the start.
  public var storeTimeout = Span.seconds(60)
  /// From the start to the first claim, so that coordinators which start together share the shards
  /// from the start.
  public var settleTime = Span.seconds(1)
  /// How long a shard's new owner waits for the edges to announce their sessions.
  public var announceTimeout = Span.seconds(1)
  /// The same while no edge is known.
  public var announceTimeoutWithoutEdges = Span.milliseconds(500)
  /// When a shard's owner asks for the sessions again once it serves: after each of these, the last
  /// one again and again. What the bus loses of an announcement is so made good for devices that
  /// have no reason to connect anew.
  public var askForSessionsAgain: [Span] = [.seconds(1), .seconds(4), .seconds(30)]
  /// How long an edge that fell silent may return with its sessions: its process may be stopped, or
  /// cut off from the bus, while its sockets live. Devices take a connection for dead after three
  /// pings. Until then calls to who seems to have no device wait for `reattachGrace`.
  public var silentEdgeAwaited = Span.seconds(75)
  /// Before a claim that failed, or that was lost again, is tried anew.
  public var claimRetry = Span.seconds(1)

  /// How long a push token's former owner is asked to give it up before whoever registers it is told to
  /// try again. Shorter than what an edge waits for a reply.
  public var formerOwnerTimeout = Span.seconds(4)

  /// A shard writes a checkpoint when this many records have collected since the last one. This and the two
  /// limits below bound what a new owner replays.
  public var checkpointEveryRecords = 2000
  /// Or when the records have this many bytes.
  public var checkpointEveryBytes = 4_000_000
  /// Or when the oldest of the records is this old.
  public var checkpointEvery = Span.seconds(300)
  /// Before a checkpoint that could not be written is tried again.
  public var checkpointRetry = Span.seconds(5)
  /// A shard whose store this node cannot read is tried again so often, while no other takes it: an
  /// operator may have repaired it.
  public var stoppedRetry = Span.seconds(10)

  /// Shards that are on their way at the same time: given up, and not read back by their next owners.
  public var releasesAtOnce = 4
  /// How long a shard's next owner is waited for before it counts as having the shard.
  public var handoverTimeout = Span.milliseconds(500)
  /// The pause between two shards that this node releases to a newcomer. A node that leaves makes none.
  public var rebalanceInterval = Span.milliseconds(50)
  /// Shards that are read back from the store at the same time.
  public var recoveriesAtOnce = 8
  /// How long one shard may take to say what it decided and part.
  public var releaseTimeout = Span.seconds(5)
  /// How long a graceful shutdown may take. Shards that are not released by then are claimed by
  /// others once this node is gone.
  public var shutdownTimeout = Span.seconds(15)

  /// How often an append is attempted while the journal can be read and does not have the record. Then the
  /// shard is given up: the journal does not take this record, and none of its effects has left.
  public var appendAttemptsMax = 12

  public var sessionTickets = SessionTickets.required
  /// nil only where everybody is believed.
  public var authority: CommandAuthority?

  // Commands beyond these limits are dropped and counted; edges, gateways and coordinators retransmit them.

  /// Command batches that wait for one worker, and their bytes.
  public var commandBatchesMax = 50_000
  public var commandBytesMax = 64_000_000
  /// Commands that wait for one shard while it is being recovered, and their bytes.
  public var queuedCommandsMax = 20_000
  public var queuedBytesMax = 16_000_000
  /// What one shard has decided and its journal does not have yet: while so much waits, the shard takes no
  /// commands.
  public var pipelineLimits = CommitPipeline.Limits()

  public var journal = JournalOptions()
  public var buckets = BucketOptions()
  /// Of the queue of push jobs.
  public var pushQueue = WorkQueueOptions()

  public init(nodeID: String, cluster: String, version: String) {
    self.nodeID = nodeID
    self.cluster = cluster
    self.version = version
  }

  /// How long an edge that was lost may return with its sessions.
  func awaits(_ why: Membership.EdgeLoss) -> Span {
    switch why {
    case .gone: Span(microseconds: 0)
    case .unreachable: limits.reattachGrace
    case .silent: silentEdgeAwaited
    }
  }

  /// A longer time without its own heartbeats shows a node that it was cut off or stopped.
  package var gapMax: Span { Membership.gapMax(of: leaseTimeout) }

  /// How often a silent node is looked into, and how.
  package var probing: Membership.Probing? {
    probeTime.map { time in
      let interval = Span(microseconds: max(1000, time.microseconds / 3))
      return Membership.Probing(
        silence: Span(microseconds: heartbeatInterval.microseconds * 6 / 5),
        interval: interval, span: time, strikes: 3, connected: probeAfterConnect)
    }
  }

  /// How much of a journal may lie behind a checkpoint.
  package var checkpointPolicy: CheckpointPolicy {
    CheckpointPolicy(
      records: checkpointEveryRecords, bytes: checkpointEveryBytes, age: checkpointEvery)
  }

  /// - Throws: `CoordinatorError.configuration`, naming the value and what would do.
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

/// Whose commands coordinators take.
public enum SessionTickets: String, Sendable, CaseIterable {
  /// Of edges only those of sessions whose token a coordinator has verified; of others what is theirs to say.
  case required
  /// Nodes of versions before these rules are believed, too: for the time of an upgrade.
  case offered
}

/// Why a coordinator does not start, or stops by itself. Never on the wire.
public enum CoordinatorError: Error, Sendable, Equatable, CustomStringConvertible {
  case configuration(String)
  /// A living node of the same name.
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
