import CallAuth
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Testing

private let id = "11111111-2222-3333-4444-555555555555"
private let call = CallID(id)!
private let path = "/v1/calls/bob/\(id)"

/// Requests that a push allows, over HTTP and without a login: for one call and one device.
@Suite struct PushRequestTests {
  static func capability(
    app: String = "demo", user: String = "bob", device: String = "phone",
    call: CallID = call, expires: Int64 = wallSeconds + 3600
  ) -> PushCapability {
    PushCapability(app: app, user: user, device: device, call: call.bytes, expires: expires)
  }

  static func text(
    _ edge: EdgeFixture, _ capability: PushCapability = capability()
  ) throws -> String {
    try #require(edge.pushKeys.current).mint(capability)
  }

  static func header(_ text: String, scheme: String = "CallmeshPush") -> [String] {
    ["Authorization: \(scheme) \(text)"]
  }

  private static let requests: [(method: String, action: String, body: Command.Body)] = [
    ("GET", "", .call(call, .query)), ("POST", "/decline", .call(call, .decline(.everywhere))),
    ("POST", "/busy", .call(call, .busy)),
  ]

  /// Asserts that no command reached a shard before the one that this says itself.
  private func expectNothingHeard(_ edge: EdgeFixture) async throws {
    let token = try edge.token("marker", device: "marker")
    _ = try await edge.request("GET", "/v1/calls/marker/\(id)", token: token)
    let first = try await edge.shards.next()
    #expect(first.user.user == "marker", "heard: \(first)")
  }

  @Test(.edge()) func aPushedDeviceAsksDeclinesAndIsBusy() async throws {
    let text = try Self.text(edge)
    for scheme in ["CallmeshPush", "callmeshpush", "CALLMESHPUSH"] {
      for request in Self.requests {
        let answer = try await edge.request(
          request.method, path + request.action, headers: Self.header(text, scheme: scheme))
        #expect(answer.status == 200 && answer.text.contains(#""phase":"ringing""#))
        let command = try await edge.shards.next()
        #expect(command.body == request.body && command.device == "phone")
        #expect(command.user == bob && command.callee == bob)
        #expect(command.credential == .pushCapability(text))
      }
    }
    #expect(edge.metric(#"callmesh_edge_push_requests_total{result="accepted"}"#) == 9)
  }

