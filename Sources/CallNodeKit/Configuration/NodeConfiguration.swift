internal import CallAuth
internal import CallBus
package import CallCoordinator
package import CallCore
package import CallEdge
package import CallPush
package import CallTelemetry
internal import Glibc
package import Logging
package import NATSBus

/// The roles that a process runs.
package enum NodeRoles: String, Sendable, CaseIterable {
  case edge
  case coordinator
  case push
  /// All in one process. The push gateway runs only with a file of providers.
  case all

  package var hasEdge: Bool { self == .edge || self == .all }
  package var hasCoordinator: Bool { self == .coordinator || self == .all }
  package var hasPush: Bool { self == .push || self == .all }
}

/// The values of all settings. `NodeConfiguration()` holds the defaults.
///
/// A setting of one role is in the structure of that role. Settings of several roles are here;
/// `coordinator(shardCount:nodeID:)`, `edge(shardCount:nodeID:tokens:tls:turn:files:)` and
/// `gateway(shardCount:nodeID:)` copy them.
package struct NodeConfiguration: Sendable {
  package var cluster = "callmesh"
  /// Empty until `ResolvedSettings.node(for:generatedNodeID:)` has set it.
  package var nodeID = ""
  package var natsURL = "nats://127.0.0.1:4222"
  package var natsAccess = NATSAccess()
  package var startTimeout = Span.seconds(300)
  /// nil: the cluster's.
  package var shardCount: Int?
  package var drain = Span.seconds(15)
  package var heartbeatInterval = Span.milliseconds(500)
  package var logLevel = Logger.Level.info
  package var logFormat = LogFormat.auto
  /// 0: none.
  package var metricsPort = 0
  package var metricsHost = "127.0.0.1"
  package var keysFile: String?
  package var maxTokenAge = Span.seconds(TokenVerifier.standardMaximumAgeSeconds)
  /// Set together with `tlsKey`, or not at all.
  package var tlsCertificate: String?
  package var tlsKey: String?
  /// Set together with `turnSecretFile`, or not at all.
  package var turnURLs: [String] = []
  package var turnSecretFile: String?
  package var turnLifetime = Span.seconds(3600)
  /// nil: one per core.
  package var eventLoops: Int?
  /// nil: what the limit of open files leaves.
  package var connectionsMax: Int?
  package var pushProvidersFile: String?
  package var limits = CallLimits()
  package var edge = EdgeConfiguration(nodeID: "", tokens: TokenAuthority(keys: .none))
  package var coordinator = CoordinatorConfiguration(nodeID: "", cluster: "", version: "")
  package var gateway = PushGatewayConfiguration(nodeID: "", cluster: "", version: "")

  package init() {
    edge.port = 8080
    coordinator.journal.bytesPerShard = 32 << 20
    coordinator.buckets.bytesMax = 512 << 20
    coordinator.pushQueue.bytesMax = 256 << 20
  }
}

extension NodeConfiguration {
  /// How the cluster's buckets are created.
  var buckets: BucketOptions {
    var out = coordinator.buckets
    out.replicas = coordinator.journal.replicas
    return out
  }

  /// For nodes that open buckets and leave creating them to coordinators.
  var existingBuckets: BucketOptions {
    var out = buckets
    out.createsMissing = false
    return out
  }

  /// Leaves out the keys that commands are checked with: see `CoordinatorConfiguration.authority`.
  func coordinator(shardCount: Int, nodeID: String) -> CoordinatorConfiguration {
    var out = coordinator
    out.nodeID = nodeID
    out.cluster = cluster
    out.version = CallmeshVersion.current
    out.shardCount = shardCount
    out.limits = limits
    out.storeTimeout = startTimeout
    out.heartbeatInterval = heartbeatInterval
    out.shutdownTimeout = max(drain, .seconds(5))
    out.buckets = buckets
    out.pushQueue.replicas = buckets.replicas
    out.pushQueue.inMemory = buckets.inMemory
    out.records.replicas = buckets.replicas
    out.records.inMemory = buckets.inMemory
    out.history.replicas = buckets.replicas
    out.history.inMemory = buckets.inMemory
    (out.events.replicas, out.events.inMemory) = (buckets.replicas, buckets.inMemory)
    (out.deadLetters.replicas, out.deadLetters.inMemory) = (buckets.replicas, buckets.inMemory)
    return out
  }

  func gateway(shardCount: Int, nodeID: String) -> PushGatewayConfiguration {
    var out = gateway
    out.nodeID = nodeID
    out.cluster = cluster
    out.version = CallmeshVersion.current
    out.shardCount = shardCount
    out.storeTimeout = startTimeout
    out.heartbeatInterval = heartbeatInterval
    out.drain = max(drain, .seconds(5))
    return out
  }

  /// - Parameters:
  ///   - turn: the content of `turnSecretFile`.
  ///   - files: the limit of open files, which bounds the connections.
  func edge(
    shardCount: Int, nodeID: String, tokens: TokenAuthority, tls: EdgeTLS?, turn: RelaySecret?,
    files: DescriptorLimit
  ) -> EdgeConfiguration {
    var out = edge
    out.nodeID = nodeID
    out.tokens = tokens
    out.tls = tls
    out.relays = turn.map { RelayServers(urls: turnURLs, secret: $0, lifetime: turnLifetime) }
    out.cluster = cluster
    out.version = CallmeshVersion.current
    out.shardCount = shardCount
    if let eventLoops { out.eventLoops = eventLoops }
    out.peers.connectionsMax = connectionsMax ?? files.connections(eventLoops: out.eventLoops)
    out.buckets = existingBuckets
    out.storeTimeout = startTimeout
    out.limits = limits
    out.heartbeatInterval = heartbeatInterval
    out.drainSeconds = Int(drain.microseconds / 1_000_000)
    return out
  }
}

/// The limit of open files of this process, and how many of them may be connections.
package struct DescriptorLimit: Equatable {
  /// The soft limit (`ulimit -n`, `LimitNOFILE`).
  package var files: Int

  package init(files: Int) { self.files = files }

  /// For the connection to NATS, logs, the operators' port, files that are read again, and libraries.
  package static let reserve = 64
  /// For each event loop: its queue, its wake-up and its timer, and refused connections that get a reason
  /// (`PeerLimits.refusalsToldPerLoop`).
  package static let perLoop = 20

  package static func current() -> DescriptorLimit {
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    guard getrlimit(resource, &limit) == 0 else { return DescriptorLimit(files: 1024) }
    return DescriptorLimit(files: Int(clamping: limit.rlim_cur))
  }

  /// Returns how many descriptors are left for connections: at most a million.
  package func connections(eventLoops: Int) -> Int {
    // With many cores and a low limit, half of the descriptors are reserved.
    let besides = min(Self.reserve + Self.perLoop * eventLoops, files / 2)
    return max(1, min(files - besides, 1_000_000))
  }
}
