import CallBus
import CallCore
import CallNodeKit
import CallWire
import Synchronization
import Testing

@Suite struct ResolutionTests {
  private static func file(_ json: String) throws -> ConfigurationFile {
    try ConfigurationFile.read(json: Array(json.utf8), path: "node.json")
  }

  @Test func flagsBeforeEnvironmentBeforeFileBeforeDefaults() throws {
    let file = try Self.file(#"{"port": 1, "host": "h1", "cluster": "c1"}"#)
    let settings = try ResolvedSettings.resolve(
      flags: ["port": "3"], environment: ["CALLMESH_PORT": "2", "CALLMESH_HOST": "h2"], file: file)
    func inForce(_ key: SettingKey, _ text: String?, _ origin: SettingOrigin) -> Bool {
      settings.text(key) == text && settings.origin(of: key) == origin
    }
    #expect(inForce("port", "3", .flag("--port")))
    #expect(inForce("host", "h2", .environment("CALLMESH_HOST")))
    #expect(inForce("cluster", "c1", .file("node.json")))
    #expect(inForce("workers", "1", .standard))
    #expect(inForce("nodeId", nil, .standard))
  }

  @Test func everyEnvironmentVariableIsRead() throws {
    for setting in Setting.all {
      let given =
        switch setting.key {
        case "keysFile": "/k.json"
        case "allowedOrigins": "https://app.example"
        case "publicUrl": "wss://node-1.example:443"
        case "trustedProxies": "10.0.0.0/8"
        case "turnUrls": "turn:turn.example"
        default: setting.hasDefault ? setting.defaultText : "3"
        }
      let settings = try ResolvedSettings.resolve(
        flags: [:], environment: [setting.key.environment: given], file: nil)
      #expect(
        settings.origin(of: setting.key) == .environment(setting.key.environment),
        "\(setting.key)")
    }
  }

