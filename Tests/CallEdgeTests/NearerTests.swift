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
  private let ann = UserKey(app: "demo", user: "ann")
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

  private func attach(_ edge: EdgeFixture, _ device: String, wantsNearer: Bool) async throws
    -> (client: RawClient, info: AttachedInfo)
  {
    let client = try await edge.client()
    _ = try await client.upgrade(client.codec.subprotocol)
    let request = AttachRequest(
      token: try await edge.token("ann"), device: device, wantsNearer: wantsNearer)
    client.say(1, .attach(request))
    guard case .attached(let info) = try await client.reply().1 else {
      throw TestFailure("not attached")
    }
    return (client, info)
  }

  /// Announcements have been taken when the sessions are announced.
  private func untilTaken(_ edge: EdgeFixture, epoch: UInt64) async throws {
    _ = try await edge.shards.next {
      if case .attach(let attach) = $0.body { attach.announce } else { false }
    }
  }

  @Test func devicesThatAskLearnItWhenTheyAttachAndWhenTheirShardMoves() async throws {
    try await EdgeFixture.run { edge in
      let (asking, first) = try await attach(edge, "phone", wantsNearer: true)
      let (silent, second) = try await attach(edge, "tablet", wantsNearer: false)
      #expect([first.nearer, second.nearer] == ["", ""])
      announce(edge, other, epoch: 5)
      guard case .notice(let notice) = try await asking.message() else {
        throw TestFailure("no notice")
      }
      #expect(notice.kind == .nearer && notice.nearer == other)
      let (late, third) = try await attach(edge, "watch", wantsNearer: true)
      #expect(third.nearer == other)
      #expect(try await attach(edge, "laptop", wantsNearer: false).info.nearer == "")
      // The same again is no news; then the shard's edge takes no more devices.
      announce(edge, other, epoch: 5)
      announce(edge, "", epoch: 6)
      for client in [asking, late] {
        guard case .notice(let notice) = try await client.message() else {
          throw TestFailure("no notice")
        }
        #expect(notice.kind == .nearer && notice.nearer == "")
      }
      // Nothing came before this.
      silent.say(2, .ping)
      #expect(try await silent.message() == .reply(id: 2, .done))
      #expect(edge.metric("callmesh_edge_nearer_told_total") == 3)
      #expect(edge.metric("callmesh_edge_nearer_waiting") == 0)
    }
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
  }

  @Test func anEdgeWithoutAnAddressOfItsOwnIsNeverNamed() async throws {
    let exchange = LocalExchange()
    try await EdgeFixture.run(exchange: exchange) { _ in #expect(exchange.edgeAddress == "") }
  }
}
