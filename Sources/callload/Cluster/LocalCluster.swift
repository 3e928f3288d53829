package import CallAuth
import CallClient
import CallCore
import CallTestKit
import FoundationEssentials

package struct LocalClusterOptions: Sendable, Equatable {
  package var coordinators = 2
  package var edges = 2
  /// 1, or 3 that keep each record three times.
  package var natsServers = 1
  package var shards = 64
  package var pushGateways = 0
  package var natsPath: String
  package var callnodePath: String
  /// What every second life of a node runs instead, where there is one.
  package var otherCallnodePath: String?
  /// Asked who owns which shard; needed where faults are injected.
  package var callctlPath: String?
  package var app = "load"
  /// Further apps that the edges know. Each may place a hundred calls a second.
  package var otherApps: [String] = []
  package var tls = false
  /// Whether the devices' app has the standard limits; otherwise it has none, to load the cluster fully.
  package var hasStandardLimits = false
  /// Settings of all nodes, by the names that docs/configuration.md gives them.
  package var nodeSettings: [String: String] = [:]
  /// Whether nodes reach NATS through relays that can be cut.
  package var hasRelays = false
  package var patience: Duration = .seconds(30)

  package init(natsPath: String, callnodePath: String) {
    self.natsPath = natsPath
    self.callnodePath = callnodePath
  }

  /// By app.
  var appLimits: [String: [AppLimit: Int]] {
    var limits: [String: [AppLimit: Int]] = [:]
    for other in otherApps { limits[other] = [.callsPerSecond: Self.otherCallsPerSecond] }
    guard !hasStandardLimits else { return limits }
    let rates: [AppLimit] = [
      .callsPerUser, .signalBytesPerUser, .callsPerSecond, .liveCalls, .registrationsPerSecond,
      .pushesPerSecond,
    ]
    limits[app] = Dictionary(uniqueKeysWithValues: rates.map { ($0, $0.facts.range.upperBound) })
    return limits
  }

  /// A tenth of what `app-flood` places.
  static let otherCallsPerSecond = 100
}

/// nats-servers and nodes on this machine's loopback, each a process, with all files in a temporary folder.
package struct LocalCluster: Sendable {
  /// Of all servers, separated by commas, without a relay between.
  package let natsURL: String
  /// `ws://127.0.0.1:port`, or `wss://`, one for each edge.
  package let edgeURLs: [String]
  /// Of the authority that signed the edges' certificate; nil without TLS.
  package let caFile: String?
  package let keys: AppKeys
  package let natsVersion: String
  package let shards: Int
  package let nats: [NATSMember]
  package let coordinators: [NodeMember]
  package let edges: [NodeMember]
  package let pushGateways: [NodeMember]
  /// Nothing where callctl is not there.
  package let questions: CallctlRunner?

  package static let name = "load"
  static let (caFile, certificateFile, keyFile) = ("ca.pem", "edge.pem", "edge-key.pem")

  /// In the order of the report.
  package var processes: [SupervisedProcess] {
    edges.map(\.process) + coordinators.map(\.process) + pushGateways.map(\.process)
      + nats.map(\.process)
  }

  /// Starts all and waits until every edge is ready. The caller ends the processes, also when this throws.
  /// - Parameter isWanted: asked often; once it says no, the start is given up.
  package static func start(
    _ options: LocalClusterOptions, in folder: TemporaryFolder, processes: ProcessSet,
    say: (String) -> Void, isWanted: @escaping @Sendable () -> Bool
  ) async throws -> LocalCluster {
    let starter = ClusterStarter(
      options: options, folder: folder, processes: processes, isWanted: isWanted)
    let (keys, json) = AppKeys.generateDevelopment(
      apps: [options.app] + options.otherApps, limits: options.appLimits)
    try folder.write(json, to: "keys.json")
    if options.tls {
      let authority = try LoopbackAuthority()
      let identity = try authority.issue()
      try folder.write(authority.certificate, to: Self.caFile)
      try folder.write(identity.certificate, to: Self.certificateFile)
      try folder.write(identity.key, to: Self.keyFile)
    }

    say(options.natsServers == 1 ? "starting nats-server" : "starting 3 nats-servers")
    let nats = try await starter.startNATS()
    say("starting \(options.coordinators) coordinators and \(options.edges) edges")
    let coordinators = try await starter.startNodes(.coordinator, options.coordinators, nats)
    let edges = try await starter.startNodes(.edge, options.edges, nats)
    let pushGateways = try await starter.startNodes(.push, options.pushGateways, nats)
    say("waiting until the edges are ready")
    for node in edges + pushGateways { try await starter.waitUntilReady(node) }
    let natsURL = nats.map(\.url).joined(separator: ",")
    return LocalCluster(
      natsURL: natsURL,
      edgeURLs: edges.map { "\(options.tls ? "wss" : "ws")://127.0.0.1:\($0.port)" },
      caFile: options.tls ? folder.file(Self.caFile) : nil, keys: keys,
      natsVersion: natsVersion(log: nats[0].process.process.logPath), shards: options.shards,
      nats: nats, coordinators: coordinators, edges: edges, pushGateways: pushGateways,
      questions: options.callctlPath.map {
        CallctlRunner(callctlPath: $0, natsURL: natsURL, cluster: name, folder: folder)
      })
  }

  /// From the server's own first lines: `Version:  2.9.10`.
  private static func natsVersion(log: String) -> String {
    let text = FileManager.default.contents(atPath: log).map { String(decoding: $0, as: UTF8.self) }
    guard let line = text?.split(separator: "\n").first(where: { $0.contains("Version:") }) else {
      return ""
    }
    return line.split(separator: " ").last.map(String.init) ?? ""
  }
}

package struct NATSMember: Sendable {
  package let process: SupervisedProcess
  package let url: String
  package let port: Int
  package let monitor: NATSMonitor
}

package struct NodeMember: Sendable {
  package let process: SupervisedProcess
  /// Where devices connect; 0 where none do.
  package let port: Int
  package let metricsPort: Int
  /// Its ways to each nats-server; empty where it reaches them directly.
  package let relays: [TCPRelay]

  package var name: String { process.name }

  package func isReady() async -> Bool {
    if let answer = await LocalHTTP.get(port: metricsPort, "/readyz") {
      return answer.status == 200
    }
    // An edge of an earlier version has it at its devices' port.
    return port > 0 ? await LocalHTTP.get(port: port, "/readyz")?.status == 200 : false
  }

  package func servedShards() async -> Int? {
    guard let answer = await LocalHTTP.get(port: metricsPort, "/metrics"), answer.status == 200
    else { return nil }
    let name = "callmesh_coordinator_shards "
    return String(decoding: answer.body, as: UTF8.self).split(separator: "\n")
      .first { $0.hasPrefix(name) }
      .flatMap { Double($0.dropFirst(name.count)) }.map { Int($0) }
  }
}

/// The run was ended while the cluster was starting.
package struct StartGivenUp: Error {}
