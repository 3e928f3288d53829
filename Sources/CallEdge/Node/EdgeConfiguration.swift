public import CallAuth
public import CallBus
public import CallCore
internal import NIOCore

/// The configuration of an edge. Every value except the node's id and the keys has a default.
public struct EdgeConfiguration: Sendable {
  /// Unique in the cluster.
  public var nodeID: String
  public var cluster = "callmesh"
  public var version = "0"
  /// The address to listen at.
  public var host = "127.0.0.1"
  /// 0: any free port, which `EdgeNode.boundPort` returns.
  public var port = 0
  /// The TLS of devices' connections; nil: none, for loopback and behind a proxy that ends TLS.
  public var tls: EdgeTLS?
  /// The address at which devices reach this edge and no other. Devices that ask for it are sent here when this
  /// process also owns their user's shard; nil: none are.
  public var publicURL: String?
  /// The TURN servers for devices that ask for some; nil: none.
  public var relays: RelayServers?
  /// Fixed when the cluster is created.
  public var shardCount = 64
  /// Threads that serve connections. At most 256.
  public var eventLoops = System.coreCount
  var eventLoopCount: Int { min(max(1, eventLoops), 1 << Int(EdgeLoop.indexBits)) }
  /// Verifies tokens.
  public var tokens: TokenAuthority
  public var limits = CallLimits()

  /// How the lease bucket is created where it is missing.
  public var buckets = BucketOptions()

  /// How long the edge waits at its start for a store that is not available.
  public var storeTimeout = Span.seconds(60)

  // MARK: Peers

  /// The limits of peers.
  public var peers = PeerLimits()
  /// Proxies in front of the edge. The edge believes what they say of the device's address.
  public var trustedProxies: [AddressRange] = []
  /// Whether trusted proxies begin each connection with a PROXY header, version 2. Otherwise the device's address is
  /// in `X-Forwarded-For`.
  public var proxyProtocol = false
  /// Addresses that are exempt from the limits per address. The limits of sessions and users hold for them.
  public var unlimitedAddresses = AddressRange.list("127.0.0.1,::1") ?? []

  // MARK: WebSocket sessions

  public var pingInterval: Span = .seconds(25)
  /// How many pings a device may leave unanswered before its session is closed.
  public var pingsMissedMax = 2
  public var commandsPerSecond = 20
  public var commandsBurst = 60
  /// Commands of one session that may wait for their replies.
  public var commandsPendingPerSession = 64

  // MARK: Commands

  /// How often a command without a reply is retransmitted.
  public var resendAfter: Span = .seconds(1)
  /// When a command without a reply is given up: the device gets `tryAgain`.
  public var commandTimeout: Span = .seconds(5)
  /// How long acknowledgements wait for others, to leave in one batch; under load, so do commands whose replies no
  /// person waits for.
  public var acknowledgementDelay: Span = .milliseconds(20)
  /// Commands of all sessions of one event loop that may wait for their replies. Policy: refuse
  /// (`overloaded`).
  public var commandsPendingPerLoop = 100_000
  /// Deliveries and replies that may wait for one event loop. Policy: drop and count; shards retransmit.
  public var deliveriesWaitingPerLoop = 200_000

  /// Asks apps' hooks; nil: over HTTP.
  package var hookClient: (any HookClient)?

  // MARK: HTTP

  /// The origins whose pages may use this edge, as browsers write them (`https://app.example`), or `*` for all.
  /// Empty: no page of another origin may send HTTP requests, and the Origin of a WebSocket is not checked.
  public var allowedOrigins: [String] = []

  // MARK: The node

  public var heartbeatInterval: Span = .milliseconds(500)
  /// How long the edge takes to send its devices elsewhere when it is asked to stop.
  public var drainSeconds = 15
  /// How long no shard may answer before the edge considers itself cut off from the cluster: it is not ready any
  /// more, and sends its devices to other edges. Longer than a take-over.
  public var cutOffAfter = Span.seconds(8)
  /// Connections that may wait in the kernel to be accepted.
  public var backlog: Int32 = 4096

  public init(nodeID: String, tokens: TokenAuthority) {
    self.nodeID = nodeID
    self.tokens = tokens
  }

  public init(nodeID: String, appKeys: AppKeys) {
    self.init(nodeID: nodeID, tokens: TokenAuthority(keys: appKeys))
  }
}