  /// The capability may stand in the body: for code that cannot set headers.
  @Test(.edge()) func bodiesHaveTheScopeAndPerhapsTheCapability() async throws {
    let text = try Self.text(edge)
    let own = #""capability":"\#(text)""#
    for (action, body, verb) in [
      ("/decline", "{}", CallVerb.decline(.everywhere)),
      ("/decline", #"{"scope":"here"}"#, .decline(.here)),
      ("/decline", #"{"scope":"everywhere","device":"phone"}"#, .decline(.everywhere)),
      ("/decline", "{\(own)}", .decline(.everywhere)),
      ("/decline", #"{\#(own),"scope":"here"}"#, .decline(.here)), ("/busy", "{\(own)}", .busy),
    ] {
      let answer = try await edge.request(
        "POST", path + action, body: body,
        headers: body.contains("capability") ? [] : Self.header(text))
      #expect(answer.status == 200)
      let command = try await edge.shards.next()
      #expect(command.body == .call(call, verb) && command.device == "phone")
      #expect(command.credential == .pushCapability(text))
    }
    let bad = try await edge.request(
      "POST", path + "/decline", body: #"{"scope":"there"}"#, headers: Self.header(text))
    #expect(bad.errorCode == 106)
  }

  /// URLs stand in the logs of whatever is between. And where there is a header, it counts alone.
  @Test(.edge()) func theCapabilityMayStandNowhereElse() async throws {
    let text = try Self.text(edge)
    for request in Self.requests {
      for name in ["capability", "token", "access_token"] {
        let answer = try await edge.request(
          request.method, path + "\(request.action)?\(name)=\(text)")
        #expect(answer.outcome == (401, 200))
      }
    }
    for authorization in [
      "CallmeshPush nonsense", "Bearer nonsense", text, "Basic \(text)", "Bearer \(text)",
      "CallmeshPush", "",
    ] {
      let answer = try await edge.request(
        "POST", path + "/decline", body: #"{"capability":"\#(text)"}"#,
        headers: ["Authorization: \(authorization)"])
      #expect(answer.outcome == (401, 200), "\(authorization.prefix(20))")
    }
    // Bodies that are none: without a header there is no telling who asks.
    for body in ["", "{", "[]", #"{"capability":7}"#, #"{"capability":""}"#, "nonsense"] {
      for action in ["/decline", "/busy"] {
        #expect(try await edge.request("POST", path + action, body: body).outcome == (401, 200))
      }
    }
    try await expectNothingHeard(edge)
  }

  @Test(.edge()) func itIsGoodForOneCallUserAndDevice() async throws {
    let other = "11111111-2222-3333-4444-555555555556"
    let good = try Self.text(edge)
    let wrong = try Self.text(edge, Self.capability(call: CallID(other)!))
    var tries: [(capability: String, method: String, path: String, body: String?)] = [
      (good, "POST", "/v1/devices", #"{"device":"phone"}"#),
      (good, "DELETE", "/v1/devices/phone", nil),
    ]
    for request in Self.requests {
      let path = path + request.action
      tries += [
        (good, request.method, "/v1/calls/bob/\(other)\(request.action)", nil),
        (wrong, request.method, path, nil),
        (good, request.method, path + "?device=tablet", nil),
      ]
      if request.method == "POST" {
        tries.append((good, request.method, path, #"{"device":"tablet"}"#))
      }
    }
    for attempt in tries {
      let answer = try await edge.request(
        attempt.method, attempt.path, body: attempt.body,
        headers: Self.header(attempt.capability))
      #expect(answer.status == 401, "\(attempt.path)")
      #expect(
        answer.text == #"{"error":{"code":200,"name":"notAccepted","message":"#
          + #""The token was not accepted."}}"#, "which part was wrong is not told")
    }
    #expect(try await edge.client().upgrade(headers: Self.header(good)).status == 401)
    try await expectNothingHeard(edge)
  }

  @Test(.edge()) func anAppOfTheSameNameDoesNotMatter() async throws {
    let text = try Self.text(edge, Self.capability(app: "other"))
    _ = try await edge.request("GET", path, headers: Self.header(text))
    let command = try await edge.shards.next()
    #expect(command.callee == UserKey(app: "other", user: "bob"))
    #expect(command.user == UserKey(app: "other", user: "bob"))
  }

  @Test(.edge()) func itExpires() async throws {
    let late = try Self.text(edge, Self.capability(expires: wallSeconds))
    let forged = try PushCapabilityKeys([[UInt8](7...60)])
      .mint(Self.capability(expires: wallSeconds))
    for request in Self.requests {
      // Only one that was valid before is reported as expired.
      for (capability, code) in [(late, 201), (forged, 200)] {
        let answer = try await edge.request(
          request.method, path + request.action, headers: Self.header(capability))
        #expect(answer.outcome == (401, code))
      }
    }
    try await expectNothingHeard(edge)
    #expect(edge.metric(#"callmesh_edge_push_requests_total{result="refused"}"#) == 6)
  }

  @Test(.edge()) func withoutKeysItIsToldToTryAgain() async throws {
    let text = try Self.text(edge)
    edge.pushKeys.replace(with: nil)
    for request in Self.requests {
      let answer = try await edge.request(
        request.method, path + request.action, headers: Self.header(text))
      #expect(answer.outcome == (503, 501) && answer.headers["retry-after"] == "1")
    }
    try await expectNothingHeard(edge)
    // Keys are replaced while pushes are under way.
    edge.pushKeys.replace(with: try PushCapabilityKeys([[UInt8](100...140), [UInt8](1...32)]))
    for capability in [text, try Self.text(edge)] {
      let answer = try await edge.request("GET", path, headers: Self.header(capability))
      #expect(answer.status == 200)
    }
    edge.pushKeys.replace(with: try PushCapabilityKeys([[UInt8](100...140)]))
    let answer = try await edge.request("GET", path, headers: Self.header(text))
    #expect(answer.errorCode == 200)
    #expect(edge.metric(#"callmesh_edge_push_requests_total{result="no_keys"}"#) == 3)
  }

  /// Neither errors nor metrics hold any part of a capability or a push token.
  @Test(.edge()) func nothingTellsACapabilityOrAToken() async throws {
    let secret = String(repeating: "5ec2e7", count: 10)
    let text = try Self.text(edge, Self.capability(device: "tablet"))
    let token = try edge.token("ann", device: "phone")
    let path = "/v1/calls/ann/\(id)"
    var told = ""
    for capability in [text, String(text.dropLast()), text + "A"] {
      told += try await edge.request(
        "POST", path + "/decline", body: #"{"capability":"\#(capability)"}"#
      ).text
      told += try await edge.request("GET", path, headers: Self.header(capability)).text
    }
    for field in ["voipToken", "alertToken"] {
      for provider in ["apns", "fcm", "webPush", "pigeon"] {
        let body = #"{"\#(field)":{"provider":"\#(provider)","topic":"/","token":"\#(secret)"}}"#
        let answer = try await edge.request("POST", "/v1/devices", token: token, body: body)
        #expect(answer.status == 400)
        told += answer.text
      }
    }
    told += edge.metrics.render()
    #expect(!told.contains(secret.prefix(6)))
    #expect(!told.contains(text.prefix(24)) && !told.contains(text.suffix(12)))
  }
}
