import CallBus
import CallCore
import CallPush
import Logging
import NIOPosix
import Testing

@Suite("APNs: configurations")
struct APNsConfigurationTests {
  private func configuration(
    _ name: String = "apple", change: (inout APNsConfiguration) -> Void = { _ in }
  ) throws -> APNsConfiguration {
    var configuration = APNsConfiguration(
      name: name, credentials: try APNsCredentialsTests.credentials(), environment: .production,
      topics: ["org.example.app"])
    change(&configuration)
    return configuration
  }

  private func sender(_ configurations: [APNsConfiguration]) throws -> APNsSender {
    try APNsSender(
      configurations, group: MultiThreadedEventLoopGroup.singleton,
      clock: ClusterClock(wallMicroseconds: 1_700_000_000_000_000),
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }

  @Test("each mistake has its error, before any connection is opened") func errors() throws {
    let cases: [(APNsConfigurationError, (inout APNsConfiguration) -> Void)] = [
      (.noTopics("apple"), { $0.topics = [] }),
      (.badTopic("apple", ""), { $0.topics = [""] }),
      (.badTopic("apple", "a b"), { $0.topics = ["a b"] }),
      (.badTopic("apple", "a\r\nb"), { $0.topics = ["a\r\nb"] }),
      (.badPort("apple", 0), { $0.port = 0 }),
      (.badPort("apple", 65_536), { $0.port = 65_536 }),
      (.badTrustRoot("apple"), { $0.extraTrustRootsPEM = ["nonsense"] }),
      (.badServerName("apple"), { $0.tlsServerName = "127.0.0.1" }),
      (.outOfRange("apple", "connections"), { $0.limits.connections = 0 }),
      (.outOfRange("apple", "inFlightPerConnection"), { $0.limits.inFlightPerConnection = 0 }),
      (.outOfRange("apple", "queued"), { $0.limits.queued = 0 }),
      (.outOfRange("apple", "attemptTimeout"), { $0.limits.attemptTimeout = .seconds(0) }),
      (.outOfRange("apple", "pingTimeout"), { $0.limits.pingTimeout = .seconds(61) }),
      (.outOfRange("apple", "voipKeep"), { $0.limits.voipKeep = .seconds(-1) }),
    ]
    for (error, change) in cases {
      #expect(throws: error) { _ = try sender([try configuration(change: change)]) }
      #expect(!error.description.isEmpty)
    }
  }

  @Test("names are told apart, and a topic has one sender in an environment") func twice() throws {
    #expect(throws: APNsConfigurationError.nameTwice("apple")) {
      _ = try sender([try configuration(), try configuration { $0.topics = ["org.example.b"] }])
    }
    #expect(throws: APNsConfigurationError.topicTwice("org.example.app")) {
      _ = try sender([
        try configuration(), try configuration("other") { $0.topics = ["org.example.app.voip"] },
      ])
    }
  }

  @Test("what an update may change") func updates() async throws {
    #expect(APNsEnvironment.production.host == "api.push.apple.com")
    #expect(APNsEnvironment.sandbox.host == "api.sandbox.push.apple.com")
    // Nothing listens there: the test concerns configurations only.
    func local(_ name: String, _ topics: String...) throws -> APNsConfiguration {
      try configuration(name) { ($0.host, $0.port, $0.topics) = ("127.0.0.1", 1, topics) }
    }
    let first = try local("apple", "org.example.app")
    let sender = try sender([first, try local("other", "org.example.b")])
    func update(_ change: (inout APNsConfiguration) throws -> Void) throws {
      var changed = first
      try change(&changed)
      try sender.update(changed)
    }
    try update {
      $0.topics = ["org.example.app", "org.example.c"]
      $0.credentials = try APNsCredentialsTests.credentials(keyID: "KEY7654321")
    }
    #expect(throws: APNsConfigurationError.topicTwice("org.example.b")) {
      try update { $0.topics = ["org.example.b"] }
    }
    #expect(throws: APNsConfigurationError.unknownName("nobody")) {
      try update { $0.name = "nobody" }
    }
    let moves: [(inout APNsConfiguration) -> Void] = [
      { $0.environment = .sandbox }, { $0.host = nil }, { $0.port = 443 },
      { $0.limits.connections = 3 },
    ]
    for move in moves {
      #expect(throws: APNsConfigurationError.needsRestart("apple")) { try update(move) }
    }
    let message = APNsRequestTests.message(
      deadline: Timestamp(microseconds: 1_700_000_000_100_000))
    #expect(await sender.send(message) == .expired)
    await sender.close()
    #expect(sender.statistics.map(\.name) == ["apple", "other"])
  }
}
