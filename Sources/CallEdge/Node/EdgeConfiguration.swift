public import CallAuth
public import CallBus
public import CallCore
internal import NIOCore

/// What an edge needs to know. Every value but the node's id and the keys has a default.
public struct EdgeConfiguration: Sendable {
  /// Unique among the cluster's nodes.
  public var nodeID: String
  public var cluster = "callmesh"
  public var version = "0"
  /// The address to listen at.
  public var host = "127.0.0.1"
  /// 0: any free port; `EdgeNode.boundPort` tells which.
  public var port = 0
  /// What devices' connections are encrypted with; nil: nothing, for loopback and behind a proxy that ends TLS.
  public var tls: EdgeTLS?
  /// Fixed when the cluster was created.
  public var shardCount = 64
  /// Threads that serve connections. At most 256.
  public var eventLoops = System.coreCount
  /// Who says which tokens are good.
  public var tokens: TokenAuthority
  public var limits = CallLimits()

  /// How the lease bucket is made where it is missing.
  public var buckets = BucketOptions()

  /// How long a store that is not there, or not yet, is waited for at the start.
  public var storeTimeout = Span.seconds(60)

  // MARK: Peers

  /// What anybody may take who reaches the port.
  public var peers = PeerLimits()
  /// Proxies in front of the edge, which are believed whose connections they hand on.
  public var trustedProxies: [AddressRange] = []
  /// Whether trusted proxies begin each connection with a PROXY header, version 2. Otherwise they say in
  /// `X-Forwarded-For` whose request it is.
  public var proxyProtocol = false
  /// Addresses that no limit per address holds for, but for those of sessions and users.
  public var unlimitedAddresses = AddressRange.list("127.0.0.1,::1") ?? []

  // MARK: WebSocket sessions

  public var pingInterval: Span = .seconds(25)
  /// A session that lets this many pings pass in silence is dead.
  public var pingsMissedMax = 2
  public var commandsPerSecond = 20
  public var commandsBurst = 60
  /// Commands of one session that may wait for their replies.
  public var commandsPendingPerSession = 64

  // MARK: Commands

  /// After this time without a reply a command is sent again, and again.
  public var resendAfter: Span = .seconds(1)
  /// After this time the device hears `tryAgain`.
  public var commandTimeout: Span = .seconds(5)
  /// Acknowledgements wait this long for company; under load, so does what a person does not wait for.
  public var acknowledgementDelay: Span = .milliseconds(20)
  /// Commands of all sessions of one event loop that may wait for their replies. Policy: refuse
  /// (`overloaded`).
  public var commandsPendingPerLoop = 100_000
  /// Deliveries and replies that may wait for one event loop. Policy: drop and count; shards repeat.
  public var deliveriesWaitingPerLoop = 200_000

  // MARK: HTTP

  /// The origins whose pages may use this edge, as browsers write them (`https://app.example`), or `*`
  /// for all. Empty: no page of another origin may send HTTP requests, and the Origin of a WebSocket
  /// is not looked at.
  public var allowedOrigins: [String] = []

  // MARK: The node

  public var heartbeatInterval: Span = .milliseconds(500)
  /// Sessions are closed evenly over this time when the node is asked to stop.
  public var drainSeconds = 15
  /// How long no shard may answer before the edge takes itself for cut off from the cluster, is not
  /// ready any more, and tells its devices to try other edges. Longer than a take-over.
  public var cutOffAfter = Span.seconds(8)
  /// Connections that may wait to be accepted.
  public var backlog: Int32 = 4096

  public init(nodeID: String, tokens: TokenAuthority) {
    self.nodeID = nodeID
    self.tokens = tokens
  }

  public init(nodeID: String, appKeys: AppKeys) {
    self.init(nodeID: nodeID, tokens: TokenAuthority(keys: appKeys))
  }
}
