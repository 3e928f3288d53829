import CallAuth
import CallBus
import CallCore
import CallEdge
import CallWire
import Testing

/// By what right commands speak: coordinators check it, so each has to carry it.
@Suite(.timeLimit(.minutes(2))) struct CredentialTests {
  private static let ticket = SessionTicket(high: 1, low: 2, expires: 3, issued: 4)
  private static let call = CallID(high: 5, low: 6)

  private static let script: FakeShards.Script = { command in
    if case .attach(let attach) = command.body {
      return attach.announce ? nil : .attached(forCall: nil, ticket: ticket)
    }
    return FakeShards.agreeing(command)
  }

  @Test func tokenThenTicket() async throws {
    try await EdgeFixture.run { edge in
      edge.shards.follow(Self.script)
      let token = try await edge.token("ann")
      let client = try await edge.client()
      _ = try await client.attach(token: token, device: "phone")
      let attach = try await edge.shards.next { _ in true }
      #expect(attach.credential == .token(token))
      client.say(
        2, .place(CallAddress(callee: "bob", call: Self.call), PlaceRequest(call: Self.call)))
      client.say(3, .ack([AckItem(call: CallAddress(callee: "bob", call: Self.call), version: 1)]))
      client.say(4, .calls)
      for _ in 0..<10 {
        let command = try await edge.shards.next { _ in true }
        #expect(command.credential == .ticket(Self.ticket), "\(command.body)")
      }
      // The sessions and the calls that are announced to a new owner, and the end of both.
      let done = Inbox<AnnounceDone>(capacity: 10)
      let shards = [UserKey(app: "demo", user: "ann"), UserKey(app: "demo", user: "bob")].map {
        ShardHash.shard(of: $0, count: edge.configuration.shardCount)
      }
      for shard in shards {
        _ = try edge.bus.subscribe(edge.shards.subjects.announceDone(shard: shard)) {
          if let said = try? ClusterCodec.announceDone($0.bytes) { done.offer(said) }
        }
        edge.bus.publish(
          edge.shards.subjects.announceRequests,
          ClusterCodec.encode(AnnounceRequest(shard: UInt32(shard), epoch: 1, number: 1)))
      }
      let said = try #require(await done.next(until: .now + patience).first)
      let secret = try #require(said.secret)
      #expect(EdgeNumber.of(secret: secret.high, secret.low) == edge.node.incarnation)
      let announced = try await edge.shards.next {
        if case .attach(let attach) = $0.body { attach.announce } else { false }
      }
      #expect(announced.credential == .ticket(Self.ticket))
      client.say(5, .detach)
      let closed = try await edge.shards.next {
        if case .sessionClosed = $0.body { true } else { false }
      }
      #expect(closed.credential == .ticket(Self.ticket))
      let gone = try await edge.shards.next {
        if case .callerGone = $0.body { true } else { false }
      }
      #expect(gone.credential == .ticket(Self.ticket))
    }
  }

  @Test func tokenOfTheHandshake() async throws {
    try await EdgeFixture.run { edge in
      let token = try await edge.token("ann", device: "phone")
      let client = try await edge.client()
      _ = try await client.upgrade(token: token)
      client.say(1, .attach(AttachRequest()))
      _ = try await client.reply()
      let attach = try await edge.shards.next { _ in true }
      #expect(attach.credential == .token(token))
      // Its coordinator gave it no ticket.
      client.say(2, .unregister(nil))
      #expect(try await edge.shards.next { _ in true }.credential == .none)
    }
  }

  @Test func requestsShowWhatTheyCameWith() async throws {
    try await EdgeFixture.run { edge in
      let token = try await edge.token("bob")
      let client = try await edge.client()
      _ = try await client.request(
        "GET", "/v1/calls/bob/\(Self.call)?device=phone", token: token)
      #expect(try await edge.shards.next { _ in true }.credential == .token(token))
      let text = try #require(edge.pushKeys.current).mint(
        PushCapability(
          app: "demo", user: "bob", device: "phone", call: Self.call.bytes,
          expires: wallSeconds + 60))
      _ = try await client.request(
        "POST", "/v1/calls/bob/\(Self.call)/busy", headers: ["Authorization: CallmeshPush \(text)"])
      #expect(try await edge.shards.next { _ in true }.credential == .pushCapability(text))
      _ = try await client.request(
        "POST", "/v1/calls/bob/\(Self.call)/busy", body: #"{"capability":"\#(text)"}"#)
      #expect(try await edge.shards.next { _ in true }.credential == .pushCapability(text))
    }
  }
}
