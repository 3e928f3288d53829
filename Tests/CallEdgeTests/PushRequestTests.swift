import CallAuth
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Testing

private let id = "11111111-2222-3333-4444-555555555555"
private let call = CallID(id)!

/// Requests that a push allows, over HTTP and without a login: for one call and one device.
@Suite struct PushRequestTests {
  static func capability(
    app: String = "demo", user: String = "bob", device: String = "phone",
    call: CallID = call, expires: Int64 = wallSeconds + 3600
  ) -> PushCapability {
    PushCapability(app: app, user: user, device: device, call: call.bytes, expires: expires)
  }

  static func text(_ edge: EdgeFixture, _ capability: PushCapability = capability())
    throws -> String
  {
    try #require(edge.pushKeys.current).mint(capability)
  }

  static func header(_ text: String, scheme: String = "CallmeshPush") -> [String] {
    ["Authorization: \(scheme) \(text)"]
  }

  static let requests: [(method: String, action: String, body: Command.Body)] = [
    ("GET", "", .call(call, .query)), ("POST", "/decline", .call(call, .decline(.everywhere))),
    ("POST", "/busy", .call(call, .busy)),
  ]

  /// Asserts that no command reached a shard before the one that this says itself.
  func expectNothingHeard(_ edge: EdgeFixture) async throws {
    let client = try await edge.client()
    let token = try await edge.token("marker", device: "marker")
    _ = try await client.request("GET", "/v1/calls/marker/\(id)", token: token)
    let first = try await edge.shards.next { _ in true }
    #expect(first.user.user == "marker", "heard: \(first)")
  }

