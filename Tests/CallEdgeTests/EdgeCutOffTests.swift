import CallBus
import CallCore
import CallEdge
import CallWire
import Testing

/// An edge that no shard answers any more. It has sockets, it even has its connection to the bus.
@Suite struct EdgeCutOffTests {
  @Test(.timeLimit(.minutes(1)))
  func itsDevicesAreToldToTryElsewhereAndMayStay() async throws {
    try await EdgeFixture.run {
      $0.cutOffAfter = .milliseconds(400)
    } _: { edge in
      let (client, _) = try await edge.device("ann", "phone")
      edge.shards.follow { _ in nil }
      while true {
        if case .notice(let notice) = try await client.message() {
          #expect(notice.kind == .goAway)
          break
        }
      }
      #expect(edge.node.readiness.missing.first == "the cluster does not answer the edge")

      // The cluster is back: the device that stayed is served, and others may come.
      edge.shards.follow(FakeShards.agreeing)
      while edge.node.readiness.missing.first?.contains("does not answer") == true {
        await Task.yield()
      }
      client.say(2, .call(CallAddress(call: CallID(high: 1, low: 2)), .query))
      #expect(try await client.reply().id == 2)
      _ = try await edge.device("bob", "phone")
    }
  }
}
