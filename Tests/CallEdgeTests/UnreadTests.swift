import CallCore
import CallEdge
import CallWire
import NIOCore
import Testing

/// Peers that send and do not read, or do not end what they begin.
@Suite(.timeLimit(.minutes(2))) struct UnreadTests {
  private func requests(_ count: Int) -> String {
    String(repeating: RawClient.text("GET", "/healthz"), count: count)
  }

  private func message(_ count: Int, final: Bool = true) -> [UInt8] {
    clientFrame(2, [UInt8](repeating: 65, count: count), final: final)
  }

  @Test(.edge { $0.peers.pipelinedRequestsMax = 8 }) func tooManyRequestsAhead() async throws {
    // The first waits for its shard, the others for the first.
    edge.shards.follow { $0.isQuery ? nil : FakeShards.agreeing($0) }
    let path = "/v1/calls/bob/11111111-2222-3333-4444-555555555555"
    let request = RawClient.text("GET", path, token: try edge.token("ann", device: "phone"))
    let good = try await edge.client()
    good.send(request + requests(7))
    _ = try await edge.shards.next(\.isQuery)
    #expect(edge.limited(.pipelinedRequests) == 0)
    try await edge.until("callmesh_edge_http_requests_waiting") { $0 == 8 }
    let client = try await edge.client()
    client.send(request + requests(8))
    try await client.end()
    #expect(edge.limited(.pipelinedRequests) == 1)
    try await good.channel.close()
    try await edge.until("callmesh_edge_http_requests_waiting") { $0 == 0 }
  }

  /// A client that does not read gets one answer at a time, and the next request is not read. The answers were kept in
  /// memory before, without end.
  @Test(
    .stillEdge {
      $0.eventLoops = 1
      // Two lots that meet are no reason to end the connection here.
      $0.peers.pipelinedRequestsMax = 10_000
    })
  func answersThatAreNotRead() async throws {
    let client = try await edge.client()
    try await client.channel.setOption(.socketOption(.so_rcvbuf), value: 4096).get()
    try await client.stopReading()
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
      try await client.channel.writeAndFlush(ByteBuffer(string: requests(600))).get()
      let now = try await answered()
      if now - before < 600 { break }
      before = now
    }
    #expect(rounds < 5000, "it reads on")
    // Nothing that it does gives it more time. The kernel may still take a few answers, now and then, which does.
    edge.pass(.seconds(6))
    let then = try await answered()
    client.send(requests(60))
    #expect(try await answered() < then + 60, "it reads on")
    #expect(edge.limited(.unreadAnswer) == 0)
    for _ in 1...20 where edge.limited(.unreadAnswer) == 0 {
      edge.pass(.seconds(5))
      _ = try await answered()
    }
    try await probe.channel.close().get()
    try await edge.connectionsEnd()
    #expect(edge.limited(.unreadAnswer) == 1)
    try? await client.channel.close().get()
  }

  @Test(.stillEdge(), arguments: [false, true]) func pingsWithoutEnd(attached: Bool) async throws {
    let client = attached ? try await edge.device("ann", "phone").client : try await edge.socket()
    let ping = clientFrame(9, Array("hello".utf8))
    client.send([UInt8](repeatElement(ping, count: 2000).joined()))
    var pongs = 0
    var frame = try await client.frame()
    while frame.closeCode == nil {
      #expect(frame.opcode == 10 && frame.payload == Array("hello".utf8))
      pongs += 1
      frame = try await client.frame()
    }
    #expect(frame.closeCode == 4006)
    // 60 commands at once, of which each is ten pings.
    #expect(pongs <= 600)
    #expect(edge.limited(.controlFrames) >= 200)
  }

  @Test(.stillEdge()) func pongsWithoutEnd() async throws {
    let client = try await edge.socket()
    client.send([UInt8](repeatElement(clientFrame(10, []), count: 2000).joined()))
    #expect(try await client.frame().closeCode == 4006)
  }

  /// If there are more pings than there may be pongs under way, the last one is answered.
  @Test(.stillEdge { $0.commandsBurst = 10_000 }) func pongsThatAreNotTaken() async throws {
    let client = try await edge.socket()
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

  @Test(.edge()) func beforeTheAttachMessagesAreSmall() async throws {
    let client = try await edge.socket()
    client.send(message(40_000))
    let error = try await client.reply().reply.error
    #expect(error?.code == .frameTooLarge)
    #expect(error?.message == "Before the attach a frame is at most 32768 bytes.")
  }

  @Test(.stillEdge(), arguments: [true, false])
  func aMessageThatIsNeverWhole(fragmented: Bool) async throws {
    let (client, _) = try await edge.device("ann", "phone")
    let message = message(1000, final: !fragmented)
    client.send(fragmented ? message : Array(message[..<500]))
    try await edge.until("callmesh_edge_unfinished_bytes") { $0 > 0 }
    // Bytes that go on coming do not give it more time.
    edge.pass(.seconds(20))
    client.send(fragmented ? clientFrame(0, [65], final: false) : [65])
    edge.pass(.seconds(11))
    #expect(try await client.closeCode() == 4010)
    #expect(edge.limited(.messageTimeout) == 1)
    try? await client.channel.close().get()
    try await edge.connectionsEnd()
    #expect(edge.metric("callmesh_edge_unfinished_bytes") == 0)
  }

  @Test(.stillEdge()) func messagesThatFollowEachOtherHaveTimeEach() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    let message = clientFrame(2, client.codec.encode(ClientFrame(id: 5, command: .ping)))
    client.send(Array(message[..<4]))
    try await edge.until("callmesh_edge_unfinished_bytes") { $0 == 4 }
    for _ in 0..<5 {
      edge.pass(.seconds(20))
      // The end of one and the beginning of the next.
      client.send(Array(message[4...] + message[..<4]))
      #expect(try await client.reply().id == 5)
    }
    #expect(edge.limited(.messageTimeout) == 0)
  }

  @Test(
    .edge {
      $0.eventLoops = 1
      $0.peers.unfinishedBytesPerLoop = 200_000
    })
  func whoHoldsMostIsCutOff() async throws {
    var clients: [RawClient] = []
    for (index, count) in [60_000, 120_000, 60_000].enumerated() {
      let (client, _) = try await edge.device("ann", "d\(index)")
      try await client.channel.writeAndFlush(ByteBuffer(bytes: message(130_000)[..<count])).get()
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

  @Test(
    .edge {
      $0.eventLoops = 1
      $0.peers.outboundBytesMax = 1 << 30
      $0.peers.outboundBytesPerLoop = 4 << 20
    })
  func readersThatAreSlowTogether() async throws {
    let (slow, session) = try await edge.device("ann", "phone")
    let (good, _) = try await edge.device("bob", "phone")
    try await slow.stopReading()
    edge.flood(session, items: 600)
    #expect(try await edge.shards.next(\.isEnd).session.number == session)
    #expect(edge.limited(.outboundBytes) == 1)
    try await good.ask(3, .ping)
    try? await slow.channel.close().get()
  }

  /// A session that closes reads on for the peer's close frame only, and not without end.
  @Test(.stillEdge { $0.peers.lingerBytesMax = 100_000 })
  func whoGoesOnSendingAfterTheCloseIsCutOff() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    try await client.stopReading()
    client.say(2, .detach)
    for _ in 0..<2000 { client.send(message(1000)) }
    try await edge.connectionsEnd()
    #expect(edge.limited(.lingerBytes) == 1)
    try? await client.channel.close().get()
  }
}

