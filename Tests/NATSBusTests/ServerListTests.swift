import CallBus
import CallProcesses
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
      let bus = try await NATSBus.test(list)
      #expect(bus.statistics.connected)
      await bus.close()
    }
  }

  @Test func aServerThatWasLostIsTriedLast() {
    let list = "nats://a:1,nats://ann:secret@b:2,nats://c:3"
    var firsts: Set<String> = []
    for _ in 0..<100 {
      let order = ServerOrder.drawn(from: list, lost: "nats://b:2")
      #expect(order.last == "nats://ann:secret@b:2")
      #expect(order.sorted() == list.split(separator: ",").map(String.init).sorted())
      firsts.insert(order[0])
    }
    #expect(firsts == ["nats://a:1", "nats://c:3"])
    #expect(Set((0..<100).map { _ in ServerOrder.drawn(from: list, lost: "")[0] }).count == 3)
  }

  @Test func aConnectionGoesOnWithAnotherServerOfTheList() async throws {
    let servers = [try await NATSServerProcess.start(), try await NATSServerProcess.start()]
    defer { for server in servers { server.stop() } }
    let events = Inbox<NATSEvent>(capacity: 1000)
    let bus = try await NATSBus.test(servers.map(\.url).joined(separator: ","), events)
    let (lost, left) =
      bus.statistics.server == servers[0].url
      ? (servers[0], servers[1]) : (servers[1], servers[0])
    lost.kill()
    try await events.until(.reconnected(server: left.url))
    #expect(bus.statistics.server == left.url)
    await bus.close()
  }
}