  @Test func fileValuesMayBeNumbersTextBooleansAndLists() throws {
    let file = try Self.file(
      #"{"ringTimeout": 20, "drainSeconds": "2s", "busyWhileInCall": true, "#
        + #""deliveryRepeats": ["250ms", 1]}"#)
    let settings = try ResolvedSettings.resolve(flags: [:], environment: [:], file: file)
    let limits = settings.values.limits
    #expect(limits.ringTimeout == .seconds(20))
    #expect(settings.values.drain == .seconds(2))
    #expect(limits.busyWhileInCall)
    #expect(limits.deliveryRepeats == [.milliseconds(250), .seconds(1)])
  }

  @Test func unknownKeysInTheFileAreRefusedWithASuggestion() {
    let found = problems {
      _ = try Self.file(#"{"ringTimout": 20, "quux": 1, "port": 1}"#)
    }
    #expect(found.map(\.setting) == ["quux", "ringTimout"])
    #expect(found.last?.remedy == "Did you mean ringTimeout?")
    #expect(found.first?.remedy == "callnode config lists all settings.")
  }

  @Test(arguments: ["", "[]", "{", #"{"port": null}"#, #"{"port": {"a": 1}}"#])
  func filesThatAreNoSettings(json: String) {
    #expect(problems { _ = try Self.file(json) }.map(\.setting) == ["config"])
  }

  @Test func everyProblemIsNamedWithValueOriginAndRemedy() {
    let found = problems {
      _ = try ResolvedSettings.resolve(
        flags: ["port": "tcp://10.0.0.1:80", "natsUrl": "nats"],
        environment: ["CALLMESH_RING_TIMEOUT": "soon"], file: nil)
    }
    #expect(
      ConfigurationError(found).description == """
        The configuration has 3 problems:
          natsUrl = "nats", from the flag --nats-url: must be a URL such as \
        nats://127.0.0.1:4222, or several separated by commas.
          port = "tcp://10.0.0.1:80", from the flag --port: must be a whole number from 0 to 65535.
            Under Kubernetes a service called callmesh sets CALLMESH_PORT to tcp://…: give the \
        service another name or set enableServiceLinks to false.
          ringTimeout = "soon", from the environment variable CALLMESH_RING_TIMEOUT: must be a \
        duration from 1s to 1h, such as 30s, 500ms, 2m, 1h or 90d (a bare number is seconds).
        """)
  }

  /// A push gateway needs providers, or the apps' keys for webhooks alone.
  @Test(
    arguments: [
      (
        .edge, ["ringTimeout": "4s", "leaseTimeout": "1s"],
        ["ringTimeout", "leaseTimeout", "keysFile"]
      ),
      (.coordinator, ["ringTimeoutMaximum": "2s"], ["ringTimeoutMaximum", "keysFile"]),
      (.coordinator, ["journalBytes": "5000000", "keysFile": "k"], ["journalBytes"]),
      (.push, [:], ["pushProviders"]), (.push, ["pushProviders": "p"], []),
      (.push, ["keysFile": "k"], []),
    ] as [(NodeRoles, [SettingKey: String], [String])])
  func settingsThatContradictEachOther(
    role: NodeRoles, flags: [SettingKey: String], wrong: [String]
  ) throws {
    let settings = try ResolvedSettings.resolve(flags: flags, environment: [:], file: nil)
    let found = problems { _ = try settings.node(for: role, generatedNodeID: "n") }
    #expect(found.map(\.setting) == wrong)
    if wrong.last == "keysFile" { #expect(found.last?.remedy?.contains("callctl keys") == true) }
  }

  @Test func theReportHidesCredentialsAndShowsOrigins() throws {
    let settings = try ResolvedSettings.resolve(
      flags: ["port": "1"],
      environment: [
        "CALLMESH_PROT": "1", "CALLMESH_CONFIG": "x", "CALLMESH_NATS_URL": "nats://ann:hunter2@a:1",
      ], file: nil)
    let text = ConfigurationReport.text(settings)
    #expect(!text.contains("hunter2"))
    #expect(text.contains("nats://***@a:1"))
    #expect(text.contains("--port") && text.contains("CALLMESH_NATS_URL"))
    #expect(text.contains("CALLMESH_PROT is no setting"))
    #expect(!text.contains("CALLMESH_CONFIG"))
    let json = try ConfigurationReport.json(settings)
    #expect(!json.contains("hunter2"))
    #expect(json.contains(#""origin" : "flag""#))
  }
}

@Suite struct ShardCountTests {
  private func withBucket(
    _ body: (InProcessBucket, InProcessBus) async throws -> Void
  ) async throws {
    let bus = InProcessBus()
    try await body(try await bus.openBucket("c-config", BucketOptions()), bus)
    await bus.close()
  }

  private func settle(_ bucket: InProcessBucket, _ wanted: Int? = nil) async throws -> Int {
    try await ClusterAgreement.settle(bucket, wanted: wanted, cluster: "c")
  }

  @Test func theFirstNodeDecides() async throws {
    try await withBucket { bucket, _ in
      for wanted in [16, nil, 16] {
        let agreed = try await settle(bucket, wanted)
        #expect(agreed == 16)
      }
      await #expect(throws: ClusterAgreement.Mismatch(wanted: 32, cluster: "c", agreed: 16)) {
        try await settle(bucket, 32)
      }
    }
  }

  /// A new cluster gets the standard.
  @Test func nodesThatStartTogetherAgree() async throws {
    try await withBucket { bucket, _ in
      let counts = try await withThrowingTaskGroup(of: Int.self) { tasks in
        for _ in 0..<20 { tasks.addTask { try await settle(bucket) } }
        return try await tasks.reduce(into: []) { $0.append($1) }
      }
      #expect(Set(counts) == [64])
    }
  }

  /// An edge takes what coordinators decided, and decides nothing.
  @Test func anEdgeWaitsForTheFirstCoordinator() async throws {
    try await withBucket { bucket, _ in
      #expect(try await ClusterAgreement.read(bucket, wanted: 16, cluster: "c") == nil)
      let waits = Inbox<Void>(capacity: 1)
      async let edge = ClusterAgreement.await(bucket, wanted: nil, cluster: "c") {
        waits.offer(())
      }
      _ = await waits.next(until: nil)
      #expect(try await ClusterAgreement.read(bucket, wanted: nil, cluster: "c") == nil)
      #expect(try await settle(bucket, 16) == 16)
      let agreed = try await edge
      #expect(agreed == 16)
      await #expect(throws: ClusterAgreement.Mismatch(wanted: 8, cluster: "c", agreed: 16)) {
        try await ClusterAgreement.await(bucket, wanted: 8, cluster: "c") {}
      }
    }
  }

  @Test(arguments: [
    Array("many".utf8), [], [8, 9],
    ClusterCodec.encode(ClusterRecord(cluster: "other", shardCount: 64)),
    ClusterCodec.encode(ClusterRecord(cluster: "c", shardCount: 0)),
    ClusterCodec.encode(ClusterRecord(cluster: "c", shardCount: 4097)),
  ]) func nonsenseInTheBucketIsReported(bytes: [UInt8]) async throws {
    try await withBucket { bucket, _ in
      _ = await bucket.put(ClusterAgreement.key, bytes, expecting: nil)
      await #expect(throws: ClusterAgreement.Unusable.self) { try await settle(bucket) }
    }
  }

  /// Right after it was made a replicated stream has no leader, and nats-server says so at once.
  @Test func aBucketWithoutALeaderIsWaitedFor() async throws {
    try await withBucket { bucket, bus in
      let refusals = Mutex(12)
      bus.setFaults { faults in
        faults.onPut = { _, _ in
          refusals.withLock { left in
            left -= 1
            return left < 0 ? nil : .unknown(stored: false)
          }
        }
      }
      let error = await #expect(throws: BusError.self) { try await settle(bucket) }
      #expect(error?.isTransient == true, "\(String(describing: error))")
      let clock = ClusterClock(wallMicroseconds: 0)
      let retry = StoreRetryPolicy(clock: clock, pause: .milliseconds(1)) { _ in }
      let count = try await retry { try await settle(bucket) }
      #expect(count == 64)
    }
  }

  @Test func aRefusalNamesBothNumbersAndTheRemedy() {
    let text = "\(ClusterAgreement.Mismatch(wanted: 32, cluster: "c", agreed: 16))"
    for part in ["16", "32", "--shard-count", "--cluster"] { #expect(text.contains(part)) }
  }
}
