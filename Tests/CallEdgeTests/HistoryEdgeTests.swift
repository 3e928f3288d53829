import CallBus
import CallCore
import CallEdge
import CallWire
import Testing

/// Histories between the shards and the devices: over sockets in both encodings, and over HTTP.
@Suite(.timeLimit(.minutes(1))) struct HistoryEdgeTests {
  private static let terms = AppTerms(subscriptions: .history)
  private static let ann = UserKey(app: "demo", user: "ann")
  private static let page = HistoryPage(
    items: [
      .init(
        cursor: HistoryCursor(36),
        entry: HistoryEntry(
          call: CallID(high: 1, low: 2), callee: "ann", isPlaced: false, peer: "bob",
          peerName: "Bob B.", placedAt: Timestamp(microseconds: 1_790_000_000_000_000),
          endedAt: Timestamp(microseconds: 1_790_000_030_000_000), reason: .unanswered,
          isMissed: true))
    ], next: HistoryCursor(36), state: HistoryState(cursor: HistoryCursor(40), unread: 1),
    readUpTo: HistoryCursor(7))

  private func attached(
    _ edge: EdgeFixture, _ codec: DeviceCodec, wants: Bool = true
  ) async throws -> (client: RawClient, session: UInt64, HistoryMark?) {
    let client = try await edge.client()
    client.codec = codec
    _ = try await client.upgrade(codec.subprotocol)
    client.say(
      1,
      .attach(
        AttachRequest(token: try await edge.token("ann"), device: "phone", wantsHistory: wants)))
    guard case .attached = try await client.reply().1 else { throw TestFailure("not attached") }
    let command = try await edge.shards.next { if case .attach = $0.body { true } else { false } }
    guard case .attach(let attach) = command.body else { throw TestFailure("\(command)") }
    return (client, command.session.number, attach.history)
  }

  private func acknowledged(_ edge: EdgeFixture) async throws -> Command.Body {
    try await edge.shards.next { if case .ack = $0.body { true } else { false } }.body
  }

  private func ack(_ cursor: UInt64) -> Command.Body {
    .ack([Acknowledgement(call: Acknowledgement.historyID, version: cursor)])
  }

  // MARK: Sockets

  @Test(arguments: DeviceCodec.allCases)
  func aDeviceIsShownChangesAndItsEdgeAcknowledges(codec: DeviceCodec) async throws {
    try await EdgeFixture.run(terms: Self.terms) { edge in
      let (client, session, mark) = try await attached(edge, codec)
      #expect(mark == HistoryMark())
      let first = HistoryState(cursor: HistoryCursor(5), unread: 1)
      edge.say(EdgeItem(session: session, body: .history(first)))
      #expect(try await client.message() == .history(first))
      #expect(try await acknowledged(edge) == ack(5))
      // An older one, and the same again: only its acknowledgement was lost.
      for again in [HistoryState(cursor: HistoryCursor(4)), first] {
        edge.say(EdgeItem(session: session, body: .history(again)))
        #expect(try await acknowledged(edge) == ack(5))
      }
      let second = HistoryState(cursor: HistoryCursor(6), unread: 0)
      edge.say(EdgeItem(session: session, body: .history(second)))
      #expect(try await client.message() == .history(second))
    }
  }

  @Test("a new owner learns what the device was shown")
  func announced() async throws {
    try await EdgeFixture.run(terms: Self.terms) { edge in
      let (client, session, _) = try await attached(edge, .json)
      let state = HistoryState(cursor: HistoryCursor(5), unread: 1)
      edge.say(EdgeItem(session: session, body: .history(state)))
      #expect(try await client.message() == .history(state))
      let shard = ShardHash.shard(of: Self.ann, count: 8)
      edge.bus.publish(
        edge.shards.subjects.announceRequests,
        ClusterCodec.encode(AnnounceRequest(shard: UInt32(shard), epoch: 7)))
      let command = try await edge.shards.next {
        if case .attach(let attach) = $0.body { attach.announce } else { false }
      }
      guard case .attach(let attach) = command.body else { return }
      #expect(attach.history == HistoryMark(shown: HistoryCursor(5)))
    }
  }

  @Test("the shard is asked where the device asks and its app has it")
  func asked() async throws {
    for (wants, terms) in [(false, Self.terms), (true, AppTerms())] {
      try await EdgeFixture.run(terms: terms) { edge in
        let (_, _, mark) = try await attached(edge, .protobuf, wants: wants)
        #expect(mark == nil)
      }
    }
  }

  @Test(arguments: DeviceCodec.allCases)
  func aDeviceAsksForAPageAndMarksIt(codec: DeviceCodec) async throws {
    try await EdgeFixture.run(terms: Self.terms) { edge in
      let (client, _, _) = try await attached(edge, codec)
      edge.shards.follow { _ in .history(Self.page) }
      let commands: [HistoryCommand] = [
        .list(before: nil, limit: 0), .list(before: HistoryCursor(36), limit: 100),
        .markRead(upTo: HistoryCursor(40)),
      ]
      for (index, body) in commands.enumerated() {
        client.say(UInt64(index) + 2, .history(body))
        #expect(try await client.reply().1 == .history(Self.page))
        let command = try await edge.shards.next { _ in true }
        #expect(command.body == .history(body))
        #expect(command.user == Self.ann && command.callee == Self.ann)
      }
    }
  }

  @Test func aPageHasALimit() async throws {
    try await EdgeFixture.run(terms: Self.terms) { edge in
      let (client, _, _) = try await attached(edge, .json)
      client.say(2, .history(.list(before: nil, limit: 101)))
      guard case .error(let error) = try await client.reply().1 else {
        throw TestFailure("taken")
      }
      #expect(error.code == .invalidField)
    }
  }

  @Test func anAppWithoutHistoryIsRefused() async throws {
    try await EdgeFixture.run { edge in
      let (client, _, _) = try await attached(edge, .json)
      client.say(2, .history(.list(before: nil, limit: 10)))
      guard case .error(let error) = try await client.reply().1 else {
        throw TestFailure("taken")
      }
      #expect(error.code == .forbidden)
      let http = try await edge.client()
      let answer = try await http.request(
        "GET", "/v1/history?device=phone", token: try await edge.token("ann"))
      #expect(answer.status == 403)
    }
  }

  @Test(arguments: [Subscriptions.history, []])
  func aPlaceSaysWhatItsAppWants(subscriptions: Subscriptions) async throws {
    try await EdgeFixture.run(terms: AppTerms(subscriptions: subscriptions)) { edge in
      let (client, _, _) = try await attached(edge, .protobuf)
      let call = CallID(high: 4, low: 4)
      client.say(2, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
      let command = try await edge.shards.next { if case .place = $0.body { true } else { false } }
      guard case .place(let request) = command.body else { return }
      #expect(request.subscriptions == subscriptions)
    }
  }

  // MARK: HTTP

  @Test func http() async throws {
    try await EdgeFixture.run(terms: Self.terms) { edge in
      edge.shards.follow { _ in .history(Self.page) }
      let client = try await edge.client()
      let token = try await edge.token("ann", device: "phone")
      let cases: [(String, HistoryCommand)] = [
        ("", .list(before: nil, limit: 50)), ("?limit=7", .list(before: nil, limit: 7)),
        ("?before=10&limit=100", .list(before: HistoryCursor(36), limit: 100)),
        ("?before=", .list(before: nil, limit: 50)),
      ]
      for (query, body) in cases {
        let answer = try await client.request("GET", "/v1/history" + query, token: token)
        #expect(answer.status == 200)
        #expect(
          answer.text == #"{"entries":[{"cursor":"10","#
            + #""call":{"callee":"ann","id":"00000000-0000-0001-0000-000000000002"},"#
            + #""placed":false,"user":"bob","name":"Bob B.","placedMs":1790000000000,"#
            + #""endedMs":1790000030000,"reason":"unanswered","missed":true}],"next":"10","#
            + #""cursor":"14","unread":1,"readUpTo":"7"}"#)
        let command = try await edge.shards.next { _ in true }
        #expect(command.body == .history(body) && command.device == "phone")
        #expect(command.callee == Self.ann)
      }
      let read = try await client.request(
        "POST", "/v1/history/read", token: token, body: #"{"upTo":"10"}"#)
      #expect(read.status == 200)
      #expect(
        try await edge.shards.next { _ in true }.body
          == .history(.markRead(upTo: HistoryCursor(36))))
    }
  }

  @Test func badRequests() async throws {
    try await EdgeFixture.run(terms: Self.terms) { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann", device: "phone")
      for query in ["limit=0", "limit=101", "limit=x", "limit=", "before=!", "before=-1"] {
        let answer = try await client.request("GET", "/v1/history?\(query)", token: token)
        #expect(answer.status == 400, "\(query)")
      }
      for body in ["", "{}", #"{"upTo":""}"#, #"{"upTo":"!"}"#, #"{"upTo":1}"#] {
        let answer = try await client.request(
          "POST", "/v1/history/read", token: token, body: body)
        #expect(answer.status == 400, "\(body)")
      }
    }
  }
}
