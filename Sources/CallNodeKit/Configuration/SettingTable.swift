internal import CallBus
internal import CallCoordinator
internal import CallCore
internal import CallEdge
internal import CallPush
internal import CallTelemetry
internal import Logging
internal import NATSBus

// The table of settings. To add one, add its property to the structure that holds it and a row here;
// docs/configuration.md shows both.

extension Setting {
  /// All settings, in the order of help and documentation.
  package static let all = node + keys + edge + coordinator + push + calls

  /// Returns the row of a key; nil where there is no such setting.
  package static func of(_ key: SettingKey) -> Setting? { byKey[key] }

  private static let byKey = Dictionary(uniqueKeysWithValues: all.map { ($0.key, $0) })

  private static let node = rows(.node) {
    Setting("cluster", \.cluster, .clusterName)
    "The cluster's name: the prefix of all subjects, streams and buckets, so that several clusters "
      + "can share a NATS account."
    Setting("nodeId", \.nodeID, .nodeName, unset: "role-hostname-random")
    "The node's name, unique in the cluster. A coordinator whose name stays the same over a "
      + "restart gets its shards back."
    Setting("natsUrl", \.natsURL, .natsURL)
    "Where NATS is; separate several URLs of one NATS cluster by commas. Name all its servers: the "
      + "node reconnects to these. With tls:// in one URL, all servers must speak TLS. A URL with "
      + "a password is refused as a flag."
    Setting("natsCredentials", \.natsAccess.credentialsFile, .path)
    "A NATS credentials file (.creds), where the servers ask for one."
    Setting("natsUser", \.natsAccess.user, .line)
    "The NATS user, where the servers ask for user and password."
    Setting("natsPasswordFile", \.natsAccess.passwordFile, .path)
    "The file with the password of natsUser. It is read again for each connection."
    Setting("natsCA", \.natsAccess.ca, .path)
    "The file (PEM) with the authorities that sign the certificates of NATS servers, in addition "
      + "to those that the system trusts. Once it is set, all servers must speak TLS."
    Setting("natsCertificate", \.natsAccess.certificate, .path)
    "The file (PEM) with the certificate chain that the node presents to NATS servers that ask for "
      + "one."
    Setting("natsKey", \.natsAccess.key, .path)
    "The file (PEM) with the key of natsCertificate."
    Setting("startTimeout", \.startTimeout, .duration(0, 86_400))
    "How long a starting node waits for NATS and for the store before it exits with status 1; 0: "
      + "it tries once."
    Setting(
      "shardCount", \.shardCount, .integer(1...4096), unset: "the cluster's; 64 for a new cluster")
    "The number of shards that users are divided into. Fixed when the cluster is created: a node "
      + "with another number refuses to start."
    Setting("drainSeconds", \.drain, .duration(0, 3600))
    "How long draining may take. An edge spreads its devices over this time; a coordinator hands "
      + "its shards over within it (at least 5s)."
    Setting("heartbeatInterval", \.heartbeatInterval, .duration(0.05, 10))
    "The interval between a node's heartbeats. The same on every node."
    Setting("host", \.edge.host, .host)
    "The address on which an edge listens for devices. 0.0.0.0 accepts from other machines: give "
      + "it a tlsCertificate, or put a proxy that ends TLS in front of it."
    Setting("metricsPort", \.metricsPort, .integer(0...65_535))
    "The TCP port for operators: /metrics, /healthz and /readyz; 0: none."
    Setting("metricsHost", \.metricsHost, .host)
    "The address of the operators' port. The port has no authentication: keep it off public "
      + "networks."
    Setting("logLevel", \.logLevel, .choice)
    "The least severe level that is logged."
    Setting("logFormat", \.logFormat, .choice)
    "How log lines look: text on a terminal and JSON elsewhere, or always one of them."
  }

  private static let keys = rows(.keys) {
    Setting(
      "keysFile", \.keysFile, .path, unset: "none; edges and coordinators need one",
      remedy: "For development make one with: callctl keys --app NAME --keys-file keys.json")
    "The file with the apps' keys, which verify devices' tokens, and with their webhooks. A push "
      + "gateway with it delivers to webhooks."
    Setting("maxTokenAge", \.maxTokenAge, .duration(60, 90 * 86_400))
    "The longest lifetime of a token, from its issue and from now. Tokens with a longer one are "
      + "refused. The same on edges and coordinators."
  }

