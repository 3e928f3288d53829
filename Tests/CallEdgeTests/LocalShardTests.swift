import CallBus
import CallCore
import CallEdge
import CallWire
import NIOCore
import Testing

/// An edge in one process with the owner of all shards.
@Suite(.timeLimit(.minutes(1))) struct LocalShardTests {
  /// Owns all shards in the edge's process, and says yes to everything.
  private final class LocalShards: Sendable {
    let exchange = LocalExchange()
    let taken = Inbox<Command>(capacity: 10_000)

    init(epoch: UInt64) {
      for shard in 0..<8 {
        _ = exchange.serve(shard: shard, epoch: epoch) { [self] batch in
          for command in batch.commands where command.user.app == "demo" { taken.offer(command) }
          let items = batch.commands.compactMap { command in
            FakeShards.agreeing(command).map {
              EdgeItem(
                session: command.session.number, body: .reply(request: command.request, $0))
            }
          }
          // Not from here: the exchange is locked.
          Task { self.exchange.offer(items, to: batch.edge) }
        }
      }
    }

    func next(_ fits: (Command) -> Bool) async throws {
      while true {
        let commands = await taken.next(until: .now + patience)
        if commands.contains(where: fits) { return }
        if commands.isEmpty { throw TestFailure("no such command came") }
      }
    }
  }

  @Test func commandsAndRepliesNeedNoBus() async throws {
    let shards = LocalShards(epoch: 5)
    try await EdgeFixture.run(exchange: shards.exchange) { fixture in
      let client = try await fixture.client()
      try await client.attach(token: try await fixture.token("ann"), device: "phone")
      try await shards.next {
        if case .attach = $0.body { $0.device.text == "phone" } else { false }
      }
      #expect(fixture.shards.heard.depth == 0)
    }
  }

  /// The owner in this process may not have noticed yet. Who asks for the sessions must get them.
  @Test func anotherOwnerGetsWhatIsSentFromThenOn() async throws {
    let shards = LocalShards(epoch: 5)
    try await EdgeFixture.run(exchange: shards.exchange) { fixture in
      let client = try await fixture.client()
      try await client.attach(token: try await fixture.token("ann"), device: "phone")
      let user = UserKey(app: "demo", user: "ann")
      let shard = ShardHash.shard(of: user, count: 8)
      func ask(_ epoch: UInt64) {
        fixture.bus.publish(
          fixture.shards.subjects.announceRequests,
          ClusterCodec.encode(AnnounceRequest(shard: UInt32(shard), epoch: epoch)))
      }
      let isAnnouncement: (Command) -> Bool = {
        if case .attach(let attach) = $0.body { attach.announce } else { false }
      }
      // Its own owner's question is answered in the process.
      ask(5)
      try await shards.next(isAnnouncement)
      ask(6)
      _ = try await fixture.shards.next(isAnnouncement)
      try await client.channel.close().get()
      _ = try await fixture.shards.next {
        if case .sessionClosed = $0.body { true } else { false }
      }
    }
  }
}