/// A client that is sent away reads why, also when it was about to send, or has not read for long. (One that read
/// slowly: `EdgeEndTests`.)
@Suite(.timeLimit(.minutes(2))) struct LingerTests {
  private func message(_ count: Int) -> [UInt8] {
    clientFrame(2, [UInt8](repeating: 65, count: count))
  }

  /// It reads only when all is sent.
  @Test(.edge(), arguments: [2 << 20, 8 << 20])
  func aSenderOfTooMuchReadsTheReason(count: Int) async throws {
    let (client, session) = try await edge.device("ann", "phone")
    try await client.stopReading()
    try await client.channel.writeAndFlush(ByteBuffer(bytes: message(count))).get()
    try await client.readAgain()
    #expect(try await client.closeCode() == 1009)
    #expect(try await edge.shards.next(\.isEnd).session.number == session)
    try? await client.channel.close().get()
    try await edge.connectionsEnd()
  }

  @Test(.edge { $0.peers.lingerBytesMax = 4 << 20 })
  func whoNeverStopsSendingIsCutOff() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    client.send(message(64 << 20))
    try await client.end()
  }

  @Test(.stillEdge(), arguments: [false, true])
  func whoNeitherReadsNorClosesIsCutOff(isFlooded: Bool) async throws {
    let (client, session) = try await edge.device("ann", "phone")
    try await client.stopReading()
    if isFlooded {
      edge.flood(session)
    } else {
      // The beginning of a message that is too large, and nothing more.
      client.send(Array(message(2 << 20)[..<1000]))
    }
    _ = try await edge.shards.next(\.isEnd)
    #expect(edge.metric("callmesh_edge_connections") == 1)
    edge.pass(.seconds(11))
    try await edge.connectionsEnd()
    try? await client.channel.close().get()
  }

  @Test(.edge()) func aBodyThatIsTooLargeIsRefusedAlsoWhereTheClientReadsLast() async throws {
    let client = try await edge.client()
    try await client.stopReading()
    let body = String(repeating: "x", count: 4 << 20)
    let text = RawClient.text("POST", "/v1/devices", token: try edge.token("ann"), body: body)
    try await client.channel.writeAndFlush(ByteBuffer(string: text)).get()
    try await client.readAgain()
    #expect(try await client.response().outcome == (413, 101))
    try? await client.channel.close().get()
  }
}
