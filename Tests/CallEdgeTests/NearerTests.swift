import CallBus
import CallCore
import CallEdge
import CallWire
import NIOCore
import Testing

private let other = "wss://node-2.example"
private let own = "wss://node-1.example"

/// Which edge is nearer, by what the owners of shards say.
@Suite struct NearerEdgesTests {
  private let nearer = NearerEdges(own: own, shardCount: 8)
  private var shard: Int { ShardHash.shard(of: ann, count: 8) }

  @Test func anOwnerThatAnotherHasFollowedIsNotBelieved() {
    #expect(nearer.address(for: ann) == "")
    let isNews = [
      nearer.note(shard: shard, epoch: 5, other), nearer.note(shard: shard, epoch: 5, other),
      nearer.note(shard: shard, epoch: 4, ""),
    ]
    #expect(isNews == [true, false, false])
    #expect(nearer.address(for: ann) == other)
    // The owner's edge drains.
    #expect(nearer.note(shard: shard, epoch: 5, ""))
    #expect(nearer.address(for: ann) == "")
    #expect(!nearer.note(shard: 8, epoch: 5, other), "there is no such shard")
  }

  @Test(arguments: [
    own, "https://node-2.example", "node-2.example", "ws://a\r\nb", "ws://ä",
    "ws://" + String(repeating: "a", count: 252),
  ])
  func devicesAreNotSentThere(_ address: String) {
    _ = nearer.note(shard: shard, epoch: 5, other)
    #expect(nearer.note(shard: shard, epoch: 6, address), "what was said before is over")
    #expect(nearer.address(for: ann) == "")
  }
}

/// The news of a nearer edge that devices get.
@Suite(.timeLimit(.minutes(1))) struct NearerTests {
  private func announce(_ edge: EdgeFixture, _ address: String, epoch: UInt64) {
    for shard in 0..<8 as Range<UInt32> {
      edge.bus.publish(
        edge.shards.subjects.announceRequests,
        ClusterCodec.encode(AnnounceRequest(shard: shard, epoch: epoch, nearer: address)))
    }
  }

  private func attach(
    _ edge: EdgeFixture, _ device: String, wantsNearer: Bool
  ) async throws -> (client: RawClient, nearer: String) {
    let client = try await edge.socket()
    let request = AttachRequest(
      token: try edge.token("ann"), device: device, wantsNearer: wantsNearer)
    return (client, try await client.attach(request).nearer)
  }

  @Test(.edge()) func devicesThatAskLearnItWhenTheyAttachAndWhenTheirShardMoves() async throws {
    let (asking, first) = try await attach(edge, "phone", wantsNearer: true)
    let (silent, second) = try await attach(edge, "tablet", wantsNearer: false)
    #expect([first, second] == ["", ""])
    announce(edge, other, epoch: 5)
    let notice = try await asking.notice()
    #expect(notice.kind == .nearer && notice.nearer == other)
    let (late, third) = try await attach(edge, "watch", wantsNearer: true)
    #expect(third == other)
    #expect(try await attach(edge, "laptop", wantsNearer: false).nearer == "")
    // The same again is no news; then the shard's edge takes no more devices.
    announce(edge, other, epoch: 5)
    announce(edge, "", epoch: 6)
    for client in [asking, late] {
      let notice = try await client.notice()
      #expect(notice.kind == .nearer && notice.nearer == "")
    }
    // Nothing came before this.
    #expect(try await silent.ask(2, .ping) == .done)
    #expect(edge.metric("callmesh_edge_nearer_told_total") == 3)
    #expect(edge.metric("callmesh_edge_nearer_waiting") == 0)
  }

  @Test func anEdgeThatDrainsOrIsFullIsNotNamed() async throws {
    let exchange = LocalExchange()
    let changed = Inbox<Void>(capacity: 10)
    _ = exchange.serve(shard: 0, epoch: 1, edgeChanged: { changed.offer(()) }, { _ in })
    try await EdgeFixture.run(exchange: exchange) {
      $0.publicURL = own
      $0.peers.connectionsMax = 10
      $0.peers.unattachedMax = 100
    } _: { edge in
      #expect(exchange.edgeAddress == own)
      var clients: [RawClient] = []
      for _ in 0..<9 { clients.append(try await edge.client()) }
      try await edge.until("callmesh_edge_connections") { $0 == 9 }
      #expect(exchange.edgeAddress == "")
      try await clients[0].channel.close().get()
      try await edge.until("callmesh_edge_connections") { $0 == 8 }
      #expect(exchange.edgeAddress == own)
    }
    // It has drained at its end.
    #expect(await changed.next(until: .now + patience).count > 0)
    #expect(exchange.edgeAddress == "")
    // One without an address of its own never is.
    try await EdgeFixture.run(exchange: exchange) { _ in #expect(exchange.edgeAddress == "") }
  }
}