  @Test func aPushedDeviceAsksDeclinesAndIsBusy() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let text = try Self.text(edge)
      for scheme in ["CallmeshPush", "callmeshpush", "CALLMESHPUSH"] {
        for request in Self.requests {
          let answer = try await client.request(
            request.method, "/v1/calls/bob/\(id)\(request.action)",
            headers: Self.header(text, scheme: scheme))
          #expect(answer.status == 200)
          #expect(answer.text.contains(#""phase":"ringing""#))
          let command = try await edge.shards.next { _ in true }
          #expect(command.body == request.body)
          #expect(command.user == UserKey(app: "demo", user: "bob"))
          #expect(command.callee == UserKey(app: "demo", user: "bob"))
          #expect(command.device == "phone")
        }
      }
      #expect(edge.metric(#"callmesh_edge_push_requests_total{result="accepted"}"#) == 9)
    }
  }

  @Test func declineHasItsScope() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let text = try Self.text(edge)
      for (body, scope) in [
        ("{}", DeclineScope.everywhere), (#"{"scope":"here"}"#, .here),
        (#"{"scope":"everywhere","device":"phone"}"#, .everywhere),
      ] {
        _ = try await client.request(
          "POST", "/v1/calls/bob/\(id)/decline", body: body, headers: Self.header(text))
        let command = try await edge.shards.next { _ in true }
        #expect(command.body == .call(call, .decline(scope)))
      }
      let bad = try await client.request(
        "POST", "/v1/calls/bob/\(id)/decline", body: #"{"scope":"there"}"#,
        headers: Self.header(text))
      #expect(bad.errorCode == 106)
    }
  }

  /// For code that cannot set headers.
  @Test func theCapabilityMayStandInTheBody() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let text = try Self.text(edge)
      for (action, extra, body) in [
        ("decline", "", Command.Body.call(call, .decline(.everywhere))),
        ("decline", #","scope":"here""#, .call(call, .decline(.here))),
        ("busy", "", .call(call, .busy)),
      ] {
        let answer = try await client.request(
          "POST", "/v1/calls/bob/\(id)/\(action)", body: #"{"capability":"\#(text)"\#(extra)}"#)
        #expect(answer.status == 200)
        let command = try await edge.shards.next { _ in true }
        #expect(command.body == body && command.device == "phone")
      }
    }
  }

  /// URLs stand in the logs of whatever is between.
  @Test func theCapabilityMayNotStandInTheURL() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let text = try Self.text(edge)
      for request in Self.requests {
        for name in ["capability", "token", "access_token"] {
          let answer = try await client.request(
            request.method, "/v1/calls/bob/\(id)\(request.action)?\(name)=\(text)")
          #expect(answer.status == 401 && answer.errorCode == 200)
        }
      }
      try await expectNothingHeard(edge)
    }
  }

  /// A header counts alone, whatever the body says.
  @Test func theHeaderCountsMore() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let text = try Self.text(edge)
      let path = "/v1/calls/bob/\(id)/decline"
      let body = #"{"capability":"\#(text)"}"#
      for headers in [
        Self.header("nonsense"), ["Authorization: Bearer nonsense"], ["Authorization: \(text)"],
        ["Authorization: Basic \(text)"], ["Authorization: Bearer \(text)"],
        ["Authorization: CallmeshPush"], ["Authorization: "],
      ] {
        let answer = try await client.request("POST", path, body: body, headers: headers)
        #expect(answer.status == 401 && answer.errorCode == 200, "\(headers[0].prefix(20))")
      }
      try await expectNothingHeard(edge)
    }
  }

  @Test func itIsGoodForOneCallUserAndDevice() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let other = "11111111-2222-3333-4444-555555555556"
      let good = try Self.text(edge)
      var tries: [(capability: String, method: String, path: String, body: String?)] = []
      for request in Self.requests {
        tries.append((good, request.method, "/v1/calls/bob/\(other)\(request.action)", nil))
        let path = "/v1/calls/bob/\(id)\(request.action)"
        for wrong in [
          Self.capability(call: CallID(other)!)
        ] {
          tries.append((try Self.text(edge, wrong), request.method, path, nil))
        }
        tries.append((good, request.method, path + "?device=tablet", nil))
        if request.method == "POST" {
          tries.append((good, request.method, path, #"{"device":"tablet"}"#))
        }
      }
      tries.append((good, "POST", "/v1/devices", #"{"device":"phone"}"#))
      tries.append((good, "DELETE", "/v1/devices/phone", nil))
      for attempt in tries {
        let answer = try await client.request(
          attempt.method, attempt.path, body: attempt.body,
          headers: Self.header(attempt.capability))
        #expect(answer.status == 401 && answer.errorCode == 200, "\(attempt.path)")
        #expect(
          answer.text == #"{"error":{"code":200,"name":"notAccepted","message":"#
            + #""The token was not accepted."}}"#, "which part was wrong is not told")
      }
      let upgrade = try await edge.client()
      upgrade.send(
        RawClient.text(
          "GET", "/v1/connect",
          headers: [
            "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Protocol: callmesh.v1.pb",
          ] + Self.header(good)))
      #expect(try await upgrade.response().status == 401)
      try await expectNothingHeard(edge)
    }
  }

  @Test func anAppOfTheSameNameDoesNotMatter() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let text = try Self.text(edge, Self.capability(app: "other"))
      _ = try await client.request("GET", "/v1/calls/bob/\(id)", headers: Self.header(text))
      let command = try await edge.shards.next { _ in true }
      #expect(command.callee == UserKey(app: "other", user: "bob"))
      #expect(command.user == UserKey(app: "other", user: "bob"))
    }
  }

  @Test func itExpires() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let late = try Self.text(edge, Self.capability(expires: wallSeconds))
      let forged = try PushCapabilityKeys([[UInt8](7...60)])
        .mint(Self.capability(expires: wallSeconds))
      for request in Self.requests {
        let path = "/v1/calls/bob/\(id)\(request.action)"
        let answer = try await client.request(
          request.method, path, headers: Self.header(late))
        #expect(answer.status == 401 && answer.errorCode == 201)
        // Only one that was valid before is reported as expired.
        let other = try await client.request(
          request.method, path, headers: Self.header(forged))
        #expect(other.status == 401 && other.errorCode == 200)
      }
      try await expectNothingHeard(edge)
      #expect(edge.metric(#"callmesh_edge_push_requests_total{result="refused"}"#) == 6)
    }
  }

  @Test func withoutKeysItIsToldToTryAgain() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let text = try Self.text(edge)
      let keys = edge.pushKeys.current
      edge.pushKeys.replace(with: nil)
      for request in Self.requests {
        let answer = try await client.request(
          request.method, "/v1/calls/bob/\(id)\(request.action)", headers: Self.header(text))
        #expect(answer.status == 503 && answer.errorCode == 501)
        #expect(answer.headers["retry-after"] == "1")
      }
      try await expectNothingHeard(edge)
      // Keys are replaced while pushes are under way.
      edge.pushKeys.replace(with: try PushCapabilityKeys([[UInt8](100...140), [UInt8](1...32)]))
      #expect(keys != nil)
      for capability in [text, try Self.text(edge)] {
        let answer = try await client.request(
          "GET", "/v1/calls/bob/\(id)", headers: Self.header(capability))
        #expect(answer.status == 200)
      }
      edge.pushKeys.replace(with: try PushCapabilityKeys([[UInt8](100...140)]))
      let answer = try await client.request(
        "GET", "/v1/calls/bob/\(id)", headers: Self.header(text))
      #expect(answer.errorCode == 200)
      #expect(edge.metric(#"callmesh_edge_push_requests_total{result="no_keys"}"#) == 3)
    }
  }
}
