import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let id = "11111111-2222-3333-4444-555555555555"

extension EdgeFixture {
  func serverToken(lifetimeSeconds: Int64 = 60) throws -> String {
    try keys.mintServerToken(app: "demo", lifetimeSeconds: lifetimeSeconds, now: wallSeconds)
  }
}

/// The routes of an app's server, over real sockets.
@Suite(.timeLimit(.minutes(2))) struct AppServerTests {
  private static let serverRoutes = [
    ("GET", "/v1/app/users/bob"), ("GET", "/v1/app/users/bob/calls"),
    ("GET", "/v1/app/users/bob/history"), ("DELETE", "/v1/app/users/bob/devices/phone"),
    ("GET", "/v1/app/users/bob/rules"), ("PUT", "/v1/app/users/bob/rules"),
    ("DELETE", "/v1/app/users/bob/rules"), ("GET", "/v1/app/groups/desk"),
    ("PUT", "/v1/app/groups/desk"), ("DELETE", "/v1/app/groups/desk"),
    ("GET", "/v1/app/users/bob/name"), ("PUT", "/v1/app/users/bob/name"),
    ("DELETE", "/v1/app/users/bob/name"), ("GET", "/v1/app/calls/bob/\(id)"),
    ("POST", "/v1/app/calls/bob/\(id)/end"), ("POST", "/v1/app/calls"), ("GET", "/v1/app/calls"),
    ("POST", "/v1/app/users/bob/history/read"),
  ]
  private static let deviceRoutes = [
    ("POST", "/v1/devices"), ("DELETE", "/v1/devices/phone"), ("GET", "/v1/calls/bob/\(id)"),
    ("POST", "/v1/calls/bob/\(id)/decline"), ("POST", "/v1/calls/bob/\(id)/busy"),
    ("GET", "/v1/rules"), ("PUT", "/v1/rules"), ("DELETE", "/v1/rules"),
    ("GET", "/v1/history"), ("POST", "/v1/history/read"),
  ]

  @Test func eachRouteTakesItsOwnKindOfToken() async throws {
    try await EdgeFixture.run(terms: AppTerms(subscriptions: .history)) { edge in
      let client = try await edge.client()
      let user = try await edge.token("bob", device: "phone")
      let server = try edge.serverToken()
      for (method, path) in Self.serverRoutes {
        let body: String? =
          switch (method, path) {
          case ("PUT", "/v1/app/groups/desk"): #"{"users":["cy"]}"#
          case ("PUT", _): "{}"
          case ("POST", "/v1/app/calls"): #"{"from":"bob","to":"cy"}"#
          case (_, "/v1/app/users/bob/history/read"): #"{"upTo":"10"}"#
          default: nil
          }
        let refused = try await client.request(method, path, token: user, body: body)
        #expect(refused.status == 403 && refused.errorCode == 202, "\(method) \(path)")
        #expect(refused.text.contains("a user's token"))
        let taken = try await client.request(method, path, token: server, body: body)
        #expect(taken.status == 200, "\(method) \(path): \(taken.text)")
      }
      for (method, path) in Self.deviceRoutes {
        let body = method == "PUT" ? "{}" : nil
        let refused = try await client.request(method, path, token: server, body: body)
        #expect(refused.status == 403 && refused.errorCode == 202, "\(method) \(path)")
        #expect(refused.text.contains("an app's server"))
      }
      let attached = try await edge.client().upgrade(token: server)
      #expect(attached.status == 403 && attached.errorCode == 202)
    }
  }

  @Test func nobodyAndWhomAPushAllowsAreRefused() async throws {
    try await EdgeFixture.run {
      $0.peers.failedAuthsPerAddress = 100
    } _: { edge in
      let client = try await edge.client()
      let expired = try edge.keys.mintServerToken(
        app: "demo", lifetimeSeconds: 60, now: wallSeconds - 61)
      for (method, path) in Self.serverRoutes {
        for (headers, code) in [
          ([], 200), (["Authorization: Bearer x"], 200),
          (["Authorization: CallmeshPush abc"], 200),
          (["Authorization: Bearer \(expired)"], 201),
        ] as [([String], Int)] {
          let answer = try await client.request(method, path, headers: headers)
          #expect(answer.status == 401 && answer.errorCode == code, "\(method) \(path) \(headers)")
        }
      }
    }
  }

  @Test func commandsNameTheUserAndCarryTheToken() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let server = try edge.serverToken()
      let call = try #require(CallID(id))
      let expected: [(String, String, String?, Command.Body)] = [
        ("GET", "/v1/app/users/b%C3%B6b", nil, .app(.user)),
        ("DELETE", "/v1/app/users/b%C3%B6b/devices/my%20phone", nil, .app(.remove("my phone"))),
        ("GET", "/v1/app/calls/b%C3%B6b/\(id)", nil, .app(.call(call))),
        ("POST", "/v1/app/calls/b%C3%B6b/\(id)/end", nil, .app(.end(call))),
        ("GET", "/v1/app/users/b%C3%B6b/rules", nil, .rules(.read)),
        (
          "PUT", "/v1/app/users/b%C3%B6b/rules", #"{"always":{"users":["cy"]}}"#,
          .rules(.write(UserRules(always: UserRules.Forward(users: ["cy"]))))
        ),
        ("DELETE", "/v1/app/users/b%C3%B6b/rules", nil, .rules(.write(UserRules()))),
        ("GET", "/v1/app/groups/b%C3%B6b", nil, .app(.group)),
        (
          "PUT", "/v1/app/groups/b%C3%B6b", #"{"users":["cy","di"],"order":"longestIdle"}"#,
          .app(.setGroup(CallGroup(users: ["cy", "di"], order: .longestIdle)))
        ),
        ("DELETE", "/v1/app/groups/b%C3%B6b", nil, .app(.setGroup(nil))),
      ]
      let user = UserKey(app: "demo", user: "böb")
      for (method, path, body, said) in expected {
        #expect(
          try await client.request(method, path, token: server, body: body).status == 200)
        let command = try await edge.shards.next { _ in true }
        #expect(command.body == said, "\(method) \(path)")
        #expect(command.user == user && command.callee == user && command.device.text == "")
        #expect(command.credential == .token(server))
      }
    }
  }

  @Test func answersAreJSON() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let server = try edge.serverToken()
      let user = try await client.request("GET", "/v1/app/users/bob", token: server)
      #expect(user.text == #"{"user":"bob"}"#)
      let call = try await client.request("GET", "/v1/app/calls/bob/\(id)", token: server)
      #expect(HTTPBodies.readAppCall(call.body)?.state.callee == "bob")
      let group = try await client.request("GET", "/v1/app/groups/desk", token: server)
      #expect(group.text == #"{"users":["ann"],"order":"inTurn","turnSeconds":15}"#)
      let rules = try await client.request("GET", "/v1/app/users/bob/rules", token: server)
      #expect(HTTPBodies.readUserRules(rules.body) == UserRules())
      let removed = try await client.request(
        "DELETE", "/v1/app/users/bob/devices/phone", token: server)
      #expect(removed.text == "{}")
    }
  }

  @Test func everyShardIsAskedForAUsersCalls() async throws {
    try await EdgeFixture.run { edge in
      edge.shards.follow { command in
        guard case .app(.calls(let shard)) = command.body else {
          return FakeShards.agreeing(command)
        }
        guard shard % 4 == 1 else { return .app(.calls(AppCalls())) }
        return .app(.calls(AppCalls([Self.call(shard)])))
      }
      let client = try await edge.client()
      let answer = try await client.request(
        "GET", "/v1/app/users/bob/calls", token: try edge.serverToken())
      // The newest first.
      #expect(HTTPBodies.readAppCalls(answer.body)?.calls == [Self.call(5), Self.call(1)])
      var asked: Set<UInt32> = []
      while asked.count < 8 {
        let command = try await edge.shards.next { _ in true }
        if case .app(.calls(let shard)) = command.body { asked.insert(shard) }
        #expect(command.user.user == "bob")
      }
      #expect(edge.metric("callmesh_edge_call_questions") == 0)
      #expect(edge.metric("callmesh_edge_commands_pending") == 0)
    }
  }

  /// Every shard has two calls; together they are listed in pages.
  @Test func theAppsLiveCallsAreListedPageByPage() async throws {
    try await EdgeFixture.run { edge in
      let all = (1...16).map { Self.call(UInt32($0)) }
      edge.shards.follow { command in
        guard case .app(.live(let query)) = command.body else {
          return FakeShards.agreeing(command)
        }
        let own = all.filter { $0.state.call.low % 8 == UInt64(query.shard) }
        let behind = own.filter { call in query.before.map { $0 < call.place } ?? true }
        return .app(.calls(AppCalls(behind.newest(Int(query.limit)))))
      }
      let client = try await edge.client()
      let server = try edge.serverToken()
      for (size, expected) in [("", [16]), ("?limit=16", [16]), ("?limit=7", [7, 7, 2])] {
        var (found, counts, query) = ([AppCall](), [Int](), size)
        while true {
          let answer = try await client.request("GET", "/v1/app/calls" + query, token: server)
          let page = try #require(HTTPBodies.readAppCalls(answer.body))
          found += page.calls
          counts.append(page.calls.count)
          guard let next = page.next else { break }
          query = size + "&before=" + next.text
        }
        #expect(found == all.reversed() && counts == expected, "\(size)")
      }
      let command = try await edge.shards.next { _ in true }
      #expect(command.user == UserKey(app: "demo", user: ""))
      for bad in ["limit=0", "limit=101", "limit=x", "before=7", "before=7.8.bob"] {
        let answer = try await client.request("GET", "/v1/app/calls?" + bad, token: server)
        #expect(answer.status == 400 && answer.errorCode == 106, "\(bad)")
      }
    }
  }

  private static func call(_ shard: UInt32) -> AppCall {
    let at = Timestamp(microseconds: Int64(shard) * 1000)
    return AppCall(
      state: CallState(
        call: CallID(high: 0, low: UInt64(shard)), callee: "bob", phase: .ringing, at: at),
      caller: Party(user: "ann", device: "a1"), placedAt: at)
  }

  @Test func aShardThatRefusesMakesItTryAgain() async throws {
    try await EdgeFixture.run { edge in
      edge.shards.follow { command in
        // As a node of a former version.
        if case .app(.calls(shard: 3)) = command.body { return .error(CallError(.unknownCommand)) }
        return FakeShards.agreeing(command)
      }
      let client = try await edge.client()
      let answer = try await client.request(
        "GET", "/v1/app/users/bob/calls", token: try edge.serverToken())
      #expect(answer.status == 503 && answer.errorCode == 501)
      // The connection goes on.
      #expect(try await client.request("GET", "/healthz").status == 200)
    }
  }

  @Test func rulesOfTheTokensUser() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann")
      let rules = UserRules(firstDevices: ["phone"])
      let put = try await client.request(
        "PUT", "/v1/rules", token: token, body: #"{"firstDevices":["phone"]}"#)
      #expect(HTTPBodies.readUserRules(put.body) == rules)
      let command = try await edge.shards.next { _ in true }
      #expect(command.body == .rules(.write(rules)) && command.user.user == "ann")
      #expect(try await client.request("GET", "/v1/rules", token: token).status == 200)
      #expect(try await edge.shards.next { _ in true }.body == .rules(.read))
      for body in ["", "[]"] {
        let answer = try await client.request("PUT", "/v1/rules", token: token, body: body)
        #expect(answer.status == 400 && answer.errorCode == 100)
      }
      let bad = try await client.request(
        "PUT", "/v1/rules", token: token, body: #"{"onBusy":{"users":[]}}"#)
      #expect(bad.status == 400 && bad.errorCode == 430)
    }
  }

  @Test(arguments: DeviceCodec.allCases) func devicesReadAndSetRules(
    codec: DeviceCodec
  ) async throws {
    try await EdgeFixture.run { edge in
      let (client, _) = try await edge.device("ann", "phone", codec: codec)
      client.say(2, .rules(.read))
      #expect(try await client.reply() == (2, .rules(UserRules())))
      let rules = UserRules(onBusy: UserRules.Forward(users: ["cy"]))
      client.say(3, .rules(.write(rules)))
      #expect(try await client.reply() == (3, .rules(rules)))
    }
  }

  @Test func theAppsRateHolds() async throws {
    var terms = AppTerms()
    terms.limits[.serverRequestsPerSecond] = 10
    let time = StillTime()
    try await EdgeFixture.run(at: time, terms: terms) { edge in
      let client = try await edge.client()
      let server = try edge.serverToken()
      // 20 at once; a question to all shards counts as ten.
      let path = "/v1/app/users/bob"
      #expect(try await client.request("GET", path + "/calls", token: server).status == 200)
      for _ in 0..<10 {
        #expect(try await client.request("GET", path, token: server).status == 200)
      }
      let refused = try await client.request("GET", path, token: server)
      #expect(refused.status == 429 && refused.errorCode == 107)
      #expect(refused.text.contains("serverRequestsPerSecond"))
      // Its users' devices have rates of their own.
      let user = try await edge.token("bob", device: "phone")
      #expect(try await client.request("GET", "/v1/rules", token: user).status == 200)
    }
  }

  @Test func browsersAreNotAllowedThere() async throws {
    try await EdgeFixture.run {
      $0.allowedOrigins = ["*"]
    } _: { edge in
      let client = try await edge.client()
      let answer = try await client.request(
        "OPTIONS", "/v1/app/users/bob",
        headers: ["Origin: https://app.example", "Access-Control-Request-Method: GET"])
      #expect(answer.status == 404)
    }
  }
}
