public import CallCore

/// Edge to shard.
public struct CommandBatch: Sendable, Equatable {
  public var edge: UInt64
  public var commands: [Command]
  public init(edge: UInt64, commands: [Command]) {
    self.edge = edge
    self.commands = commands
  }
}

/// Coordinator to edge: what one commit has for this edge's sessions, in order.
public struct EdgeBatch: Sendable, Equatable {
  public var items: [EdgeItem]
  public init(items: [EdgeItem]) { self.items = items }
}

public struct EdgeItem: Sendable, Equatable {
  /// The edge's number for the session.
  public var session: UInt64
  public var body: Body
  public init(session: UInt64, body: Body) {
    self.session = session
    self.body = body
  }
  public enum Body: Sendable, Equatable {
    case reply(request: UInt64, Reply)
    case delivery(Delivery)
    case notice(Notice)
    /// Send it, then close the session.
    case close(Notice)
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
  public init(
    node: String, role: NodeRole, incarnation: UInt64, state: NodeState, version: String,
    shardCount: UInt32
  ) {
    self.node = node
    self.role = role
    self.incarnation = incarnation
    self.state = state
    self.version = version
    self.shardCount = shardCount
  }
}

public struct AnnounceRequest: Sendable, Equatable {
  public var shard: UInt32
  public var epoch: UInt64
  public init(shard: UInt32, epoch: UInt64) {
    self.shard = shard
    self.epoch = epoch
  }
}

public struct AnnounceDone: Sendable, Equatable {
  public var shard: UInt32
  public var epoch: UInt64
  public var edge: UInt64
  public init(shard: UInt32, epoch: UInt64, edge: UInt64) {
    self.shard = shard
    self.epoch = epoch
    self.edge = edge
  }
}

/// Who owns a shard. The value of the shard's key in the lease bucket.
public struct Lease: Sendable, Equatable {
  public var owner: String
  public var incarnation: UInt64
  public var epoch: UInt64
  public var released: Bool
  public init(owner: String, incarnation: UInt64, epoch: UInt64, released: Bool) {
    self.owner = owner
    self.incarnation = incarnation
    self.epoch = epoch
    self.released = released
  }
}
