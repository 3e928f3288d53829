public import CallCore

/// Edge to shard; or gateway or coordinator to shard.
public struct CommandBatch: Sendable, Equatable {
  /// 0: the sender is no edge.
  public var edge: UInt64
  /// Instead of `edge`: the number of a node that takes replies, on `Subjects.edge`, but has no
  /// sessions. Never an edge's number.
  public var peer: UInt64
  /// The edge's; nil of versions that have none.
  public var secret: EdgeSecret?
  public var commands: [Command]
  /// The commands of the batch that this version cannot read.
  public var unreadable: [Unreadable]
  public init(
    edge: UInt64 = 0, peer: UInt64 = 0, secret: EdgeSecret? = nil, commands: [Command],
    unreadable: [Unreadable] = []
  ) {
    self.edge = edge
    self.peer = peer
    self.secret = secret
    self.commands = commands
    self.unreadable = unreadable
  }

  /// The part of a later version's command that can be read: enough to refuse it.
  public struct Unreadable: Sendable, Equatable {
    public var session: SessionRef
    /// 0: no reply is wanted.
    public var request: UInt64
    public var reason: String
    public init(session: SessionRef, request: UInt64, reason: String) {
      self.session = session
      self.request = request
      self.reason = reason
    }
  }
}

extension Command {
  /// About how many bytes it takes on the bus.
  package var approximateBytes: Int { body.approximateBytes + credential.approximateBytes }
}

extension Command.Body {
  fileprivate var approximateBytes: Int {
    switch self {
    case .place(let request):
      request.forward.reduce(128) { $0 + $1.utf8.count + 2 } + request.setup.description.utf8.count
        + request.setup.pushData.utf8.count
        + request.setup.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 8 }
    case .call(_, .answer(let description)): 128 + description.utf8.count
    case .call(_, .signal(_, let body)): 128 + body.utf8.count
    case .register: 2048
    case .rules(.write): 4096
    case .ack(let items): 96 + 32 * items.count
    case .callerGone(let calls): 96 + 20 * calls.count
    case .talking(let talking):
      talking.details.reduce(192) { $0 + $1.callee.utf8.count + 12 }
    case .attach, .sessionClosed, .unregister, .call, .calls, .pushReport, .tokenTaken,
      .crossed, .merge, .replaced, .history, .visit, .rules, .app:
      192
    }
  }
}

extension Credential {
  fileprivate var approximateBytes: Int {
    switch self {
    case .none: 0
    case .ticket: 32
    case .token(let text), .pushCapability(let text): text.utf8.count + 8
    }
  }
}

/// Coordinator to edge: what one commit has for this edge's sessions, in order.
public struct EdgeBatch: Sendable, Equatable {
  public var items: [EdgeItem]
  /// How many of its items this version cannot read.
  public var unreadable: Int
  public init(items: [EdgeItem], unreadable: Int = 0) {
    self.items = items
    self.unreadable = unreadable
  }
}

public struct EdgeItem: Sendable, Equatable {
  /// The edge's number for the session.
  public var session: UInt64
  public var body: Body
  /// When an edge received the place, by that edge's clock. Set only on the last invite to this edge for a
  /// call that was just placed: the edge records the ring latency. Devices do not see it.
  public var ringsSince: Timestamp?
  public init(session: UInt64, body: Body, ringsSince: Timestamp? = nil) {
    self.session = session
    self.body = body
    self.ringsSince = ringsSince
  }
  public enum Body: Sendable, Equatable {
    case reply(request: UInt64, Reply)
    case delivery(Delivery)
    indirect case ongoing(OngoingCalls)
    case history(HistoryState)
    /// The stored display name of the session's user; empty: there is none.
    case name(String)
    /// To another shard's owner.
    indirect case visit(request: UInt64, VisitAnswer)
    case notice(Notice)
    /// Send it, then close the session.
    case close(Notice)
  }
}

/// One message of the stream of records.
public struct CallRecordBatch: Sendable, Equatable {
  public var records: [CallRecord]
  /// How many of its records this version cannot read.
  public var unreadable: Int
  public init(records: [CallRecord], unreadable: Int = 0) {
    self.records = records
    self.unreadable = unreadable
  }
}

public enum NodeRole: UInt8, Sendable, CaseIterable {
  case edge = 1
  case coordinator = 2
  case push = 3
}

