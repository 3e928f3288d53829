import CallBus
import CallCore
import CallEdge
import CallWire
import NIOCore
import Testing

private let id = "11111111-2222-3333-4444-555555555555"

/// Peers that send and do not read, or do not end what they begin.
@Suite(.timeLimit(.minutes(2))) struct UnreadTests {
  private func requests(_ count: Int, _ path: String) -> String {
    String(repeating: RawClient.text("GET", path), count: count)
  }

  private func stopReading(_ client: RawClient) async throws {
    try await client.channel.setOption(.allowRemoteHalfClosure, value: true).get()
    try await client.channel.setOption(.autoRead, value: false).get()
  }

  // MARK: HTTP

  @Test func tooManyRequestsAhead() async throws {
    try await EdgeFixture.run {
      $0.peers.pipelinedRequestsMax = 8
    } _: { edge in
      // The first waits for its shard, the others for the first.
      edge.shards.follow { command in
        if case .call(_, .query) = command.body { nil } else { FakeShards.agreeing(command) }
      }
      let token = try await edge.token("ann", device: "phone")
      let request = RawClient.text("GET", "/v1/calls/bob/\(id)", token: token)
      let good = try await edge.client()
      good.send(request + requests(7, "/healthz"))
      _ = try await edge.shards.next { if case .call(_, .query) = $0.body { true } else { false } }
      #expect(edge.limited(.pipelinedRequests) == 0)
      try await edge.until("callmesh_edge_http_requests_waiting") { $0 == 8 }
      let client = try await edge.client()
      client.send(request + requests(8, "/healthz"))
      try await client.end()
      #expect(edge.limited(.pipelinedRequests) == 1)
      try await good.channel.close()
      try await edge.until("callmesh_edge_http_requests_waiting") { $0 == 0 }
    }
  }

  /// A client that does not read gets one answer at a time, and the next request is not read. The answers were kept in
  /// memory before, without end.
  @Test func answersThatAreNotRead() async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) {
      $0.eventLoops = 1
      // Two lots that meet are no reason to end the connection here.
      $0.peers.pipelinedRequestsMax = 10_000
    } _: { edge in
      let client = try await edge.client()
      try await client.channel.setOption(.socketOption(.so_rcvbuf), value: 4096).get()
      try await stopReading(client)
      let probe = try await edge.client()
      var probes = 0.0
      // How many requests of the client the edge has answered, once it has answered no more for so many turns of
      // its loop that what had arrived would have been read.
      func answered() async throws -> Double {
        var (last, quiet) = (-1.0, 0)
        while quiet < 20 {
          #expect(try await probe.request("GET", "/healthz").status == 200)
          probes += 1
          let now = edge.metric("callmesh_edge_http_requests_total") - probes
          quiet = now == last ? quiet + 1 : 0
          last = now
        }
        return last
      }
      var (before, rounds) = (try await answered(), 0)
      while rounds < 5000 {
        rounds += 1
        try await client.channel.writeAndFlush(ByteBuffer(string: requests(600, "/healthz"))).get()
        let now = try await answered()
        if now - before < 600 { break }
        before = now
      }
      #expect(rounds < 5000, "it reads on")
      // Nothing that it does gives it more time.
      time.pass(.seconds(6))
      let then = try await answered()
      client.send(requests(60, "/healthz"))
      #expect(try await answered() == then, "it reads on")
      #expect(edge.limited(.unreadAnswer) == 0)
      time.pass(.seconds(5))
      try await probe.channel.close().get()
      try await edge.connectionsEnd()
      #expect(edge.limited(.unreadAnswer) == 1)
      try? await client.channel.close().get()
    }
  }

  // MARK: Pings

  @Test(arguments: [false, true]) func pingsWithoutEnd(attached: Bool) async throws {
    try await EdgeFixture.run(at: StillTime()) { edge in
      let client: RawClient
      if attached {
        client = try await edge.device("ann", "phone").client
      } else {
        client = try await edge.client()
        try await client.upgrade()
      }
      let ping = clientFrame(9, Array("hello".utf8))
      client.send([UInt8](repeatElement(ping, count: 2000).joined()))
      var pongs = 0
      while true {
        let frame = try await client.frame()
        if let code = frame.closeCode {
          #expect(code == 4006)
          break
        }
        #expect(frame.opcode == 10 && frame.payload == Array("hello".utf8))
        pongs += 1
      }
      // 60 commands at once, of which each is ten pings.
      #expect(pongs <= 600)
      #expect(edge.limited(.controlFrames) >= 200)
    }
  }

  @Test func pongsWithoutEnd() async throws {
    try await EdgeFixture.run(at: StillTime()) { edge in
      let client = try await edge.client()
      try await client.upgrade()
      client.send([UInt8](repeatElement(clientFrame(10, []), count: 2000).joined()))
      #expect(try await client.frame().closeCode == 4006)
    }
  }

  /// If there are more pings than there may be pongs under way, the last one is answered.
  @Test func pongsThatAreNotTaken() async throws {
    try await EdgeFixture.run(at: StillTime()) {
      $0.commandsBurst = 10_000
    } _: { edge in
      let client = try await edge.client()
      try await client.upgrade()
      let pings = (0..<1000).map { clientFrame(9, Array("\($0)".utf8)) }
      client.send([UInt8](pings.joined()))
      var pongs = 0
      while try await client.frame().payload != Array("999".utf8) { pongs += 1 }
      #expect(pongs < 999)
      #expect(edge.limited(.pongsWaiting) > 0)
      // Where they are taken each is answered.
      for number in 0..<50 {
        client.send(clientFrame(9, Array("again \(number)".utf8)))
        #expect(try await client.frame().payload == Array("again \(number)".utf8))
      }
    }
  }

  // MARK: Messages that are not whole

  @Test func beforeTheAttachMessagesAreSmall() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      try await client.upgrade()
      client.send(clientFrame(2, [UInt8](repeating: 65, count: 40_000)))
      let (_, reply) = try await client.reply()
      guard case .error(let error) = reply else { throw TestFailure("\(reply)") }
      #expect(error.code == .frameTooLarge)
      #expect(error.message == "Before the attach a frame is at most 32768 bytes.")
    }
  }

  @Test(arguments: [true, false]) func aMessageThatIsNeverWhole(fragmented: Bool) async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) { edge in
      let (client, _) = try await edge.device("ann", "phone")
      let message = clientFrame(2, [UInt8](repeating: 65, count: 1000), final: !fragmented)
      client.send(fragmented ? message : Array(message[..<500]))
      try await edge.until("callmesh_edge_unfinished_bytes") { $0 > 0 }
      // Bytes that go on coming do not give it more time.
      time.pass(.seconds(20))
      client.send(fragmented ? clientFrame(0, [65], final: false) : [65])
      time.pass(.seconds(11))
      while true {
        let frame = try await client.frame()
        if let code = frame.closeCode {
          #expect(code == 4010)
          break
        }
      }
      #expect(edge.limited(.messageTimeout) == 1)
      try? await client.channel.close().get()
      try await edge.connectionsEnd()
      #expect(edge.metric("callmesh_edge_unfinished_bytes") == 0)
    }
  }

  @Test func messagesThatFollowEachOtherHaveTimeEach() async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) { edge in
      let (client, _) = try await edge.device("ann", "phone")
      let message = clientFrame(2, client.codec.encode(ClientFrame(id: 5, command: .ping)))
      client.send(Array(message[..<4]))
      try await edge.until("callmesh_edge_unfinished_bytes") { $0 == 4 }
      for _ in 0..<5 {
        time.pass(.seconds(20))
        // The end of one and the beginning of the next.
        client.send(Array(message[4...] + message[..<4]))
        // The edge's own pings come in between.
        while try await client.frame().opcode != 2 {}
      }
      #expect(edge.limited(.messageTimeout) == 0)
    }
  }

  @Test func whoHoldsMostIsCutOff() async throws {
    try await EdgeFixture.run {
      $0.eventLoops = 1
      $0.peers.unfinishedBytesPerLoop = 200_000
    } _: { edge in
      var clients: [RawClient] = []
      for (index, count) in [60_000, 120_000, 60_000].enumerated() {
        let (client, _) = try await edge.device("ann", "d\(index)")
        let message = clientFrame(2, [UInt8](repeating: 65, count: 130_000))
        try await client.channel.writeAndFlush(ByteBuffer(bytes: message[..<count])).get()
        clients.append(client)
      }
      try await clients[1].end()
      #expect(edge.limited(.unfinishedBytes) == 1)
      // The others end what they have begun: nonsense, but whole.
      for index in [0, 2] {
        clients[index].send([UInt8](repeating: 0, count: 130_000 - 60_000 + 14))
        _ = try await clients[index].errorReply()
      }
    }
  }

  // MARK: Slow readers

  @Test func readersThatAreSlowTogether() async throws {
    try await EdgeFixture.run {
      $0.eventLoops = 1
      $0.peers.outboundBytesMax = 1 << 30
      $0.peers.outboundBytesPerLoop = 4 << 20
    } _: { edge in
      let (slow, session) = try await edge.device("ann", "phone")
      let (good, _) = try await edge.device("bob", "phone")
      try await stopReading(slow)
      let text = String(repeating: "x", count: 60_000)
      let item = EdgeItem(
        session: session,
        body: .delivery(
          Delivery(
            call: CallID(high: 1, low: 2), callee: "ann", version: 1,
            at: Timestamp(microseconds: 0),
            event: .invite(
              Invite(
                caller: Party(user: "bob", device: "phone"),
                deadline: Timestamp(microseconds: 0), description: text)))))
      for _ in 0..<600 { edge.say(item) }
      _ = try await edge.shards.next {
        if case .sessionClosed = $0.body { $0.session.number == session } else { false }
      }
      #expect(edge.limited(.outboundBytes) == 1)
      good.say(3, .ping)
      #expect(try await good.reply().id == 3)
      try? await slow.channel.close().get()
    }
  }

  /// A session that closes reads on for the peer's close frame only, and not without end.
  @Test func whoGoesOnSendingAfterTheCloseIsCutOff() async throws {
    try await EdgeFixture.run(at: StillTime()) {
      $0.peers.lingerBytesMax = 100_000
    } _: { edge in
      let (client, _) = try await edge.device("ann", "phone")
      try await stopReading(client)
      client.say(2, .detach)
      let frame = clientFrame(2, [UInt8](repeating: 65, count: 1000))
      for _ in 0..<2000 { client.send(frame) }
      try await edge.connectionsEnd()
      #expect(edge.limited(.lingerBytes) == 1)
      try? await client.channel.close().get()
    }
  }
}
