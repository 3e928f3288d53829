package import CallAuth
import CallClient
import CallCore
import CallHostile
package import CallProcesses
import CallTestKit
import FoundationEssentials

package struct LocalClusterOptions: Sendable, Equatable {
  package var coordinators = 2
  package var edges = 2
  /// Processes that are an edge and a coordinator each, in place of those; 0: none.
  package var nodes = 0
  /// Whether each node has an address of its own, to which devices are sent that ask for it.
  package var nearer = false
  /// 1, or 3 that store each record three times.
  package var natsServers = 1
  package var shards = 64
  package var pushGateways = 0
  package var natsPath: String
  package var callnodePath: String
  /// The program that every second start of a node runs; nil: always `callnodePath`.
  package var otherCallnodePath: String?
  /// Needed where faults are injected, to ask for the owners of shards.
  package var callctlPath: String?
  package var app = "load"
  /// Further apps of the edges. `app-flood` places ten times as many calls as one may, at all edges together.
  package var otherApps: [String] = []
  /// Whether there is the app of ``Roster/strictApp``, too.
  package var hasStrictApp = false
  /// Whether the devices' apps keep their users' histories.
  package var keepsHistory = false
  /// Whether users of the devices' app see their ongoing calls.
  package var showsOngoing = false
  /// The webhook of the devices' apps; nil: none.
  package var webhook: WebhookAddress?
  /// The hook of the devices' apps; nil: none.
  package var hook: WebhookAddress?
  package var tls = false
  /// The address at which edges listen.
  package var edgeHost = "127.0.0.1"
  /// Whether the devices' app has the standard limits. Without them it can load the cluster fully.
  package var hasStandardLimits = false
  /// Settings of all nodes, by their names in docs/configuration.md.
  package var nodeSettings: [String: String] = [:]
  /// Whether nodes reach NATS through relays that can be cut.
  package var hasRelays = false
  package var startTimeout: Duration = .seconds(30)

  package init(natsPath: String, callnodePath: String) {
    self.natsPath = natsPath
    self.callnodePath = callnodePath
  }

  /// By app.
  var appLimits: [String: [AppLimit: Int]] {
    var limits: [String: [AppLimit: Int]] = [:]
    // Edges count by themselves.
    let perEdge = max(
      1, Int(Attack.appFlood.facts.perSecond) / 10 / max(1, nodes > 0 ? nodes : edges))
    for other in otherApps { limits[other] = [.callsPerSecond: perEdge] }
    guard !hasStandardLimits else { return limits }
    let rates: [AppLimit] = [
      .callsPerUser, .signalBytesPerUser, .callsPerSecond, .liveCalls, .registrationsPerSecond,
      .pushesPerSecond,
    ]
    for app in apps {
      limits[app] = Dictionary(uniqueKeysWithValues: rates.map { ($0, $0.facts.range.upperBound) })
    }
    return limits
  }

  /// The apps that the devices belong to.
  var apps: [String] { hasStrictApp ? [app, Roster.strictApp] : [app] }
}

extension LocalClusterOptions {
  fileprivate var appExtras: [String: AppKeys.DevelopmentExtras] {
    var extras = AppKeys.DevelopmentExtras()
    extras.keepsHistory = keepsHistory
    extras.webhook = webhook.map { ($0.url, $0.secret) }
    extras.ongoingCalls = showsOngoing
    extras.hook = hook.map {
      AppKeys.DevelopmentExtras.Hook(
        url: $0.url, secret: $0.secret, timeout: HookTerms.timeout, whenAway: .refuse)
    }
    var all = [app: extras]
    guard hasStrictApp else { return all }
    extras.hook?.whenAway = .allow
    extras.secondCalls = .busy
    extras.ongoingCalls = true
    all[Roster.strictApp] = extras
    // With several apps, each may use only those topics of pushes that it names.
    all[app]?.usesAllTopics = true
    return all
  }

  func edgeURL(port: Int) -> String { "\(tls ? "wss" : "ws")://127.0.0.1:\(port)" }
}

