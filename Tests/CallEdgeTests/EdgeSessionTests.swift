import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import NIOCore
import Testing

private let call = CallID(high: 1, low: 2)
private let query = ClientCommand.call(CallAddress(call: call), .query)

/// An edge with real sockets, a bus in memory and shards that follow a script.
@Suite struct EdgeSessionTests {
  @Test(.edge()) func deliveriesReachTheirSessions() async throws {
    var phones: [(client: RawClient, session: UInt64)] = []
    for user in ["ann", "bob", "eve"] { phones.append(try await edge.device(user, "phone")) }
    let stop = Delivery.Event.stop(Stop(reason: .cancelled))
    edge.say(
      .delivery(stop, to: 1 << 40), .delivery(stop, to: phones[0].session, version: 1),
      .delivery(stop, to: phones[1].session, version: 2),
      .delivery(stop, to: phones[2].session, version: 3))
    for (version, phone) in zip(UInt64(1)..., phones) {
      guard case .delivery(let delivery) = try await phone.client.message() else {
        throw TestFailure("no delivery")
      }
      #expect(delivery.version == version)
    }
    #expect(edge.metric("callmesh_edge_deliveries_unknown_total") == 1)
    #expect(edge.metric("callmesh_edge_deliveries_total") == 3)
  }

  /// The name of a session that its device got is the one in the log.
  @Test func theLogNamesSessionsAsTheirDevicesDo() async throws {
    let log = Inbox<String>(capacity: 1000)
    let keep: @Sendable (String) -> Void = { _ = log.offer($0) }
    try await EdgeFixture.run(log: keep) { edge in
      let info = try await edge.socket().attach(
        AttachRequest(token: try edge.token("ann"), device: "phone"))
      #expect(info.session.hasPrefix(String(edge.node.incarnation, radix: 16) + "-"))
      var lines: [String] = []
      while !lines.contains(where: { $0.contains("session begins") }) {
        let more = await log.next(until: .now + patience)
        guard !more.isEmpty else { throw TestFailure("the session is not in the log") }
        lines += more
      }
      let begins = lines.filter { $0.contains("session begins") }
      #expect(begins.count == 1)
      #expect(begins.first?.contains(" session=\(info.session) ") == true, "\(begins)")
    }
  }

  @Test(.edge()) func headerIsCheckedBeforeTheUpgrade() async throws {
    let good = try edge.token("ann", device: "phone", lifetimeSeconds: 60)
    for (token, code) in [
      ("nonsense", 200), ("", 200), (good + "x", 200), (try edge.expiredToken(), 201),
    ] {
      let client = try await edge.client()
      #expect(try await client.upgrade(token: token).outcome == (401, code))
      try await client.end()
    }
    let client = try await edge.client()
    let response = try await client.upgrade(token: good)
    #expect(response.status == 101)
    #expect(response.headers["sec-websocket-protocol"] == "callmesh.v1.pb")
    #expect(response.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    #expect(try await client.attach(AttachRequest()).device == "phone")
  }

  @Test(.edge()) func subprotocolMustBeKnown() async throws {
    for offered in [nil, "chat", "callmesh.v2.pb"] {
      let client = try await edge.client()
      #expect(try await client.upgrade(offered).outcome == (400, 108))
      try await client.end()
    }
    let response = try await edge.client().upgrade("chat, callmesh.v1.json , callmesh.v1.pb")
    #expect(response.headers["sec-websocket-protocol"] == "callmesh.v1.json")
  }

  /// Frames that come with the request itself are not lost in the change of protocols.
  @Test(.edge()) func framesSentWithTheUpgradeAreRead() async throws {
    let client = try await edge.client()
    let frame = clientFrame(9, Array("early".utf8))
    let response = try await client.upgrade(
      extra: String(decoding: frame.map { $0 & 0x7f }, as: UTF8.self))
    #expect(response.status == 101)
    // Its first byte lost its top bit to be text: not final, so a violation. It was read.
    #expect(try await client.frame().closeCode == 1002)
  }

