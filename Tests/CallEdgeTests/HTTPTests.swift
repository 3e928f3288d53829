import CallAuth
import CallCore
import CallEdge
import Testing

private let id = "11111111-2222-3333-4444-555555555555"
private let path = "/v1/calls/bob/\(id)"

/// The HTTP API over real sockets.
@Suite struct HTTPTests {
  @Test(.edge()) func devicesAreRegisteredAndRemoved() async throws {
    let token = try edge.token("ann")
    let apns = String(repeating: "C0FFEE42", count: 8)
    let body = """
      {"device":"phone","deviceName":"Ann's phone","sdkName":"sdk","voipToken":
      {"provider":"apns","environment":"sandbox","topic":"com.example","token":"\(apns)"}}
      """
    let registered = try await edge.request("POST", "/v1/devices", token: token, body: body)
    #expect(registered.status == 200)
    #expect(
      registered.text
        == #"{"device":"phone","expiresAtMs":5000,"removedDevices":["old"],"#
        + #""deviceName":"Ann's phone"}"#)
    let command = try await edge.shards.next()
    guard case .register(let request) = command.body else { throw TestFailure("\(command)") }
    #expect(command.device == "phone" && request.deviceName == "Ann's phone")
    #expect(
      request.voipToken
        == PushToken(
          provider: .apns, environment: "sandbox", topic: "com.example.voip",
          token: apns.lowercased(),
          fingerprint: PushTokenFingerprint.of(provider: "apns", token: apns.lowercased())))

