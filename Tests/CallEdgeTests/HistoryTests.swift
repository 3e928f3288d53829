import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

/// Histories between the shards and the devices, over sockets in both encodings.
@Suite(.timeLimit(.minutes(1))) struct HistoryEdgeTests {
  private static let terms = AppTerms(subscriptions: .history)
  static let page = HistoryPage(
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
    let client = try await edge.socket(codec)
    try await client.attach(
      AttachRequest(token: try edge.token("ann"), device: "phone", wantsHistory: wants))
    let command = try await edge.shards.next(\.isAttach)
    return (client, command.session.number, command.attach?.history)
  }

  @Test(.edge(terms: AppTerms(subscriptions: .history)), arguments: DeviceCodec.allCases)
  func aDeviceIsShownChangesAndItsEdgeAcknowledges(codec: DeviceCodec) async throws {
    let ack = Command.Body.ack([Acknowledgement(call: Acknowledgement.historyID, version: 5)])
    let (client, session, mark) = try await attached(edge, codec)
    #expect(mark == HistoryMark())
    let first = HistoryState(cursor: HistoryCursor(5), unread: 1)
    edge.say(EdgeItem(session: session, body: .history(first)))
    #expect(try await client.message() == .history(first))
    #expect(try await edge.shards.next(\.isAck).body == ack)
    // An older one, and the same again: only its acknowledgement was lost.
    for again in [HistoryState(cursor: HistoryCursor(4)), first] {
      edge.say(EdgeItem(session: session, body: .history(again)))
      #expect(try await edge.shards.next(\.isAck).body == ack)
    }
    // A new owner learns what the device was shown.
    edge.askForSessions(of: "ann", epoch: 7)
    let announced = try await edge.shards.next(\.isAnnouncement).attach
    #expect(announced?.history == HistoryMark(shown: HistoryCursor(5)))
    let second = HistoryState(cursor: HistoryCursor(6), unread: 0)
    edge.say(EdgeItem(session: session, body: .history(second)))
    #expect(try await client.message() == .history(second))
  }

  @Test("the shard is asked where the device asks and its app has it")
  func asked() async throws {
    for (wants, terms) in [(false, Self.terms), (true, AppTerms())] {
      try await EdgeFixture.run(terms: terms) { edge in
        let (client, _, mark) = try await attached(edge, .protobuf, wants: wants)
        #expect(mark == nil)
        let list = ClientCommand.history(.list(before: nil, limit: 10))
        #expect(try await client.ask(2, list).code == (wants ? .forbidden : nil))
      }
    }
  }

  @Test(.edge(terms: AppTerms(subscriptions: .history)), arguments: DeviceCodec.allCases)
  func aDeviceAsksForAPageAndMarksIt(codec: DeviceCodec) async throws {
    let (client, _, _) = try await attached(edge, codec)
    edge.shards.follow { _ in .history(Self.page) }
    for body: HistoryCommand in [
      .list(before: nil, limit: 0), .list(before: HistoryCursor(36), limit: 100),
      .markRead(upTo: HistoryCursor(40)),
    ] {
      #expect(try await client.ask(2, .history(body)) == .history(Self.page))
      let command = try await edge.shards.next()
      #expect(command.body == .history(body) && command.user == ann && command.callee == ann)
    }
    let tooMuch = ClientCommand.history(.list(before: nil, limit: 101))
    #expect(try await client.ask(3, tooMuch).code == .invalidField)
  }
}

