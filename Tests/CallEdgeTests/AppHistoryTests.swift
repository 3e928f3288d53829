import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

/// `GET /v1/app/users/{user}/history`: the app's server reads a user's history.
@Suite(.timeLimit(.minutes(1))) struct AppHistoryTests {
  private static let terms = AppTerms(subscriptions: .history)
  private static let path = "/v1/app/users/b%C3%B6b/history"
  private static let page = HistoryPage(
    items: [
      .init(
        cursor: HistoryCursor(36),
        entry: HistoryEntry(
          call: CallID(high: 1, low: 2), callee: "böb", isPlaced: false, peer: "ann",
          peerName: "Ann A.", placedAt: Timestamp(microseconds: 1_790_000_000_000_000),
          endedAt: Timestamp(microseconds: 1_790_000_030_000_000), reason: .unanswered,
          isMissed: true))
    ], next: HistoryCursor(36), state: HistoryState(cursor: HistoryCursor(40), unread: 1),
    readUpTo: HistoryCursor(7))

  @Test func aPageIsAsADevicesAndOfTheUserInThePath() async throws {
    try await EdgeFixture.run(terms: Self.terms) { edge in
      edge.shards.follow { _ in .history(Self.page) }
      let client = try await edge.client()
      let server = try edge.serverToken()
      let device = try await client.request(
        "GET", "/v1/history", token: try await edge.token("böb", device: "phone"))
      #expect(device.text.contains(#""missed":true}],"next":"10","cursor":"14","unread":1"#))
      _ = try await edge.shards.next { _ in true }
      let user = UserKey(app: "demo", user: "böb")
      let cases: [(String, HistoryCommand)] = [
        ("", .list(before: nil, limit: 50)), ("?limit=7", .list(before: nil, limit: 7)),
        ("?before=10&limit=100", .list(before: HistoryCursor(36), limit: 100)),
        ("?before=", .list(before: nil, limit: 50)),
        // It names no device, whatever it asks for.
        ("?device=phone&limit=1", .list(before: nil, limit: 1)),
      ]
      for (query, body) in cases {
        let answer = try await client.request("GET", Self.path + query, token: server)
        #expect(answer.status == 200 && answer.body == device.body, "\(query)")
        let command = try await edge.shards.next { _ in true }
        #expect(command.body == .history(body), "\(query)")
        #expect(command.user == user && command.callee == user && command.device.text == "")
        #expect(command.credential == .token(server))
      }
    }
  }

  @Test func badQueriesAndMethodsAreRefused() async throws {
    try await EdgeFixture.run(terms: Self.terms) { edge in
      let client = try await edge.client()
      let server = try edge.serverToken()
      for query in ["limit=0", "limit=101", "limit=x", "limit=", "before=!", "before=-1"] {
        let answer = try await client.request("GET", "\(Self.path)?\(query)", token: server)
        #expect(answer.status == 400 && answer.errorCode == 106, "\(query)")
      }
      let mark = #"{"upTo":"10"}"#
      let posted = try await client.request("POST", Self.path, token: server, body: mark)
      #expect(posted.status == 405 && posted.headers["allow"] == "GET")
      for bad in ["", "{}", #"{"upTo":"!"}"#] {
        let read = try await client.request("POST", Self.path + "/read", token: server, body: bad)
        #expect(read.status == 400, "\(bad): \(read.text)")
      }
      let devices = try await client.request(
        "POST", "/v1/history/read", token: server, body: mark)
      #expect(devices.status == 403 && devices.errorCode == 202)
      #expect(try await client.request("GET", Self.path, token: server).status == 200)
      // The first that a shard was asked: all the others came no further than the edge.
      let command = try await edge.shards.next { _ in true }
      #expect(command.body == .history(.list(before: nil, limit: 50)))
    }
  }

  @Test func itIsMarkedAsReadOnTheUsersBehalf() async throws {
    try await EdgeFixture.run(terms: Self.terms) { edge in
      edge.shards.follow { _ in .history(HistoryPage(readUpTo: HistoryCursor(36))) }
      let client = try await edge.client()
      let server = try edge.serverToken()
      let read = try await client.request(
        "POST", Self.path + "/read", token: server, body: #"{"upTo":"10"}"#)
      #expect(read.status == 200 && HTTPBodies.readHistory(read.body)?.readUpTo.text == "10")
      let command = try await edge.shards.next { _ in true }
      #expect(command.body == .history(.markRead(upTo: HistoryCursor(36))))
      #expect(command.user == UserKey(app: "demo", user: "böb") && command.device.text == "")
      #expect(command.credential == .token(server))
    }
  }

  @Test func anAppWithoutHistoryIsRefused() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let answer = try await client.request("GET", Self.path, token: try edge.serverToken())
      #expect(answer.status == 403 && answer.errorCode == 202)
      #expect(answer.text.contains("The app keeps no history"))
    }
  }

  @Test func aShardThatCannotReadItMakesItTryAgain() async throws {
    try await EdgeFixture.run(terms: Self.terms) { edge in
      edge.shards.follow { command in
        guard case .history = command.body else { return FakeShards.agreeing(command) }
        return .error(CallError(.tryAgain, retryAfterMilliseconds: 2500))
      }
      let client = try await edge.client()
      let answer = try await client.request("GET", Self.path, token: try edge.serverToken())
      #expect(answer.status == 503 && answer.errorCode == 501)
      #expect(answer.headers["retry-after"] == "3")
    }
  }

  /// Two apps have a user of one name: the token says whose it is.
  @Test func aServerReadsItsOwnAppsUser() async throws {
    let keys = AppKeys.generateDevelopment(apps: ["one", "two", "none"]).0
      .with(Self.terms, of: "one").with(Self.terms, of: "two")
    try await EdgeFixture.run {
      $0.tokens = TokenAuthority(keys: keys)
    } _: { edge in
      let client = try await edge.client()
      for (app, status) in [("one", 200), ("two", 200), ("none", 403)] {
        let server = try keys.mintServerToken(app: app, lifetimeSeconds: 60, now: wallSeconds)
        let answer = try await client.request("GET", Self.path, token: server)
        #expect(answer.status == status, "\(app)")
        guard status == 200 else { continue }
        let command = try await edge.shards.next { _ in true }
        #expect(command.user == UserKey(app: app, user: "böb"))
        #expect(command.callee == command.user)
      }
    }
  }

  @Test func aPageCountsAsThreeRequests() async throws {
    var terms = Self.terms
    terms.limits[.serverRequestsPerSecond] = 10
    try await EdgeFixture.run(at: StillTime(), terms: terms) { edge in
      let client = try await edge.client()
      let server = try edge.serverToken()
      // 20 at once: six pages take 18 of them.
      for _ in 0..<6 {
        #expect(try await client.request("GET", Self.path, token: server).status == 200)
      }
      let refused = try await client.request("GET", Self.path, token: server)
      #expect(refused.status == 429 && refused.errorCode == 107)
      #expect(refused.text.contains("serverRequestsPerSecond"))
      let user = "/v1/app/users/bob"
      for status in [200, 200, 429] {
        #expect(try await client.request("GET", user, token: server).status == status)
      }
    }
  }
}
