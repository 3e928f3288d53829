import CallCore
import CallEdge
import CallWire
import Testing

private let id = "11111111-2222-3333-4444-555555555555"

/// The routes of an app's server, over real sockets.
@Suite(.timeLimit(.minutes(2))) struct AppServerTests {
  /// The routes that take a token, with examples of their bodies.
  private func routes() throws -> [(OpenAPITests.Operation, body: String?, isServers: Bool)] {
    let document = try OpenAPITests()
    return try document.operations().filter { !["connect", "health"].contains($0.id) }.map {
      let body = try document.body(of: $0).map { String(decoding: $0.example, as: UTF8.self) }
      return ($0, body, $0.schemes == ["serverToken"])
    }
  }

  @Test(.edge(terms: AppTerms(subscriptions: .history)))
  func eachRouteTakesItsOwnKindOfToken() async throws {
    let user = try edge.token("bob", device: "phone")
    let server = try edge.serverToken()
    for (route, body, isServers) in try routes() {
      let (method, path) = (route.method.uppercased(), route.example)
      let refused = try await edge.request(
        method, path, token: isServers ? user : server, body: body)
      #expect(refused.outcome == (403, 202), "\(method) \(path)")
      #expect(refused.text.contains(isServers ? "a user's token" : "an app's server"))
      guard isServers else { continue }
      let taken = try await edge.request(method, path, token: server, body: body)
      #expect(taken.status == 200, "\(method) \(path): \(taken.text)")
    }
    #expect(try await edge.client().upgrade(token: server).outcome == (403, 202))
  }

  @Test(.edge { $0.peers.failedAuthsPerAddress = 1000 })
  func nobodyAndWhomAPushAllowsAreRefused() async throws {
    let client = try await edge.client()
    let server = try edge.serverToken(now: wallSeconds - 61)
    let user = try edge.expiredToken()
    for (route, _, isServers) in try routes() {
      for (authorization, code) in [
        (nil, 200), ("Bearer x", 200), ("Basic YTpi", 200), ("CallmeshPush abc", 200),
        ("Bearer \(isServers ? server : user)", 201),
      ] as [(String?, Int)] {
        let headers = authorization.map { ["Authorization: \($0)"] } ?? []
        let answer = try await client.request(
          route.method.uppercased(), route.example, headers: headers)
        #expect(answer.outcome == (401, code), "\(route.id) \(headers)")
      }
    }
  }

  @Test(.edge()) func commandsNameTheUserAndCarryTheToken() async throws {
    func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
    let user = UserKey(app: "demo", user: "böb")
    let call = try #require(CallID(id))
    let state = AppCall(
      state: CallState(call: call, callee: "böb", phase: .ended),
      caller: Party(user: "caller", device: "c1"), placedAt: Timestamp(microseconds: 0))
    let forward = UserRules(always: UserRules.Forward(users: ["cy"]))
    let group = CallGroup(users: ["cy", "di"], order: .longestIdle)
    let (none, ofCall) = (
      text(HTTPBodies.userRules(UserRules())), text(HTTPBodies.app(.call(state)))
    )
    let (users, groups) = ("/v1/app/users/b%C3%B6b", "/v1/app/groups/b%C3%B6b")
    let calls = "/v1/app/calls/b%C3%B6b/\(id)"
    let cases: [(String, String, String?, Command.Body, String)] = [
      ("GET", users, nil, .app(.user), #"{"user":"böb"}"#),
      ("DELETE", users + "/devices/my%20phone", nil, .app(.remove("my phone")), "{}"),
      ("GET", calls, nil, .app(.call(call)), ofCall),
      ("POST", calls + "/end", nil, .app(.end(call)), ofCall),
      ("GET", users + "/rules", nil, .rules(.read), none),
      (
        "PUT", users + "/rules", #"{"always":{"users":["cy"]}}"#, .rules(.write(forward)),
        text(HTTPBodies.userRules(forward))
      ),
      ("DELETE", users + "/rules", nil, .rules(.write(UserRules())), none),
      (
        "GET", groups, nil, .app(.group),
        #"{"users":["ann"],"order":"inTurn","turnSeconds":15}"#
      ),
      (
        "PUT", groups, #"{"users":["cy","di"],"order":"longestIdle"}"#, .app(.setGroup(group)),
        text(HTTPBodies.callGroup(group))
      ),
      ("DELETE", groups, nil, .app(.setGroup(nil)), "{}"),
      ("GET", users + "/name", nil, .app(.name), #"{"name":"Ann Lee"}"#),
      (
        "PUT", users + "/name", #"{"name":"Bo\u202eb\u0007 S."}"#, .app(.setName("Bob S.")),
        #"{"name":"Bob S."}"#
      ),
      ("PUT", users + "/name", #"{"name":""}"#, .app(.setName("")), "{}"),
      ("PUT", users + "/name", "{}", .app(.setName("")), "{}"),
      ("DELETE", users + "/name", nil, .app(.setName("")), "{}"),
    ]
    let server = try edge.serverToken()
    for (method, path, body, said, answer) in cases {
      let response = try await edge.request(method, path, token: server, body: body)
      #expect(response.status == 200 && response.text == answer, "\(method) \(path)")
      let command = try await edge.shards.next()
      #expect(command.body == said, "\(method) \(path)")
      #expect(command.user == user && command.callee == user && command.device.text == "")
      #expect(command.credential == .token(server))
    }
  }

  @Test(.edge()) func everyShardIsAskedForAUsersCalls() async throws {
    edge.shards.follow { command in
      guard case .app(.calls(let shard)) = command.body else {
        return FakeShards.agreeing(command)
      }
      return .app(.calls(AppCalls(shard % 4 == 1 ? [Self.call(shard)] : [])))
    }
    let answer = try await edge.request(
      "GET", "/v1/app/users/bob/calls", token: try edge.serverToken())
    // The newest first.
    #expect(HTTPBodies.readAppCalls(answer.body)?.calls == [Self.call(5), Self.call(1)])
    var asked: Set<UInt32> = []
    while asked.count < 8 {
      let command = try await edge.shards.next()
      if case .app(.calls(let shard)) = command.body { asked.insert(shard) }
      #expect(command.user.user == "bob")
    }
    #expect(edge.metric("callmesh_edge_call_questions") == 0)
    #expect(edge.metric("callmesh_edge_commands_pending") == 0)
  }

  /// Every shard has two calls; together they are listed in pages.
  @Test(.edge()) func theAppsLiveCallsAreListedPageByPage() async throws {
    let all = (1...16).map { Self.call(UInt32($0)) }
    edge.shards.follow { command in
      guard case .app(.live(let query)) = command.body else {
        return FakeShards.agreeing(command)
      }
      let own = all.filter { $0.state.call.low % 8 == UInt64(query.shard) }
      let behind = own.filter { call in query.before.map { $0 < call.place } ?? true }
      return .app(.calls(AppCalls(behind.newest(Int(query.limit)))))
    }
    let server = try edge.serverToken()
    for (size, expected) in [("", [16]), ("?limit=16", [16]), ("?limit=7", [7, 7, 2])] {
      var (found, counts, query) = ([AppCall](), [Int](), size)
      while true {
        let answer = try await edge.request("GET", "/v1/app/calls" + query, token: server)
        let page = try #require(HTTPBodies.readAppCalls(answer.body))
        found += page.calls
        counts.append(page.calls.count)
        guard let next = page.next else { break }
        query = size + "&before=" + next.text
      }
      #expect(found == all.reversed() && counts == expected, "\(size)")
    }
    #expect(try await edge.shards.next().user == UserKey(app: "demo", user: ""))
    for bad in ["limit=0", "limit=101", "limit=x", "before=7", "before=7.8.bob"] {
      let answer = try await edge.request("GET", "/v1/app/calls?" + bad, token: server)
      #expect(answer.outcome == (400, 106), "\(bad)")
    }
  }

  private static func call(_ shard: UInt32) -> AppCall {
    let at = Timestamp(microseconds: Int64(shard) * 1000)
    return AppCall(
      state: CallState(
        call: CallID(high: 0, low: UInt64(shard)), callee: "bob", phase: .ringing, at: at),
      caller: Party(user: "ann", device: "a1"), placedAt: at)
  }

  @Test(.edge()) func rulesOfTheTokensUser() async throws {
    let token = try edge.token("ann")
    let rules = UserRules(firstDevices: ["phone"])
    let put = try await edge.request(
      "PUT", "/v1/rules", token: token, body: #"{"firstDevices":["phone"]}"#)
    #expect(HTTPBodies.readUserRules(put.body) == rules)
    let command = try await edge.shards.next()
    #expect(command.body == .rules(.write(rules)) && command.user.user == "ann")
    #expect(try await edge.request("GET", "/v1/rules", token: token).status == 200)
    #expect(try await edge.shards.next().body == .rules(.read))
    for (body, code) in [("", 100), ("[]", 100), (#"{"onBusy":{"users":[]}}"#, 430)] {
      let answer = try await edge.request("PUT", "/v1/rules", token: token, body: body)
      #expect(answer.outcome == (400, code))
    }
  }

  @Test(.stillEdge(terms: .limited([.serverRequestsPerSecond: 10])))
  func theAppsRateHolds() async throws {
    let server = try edge.serverToken()
    // 20 at once; a question to all shards counts as ten.
    let path = "/v1/app/users/bob"
    #expect(try await edge.request("GET", path + "/calls", token: server).status == 200)
    for _ in 0..<10 {
      #expect(try await edge.request("GET", path, token: server).status == 200)
    }
    let refused = try await edge.request("GET", path, token: server)
    #expect(refused.outcome == (429, 107) && refused.text.contains("serverRequestsPerSecond"))
    // Its users' devices have rates of their own.
    let user = try edge.token("bob", device: "phone")
    #expect(try await edge.request("GET", "/v1/rules", token: user).status == 200)
  }
}

/// `POST /v1/app/calls`: the app's server places a call between two users.
@Suite(.timeLimit(.minutes(2))) struct AppPlacingTests {
  private let id = "11111111-2222-4333-8444-555555555555"

  private func place(
    _ body: String, token: String? = nil
  ) async throws -> RawClient.Response {
    let token = try token ?? edge.serverToken()
    return try await edge.request("POST", "/v1/app/calls", token: token, body: body)
  }

  fileprivate static let choices: AppTerms = {
    var terms = AppTerms(secondCalls: .busy, subscriptions: .history)
    terms.forwardedRing = .anew
    return terms
  }()

  @Test(.edge(terms: AppPlacingTests.choices)) func theBodySaysWhoIsCalled() async throws {
    let body = """
      {"callId":"\(id)","from":"bob","fromDevice":"desk phone","to":"cy","video":true,"ringTimeoutSeconds":20,\
      "headers":[{"name":"reason","value":"callback"}],"pushData":"ticket 7","callerName":"Dr. Cy"}
      """
    let server = try edge.serverToken()
    let answer = try await place(body, token: server)
    #expect(
      answer.text == """
        {"state":{"call":{"callee":"bob","id":"\(id)"},"phase":"placed","version":0,"atMs":0},\
        "caller":{"user":"cy","device":"","name":"Dr. Cy"},"placedAtMs":0}
        """)
    let command = try await edge.shards.next()
    #expect(command.user == bob && command.callee == bob && command.device.text == "")
    #expect(command.credential == .token(server))
    var request = PlaceRequest(
      call: try #require(CallID(id)), ringTimeoutSeconds: 20,
      headers: [CustomHeader(name: "reason", value: "callback")], video: true,
      callerName: "Dr. Cy", pushData: "ticket 7", busyWhileInCall: true, subscriptions: .history)
    request.ringsAnew = true
    #expect(command.body == .app(.place(AppPlacing(request, caller: "cy", device: "desk phone"))))
  }

  @Test(.edge()) func theServerChoosesAnId() async throws {
    var ids: Set<CallID> = []
    for _ in 0..<3 {
      let answer = try await place(#"{"from":"bob","to":"cy"}"#)
      let call = try #require(HTTPBodies.readAppCall(answer.body)?.state.call)
      #expect(ids.insert(call).inserted)
      let text = Array(call.description.utf8)
      #expect(text[14] == UInt8(ascii: "4"), "version 4: \(call)")
      #expect("89ab".utf8.contains(text[19]), "the variant of RFC 9562: \(call)")
    }
  }

  @Test(.edge()) func whatTheEdgeRefuses() async throws {
    let long = String(repeating: "x", count: 129)
    let tooMuch = String(repeating: "x", count: CallLimits().pushDataBytes + 1)
    for (body, code) in [
      ("", 100), ("[]", 100), (#"{"from":"bob","to":7}"#, 106), (#"{"from":"bob"}"#, 410),
      (#"{"to":"cy"}"#, 410), (#"{"from":"bob","to":"\#(long)"}"#, 410),
      (#"{"callId":"7","from":"bob","to":"cy"}"#, 106),
      (#"{"from":"bob","fromDevice":" ","to":"cy"}"#, 300),
      (#"{"from":"bob","to":"cy","headers":[{"name":"","value":"x"}]}"#, 106),
      (#"{"from":"bob","to":"cy","pushData":"\#(tooMuch)"}"#, 0),
    ] {
      let answer = try await place(body)
      #expect(answer.status == 400, "\(body.prefix(80)): \(answer.text)")
      if code != 0 { #expect(answer.errorCode == code, "\(body.prefix(80)): \(answer.text)") }
    }
  }

  @Test(.stillEdge(terms: .limited([.callsPerSecond: 1])))
  func theAppsRateOfCallsHolds() async throws {
    for status in [200, 200, 429] {
      let answer = try await place(#"{"from":"bob","to":"cy"}"#)
      #expect(answer.status == status)
      #expect(answer.text.contains("callsPerSecond") == (status == 429))
    }
  }
}
