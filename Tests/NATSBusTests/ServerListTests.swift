import CallBus
import CallTestKit
import NATSBus
import Testing

/// `--nats-url` may name several servers.
@Suite(.timeLimit(.minutes(1)))
struct ServerListTests {
  @Test func anyServerOfAListWillDo() async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    // Nobody listens on port 1.
    for list in ["nats://127.0.0.1:1,\(server.url)", "\(server.url),nats://127.0.0.1:1"] {
      let bus = try await NATSBus.connect(
        url: list, name: "test",
        options: NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4)))
      #expect(bus.statistics.connected)
      await bus.close()
    }
  }
}
