import CallCore
import CallEdge
import CallWire
import Testing

@Suite struct HTTPRouteTests {
  private let id = "11111111-2222-3333-4444-555555555555"

  private func route(_ method: String, _ path: String) -> Result<HTTPRoute, HTTPRoute.Failure> {
    do {
      return .success(try HTTPRoute.find(method: method, path: path[...]))
    } catch {
      return .failure(error)
    }
  }

  @Test func pathsOfTheAPI() throws {
    let call = try #require(CallID(id))
    let cases: [(String, String, HTTPRoute)] = [
      ("GET", "/v1/connect", .connect), ("POST", "/v1/devices", .registerDevice),
      ("DELETE", "/v1/devices/phone", .unregisterDevice("phone")),
      ("DELETE", "/v1/devices/my%20phone%2f1", .unregisterDevice("my phone/1")),
      ("GET", "/v1/calls/bob/\(id)", .call(CallAddress(callee: "bob", call: call))),
      (
        "GET", "/v1/calls/b%C3%B6b/\(id.uppercased())",
        .call(CallAddress(callee: "böb", call: call))
      ),
      ("POST", "/v1/calls/bob/\(id)/decline", .decline(CallAddress(callee: "bob", call: call))),
      ("POST", "/v1/calls/bob/\(id)/busy", .busy(CallAddress(callee: "bob", call: call))),
      ("GET", "/v1/history", .history), ("POST", "/v1/history/read", .historyRead),
      ("GET", "/healthz", .health), ("HEAD", "/healthz", .health),
      ("GET", "/v1/rules", .rules(.get)), ("HEAD", "/v1/rules", .rules(.get)),
      ("PUT", "/v1/rules", .rules(.put)), ("DELETE", "/v1/rules", .rules(.delete)),
      ("GET", "/v1/app/users/b%20b", .app(.user("b b"))),
      ("GET", "/v1/app/users/bob/calls", .app(.calls(of: "bob"))),
      ("GET", "/v1/app/users/b%C3%B6b/history", .app(.history(of: "böb"))),
      ("HEAD", "/v1/app/users/bob/history", .app(.history(of: "bob"))),
      ("POST", "/v1/app/users/bob/history/read", .app(.historyRead(of: "bob"))),
      ("GET", "/v1/app/calls", .app(.liveCalls)), ("HEAD", "/v1/app/calls", .app(.liveCalls)),
      ("POST", "/v1/app/calls", .app(.placeCall)),
      ("DELETE", "/v1/app/users/bob/devices/d%2f1", .app(.removeDevice("d/1", of: "bob"))),
      ("GET", "/v1/app/users/bob/rules", .app(.rules(.get, of: "bob"))),
      ("PUT", "/v1/app/users/bob/rules", .app(.rules(.put, of: "bob"))),
      ("DELETE", "/v1/app/users/bob/rules", .app(.rules(.delete, of: "bob"))),
      ("GET", "/v1/app/users/bob/name", .app(.name(.get, of: "bob"))),
      ("PUT", "/v1/app/users/bob/name", .app(.name(.put, of: "bob"))),
      ("DELETE", "/v1/app/users/bob/name", .app(.name(.delete, of: "bob"))),
      ("GET", "/v1/app/calls/bob/\(id)", .app(.call(CallAddress(callee: "bob", call: call)))),
      (
        "POST", "/v1/app/calls/bob/\(id)/end",
        .app(.endCall(CallAddress(callee: "bob", call: call)))
      ),
    ]
    for (method, path, expected) in cases {
      #expect(route(method, path) == .success(expected), "\(method) \(path)")
    }
  }

