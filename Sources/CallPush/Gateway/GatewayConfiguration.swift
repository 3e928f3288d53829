public import CallBus
public import CallCore

/// The lanes of the work queue. A job's lane follows from its token's provider and environment.
public enum PushLane: String, Sendable, CaseIterable {
  case apnsProduction = "apns-production"
  case apnsSandbox = "apns-sandbox"
  case fcm
  case webPush = "web-push"
}

/// A sender with limits of its own, so that a slow or dead provider delays no other.
public struct GatewayPool: Sendable {
  /// As in the configuration of providers.
  public var name: String
  public var lane: PushLane
  /// Whether it serves a token.
  public var serves: @Sendable (PushToken) -> Bool
  /// The apps whose devices it serves; nil: all.
  public var apps: Set<String>?
  public var sender: any PushSender
  public var statistics: SenderStatistics

  public init(
    name: String, lane: PushLane, sender: any PushSender, statistics: SenderStatistics,
    serves: @escaping @Sendable (PushToken) -> Bool
  ) {
    self.name = name
    self.lane = lane
    self.serves = serves
    self.sender = sender
    self.statistics = statistics
  }

  func serves(_ job: PushJob) -> Bool {
    (apps?.contains(job.user.app) ?? true) && serves(job.token)
  }
}

public struct PushGatewayConfiguration: Sendable {
  public var nodeID: String
  public var cluster: String
  public var version: String
  public var shardCount = 64
  public var heartbeatInterval = Span.milliseconds(500)
  /// How long to wait for the store at the start.
  public var storeTimeout = Span.seconds(60)
  /// The time that pushes under way get at shutdown; the rest returns to the queue.
  public var drain = Span.seconds(15)
  public var queue = WorkQueueOptions()
  /// Pushes under way in one pool.
  public var sendsPerPool = 1000
  /// Jobs that wait in one pool, and, beside them, notices whose senders pause.
  public var waitingPerPool = 1000
  /// The validity of a push capability after the ringing deadline.
  public var capabilityGrace = Span.seconds(120)

  public init(nodeID: String, cluster: String, version: String) {
    self.nodeID = nodeID
    self.cluster = cluster
    self.version = version
    queue.createsMissing = false
  }

  /// Enough for all pools to be full, notices that pause included, and for jobs that are turned away, so that no pool
  /// takes another's share.
  func inFlight(pools: Int) -> Int { pools * (sendsPerPool + 2 * waitingPerPool) + 256 }
}
