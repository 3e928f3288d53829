import CallBus
import CallCore
import CallEdge
import CallWire
import Testing

/// The user's calls on their way from the shard to a device's socket and back, in both encodings.
@Suite(.timeLimit(.minutes(1))) struct OngoingSocketTests {
  private static let calls = [
    OngoingCall(
      call: CallID(high: 1, low: 1), callee: "ann", isPlaced: false, device: "tablet",
      deviceName: "Ann's tablet", peer: "bob", peerName: "Bob B.",
      since: Timestamp(microseconds: wallSeconds * 1_000_000))
  ]

  private func attached(_ edge: EdgeFixture, _ codec: DeviceCodec) async throws -> (
    client: RawClient, session: UInt64
  ) {
    edge.shards.follow { command in
      guard case .attach(let attach) = command.body, command.request != 0 else { return nil }
      return .attached(
        forCall: nil, ongoing: attach.ongoing.map { _ in OngoingCalls(version: 5) })
    }
    let client = try await edge.client()
    client.codec = codec
    _ = try await client.upgrade(codec.subprotocol)
    let request = AttachRequest(
      token: try await edge.token("ann"), device: "phone", wantsOngoing: true)
    client.say(1, .attach(request))
    guard case .attached(let info) = try await client.reply().1 else {
      throw TestFailure("not attached")
    }
    #expect(info.ongoing == OngoingCalls(version: 5))
    let attach = try await edge.shards.next { if case .attach = $0.body { true } else { false } }
    return (client, attach.session.number)
  }

  @Test(
    "R21: a device is shown its user's calls, and acknowledges", arguments: DeviceCodec.allCases)
  func shown(codec: DeviceCodec) async throws {
    try await EdgeFixture.run(terms: AppTerms(ongoingCalls: true)) { edge in
      let (client, session) = try await attached(edge, codec)
      let ongoing = OngoingCalls(version: 6, calls: Self.calls)
      edge.say(
        EdgeItem(session: session, body: .ongoing(OngoingCalls(version: 4))),
        EdgeItem(session: session, body: .ongoing(ongoing)))
      #expect(try await client.message() == .ongoing(ongoing))
      client.say(0, .ack([AckItem(ongoing: 6)]))
      let ack = try await edge.shards.next { if case .ack = $0.body { true } else { false } }
      #expect(ack.callee == UserKey(app: "demo", user: "ann") && ack.user == ack.callee)
      #expect(
        ack.body == .ack([Acknowledgement(call: Acknowledgement.ongoingID, version: 6)]))
    }
  }

  @Test("R10: a new owner learns what the device sees, and a former one shows it nothing more")
  func announced() async throws {
    try await EdgeFixture.run(terms: AppTerms(ongoingCalls: true)) { edge in
      let (client, session) = try await attached(edge, .json)
      let ongoing = OngoingCalls(version: 6, calls: Self.calls)
      edge.say(EdgeItem(session: session, body: .ongoing(ongoing)))
      #expect(try await client.message() == .ongoing(ongoing))
      let shard = ShardHash.shard(of: UserKey(app: "demo", user: "ann"), count: 8)
      edge.bus.publish(
        edge.shards.subjects.announceRequests,
        ClusterCodec.encode(AnnounceRequest(shard: UInt32(shard), epoch: 7)))
      let command = try await edge.shards.next {
        if case .attach(let attach) = $0.body { attach.announce } else { false }
      }
      guard case .attach(let attach) = command.body else { return }
      #expect(attach.ongoing == OngoingMark(version: 7 << 20, showsCalls: true))
      let end = OngoingCalls(version: 7 << 20 | 1)
      edge.say(
        EdgeItem(session: session, body: .ongoing(OngoingCalls(version: 8, calls: []))),
        EdgeItem(session: session, body: .ongoing(end)))
      #expect(try await client.message() == .ongoing(end))
    }
  }
}