public enum NodeState: UInt8, Sendable, CaseIterable {
  case starting = 0
  case serving = 1
  /// Gives its shards or its devices up.
  case leaving = 2
  case gone = 3
}

public struct Heartbeat: Sendable, Equatable {
  public var node: String
  public var role: NodeRole
  /// Drawn at start; an edge's number in sessions.
  public var incarnation: UInt64
  public var state: NodeState
  public var version: String
  public var shardCount: UInt32
  /// The highest format that the node reads. Who writes a later one waits until all read it.
  public var reads: UInt32
  /// For a coordinator: edges that are silent and may return with their sessions.
  public var silentEdges: [SilentEdge] = []
  public init(
    node: String, role: NodeRole, incarnation: UInt64, state: NodeState, version: String,
    shardCount: UInt32, reads: UInt32 = ClusterCodec.format
  ) {
    self.node = node
    self.role = role
    self.incarnation = incarnation
    self.state = state
    self.version = version
    self.shardCount = shardCount
    self.reads = reads
  }
}

/// An edge whose heartbeats a coordinator has not received lately.
public struct SilentEdge: Sendable, Equatable {
  public var edge: UInt64
  /// For how long it is silent; where it counts as lost, for how long it does.
  public var since: Span
  public var isLost: Bool
  /// It counts as lost because its address had no subscriber. Earlier versions do not send it.
  public var isUnreachable: Bool
  public init(edge: UInt64, since: Span, isLost: Bool = true, isUnreachable: Bool = false) {
    self.edge = edge
    self.since = since
    self.isLost = isLost
    self.isUnreachable = isUnreachable
  }
}

public struct AnnounceRequest: Sendable, Equatable {
  public var shard: UInt32
  public var epoch: UInt64
  /// Counts the requests of one term, from 1; 0 from earlier versions.
  public var number: UInt64
  /// Where devices reach the edge of the owner's process; empty: they are not to be sent there.
  public var nearer: String
  public init(shard: UInt32, epoch: UInt64, number: UInt64 = 0, nearer: String = "") {
    self.shard = shard
    self.epoch = epoch
    self.number = number
    self.nearer = nearer
  }
}

public struct AnnounceDone: Sendable, Equatable {
  public var shard: UInt32
  public var epoch: UInt64
  public var edge: UInt64
  /// How many were announced, so that a loss shows; nil from earlier versions.
  public var sessions: Int?
  /// The number of the request that it answers: an edge that was stopped may answer an old one. 0 from earlier
  /// versions.
  public var number: UInt64
  /// The edge's; nil of versions that have none.
  public var secret: EdgeSecret?
  public init(
    shard: UInt32, epoch: UInt64, edge: UInt64, sessions: Int? = nil, number: UInt64 = 0,
    secret: EdgeSecret? = nil
  ) {
    self.secret = secret
    self.shard = shard
    self.epoch = epoch
    self.edge = edge
    self.sessions = sessions
    self.number = number
  }
}

/// The ownership of a shard: the value of the shard's key in the lease bucket.
public struct Lease: Sendable, Equatable {
  public var owner: String
  public var incarnation: UInt64
  public var epoch: UInt64
  public var released: Bool
  /// Incarnations of coordinators that cannot read what the store has of the shard. The shard is
  /// left to the others, while there are others.
  public var refusedBy: [UInt64]
  /// A text for operators that says what the last of them could not read.
  public var refusal: String
  public init(
    owner: String, incarnation: UInt64, epoch: UInt64, released: Bool, refusedBy: [UInt64] = [],
    refusal: String = ""
  ) {
    self.owner = owner
    self.incarnation = incarnation
    self.epoch = epoch
    self.released = released
    self.refusedBy = refusedBy
    self.refusal = refusal
  }
}

/// The settings that are fixed for the life of a cluster. The value of a key in its configuration bucket.
public struct ClusterRecord: Sendable, Equatable {
  public var cluster: String
  public var shardCount: UInt32
  public init(cluster: String, shardCount: UInt32) {
    self.cluster = cluster
    self.shardCount = shardCount
  }
}

/// The rules of a user, as the store keeps them.
public struct StoredRules: Sendable, Equatable {
  public var user: UserKey
  public var rules: UserRules
  public init(user: UserKey, rules: UserRules) {
    self.user = user
    self.rules = rules
  }
}
