internal import CallCoordinator

extension Setting {
  /// All settings, in the order of help and documentation.
  package static let all: [Setting] =
    nodeSettings + edgeSettings + coordinatorSettings + pushSettings + callRules

  package static func of(_ key: SettingKey) -> Setting { byKey[key] ?? missing(key) }

  private static let byKey = Dictionary(
    all.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })

  /// Never reached: a test proves that the table is complete.
  private static func missing(_ key: SettingKey) -> Setting {
    Setting(key, .node, .text(.line), nil, "")
  }

  private static let nodeSettings: [Setting] = [
    Setting(
      .cluster, .node, .text(.clusterName), "callmesh",
      "The cluster's name. It begins every subject and bucket, so that several clusters can share "
        + "a NATS account."),
    Setting(
      .nodeId, .node, .text(.nodeName), nil, note: "role-hostname-random",
      "The node's name, unique in the cluster. A coordinator whose name stays the same over a "
        + "restart gets its shards back."),
    Setting(
      .natsUrl, .node, .natsURL, "nats://127.0.0.1:4222",
      "Where NATS is; several URLs of one NATS cluster are separated by commas. "
        + "Name all of them: a server that is lost is followed by one of these. tls:// means TLS or no "
        + "connection; of several all, if it is said of one."),
    Setting(
      .natsCredentials, .node, .text(.path), nil, note: "none",
      "A NATS credentials file (.creds), where the servers ask for one."),
    Setting(
      .natsUser, .node, .text(.line), nil, note: "none",
      "The NATS user, where the servers ask for user and password."),
    Setting(
      .natsPasswordFile, .node, .text(.path), nil, note: "none",
      "The file with the password of natsUser."),
    Setting(
      .natsCA, .node, .text(.path), nil, note: "none",
      "The file (PEM) with the authorities that sign the certificates of NATS servers, beside those that "
        + "the system trusts. Once it is set all servers must speak TLS."),
    Setting(
      .natsCertificate, .node, .text(.path), nil, note: "none",
      "The file (PEM) with the certificate, and those behind it, that the node shows to NATS servers "
        + "that ask for one."),
    Setting(
      .natsKey, .node, .text(.path), nil, note: "none",
      "The file (PEM) with the key of natsCertificate."),
    Setting(
      .startTimeout, .node, .duration(0, 86_400), "5m",
      "How long a node that starts waits for NATS that cannot be reached, and for a store that is not "
        + "ready, before it ends with status 1; 0: it tries once."),
    Setting(
      .shardCount, .node, .integer(1...4096), nil, note: "the cluster's; 64 for a new cluster",
      "Into how many shards users are divided. Fixed when the cluster is created: a node that is "
        + "told another count refuses to start."),
    Setting(
      .drainSeconds, .node, .duration(0, 3600), "15s",
      "How long a node that drains may take: an edge sends its devices elsewhere over this time "
        + "at most, a coordinator that ends hands its shards over within it (at least 5s)."),
    Setting(
      .heartbeatInterval, .node, .duration(0.05, 10), "500ms",
      "How often a node says that it lives. The same on every node."),
    Setting(
      .host, .node, .text(.host), "127.0.0.1",
      "The address on which an edge listens to devices. 0.0.0.0 accepts from other machines: "
        + "give it a tlsCertificate, or put a proxy that ends TLS in front of it."),
    Setting(
      .metricsPort, .node, .integer(0...65_535), "0",
      "The TCP port for operators: /metrics, /healthz and /readyz; 0: none."),
    Setting(
      .metricsHost, .node, .text(.host), "127.0.0.1",
      "The address of the operators' port. It asks nobody who they are: keep it off public networks."
    ),
    Setting(
      .logLevel, .node,
      .choice(["trace", "debug", "info", "notice", "warning", "error", "critical"]), "info",
      "The least important kind of line that is logged."),
    Setting(
      .logFormat, .node, .choice(["auto", "text", "json"]), "auto",
      "How log lines look: text on a terminal and JSON elsewhere, or always one of them."),
  ]

  private static let edgeSettings: [Setting] = [
    Setting(
      .port, .edge, .integer(0...65_535), "8080",
      "The TCP port for devices, WebSocket and HTTP alike. 0 picks a free one; the log names it.",
      remedy: "Under Kubernetes a service called callmesh sets CALLMESH_PORT to tcp://…: give the "
        + "service another name or set enableServiceLinks to false."),
    Setting(
      .tlsCertificate, .edge, .text(.path), nil, note: "none: no TLS",
      "The certificate of the edge in PEM, with its chain. Devices then connect with wss:// and https://; "
        + "TLS 1.2 and newer. The file is read again when it changes.",
      remedy: "It goes with tlsKey; give both or none."),
    Setting(
      .tlsKey, .edge, .text(.path), nil, note: "none: no TLS",
      "The key of that certificate in PEM, not encrypted. The file is read again when it changes.",
      remedy: "It goes with tlsCertificate; give both or none."),
    Setting(
      .keysFile, .edge, .text(.path), nil, note: "none; edges and coordinators need one",
      "The file with the keys of the apps, with which edges and coordinators check devices' tokens.",
      remedy: "For development make one with: callctl keys --app NAME --keys-file keys.json"),
    Setting(
      .maxTokenAge, .edge, .duration(60, 90 * 86_400), "7d",
      "For how long a token may be good, from now and from when it was issued. Others are refused. The same "
        + "on edges and coordinators."),
    Setting(
      .eventLoops, .edge, .integer(1...256), nil, note: "one per core",
      "Threads that serve connections."),
    Setting(
      .pingInterval, .edge, .duration(1, 600), "25s",
      "How often a silent session is pinged; after two pings in silence it is closed."),
    Setting(
      .commandsPerSecond, .edge, .integer(1...100_000), "20",
      "Commands that one session, and HTTP requests that one user or device, may send in a second, "
        + "on average."),
    Setting(
      .commandsBurst, .edge, .integer(1...100_000), "60",
      "Commands that one session, and HTTP requests that one user or device, may send at once."),
    Setting(
      .allowedOrigins, .edge, .origins, nil, note: "none",
      "The origins whose pages may send HTTP requests to this edge and, once any is named, open "
        + "WebSockets to it. * allows all.",
      remedy: "A browser writes an origin as https://app.example, or with a port "
        + "http://localhost:3000, and no path behind it."),
    Setting(
      .connectionsMax, .edge, .integer(1...1_000_000), nil,
      note: "what the limit of open files leaves",
      "Connections of the edge in all. Further ones are refused."),
    Setting(
      .connectionsPerAddress, .edge, .integer(1...1_000_000), "1000",
      "Connections of one address (IPv6: of one /64). Further ones are refused."),
    Setting(
      .unattachedMax, .edge, .integer(1...1_000_000), nil, note: "half of connectionsMax",
      "Connections on which no device has attached yet. The oldest gives way to a new one."),
    Setting(
      .requestsPerAddress, .edge, .integer(1...100_000), "100",
      "HTTP requests and WebSocket handshakes of one address in a second, on average; four times as "
        + "many at once."),
    Setting(
      .failedAuthsPerAddress, .edge, .integer(1...100_000), "60",
      "Tokens and push capabilities of one address that may be refused in a minute; beyond that none "
        + "of its credentials is looked at."),
    Setting(
      .trustedProxies, .edge, .addresses, nil, note: "none",
      "The proxies in front of the edge. Limits and logs use the device's address, which these tell in "
        + "X-Forwarded-For, or as proxyProtocol says.",
      remedy: "Write the addresses from which the proxies connect to the edge."),
    Setting(
      .proxyProtocol, .edge, .boolean, "false",
      "Whether each connection from a trusted proxy begins with a PROXY header of version 2."),
    Setting(
      .unlimitedAddresses, .edge, .addresses, "127.0.0.1,::1",
      "Addresses for which no limit per address holds, such as that of a company's network."),
  ]

  private static let coordinatorSettings: [Setting] = [
    Setting(
      .workers, .coordinator, .integer(1...64), "1",
      "Threads that run shards. Give at most one per core."),
    Setting(
      .sessionTickets, .coordinator, .choice(SessionTickets.allCases.map(\.rawValue)), "required",
      "Whether commands of edges count only in sessions whose token a coordinator has verified; offered: "
        + "nodes of earlier versions are believed, too, during an upgrade."),
    Setting(
      .leaseTimeout, .coordinator, .duration(0.2, 60), "3s",
      "For how long nothing may be heard of a node before it counts as dead and its shards are "
        + "taken over."),
    Setting(
      .probeTime, .coordinator, .duration(0, 60), "300ms",
      "For how long NATS must say of a silent node that nobody listens at its address before it "
        + "counts as dead, in place of leaseTimeout; 0: that is not asked."),
    Setting(
      .probeAfterConnect, .coordinator, .duration(0, 600), "2s",
      "How long a coordinator must have been connected before it believes that: longer than the "
        + "other nodes need to connect again when a NATS server restarts."),
    Setting(
      .journalReplicas, .coordinator, .integer(1...5), "1",
      "On how many NATS servers each record is kept: 1 on a laptop, 3 in production."),
    Setting(
      .appendTimeout, .coordinator, .duration(0.1, 60), "2s",
      "How long a journal append waits for its acknowledgement before its shard looks up whether "
        + "it arrived."),
    Setting(
      .checkpointEveryRecords, .coordinator, .integer(1...1_000_000), "2000",
      "Records of a shard after which it writes a checkpoint: with the next two what a new owner "
        + "reads back at most."),
    Setting(
      .checkpointEveryBytes, .coordinator, .integer(1000...1_000_000_000), "4000000",
      "Bytes of a shard's records after which it writes a checkpoint."),
    Setting(
      .checkpointEvery, .coordinator, .duration(1, 86_400), "5m",
      "How old the oldest record behind a shard's checkpoint gets before it writes the next one."),
    Setting(
      .rebalanceInterval, .coordinator, .duration(0, 60), "50ms",
      "From one shard to the next while a coordinator gives a new one its share, and stays."),
    Setting(
      .journalBytes, .coordinator, .integer(4_000_000...1_000_000_000_000), "33554432",
      "What a shard's journal may take on each NATS server, in bytes; at least four times "
        + "checkpointEveryBytes. At half of it further calls are refused as overloaded. It counts when the "
        + "streams are made."),
    Setting(
      .bucketBytes, .coordinator, .integer(1_000_000...1_000_000_000_000), "536870912",
      "What the bucket of registrations, that of tokens and that of checkpoints may each take, in bytes. "
        + "It counts when they are made."),
    Setting(
      .pushQueueBytes, .coordinator, .integer(1_000_000...1_000_000_000_000), "268435456",
      "What the queue of push jobs may take, in bytes; further pushes are refused. It counts when the "
        + "queue is made."),
    Setting(
      .stoppedRetry, .coordinator, .duration(0.1, 3600), "10s",
      "How often a shard whose store cannot be read is tried again."),
  ]

  private static let pushSettings: [Setting] = [
    Setting(
      .pushProviders, .push, .text(.path), nil, note: "none; a push gateway needs one",
      "The JSON file with the push providers: teams, projects, and where their keys are.",
      remedy: "docs/configuration.md has a whole example."),
    Setting(
      .pushInFlight, .push, .integer(1...100_000), "1000",
      "Pushes under way at once in one pool: one provider's entry in the file."),
    Setting(
      .pushWaiting, .push, .integer(0...1_000_000), "1000",
      "Jobs that may wait in one pool; further ones go back into the queue for a moment."),
  ]

  private static let callRules: [Setting] = [
    Setting(
      .ringTimeout, .calls, .duration(1, 3600), "30s",
      "How long a call rings where its caller does not say."),
    Setting(
      .ringTimeoutMinimum, .calls, .duration(1, 3600), "5s", "The shortest that a caller may ask."),
    Setting(
      .ringTimeoutMaximum, .calls, .duration(1, 3600), "180s", "The longest that a caller may ask."),
    Setting(
      .connectGrace, .calls, .duration(1, 600), "15s",
      "From the answer until both sides report connected; then the call fails."),
    Setting(
      .resumeGraceRinging, .calls, .duration(0, 600), "15s",
      "How long a call rings on after its caller's session broke."),
    Setting(
      .resumeGraceAnswered, .calls, .duration(0, 3600), "60s",
      "How long an answered call outlives the session of one of its sides."),
    Setting(
      .reattachGrace, .calls, .duration(0, 60), "5s",
      "How long a call waits for a registered device whose session broke just before; 0: not at all."
    ),
    Setting(
      .deliveryRepeats, .calls, .durations(0.05, 60), "500ms,1s,2s,4s",
      "After how long what a device has not acknowledged is retransmitted: first, second, … time."),
    Setting(
      .endedCallKept, .calls, .duration(1, 86_400), "10m",
      "How long an ended call is remembered, so that a late device learns what became of it."),
    Setting(
      .registrationLifetime, .calls, .duration(3600, 3650 * 86_400), "90d",
      "After how long unseen a device's registration goes."),
    Setting(
      .devicesPerUser, .calls, .integer(1...100), "10",
      "Registered devices of one user; the longest unseen gives way."),
    Setting(
      .liveCallsPerDevice, .calls, .integer(1...1000), "5",
      "Live calls that one device may have placed; and that one device of a callee may have, above "
        + "which further calls do not ring it."),
    Setting(
      .callsPerPairPerMinute, .calls, .integer(1...10_000), "10",
      "Calls from one caller to one callee in a minute."),
    Setting(.headersCount, .calls, .integer(0...256), "32", "Custom headers of a call."),
    Setting(
      .headersBytes, .calls, .integer(0...32_768), "4096",
      "Custom headers of a call, in bytes of all names and values."),
    Setting(
      .descriptionBytes, .calls, .integer(0...98_304), "65536",
      "A session description, in bytes. A frame has at most 131072."),
    Setting(
      .signalsWaiting, .calls, .integer(1...4096), "128",
      "Descriptions and candidates that wait for one side of a call."),
    Setting(
      .signalBytes, .calls, .integer(64...65_536), "16384",
      "One description or candidate sent during a call, in bytes."),
    Setting(
      .lazyAppend, .calls, .duration(0, 1), "5ms",
      "How long what is not urgent may wait for company in a journal append."),
    Setting(
      .callsPerShard, .calls, .integer(100...10_000_000), "200000",
      "Calls that one shard holds, ended ones included; more are refused as overloaded."),
    Setting(
      .busyWhileInCall, .calls, .boolean, "false",
      "Whether a user in an answered call is busy for further calls; else it rings."),
  ]
}