  @Test func otherPathsAndMethods() {
    for path in [
      "", "/", "/v1", "/v1/", "/v1/app", "/v1/app/", "/v1/app/users", "/v1/app/calls/bob",
      "/v1/app/users/bob/devices", "/v1/app/users/bob/rules/", "/v1/devices/", "/v2/connect",
      "/v1/app/users/bob/history/", "/v1/app/users/bob/history/unread",
      "/v1/app/groups/desk/history",
      "//v1/connect", "/healthz/", "/readyz",
      "/metrics",
    ] {
      #expect(route("GET", path) == .failure(.notFound), "\(path)")
    }
    #expect(route("GET", "/v1/devices") == .failure(.method(allowed: "POST")))
    #expect(route("PUT", "/v1/devices/phone") == .failure(.method(allowed: "DELETE")))
    #expect(route("POST", "/v1/history") == .failure(.method(allowed: "GET")))
    #expect(route("GET", "/v1/history/read") == .failure(.method(allowed: "POST")))
    #expect(route("GET", "/v1/history/unread") == .failure(.notFound))
    #expect(route("HEAD", "/v1/devices") == .failure(.method(allowed: "POST")))
    let rules = HTTPRoute.Failure.method(allowed: "GET, PUT, DELETE")
    #expect(route("POST", "/v1/rules") == .failure(rules))
    #expect(route("PATCH", "/v1/app/users/bob/rules") == .failure(rules))
    #expect(route("POST", "/v1/app/users/bob") == .failure(.method(allowed: "GET")))
    #expect(route("DELETE", "/v1/app/users/bob/history") == .failure(.method(allowed: "GET")))
    #expect(route("GET", "/v1/app/calls/bob/\(id)/end") == .failure(.method(allowed: "POST")))
  }

  @Test func idsAreChecked() {
    func code(_ method: String, _ path: String) -> CallError.Code? {
      guard case .failure(.invalid(let error)) = route(method, path) else { return nil }
      return error.code
    }
    let long = String(repeating: "x", count: 129)
    #expect(code("DELETE", "/v1/devices/%0A") == .invalidDevice)
    #expect(code("DELETE", "/v1/devices/%zz") == .invalidDevice)
    #expect(code("DELETE", "/v1/devices/%C3") == .invalidDevice)
    #expect(code("GET", "/v1/calls/\(long)/\(id)") == .invalidCallee)
    #expect(code("GET", "/v1/calls//\(id)") == .invalidCallee)
    #expect(code("GET", "/v1/app/users/\(long)") == .invalidField)
    #expect(code("GET", "/v1/app/users/%00/calls") == .invalidField)
    #expect(code("GET", "/v1/app/users//history") == .invalidField)
    #expect(code("DELETE", "/v1/app/users/bob/devices/%0A") == .invalidDevice)
    #expect(code("POST", "/v1/app/calls/bob/1234/end") == .invalidField)
    #expect(code("GET", "/v1/calls/bob/1234") == .invalidField)
  }

  @Test func parametersOfTheQuery() {
    #expect(HTTPRoute.parameter("device", query: "a=b&device=my%20phone") == "my phone")
    #expect(HTTPRoute.parameter("device", query: "device=") == "")
    #expect(HTTPRoute.parameter("device", query: "devices=x&device") == nil)
    #expect(HTTPRoute.parameter("device", query: "device=%f") == nil)
  }

  @Test func everyErrorHasAStatus() {
    for code in CallError.Code.allCases {
      #expect((400..<600).contains(code.httpStatus))
    }
  }
}

/// RFC 9112, 3.2: a request says for which host it is, once.
@Suite struct HostTests {
  @Test(arguments: [
    "", "Host: edge\r\nHost: edge\r\n", "Host: edge\r\nhost: other\r\n", "Host: edge, other\r\n",
    "Host: edge/path\r\n", "Host: user@edge\r\n", "Host: a b\r\n",
  ]) func othersAreRefused(lines: String) async throws {
    try await EdgeFixture.run { edge in
      for path in ["/healthz", "/v1/connect"] {
        let client = try await edge.client()
        client.send("GET \(path) HTTP/1.1\r\n\(lines)\r\n")
        let answer = try await client.response()
        #expect(answer.status == 400 && answer.errorCode == 106)
        try await client.end()
      }
    }
  }

  @Test(arguments: ["edge", "edge.example:8443", "[2001:db8::1]:80", "192.0.2.1", ""])
  func hostsAreTaken(host: String) async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      client.send("GET /healthz HTTP/1.1\r\nHost: \(host)\r\n\r\n")
      #expect(try await client.response().status == 200)
    }
  }

  @Test func aRequestOfHTTP1Point0NeedsNone() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      client.send("GET /healthz HTTP/1.0\r\n\r\n")
      #expect(try await client.response().status == 200)
    }
  }
}
