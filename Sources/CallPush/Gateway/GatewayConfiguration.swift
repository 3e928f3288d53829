public import CallBus
public import CallCore

/// The lanes of the work queue. A job's lane follows from its token's provider and environment.
public enum PushLane: String, Sendable, CaseIterable {
  case apnsProduction = "apns-production"
  case apnsSandbox = "apns-sandbox"
  case fcm
  case webPush = "web-push"
}

/// One way to a provider, apart from all others: that it is slow or dead delays nobody else.
public struct GatewayPool: Sendable {
  /// As in the configuration of providers.
  public var name: String
  public var lane: PushLane
  /// Whether its sender is the one for a token.
  public var serves: @Sendable (PushToken) -> Bool
  /// Whose devices it serves; nil: those of all apps.
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
  /// How long a store that is not there, or not yet, is waited for at the start.
  public var storeTimeout = Span.seconds(60)
  /// How long what is under way may take when the node goes; the rest is given back to the queue.
  public var drain = Span.seconds(15)
  public var queue = WorkQueueOptions()
  /// Pushes under way in one pool.
  public var sendsPerPool = 1000
  /// Jobs that wait in one pool.
  public var waitingPerPool = 1000
  /// For how long what a push allows holds beyond the call's ringing.
  public var capabilityGrace = Span.seconds(120)

  public init(nodeID: String, cluster: String, version: String) {
    self.nodeID = nodeID
    self.cluster = cluster
    self.version = version
    queue.createsMissing = false
  }

  var limits: GatewayMachine.Limits {
    var limits = GatewayMachine.Limits()
    limits.sendsPerPool = sendsPerPool
    limits.waitingPerPool = waitingPerPool
    return limits
  }

  /// Enough for all of its pools to be full and for what is turned away: none takes another's part.
  func inFlight(pools: Int) -> Int { pools * (sendsPerPool + waitingPerPool) + 256 }
}