  @Test(.edge { $0.resendAfter = .milliseconds(50) })
  func unansweredCommandIsSentAgain() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    edge.shards.follow { _ in nil }
    client.say(2, query)
    let first = try await edge.shards.next(\.isQuery)
    edge.shards.follow(FakeShards.agreeing)
    #expect(try await edge.shards.next(\.isQuery) == first)
    #expect(try await client.reply().id == 2)
    #expect(edge.metric("callmesh_edge_commands_retried_total") >= 1)
  }

  @Test(
    .edge {
      $0.resendAfter = .milliseconds(50)
      $0.commandTimeout = .milliseconds(200)
    })
  func commandWithoutAnyAnswerEndsInTryAgain() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    edge.shards.follow { _ in nil }
    #expect(try await client.ask(2, query).code == .tryAgain)
    #expect(edge.metric("callmesh_edge_commands_pending") == 0)
    // The same for an attach: the connection may try again.
    let other = try await edge.socket()
    let attach = AttachRequest(token: try edge.token("bob"), device: "phone")
    #expect(try await other.ask(1, .attach(attach)).code == .tryAgain)
    edge.shards.follow(FakeShards.agreeing)
    try await other.attach(attach, as: 2)
  }

  /// So that its command is not taken for unanswered, and retransmitted for ever.
  @Test(.edge(), arguments: DeviceCodec.allCases)
  func aFrameThatIsTooLargeIsRefusedUnderItsID(codec: DeviceCodec) async throws {
    let (client, _) = try await edge.device("ann", "phone", codec: codec)
    let large = ClientCommand.place(call, description: String(repeating: "x", count: 900_000))
    #expect(try await client.ask(33, large).code == .frameTooLarge)
    #expect(try await client.ask(34, .ping) == .done)
  }

  /// Before its attach no client may send as much in JSON as an attached device may.
  @Test(.edge()) func jsonMayBeLongerForItsEscapes() async throws {
    let stranger = try await edge.socket(.json)
    stranger.send(
      clientFrame(
        1, Array(#"{"id":3,"attach":{"token":""#.utf8) + [UInt8](repeating: 65, count: 131_072)))
    #expect(try await stranger.errorReply() == (3, .frameTooLarge))
    let (client, _) = try await edge.device("ann", "phone", codec: .json)
    let escapes = String(repeating: "\u{1}", count: 65_536)
    try await client.ask(2, .place(call, description: escapes))
    #expect(try await edge.shards.nextPlace().setup.description == escapes)
  }

  @Test(.edge()) func badFramesDisturbNobody() async throws {
    let (good, _) = try await edge.device("bob", "phone")
    let (bad, _) = try await edge.device("ann", "phone")
    let valid = DeviceCodec.protobuf.encode(ClientFrame(id: 9, command: .detach))
    let cases: [([UInt8], CallError.Code)] = [
      (clientFrame(2, [0xff, 0xff, 0xff]), .malformedFrame),
      (clientFrame(1, valid), .wrongFrameType),
      (clientFrame(2, [UInt8](repeating: 0, count: 131_073)), .frameTooLarge),
      // A frame with an id and no command.
      (clientFrame(2, [0x08, 0x05]), .unknownCommand),
    ]
    for (bytes, code) in cases {
      bad.send(bytes)
      #expect(try await bad.errorReply().code == code)
    }
    #expect(try await bad.ask(7, .attach(AttachRequest(token: "x"))).code == .alreadyAttached)
    try await bad.ask(8, query)
    // An unmasked frame: nothing behind it can be understood.
    bad.send([0x82, 0x01, 0x00])
    #expect(try await bad.frame().closeCode == 1002)
    bad.send(clientFrame(8, [0x03, 0xea]))
    try await bad.end()
    try await good.ask(2, query)
    #expect(edge.metric("callmesh_edge_sessions") == 1)
  }

  @Test(.edge()) func framesInPiecesAndPings() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    let bytes = DeviceCodec.protobuf.encode(ClientFrame(id: 2, command: query))
    let half = bytes.count / 2
    let stream =
      clientFrame(2, Array(bytes[..<half]), final: false) + clientFrame(9, Array("p".utf8))
      + clientFrame(0, Array(bytes[half...]))
    for byte in stream { client.send([byte]) }
    #expect(try await client.frame() == RawClient.Frame(opcode: 10, payload: Array("p".utf8)))
    #expect(try await client.reply().id == 2)
  }
}

/// `callmesh_ring_seconds`: from a place's arrival to the last invite's leaving.
@Suite(.timeLimit(.minutes(2))) struct RingMetricTests {
  private let call = CallID(high: 5, low: 6)

  @Test(
    "a place is stamped with its arrival, and its repetition is still the same command",
    .stillEdge())
  func placeIsStamped() async throws {
    edge.shards.follow { $0.isPlace ? nil : FakeShards.agreeing($0) }
    let (client, _) = try await edge.device("ann", "phone")
    client.say(2, .place(call))
    let arrival = try await edge.shards.nextPlace().receivedAt
    #expect(arrival == Timestamp(microseconds: wallSeconds * 1_000_000))
    edge.pass(.milliseconds(3))
    client.say(2, .place(call))
    // The repetition is not answered.
    let query = ClientCommand.call(CallAddress(callee: "bob", call: call), .query)
    guard case .call = try await client.ask(3, query) else { throw TestFailure("no state") }
  }

  @Test("only what says since when it rings is measured, and never below zero", .stillEdge())
  func measured() async throws {
    let (client, session) = try await edge.device("bob", "phone")
    let begin = wallSeconds * 1_000_000
    edge.pass(.milliseconds(8))
    let invite = Invite(caller: Party(user: "ann", device: "phone"), deadline: .distantFuture)
    var item = EdgeItem.delivery(.invite(invite), to: session, of: "bob")
    for since in [nil, begin, begin + 1_000_000] {
      item.ringsSince = since.map { Timestamp(microseconds: $0) }
      edge.say(item)
      _ = try await client.message()
    }
    // A device has its invite a moment before the edge has noted it, and this behind that.
    try await client.ask(2, .call(CallAddress(callee: "bob", call: call), .query))
    #expect(edge.metric("callmesh_ring_seconds_count") == 2)
    #expect(edge.metric("callmesh_ring_seconds_sum") == 0.008001)
  }
}

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
              EdgeItem(session: command.session.number, body: .reply(request: command.request, $0))
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

  /// Until another owner asks for the sessions: it gets what is sent from then on. The owner in this process may not
  /// have noticed yet.
  @Test func commandsAndRepliesNeedNoBus() async throws {
    let shards = LocalShards(epoch: 5)
    try await EdgeFixture.run(exchange: shards.exchange) { edge in
      let client = try await edge.client()
      try await client.attach(token: try edge.token("ann"), device: "phone")
      try await shards.next { $0.isAttach && $0.device.text == "phone" }
      // Its own owner's question is answered in the process.
      edge.askForSessions(of: "ann", epoch: 5)
      try await shards.next(\.isAnnouncement)
      #expect(edge.shards.heard.depth == 0)
      edge.askForSessions(of: "ann", epoch: 6)
      _ = try await edge.shards.next(\.isAnnouncement)
      try await client.channel.close().get()
      _ = try await edge.shards.next(\.isEnd)
    }
  }
}
