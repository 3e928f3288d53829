/// One node's answer about a user; `callctl` merges the answers of all nodes into one.
public struct UserReport: Codable, Sendable, Equatable {
  /// A push token, without the token.
  public struct Token: Codable, Sendable, Equatable {
    /// voip or alert.
    public var kind: String
    public var provider: String
    public var environment: String
    public var topic: String
    /// The first 12 hex digits of its fingerprint; empty where it has none.
    public var fingerprint: String
    public init(
      kind: String, provider: String, environment: String, topic: String, fingerprint: String
    ) {
      self.kind = kind
      self.provider = provider
      self.environment = environment
      self.topic = topic
      self.fingerprint = fingerprint
    }
  }
  public struct Device: Codable, Sendable, Equatable {
    public var device: String
    public var name: String
    public var session: String?
    public var client: String
    public var attachedAtMilliseconds: Int64?
    public var registeredAtMilliseconds: Int64?
    public var pushProviders: [String]
    public var seenAtMilliseconds: Int64?
    /// What is registered: nil without a registration and from nodes of earlier versions.
    public var tokens: [Token]?
    public var dialect: String?
    public var sdk: String?
    /// The pushes that it takes beside ringing.
    public var capabilities: [String]?
    public init(
      device: String, name: String, session: String?, client: String,
      attachedAtMilliseconds: Int64?, registeredAtMilliseconds: Int64?, pushProviders: [String]
    ) {
      self.device = device
      self.name = name
      self.session = session
      self.client = client
      self.attachedAtMilliseconds = attachedAtMilliseconds
      self.registeredAtMilliseconds = registeredAtMilliseconds
      self.pushProviders = pushProviders
    }
  }
  public struct Call: Codable, Sendable, Equatable {
    public var call: String
    public var phase: String
    public var reason: String?
    /// placed: by the user; called: to the user; toSelf: both. nil from nodes of earlier versions.
    public var direction: String?
    /// The user on the other side.
    public var with: String?
    public var placedAtMilliseconds: Int64?
    public init(
      call: String, phase: String, reason: String?, direction: String? = nil, with: String? = nil,
      placedAtMilliseconds: Int64? = nil
    ) {
      self.call = call
      self.phase = phase
      self.reason = reason
      self.direction = direction
      self.with = with
      self.placedAtMilliseconds = placedAtMilliseconds
    }
  }
  /// One coordinator's answer about the calls that the user placed. They are in the callees' shards, so any
  /// coordinator may have some.
  public struct Placed: Codable, Sendable, Equatable {
    public var calls: [Call]
    /// Older ones that are not in the answer.
    public var leftOut: Int
    /// The shards that were searched.
    public var shards: [Int]
    /// Of the whole cluster.
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