    let removed = try await edge.request("DELETE", "/v1/devices/tablet", token: token)
    #expect(removed.status == 200 && removed.text == "{}")
    #expect(try await edge.shards.next().body == .unregister("tablet"))
  }

  @Test(
    "targets in absolute form are taken (RFC 9112, 3.2.2)", .edge(),
    arguments: [
      ("http://edge.example/healthz", 200), ("HTTPS://edge.example:8443/healthz?x=1", 200),
      ("http://edge.example", 404), ("http://edge.example?x=/healthz", 404),
      ("ftp://edge.example/healthz", 404), ("edge.example/healthz", 400),
    ])
  func absoluteForm(target: String, status: Int) async throws {
    #expect(try await edge.request("GET", target).status == status)
  }

  @Test(.edge()) func callsAreAskedAboutDeclinedAndRefusedAsBusy() async throws {
    let (phone, ann) = (try edge.token("ann", device: "phone"), try edge.token("ann"))
    let call = try #require(CallID(id))
    for (method, action, token, body, said) in [
      ("GET", "", phone, nil, .query), ("POST", "/decline", phone, nil, .decline(.everywhere)),
      ("POST", "/decline", phone, "{}", .decline(.everywhere)),
      ("POST", "/decline", phone, #"{"scope":"here"}"#, .decline(.here)),
      ("POST", "/busy", ann, #"{"device":"phone"}"#, .busy),
      ("POST", "/busy?device=phone", ann, nil, .busy),
    ] as [(String, String, String, String?, CallVerb)] {
      let answer = try await edge.request(method, path + action, token: token, body: body)
      #expect(answer.status == 200)
      #expect(
        answer.text
          == #"{"call":{"callee":"bob","id":"\#(id)"},"phase":"ringing","version":3,"atMs":0}"#
      )
      let command = try await edge.shards.next()
      #expect(command.body == .call(call, said) && command.device == "phone")
      #expect(command.user.user == "ann" && command.callee.user == "bob")
    }
    #expect(try await edge.request("POST", path + "/busy", token: ann).errorCode == 300)
  }

  /// `HTTPBodiesTests` holds what bodies may have in them.
  @Test(.edge()) func bodiesAndDevicesAreChecked() async throws {
    let long = String(repeating: "x", count: 1025)
    for (user, body, code) in [
      ("ann", "{", 100), ("ann", "{}", 300), ("ann", #"{"device":"\#(long)"}"#, 300),
      ("ann", #"{"device":"phone","voipToken":{"provider":"fcm","token":"\#(long)"}}"#, 301),
      // The dialect's SDK takes no other ids.
      ("änn", #"{"device":"phone","dialect":"sinch"}"#, 305),
    ] {
      let token = try edge.token(user)
      let response = try await edge.request("POST", "/v1/devices", token: token, body: body)
      #expect(response.outcome == (400, code), "\(body)")
    }
    let scope = try await edge.request(
      "POST", path + "/decline?device=phone", token: try edge.token("ann"),
      body: #"{"scope":"nowhere"}"#)
    #expect(scope.errorCode == 106)
    let nobody = try await edge.request("GET", path, token: try edge.token("ann"))
    #expect(nobody.outcome == (400, 300) && nobody.text.contains("Name the device"))
    // A token for one device speaks for no other.
    let phone = try edge.token("ann", device: "phone")
    let other = try await edge.request("DELETE", "/v1/devices/tablet", token: phone)
    #expect(other.outcome == (401, 200) && other.text.contains("The token was not accepted."))
  }

  @Test(
    .edge {
      $0.resendAfter = .milliseconds(50)
      $0.commandTimeout = .milliseconds(100)
    })
  func errorsOfTheShardBecomeStatuses() async throws {
    let token = try edge.token("ann", device: "phone")
    for (code, status) in [
      (CallError.Code.unknownCall, 404), (.notParty, 403), (.overloaded, 503), (nil, 503),
    ] as [(CallError.Code?, Int)] {
      edge.shards.follow { _ in
        code.map { .error(CallError($0, retryAfterMilliseconds: 1500)) }
      }
      let response = try await edge.request("GET", path, token: token)
      #expect(response.outcome == (status, code.map { Int($0.rawValue) } ?? 501))
      #expect(response.headers["retry-after"] == (code == nil ? "1" : "2"))
    }
  }

  @Test(.edge()) func operationalPaths() async throws {
    let client = try await edge.client()
    #expect(try await client.request("GET", "/healthz").text == "{}")
    let head = try await client.request("HEAD", "/healthz")
    #expect(head.status == 200 && head.body.isEmpty)
    // Those are for operators, at a port of their own. No shard has an owner here.
    for path in ["/metrics", "/readyz"] {
      #expect(try await client.request("GET", path).status == 404)
    }
    #expect(try await client.request("GET", "/nothing").outcome == (404, 109))
    let method = try await client.request("PUT", "/v1/devices")
    #expect(method.status == 405 && method.headers["allow"] == "POST")
    let plain = try await edge.request("GET", "/v1/connect")
    #expect(plain.status == 426 && plain.headers["upgrade"] == "websocket")
    let last = try await client.request("GET", "/healthz", headers: ["Connection: close"])
    #expect(last.headers["connection"] == "close")
    try await client.end()
  }

  @Test(.edge()) func pipelinedRequestsAreAnsweredInOrder() async throws {
    let client = try await edge.client()
    let token = try edge.token("ann", device: "phone")
    client.send(
      RawClient.text("GET", path, token: token)
        + RawClient.text("GET", "/nothing") + RawClient.text("GET", "/healthz"))
    #expect(try await client.response().status == 200)
    #expect(try await client.response().status == 404)
    #expect(try await client.response().text == "{}")
  }

  @Test(.edge()) func requestsThatAreTooLargeOrBroken() async throws {
    let large = RawClient.text(
      "POST", "/v1/devices", token: try edge.token("ann"),
      body: String(repeating: "x", count: 65_537))
    for (text, status, code) in [
      (large, 413, 101), ("NONSENSE\r\n\r\n", 400, 100),
      ("GET / HTTP/1.1\r\nBad Header\r\n\r\n", 400, 100),
      ("GET / HTTP/1.1\r\nX: \(String(repeating: "x", count: 40_000))\r\n\r\n", 400, 100),
      ("GET / HTTP/9.9\r\n\r\n", 400, 100),
      // Bytes behind a CONNECT are no longer HTTP.
      ("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", 404, 109),
    ] {
      let client = try await edge.client()
      client.send(text)
      #expect(try await client.response().outcome == (status, code))
      try await client.end()
    }
    // The edge goes on.
    #expect(try await edge.request("GET", "/healthz").status == 200)
  }
}

/// The HTTP API lets two things wait: requests that come too fast, and bodies until it wants them.
@Suite struct HTTPLimitTests {
  @Test(
    "rates are limited, of tokens and of a push's capability",
    .stillEdge {
      $0.commandsBurst = 3
      $0.commandsPerSecond = 1
    }, arguments: [false, true])
  func rateIsLimited(isPush: Bool) async throws {
    let token = isPush ? nil : try edge.token("ann", device: "phone")
    let push = isPush ? PushRequestTests.header(try PushRequestTests.text(edge)) : []
    func ask(_ method: String = "GET", _ action: String = "") async throws -> RawClient.Response {
      try await edge.request(method, path + action, token: token, headers: push)
    }
    for _ in 0..<3 { #expect(try await ask().status == 200) }
    let refused = try await ask()
    #expect(refused.outcome == (429, 107) && refused.headers["retry-after"] == "1")
    #expect(refused.text.contains("Too many commands: 1 a second, 3 at once."))
    #expect(edge.metric("callmesh_edge_http_rates") == 1)
    edge.pass(.seconds(1))
    for status in [200, 429] { #expect(try await ask().status == status) }
    #expect(try await ask("POST", "/decline").status == 200, "what ends a call does not wait")
  }

  /// Behind a proxy many users share a connection, and anybody may open many.
  @Test(
    .stillEdge {
      $0.commandsBurst = 2
      $0.commandsPerSecond = 1
    })
  func rateIsThatOfAUserNotOfAConnection() async throws {
    let client = try await edge.client()
    let ann = try edge.token("ann")
    for device in ["phone", "tablet"] {
      let answer = try await client.request("GET", "\(path)?device=\(device)", token: ann)
      #expect(answer.status == 200)
    }
    // Nor does another name help, nor another connection.
    for client in [client, try await edge.client(), try await edge.client()] {
      let answer = try await client.request("GET", "\(path)?device=watch", token: ann)
      #expect(answer.outcome == (429, 107))
    }
    // Others on the same connection are not concerned, nor a device with a token of its own.
    for token in [try edge.token("eve"), try edge.token("ann", device: "phone")] {
      let answer = try await client.request("GET", "\(path)?device=phone", token: token)
      #expect(answer.status == 200)
    }
  }

  /// Balancers keep their idle connections for 60 s, and send the next request on one of them.
  @Test(arguments: [75, 600])
  func connectionsAreKeptWhileNoRequestComes(seconds: Int) async throws {
    #expect(PeerLimits().keepAliveTimeout == .seconds(75))
    let time = StillTime()
    try await EdgeFixture.run(at: time) {
      $0.eventLoops = 1
      if seconds != 75 { $0.peers.keepAliveTimeout = .seconds(Int64(seconds)) }
    } _: { edge in
      let (first, second) = (try await edge.client(), try await edge.client())
      // With one loop, an answer shows that it knows that the answer before was taken.
      for client in [first, second] {
        #expect(try await client.request("GET", "/healthz").status == 200)
      }
      time.pass(.seconds(10))
      for client in [second, try await edge.client()] {
        #expect(try await client.request("GET", "/healthz").status == 200)
      }
      // The first is idle for its whole time, the others for 10 s less. One look closes what is to be closed.
      time.pass(.seconds(seconds - 10))
      try await first.end()
      #expect(try await second.request("GET", "/healthz").status == 200)
      #expect(edge.metric("callmesh_edge_connections") == 2)
    }
  }

  /// Clients that hold a body back until the server asks for it.
  @Test(.edge()) func bodiesThatWaitAreAskedFor() async throws {
    let client = try await edge.client()
    let token = try edge.token("ann")
    func head(_ length: Int, version: String = "1.1") -> String {
      "POST /v1/devices HTTP/\(version)\r\nHost: edge\r\nAuthorization: Bearer \(token)\r\n"
        + "Content-Length: \(length)\r\nExpect: 100-Continue\r\nConnection: keep-alive\r\n\r\n"
    }
    let body = #"{"device":"phone"}"#
    for _ in 0..<2 {
      client.send(head(body.utf8.count))
      #expect(try await client.response().status == 100)
      client.send(body)
      let answer = try await client.response()
      #expect(answer.status == 200 && answer.text.contains(#""device":"phone""#))
    }
    // To HTTP/1.0 nothing comes but the answer.
    client.send(head(body.utf8.count, version: "1.0") + body)
    #expect(try await client.response().status == 200)
    // A body that would be refused is refused before it is sent.
    client.send(head(65_537))
    #expect(try await client.response().outcome == (413, 101))
    try await client.end()
  }
}
