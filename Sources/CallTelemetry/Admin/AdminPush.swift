/// A push gateway's part of its status. Shows no token, key or address of a device.
public struct PushStatus: Codable, Sendable, Equatable {
  /// One way to a provider.
  public struct Pool: Codable, Sendable, Equatable {
    public var name = ""
    /// apns, fcm or webPush.
    public var provider = ""
    public var lane = ""
    /// Jobs that wait for a place.
    public var waiting = 0
    public var inFlight = 0
    public var connected = 0
    /// accepted, tokenGone, rejected, expired, failed.
    public var outcomes: [String: UInt64] = [:]
    public var retriesTotal: UInt64 = 0
    /// The percentiles of the time to the provider's answers, in microseconds.
    public var p50: Int64 = 0
    public var p99: Int64 = 0
    public var lastError: String?
    public var lastErrorAtMilliseconds: Int64?
    public init() {}
  }
  public struct Lane: Codable, Sendable, Equatable {
    public var lane: String
    /// Jobs in the queue, those under way included; nil: not known yet.
    public var depth: Int?
    public init(lane: String, depth: Int?) {
      self.lane = lane
      self.depth = depth
    }
  }
  /// Tokens of one kind for which no gateway has a sender.
  public struct Unserved: Codable, Sendable, Equatable {
    /// apns, fcm or webPush.
    public var provider: String
    public var environment: String
    public var topic: String
    /// Jobs that this gateway gave up for want of a sender, since its start.
    public var jobsTotal: UInt64
    /// Since the newest of them.
    public var secondsAgo: Double
    public init(
      provider: String, environment: String, topic: String, jobsTotal: UInt64, secondsAgo: Double
    ) {
      self.provider = provider
      self.environment = environment
      self.topic = topic
      self.jobsTotal = jobsTotal
      self.secondsAgo = secondsAgo
    }
  }
  /// The lanes that this gateway serves.
  public var lanes: [Lane] = []
  public var pools: [Pool] = []
  public var jobsTotal: UInt64 = 0
  /// The outcomes of jobs beside those of their pushes: late, repeated, turnedAway, unserved, …
  public var counts: [String: UInt64] = [:]
  /// Reports that no shard has answered yet.
  public var reportsWaiting = 0
  /// The topics for which jobs were given up, the newest first; at most some dozens. nil from nodes
  /// of earlier versions.
  public var unserved: [Unserved]?
  public init() {}
}
