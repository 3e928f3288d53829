import CallBus
import CallProcesses
import NATSBus
import Testing

/// Servers that want a password. No error or event shows it, and its end is the bus's.
@Suite(.timeLimit(.minutes(2)))
struct CredentialsTests {
  private static let password = "s3cr3t"

  private func start() async throws -> NATSServerProcess {
    try await NATSServerProcess.start(arguments: ["--user", "ann", "--pass", Self.password])
  }

  private func connect(
    _ server: NATSServerProcess, _ password: String, _ events: Inbox<NATSEvent>
  ) async throws -> NATSBus {
    var options = NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4))
    options.onEvent = { events.offer($0) }
    return try await NATSBus.connect(
      url: "nats://ann:\(password)@127.0.0.1:\(server.port)", name: "test", options: options)
  }

  /// Waits for an event that fits; returns it and those before it.
  private func until(
    _ events: Inbox<NATSEvent>, _ fits: (NATSEvent) -> Bool
  ) async throws -> [NATSEvent] {
    var seen: [NATSEvent] = []
    while !seen.contains(where: fits) {
      let batch = await events.next(until: .now + .seconds(60))
      try #require(!batch.isEmpty, "only \(seen) came")
      seen += batch
    }
    return seen
  }

  @Test func thePasswordIsNotShown() async throws {
    let server = try await start()
    defer { server.stop() }
    let events = Inbox<NATSEvent>(capacity: 1000)
    let bus = try await connect(server, Self.password, events)
    #expect(bus.statistics.server == server.url)
    try await server.restart()
    let seen = try await until(events) {
      if case .reconnected = $0 { true } else { false }
    }
    #expect(seen.contains(.reconnected(server: server.url)))
    #expect(!"\(seen)".contains(Self.password))
    await bus.close()
  }

  @Test func noErrorHoldsThePassword() async throws {
    let server = try await start()
    defer { server.stop() }
    for url in [
      "nats://ann:wr0ng@127.0.0.1:\(server.port)", "nats://ann:wr0ng@127.0.0.1:1",
      "nats://ann:wr0ng@127.0.0.1:1,nats://bob:wr0ng@[::1]:1", "gopher://ann:wr0ng@127.0.0.1",
      "nats://ann:wr0ng@127.0.0.1:many", "nats://ann:wr0ng@no such host:1",
      "nats://ann:wr0ng,wr0ng@127.0.0.1:1",
    ] {
      let error = await #expect(throws: BusError.self) {
        _ = try await NATSBus.connect(
          url: url, name: "test",
          options: NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4)))
      }
      let text = "\(String(describing: error))"
      #expect(!text.contains("wr0ng"), "\(text)")
    }
  }

  /// The library gives a connection up for good when it is refused twice. Only this event lets the program know.
  @Test func aServerThatRefusesUsFromNowOnEndsTheBus() async throws {
    let server = try await start()
    defer { server.stop() }
    let events = Inbox<NATSEvent>(capacity: 1000)
    let bus = try await connect(server, Self.password, events)
    try await server.restart(adding: ["--pass", "another"])
    let seen = try await until(events) { $0 == .closed }
    let refusals = seen.filter {
      if case .failure(let text) = $0 { text.contains("refuses the credentials") } else { false }
    }
    #expect(refusals.count == 1, "\(seen)")
    #expect(!bus.publish("x", [1]))
    #expect(!bus.statistics.connected)
    await bus.close()
  }
}