/// nats-servers and nodes on this machine's loopback, each a process, with all files in a temporary folder.
package struct LocalCluster: Sendable {
  /// The URLs of all nats-servers, separated by commas, without relays.
  package let natsURL: String
  /// `ws://127.0.0.1:port`, or `wss://`, one for each edge.
  package let edgeURLs: [String]
  /// The file of the authority that signed the edges' certificate; nil without TLS.
  package let caFile: String?
  package let keys: AppKeys
  package let natsVersion: String
  package let shards: Int
  package let nats: [NATSServerProcess]
  /// With `--nodes` the same as `edges`.
  package let coordinators: [NodeProcess]
  package let edges: [NodeProcess]
  package let pushGateways: [NodeProcess]
  /// nil without callctl.
  package let callctl: CallctlRunner?

  package static let name = "load"
  static let caFile = "ca.pem"
  /// In the cluster's folder, of the edges.
  package static let (certificateFile, keyFile) = ("edge.pem", "edge-key.pem")

  /// In the order of the report.
  package var processes: [SupervisedProcess] {
    edges.map(\.process) + coordinators.filter { $0.process.role == .coordinator }.map(\.process)
      + pushGateways.map(\.process) + nats.map(\.process)
  }

  /// All coordinators and edges, coordinators first.
  package var nodes: [NodeProcess] {
    coordinators + edges.filter { $0.process.role == .edge }
  }

  /// Makes a certificate for the edges, good for a day. Otherwise `start` makes one for loopback.
  /// - Parameters:
  ///   - names: its host names.
  ///   - addresses: its IPv4 addresses.
  package static func makeCertificate(
    names: [String], addresses: [String], in folder: TemporaryFolder
  ) throws {
    let authority = try LoopbackAuthority()
    let identity = try authority.issue(names: names, addresses: addresses)
    try folder.write(authority.certificate, to: caFile)
    try folder.write(identity.certificate, to: certificateFile)
    try folder.write(identity.key, to: keyFile)
  }

  /// Starts all processes and waits until every edge is ready. The caller ends the processes, also when this throws.
  /// - Parameter isWanted: polled; the start is given up once it returns false.
  /// - Throws: ``SetupError`` or ``ProcessFailure`` with the cause; ``StartGivenUp``.
  package static func start(
    _ options: LocalClusterOptions, in folder: TemporaryFolder, processes: ProcessSet,
    say: (String) -> Void, isWanted: @escaping @Sendable () -> Bool
  ) async throws -> LocalCluster {
    let starter = ClusterStarter(
      options: options, folder: folder, processes: processes, isWanted: isWanted)
    let (keys, json) = AppKeys.generateDevelopment(
      apps: options.apps + options.otherApps, limits: options.appLimits,
      extras: options.appExtras)
    try folder.write(json, to: "keys.json")
    if options.tls, !folder.has(Self.certificateFile) {
      try makeCertificate(names: ["localhost"], addresses: ["127.0.0.1"], in: folder)
    }

    say(options.natsServers == 1 ? "starting nats-server" : "starting 3 nats-servers")
    let nats = try await starter.startNATS()
    let (coordinators, edges) = try await starter.startNodes(nats, say: say)
    let pushGateways = try await starter.startNodes(.push, options.pushGateways, nats)
    say("waiting until the edges are ready")
    for node in edges + pushGateways { try await starter.waitUntilReady(node) }
    let natsURL = nats.map(\.url).joined(separator: ",")
    return LocalCluster(
      natsURL: natsURL,
      edgeURLs: edges.map { options.edgeURL(port: $0.port) },
      caFile: options.tls ? folder.file(Self.caFile) : nil, keys: keys,
      natsVersion: natsVersion(log: nats[0].log), shards: options.shards,
      nats: nats, coordinators: coordinators, edges: edges, pushGateways: pushGateways,
      callctl: options.callctlPath.map {
        CallctlRunner(callctlPath: $0, natsURL: natsURL, cluster: name)
      })
  }

  /// From the server's own first lines: `Version:  2.9.10`.
  private static func natsVersion(log: String) -> String {
    let line = log.split(separator: "\n").first { $0.contains("Version:") }
    return line?.split(separator: " ").last.map(String.init) ?? ""
  }
}

extension NodeProcess {
  /// The names of the roles of the process, as the cluster knows them.
  var roleNames: [String] {
    process.role == .node ? [ChaosFault.coordinator(of: name), "\(name)-edge"] : [name]
  }
}

/// The run was ended while the cluster was starting.
package struct StartGivenUp: Error {}
