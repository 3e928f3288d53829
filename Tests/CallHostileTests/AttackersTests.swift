import CallAuth
import CallHostile
import NIOCore
import NIOPosix
import Synchronization
import Testing

@Suite("Attackers", .timeLimit(.minutes(1))) struct AttackersTests {
  private final class Connections: Sendable {
    let accepted = Atomic(0)
  }

  @Test("attack until they are stopped, and leave no connection") func stop() async throws {
    let group = MultiThreadedEventLoopGroup.singleton
    let connections = Connections()
    let server = try await ServerBootstrap(group: group)
      .childChannelInitializer { channel in
        connections.accepted.add(1, ordering: .relaxed)
        return channel.eventLoop.makeSucceededVoidFuture()
      }
      .bind(host: "127.0.0.1", port: 0).get()
    let port = try #require(server.localAddress?.port)
    let (keys, _) = AppKeys.generateDevelopment(app: "demo")
    let attackers = try await Attackers(
      [.connectionFlood, .pingFlood, .sessionFlood],
      on: AttackTarget(
        edges: ["ws://127.0.0.1:\(port)"], keys: keys, app: "demo", otherApp: "demo"), seed: 1)
    // The server upgrades nobody, so the pings wait.
    #expect(try await !attackers.haveAllActed)
    while connections.accepted.load(ordering: .relaxed) < 200 {
      try await Task.sleep(for: .milliseconds(5))
    }
    let accounts = try await attackers.stop()
    try await server.close()
    #expect(accounts.keys.count == 3)
    #expect(accounts[.connectionFlood].map { $0.attempts > 0 && $0.connections > 0 } == true)
    #expect(accounts[.pingFlood]?.attempts == 0)
    #expect(accounts[.sessionFlood].map { $0.attempts > 0 } == true)
  }

  @Test("every attack has a rate") func rates() {
    for attack in Attack.allCases { #expect(attack.facts.perSecond > 0) }
  }

  @Test("a frame may state more than it holds") func frames() {
    #expect(AttackBytes.frame(.ping, [1, 2]) == [0x89, 0x82, 0, 0, 0, 0, 1, 2])
    #expect(
      AttackBytes.frame(.binary, [1], declared: 300) == [0x82, 0xFE, 1, 44, 0, 0, 0, 0, 1])
    #expect(
      AttackBytes.frame(.text, [], declared: 120_000)
        == [0x81, 0xFF, 0, 0, 0, 0, 0, 1, 0xD4, 0xC0, 0, 0, 0, 0])
  }
}