  private static let edge = rows(.edge) {
    Setting(
      "port", \.edge.port, .integer(0...65_535),
      remedy: "Under Kubernetes a service called callmesh sets CALLMESH_PORT to tcp://…: give the "
        + "service another name or set enableServiceLinks to false.")
    "The TCP port for devices, WebSocket and HTTP alike. 0 picks a free one; the log names it."
    Setting(
      "tlsCertificate", \.tlsCertificate, .path, unset: "none: no TLS",
      remedy: "It goes with tlsKey; give both or none.")
    "The certificate of the edge in PEM, with its chain. Devices then connect with wss:// and "
      + "https://; TLS 1.2 and newer. The file is read again when it changes."
    Setting(
      "tlsKey", \.tlsKey, .path, unset: "none: no TLS",
      remedy: "It goes with tlsCertificate; give both or none.")
    "The key of that certificate in PEM, not encrypted. The file is read again when it changes."
    Setting(
      "publicUrl", \.edge.publicURL, .deviceURL, unset: "none: no device is sent here",
      remedy: "Write the address as devices use it: wss://node-1.example:443.")
    "The address at which devices reach this node and no other. With it, a node with all roles has "
      + "devices that ask for it sent here while it owns their users' shards."
    Setting(
      "turnUrls", \.turnURLs, .relayURLs,
      remedy: "Write them as browsers do: turn:turn.example:3478?transport=udp,turns:turn.example.")
    "The TURN servers for devices that ask for some. It goes with turnSecretFile."
    Setting(
      "turnSecretFile", \.turnSecretFile, .path,
      remedy: "It goes with turnUrls; give both or none.")
    "The file with the secret that the TURN servers have as static-auth-secret. It is read again "
      + "when it changes."
    Setting("turnLifetime", \.turnLifetime, .duration(60, 86_400))
    "For how long credentials for TURN servers are good. Devices get new ones in time."
    Setting("eventLoops", \.eventLoops, .integer(1...256), unset: "one per core")
    "Threads that serve connections."
    Setting("pingInterval", \.edge.pingInterval, .duration(1, 600))
    "The interval between pings of a silent session. It is closed after two unanswered pings."
    Setting("commandsPerSecond", \.edge.commandsPerSecond, .integer(1...100_000))
    "Commands of one session, and HTTP requests of one user or device, per second on average."
    Setting("commandsBurst", \.edge.commandsBurst, .integer(1...100_000))
    "Commands of one session, and HTTP requests of one user or device, in one burst."
    Setting(
      "allowedOrigins", \.edge.allowedOrigins, .origins,
      remedy: "A browser writes an origin as https://app.example, or with a port "
        + "http://localhost:3000, and no path behind it. Apps in web views have their own scheme: "
        + "capacitor://localhost.")
    "The origins whose pages may send HTTP requests to this edge and, once any is named, open "
      + "WebSockets to it without an Authorization header. * allows all."
    Setting(
      "connectionsMax", \.connectionsMax, .integer(1...1_000_000),
      unset: "what the limit of open files leaves")
    "Connections of the edge in total. Further ones are refused."
    Setting("connectionsPerAddress", \.edge.peers.connectionsPerAddress, .integer(1...1_000_000))
    "Connections of one address (IPv6: of one /64). Further ones are refused."
    Setting(
      "unattachedMax", \.edge.peers.unattachedMax, .integer(1...1_000_000),
      unset: "half of connectionsMax")
    "Connections on which no device has attached yet. A new one displaces the oldest."
    Setting("requestsPerAddress", \.edge.peers.requestsPerAddress, .integer(1...100_000))
    "HTTP requests and WebSocket handshakes of one address without a token or capability, per "
      + "second on average; four times as many in one burst. Others count at their users."
    Setting("failedAuthsPerAddress", \.edge.peers.failedAuthsPerAddress, .integer(1...100_000))
    "Refused tokens and push capabilities of one address per minute. Further bad ones are answered "
      + "with 429; good ones are not concerned."
    Setting("keepAliveTimeout", \.edge.peers.keepAliveTimeout, .duration(1, 3600))
    "How long a connection is kept on which no request comes. Longer than the balancer in front keeps "
      + "its idle connections, or some of its requests meet a closed one (502)."
    Setting(
      "trustedProxies", \.edge.trustedProxies, .addresses,
      remedy: "Write the addresses from which the proxies connect to the edge.")
    "The proxies in front of the edge. Limits and logs use the device's address, which the proxies "
      + "report in X-Forwarded-For, or in a PROXY header with proxyProtocol."
    Setting("proxyProtocol", \.edge.proxyProtocol, .boolean)
    "Whether each connection from a trusted proxy begins with a PROXY header of version 2."
    Setting("unlimitedAddresses", \.edge.unlimitedAddresses, .addresses)
    "Addresses that are exempt from the limits per address, such as a company's network."
  }
}