/// Histories over HTTP: a device reads its user's, and the app's server that of any user.
@Suite(.timeLimit(.minutes(1))) struct AppHistoryTests {
  private static let terms = AppTerms(subscriptions: .history)
  private static let path = "/v1/app/users/ann/history"

  /// The paths, with the tokens and the devices of those who ask.
  private func askers() throws -> [(path: String, token: String, String)] {
    [
      ("/v1/history", try edge.token("ann", device: "phone"), "phone"),
      (Self.path, try edge.serverToken(), ""),
    ]
  }

  @Test(.edge(terms: AppTerms(subscriptions: .history)))
  func aPageIsOfTheUserAndMarkedAsRead() async throws {
    edge.shards.follow { _ in .history(HistoryEdgeTests.page) }
    let cases: [(String, HistoryCommand)] = [
      ("", .list(before: nil, limit: 50)), ("?limit=7", .list(before: nil, limit: 7)),
      ("?before=10&limit=100", .list(before: HistoryCursor(36), limit: 100)),
      ("?before=", .list(before: nil, limit: 50)),
      // A server names no device, whatever it asks for.
      ("?device=phone&limit=1", .list(before: nil, limit: 1)),
      ("/read", .markRead(upTo: HistoryCursor(36))),
    ]
    for (path, token, device) in try askers() {
      for (query, body) in cases {
        let answer =
          query == "/read"
          ? try await edge.request("POST", path + query, token: token, body: #"{"upTo":"10"}"#)
          : try await edge.request("GET", path + query, token: token)
        #expect(answer.status == 200)
        #expect(
          answer.text == #"{"entries":[{"cursor":"10","#
            + #""call":{"callee":"ann","id":"00000000-0000-0001-0000-000000000002"},"#
            + #""placed":false,"user":"bob","name":"Bob B.","placedMs":1790000000000,"#
            + #""endedMs":1790000030000,"reason":"unanswered","missed":true}],"next":"10","#
            + #""cursor":"14","unread":1,"readUpTo":"7"}"#)
        let command = try await edge.shards.next()
        #expect(command.body == .history(body) && command.device.text == device, "\(query)")
        #expect(command.user == ann && command.callee == ann)
        #expect(command.credential == .token(token))
      }
    }
  }

  @Test(.edge(terms: AppTerms(subscriptions: .history))) func badRequestsAreRefused() async throws {
    for (path, token, _) in try askers() {
      for query in ["limit=0", "limit=101", "limit=x", "limit=", "before=!", "before=-1"] {
        let answer = try await edge.request("GET", "\(path)?\(query)", token: token)
        #expect(answer.outcome == (400, 106), "\(query)")
      }
      for body in ["", "{}", #"{"upTo":""}"#, #"{"upTo":"!"}"#, #"{"upTo":1}"#] {
        let read = try await edge.request("POST", path + "/read", token: token, body: body)
        #expect(read.status == 400, "\(body): \(read.text)")
      }
      #expect(try await edge.request("GET", path, token: token).status == 200)
      // The first that a shard was asked: all the others came no further than the edge.
      #expect(try await edge.shards.next().body == .history(.list(before: nil, limit: 50)))
    }
  }

  /// Two apps have a user of one name: the token says whose it is.
  @Test func aServerReadsItsOwnAppsUser() async throws {
    let keys = AppKeys.generateDevelopment(apps: ["one", "two", "none"]).0
      .with(Self.terms, of: "one").with(Self.terms, of: "two")
    try await EdgeFixture.run {
      $0.tokens = TokenAuthority(keys: keys)
    } _: { edge in
      for app in ["one", "two", "none"] {
        let server = try keys.mintServerToken(app: app, lifetimeSeconds: 60, now: wallSeconds)
        let answer = try await edge.request("GET", Self.path, token: server)
        guard app != "none" else {
          #expect(answer.outcome == (403, 202))
          #expect(answer.text.contains("The app keeps no history"))
          continue
        }
        #expect(answer.status == 200, "\(app)")
        let command = try await edge.shards.next()
        #expect(command.user == UserKey(app: app, user: "ann"))
        #expect(command.callee == command.user)
      }
    }
  }

  @Test(
    .stillEdge(terms: .limited([.serverRequestsPerSecond: 10], subscriptions: .history)))
  func aPageCountsAsThreeRequests() async throws {
    let server = try edge.serverToken()
    // 20 at once: six pages take 18 of them.
    let statuses = Array(repeating: 200, count: 6) + [429]
    for status in statuses {
      #expect(try await edge.request("GET", Self.path, token: server).status == status)
    }
    for status in [200, 200, 429] {
      let answer = try await edge.request("GET", "/v1/app/users/bob", token: server)
      #expect(answer.status == status)
    }
  }
}
