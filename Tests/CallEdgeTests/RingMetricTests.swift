import CallCore
import CallWire
import Testing

/// `callmesh_ring_seconds`: from a place's arrival to the last invite's leaving.
@Suite(.timeLimit(.minutes(2))) struct RingMetricTests {
  private let call = CallID(high: 5, low: 6)

  private func invite(_ session: UInt64, since: Timestamp?) -> EdgeItem {
    EdgeItem(
      session: session,
      body: .delivery(
        Delivery(
          call: call, callee: "bob", version: 1, at: Timestamp(microseconds: 1),
          event: .invite(
            Invite(caller: Party(user: "ann", device: "phone"), deadline: .distantFuture)))),
      ringsSince: since)
  }

  @Test("a place is stamped with its arrival, and its repetition is still the same command")
  func placeIsStamped() async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) { edge in
      edge.shards.follow { if case .place = $0.body { nil } else { FakeShards.agreeing($0) } }
      let (client, _) = try await edge.device("ann", "phone")
      let place = ClientCommand.place(
        CallAddress(callee: "bob", call: call), PlaceRequest(call: call))
      client.say(2, place)
      let command = try await edge.shards.next { if case .place = $0.body { true } else { false } }
      guard case .place(let request) = command.body else { return }
      #expect(request.receivedAt == Timestamp(microseconds: wallSeconds * 1_000_000))
      time.pass(.milliseconds(3))
      client.say(2, place)
      client.say(3, .call(CallAddress(callee: "bob", call: call), .query))
      guard case .reply(3, .call) = try await client.message() else {
        Issue.record("the repetition was answered")
        return
      }
    }
  }

  @Test("only what says since when it rings is measured, and never below zero")
  func measured() async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) { edge in
      let (client, session) = try await edge.device("bob", "phone")
      let begin = wallSeconds * 1_000_000
      time.pass(.milliseconds(8))
      edge.say(invite(session, since: nil))
      _ = try await client.message()
      edge.say(invite(session, since: Timestamp(microseconds: begin)))
      _ = try await client.message()
      edge.say(invite(session, since: Timestamp(microseconds: begin + 1_000_000)))
      _ = try await client.message()
      // A device has its invite a moment before the edge has noted it, and this behind that.
      client.say(2, .call(CallAddress(callee: "bob", call: call), .query))
      _ = try await client.message()
      #expect(edge.metric("callmesh_ring_seconds_count") == 2)
      #expect(edge.metric("callmesh_ring_seconds_sum") == 0.008001)
    }
  }
}
