import CallAuth
import CallCore
import CallEdge
import CallWire
import Foundation
import Testing

private let id = "11111111-2222-3333-4444-555555555555"

/// The HTTP API over real sockets.
@Suite struct HTTPTests {
  @Test func devicesAreRegisteredAndRemoved() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann")
      let apns = String(repeating: "C0FFEE42", count: 8)
      let body = """
        {"device":"phone","deviceName":"Ann's phone","sdkName":"sdk","voipToken":
        {"provider":"apns","environment":"sandbox","topic":"com.example","token":"\(apns)"}}
        """
      let registered = try await client.request("POST", "/v1/devices", token: token, body: body)
      #expect(registered.status == 200)
      #expect(
        registered.text
          == #"{"device":"phone","expiresAtMs":5000,"removedDevices":["old"],"#
          + #""deviceName":"Ann's phone"}"#)
      let command = try await edge.shards.next { _ in true }
      guard case .register(let request) = command.body else { throw TestFailure("\(command)") }
      #expect(command.device == "phone" && request.deviceName == "Ann's phone")
      #expect(
        request.voipToken
          == PushToken(
            provider: .apns, environment: "sandbox", topic: "com.example.voip",
            token: apns.lowercased(),
            fingerprint: PushTokenFingerprint.of(provider: "apns", token: apns.lowercased())))

      let removed = try await client.request("DELETE", "/v1/devices/tablet", token: token)
      #expect(removed.status == 200 && removed.text == "{}")
      #expect(try await edge.shards.next { _ in true }.body == .unregister("tablet"))
    }
  }

  @Test(
    "targets in absolute form are taken (RFC 9112, 3.2.2)",
    arguments: [
      ("http://edge.example/healthz", 200), ("HTTPS://edge.example:8443/healthz?x=1", 200),
      ("http://edge.example", 404), ("http://edge.example?x=/healthz", 404),
      ("ftp://edge.example/healthz", 404), ("edge.example/healthz", 400),
    ])
  func absoluteForm(target: String, status: Int) async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let answer = try await client.request("GET", target)
      #expect(answer.status == status)
    }
  }

  @Test func callsAreAskedAboutAndDeclined() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann", device: "phone")
      let state = try await client.request("GET", "/v1/calls/bob/\(id)", token: token)
      #expect(state.status == 200)
      #expect(
        state.text
          == #"{"call":{"callee":"bob","id":"\#(id)"},"phase":"ringing","version":3,"atMs":0}"#
      )
      #expect(try await edge.shards.next { _ in true }.callee.user == "bob")
      for (body, scope) in [
        (nil, DeclineScope.everywhere), ("{}", .everywhere), (#"{"scope":"here"}"#, .here),
      ] as [(String?, DeclineScope)] {
        let path = "/v1/calls/ann/\(id)/decline"
        #expect(try await client.request("POST", path, token: token, body: body).status == 200)
        let command = try await edge.shards.next { _ in true }
        #expect(command.body == .call(CallID(id)!, .decline(scope)) && command.device == "phone")
      }
    }
  }

  @Test func aDeviceSaysThatItIsBusy() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann")
      let path = "/v1/calls/bob/\(id)/busy"
      for (query, body) in [("", #"{"device":"phone"}"#), ("?device=phone", nil)] {
        let answer = try await client.request("POST", path + query, token: token, body: body)
        #expect(answer.status == 200)
        let command = try await edge.shards.next { _ in true }
        #expect(command.body == .call(CallID(id)!, .busy) && command.device == "phone")
        #expect(command.user.user == "ann" && command.callee.user == "bob")
      }
      #expect(try await client.request("POST", path, token: token).errorCode == 300)
      #expect(try await client.request("GET", path, token: token).status == 405)
    }
  }

  /// The dialect's SDK takes no longer ids, and no others.
  @Test func usersOfSinchHaveShortNames() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let body = #"{"device":"phone","dialect":"sinch"}"#
      for (user, code) in [
        (String(repeating: "a", count: 40), nil), (String(repeating: "a", count: 41), 305),
        ("änn", 305),
      ] {
        let token = try await edge.token(user)
        let answer = try await client.request("POST", "/v1/devices", token: token, body: body)
        #expect(answer.errorCode == code)
        #expect(answer.status == (code == nil ? 200 : 400))
      }
    }
  }

  @Test func requestsNeedAGoodToken() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let expired = try edge.keys.mintToken(
        app: "demo", user: "ann", lifetimeSeconds: 60, now: wallSeconds - 61)
      for (method, path) in [
        ("POST", "/v1/devices"), ("DELETE", "/v1/devices/phone"), ("GET", "/v1/calls/bob/\(id)"),
        ("POST", "/v1/calls/bob/\(id)/decline"), ("POST", "/v1/calls/bob/\(id)/busy"),
        ("GET", "/v1/history"), ("POST", "/v1/history/read"),
      ] {
        for (token, code) in [(nil, 200), ("x", 200), (expired, 201)] as [(String?, Int)] {
          let response = try await client.request(method, path, token: token)
          #expect(response.status == 401 && response.errorCode == code)
        }
      }
      let basic = try await client.request(
        "GET", "/v1/calls/bob/\(id)", headers: ["Authorization: Basic YTpi"])
      #expect(basic.status == 401 && basic.errorCode == 200)
      // A token for one device speaks for no other.
      let phone = try await edge.token("ann", device: "phone")
      let other = try await client.request("DELETE", "/v1/devices/tablet", token: phone)
      #expect(other.status == 401 && other.errorCode == 200)
      #expect(other.text.contains("The token was not accepted."))
      let nobody = try await client.request(
        "GET", "/v1/calls/bob/\(id)", token: try await edge.token("ann"))
      #expect(nobody.status == 400 && nobody.errorCode == 300)
      #expect(nobody.text.contains("Name the device"))
    }
  }

  @Test func bodiesAreChecked() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann")
      let long = String(repeating: "x", count: 1025)
      for (body, code) in [
        ("{", 100), (String(repeating: "[", count: 60_000), 100), ("[]", 100),
        (#"{"device":7}"#, 106), ("{}", 300),
        (#"{"device":"phone","voipToken":{"provider":"carrier pigeon","token":"x"}}"#, 106),
        (#"{"device":"phone","voipToken":{"provider":"fcm"}}"#, 301),
        (#"{"device":"phone","voipToken":{"provider":"fcm","token":"\#(long)"}}"#, 301),
        (#"{"device":"\#(long)"}"#, 300),
        (#"{"device":"phone","dialect":"esperanto"}"#, 303),
        (#"{"device":"phone","capabilities":["telepathy"]}"#, 304),
      ] {
        let response = try await client.request("POST", "/v1/devices", token: token, body: body)
        #expect(response.status == 400 && response.errorCode == code, "\(body)")
      }
      let scope = try await client.request(
        "POST", "/v1/calls/ann/\(id)/decline?device=phone", token: token,
        body: #"{"scope":"nowhere"}"#)
      #expect(scope.errorCode == 106)
    }
  }

  @Test func errorsOfTheShardBecomeStatuses() async throws {
    try await EdgeFixture.run {
      $0.resendAfter = .milliseconds(50)
      $0.commandTimeout = .milliseconds(100)
    } _: { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann", device: "phone")
      let path = "/v1/calls/bob/\(id)"
      for (code, status) in [
        (CallError.Code.unknownCall, 404), (.notParty, 403), (.overloaded, 503),
      ] {
        edge.shards.follow { _ in .error(CallError(code, retryAfterMilliseconds: 1500)) }
        let response = try await client.request("GET", path, token: token)
        #expect(response.status == status && response.errorCode == Int(code.rawValue))
        #expect(response.headers["retry-after"] == "2")
      }
      edge.shards.follow { _ in nil }
      let response = try await client.request("GET", path, token: token)
      #expect(response.status == 503 && response.errorCode == 501)
      #expect(response.headers["retry-after"] == "1")
    }
  }

  @Test func otherPathsAndMethods() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let nothing = try await client.request("GET", "/nothing")
      #expect(nothing.status == 404 && nothing.errorCode == 109)
      let method = try await client.request("PUT", "/v1/devices")
      #expect(method.status == 405 && method.headers["allow"] == "POST")
      let plain = try await client.request("GET", "/v1/connect")
      #expect(plain.status == 426 && plain.headers["upgrade"] == "websocket")
    }
  }

  @Test func operationalPaths() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      #expect(try await client.request("GET", "/healthz").text == "{}")
      let head = try await client.request("HEAD", "/healthz")
      #expect(head.status == 200 && head.body.isEmpty)
      // Those are for operators, at a port of their own. No shard has an owner here.
      for path in ["/metrics", "/readyz"] {
        #expect(try await client.request("GET", path).status == 404)
      }
    }
  }

  @Test func pipelinedRequestsAreAnsweredInOrder() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann", device: "phone")
      client.send(
        RawClient.text("GET", "/v1/calls/bob/\(id)", token: token)
          + RawClient.text("GET", "/nothing") + RawClient.text("GET", "/healthz"))
      #expect(try await client.response().status == 200)
      #expect(try await client.response().status == 404)
      #expect(try await client.response().text == "{}")
    }
  }

  @Test func requestsThatAreTooLargeOrBroken() async throws {
    try await EdgeFixture.run { edge in
      let token = try await edge.token("ann")
      let body = String(repeating: "x", count: 65_537)
      let large = try await edge.client()
      let response = try await large.request("POST", "/v1/devices", token: token, body: body)
      #expect(response.status == 413 && response.errorCode == 101)
      try await large.end()
      for text in [
        "NONSENSE\r\n\r\n", "GET / HTTP/1.1\r\nBad Header\r\n\r\n",
        "GET / HTTP/1.1\r\nX: \(String(repeating: "x", count: 40_000))\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
      ] {
        let client = try await edge.client()
        client.send(text)
        let response = try await client.response()
        #expect(response.status == 400 && response.errorCode == 100)
        try await client.end()
      }
      // The edge goes on.
      #expect(try await edge.client().request("GET", "/healthz").status == 200)
    }
  }

  @Test func connectionIsClosedWhereTheClientWantsThat() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let response = try await client.request(
        "GET", "/healthz", headers: ["Connection: close"])
      #expect(response.headers["connection"] == "close")
      try await client.end()
    }
  }
}
