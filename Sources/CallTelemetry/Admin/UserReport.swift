/// One node's answer about a user; `callctl` merges the answers of all nodes into one.
public struct UserReport: Codable, Sendable, Equatable {
  /// A push token, without the token.
  public struct Token: Codable, Sendable, Equatable {
    /// voip or alert.
    public var kind = ""
    public var provider = ""
    public var environment = ""
    public var topic = ""
    /// The first 12 hex digits of its fingerprint; empty where it has none.
    public var fingerprint = ""
    /// unproven: no push to it was accepted yet; proven: one was; doubted: it was, and then refused. nil from nodes of
    /// earlier versions.
    public var trust: String?
    public init() {}
  }
  public struct Device: Codable, Sendable, Equatable {
    public var device = ""
    public var name = ""
    public var session: String?
    public var client = ""
    public var attachedAtMilliseconds: Int64?
    public var registeredAtMilliseconds: Int64?
    public var pushProviders: [String] = []
    public var seenAtMilliseconds: Int64?
    /// The content of the registration: nil without a registration and from nodes of earlier versions.
    public var tokens: [Token]?
    public var dialect: String?
    public var sdk: String?
    /// The pushes that it takes beside ringing.
    public var capabilities: [String]?
    public init() {}
  }
  public struct Call: Codable, Sendable, Equatable {
    public var call = ""
    public var phase = ""
    public var reason: String?
    /// placed: by the user; called: to the user; toSelf: both. nil from nodes of earlier versions.
    public var direction: String?
    /// The user on the other side.
    public var with: String?
    public var placedAtMilliseconds: Int64?
    public init() {}
  }
  /// One coordinator's answer about the calls that the user placed. They are in the callees' shards, so any
  /// coordinator may have some.
  public struct Placed: Codable, Sendable, Equatable {
    public var calls: [Call]
    /// Older ones that are not in the answer.
    public var leftOut: Int
    /// The shards that were searched.
    public var shards: [Int]
    /// The number of shards of the whole cluster.
    public var shardCount: Int
    public init(calls: [Call], leftOut: Int, shards: [Int], shardCount: Int) {
      self.calls = calls
      self.leftOut = leftOut
      self.shards = shards
      self.shardCount = shardCount
    }
  }
  /// Whether the node owns the user's shard and has the user.
  public var found: Bool
  public var node: String
  public var shard: Int?
  public var app: String?
  public var user: String?
  public var devices: [Device]?
  /// From a node: the calls to the user. `callctl` adds those that the user placed.
  public var calls: [Call]?
  /// Older calls that are not among them.
  public var callsLeftOut: Int?
  /// From every coordinator, also from those that do not own the user. `callctl` prints none.
  public var placed: Placed?
  /// The number of shards that no node has searched for calls that the user placed. Set by `callctl` alone.
  public var shardsMissing: Int?
  public init(found: Bool, node: String) {
    self.found = found
    self.node = node
  }
}
