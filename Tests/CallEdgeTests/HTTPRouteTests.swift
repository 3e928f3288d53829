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
    let address = CallAddress(callee: "bob", call: call)
    var cases: [(String, String, HTTPRoute)] = [
      ("GET", "/v1/connect", .connect), ("POST", "/v1/devices", .registerDevice),
      ("DELETE", "/v1/devices/phone", .unregisterDevice("phone")),
      ("DELETE", "/v1/devices/my%20phone%2f1", .unregisterDevice("my phone/1")),
      ("GET", "/v1/calls/bob/\(id)", .call(address)),
      ("GET", "/v1/calls/bo%62/\(id.uppercased())", .call(address)),
      ("POST", "/v1/calls/bob/\(id)/decline", .decline(address)),
      ("POST", "/v1/calls/bob/\(id)/busy", .busy(address)),
      ("GET", "/v1/history", .history), ("POST", "/v1/history/read", .historyRead),
      ("GET", "/healthz", .health), ("HEAD", "/healthz", .health),
      ("GET", "/v1/app/users/b%20b", .app(.user("b b"))),
      ("GET", "/v1/app/users/bob/calls", .app(.calls(of: "bob"))),
      ("GET", "/v1/app/users/b%C3%B6b/history", .app(.history(of: "böb"))),
      ("HEAD", "/v1/app/users/bob/history", .app(.history(of: "bob"))),
      ("POST", "/v1/app/users/bob/history/read", .app(.historyRead(of: "bob"))),
      ("GET", "/v1/app/calls", .app(.liveCalls)), ("HEAD", "/v1/app/calls", .app(.liveCalls)),
      ("POST", "/v1/app/calls", .app(.placeCall)),
      ("DELETE", "/v1/app/users/bob/devices/d%2f1", .app(.removeDevice("d/1", of: "bob"))),
      ("GET", "/v1/app/calls/bob/\(id)", .app(.call(address))),
      ("POST", "/v1/app/calls/bob/\(id)/end", .app(.endCall(address))),
    ]
    let verbs: [(String, HTTPRulesVerb)] = [
      ("GET", .get), ("HEAD", .get), ("PUT", .put), ("DELETE", .delete),
    ]
    for (method, verb) in verbs {
      cases += [
        (method, "/v1/rules", .rules(verb)),
        (method, "/v1/app/users/bob/rules", .app(.rules(verb, of: "bob"))),
        (method, "/v1/app/users/bob/name", .app(.name(verb, of: "bob"))),
      ]
    }
    for (method, path, expected) in cases {
      #expect(route(method, path) == .success(expected), "\(method) \(path)")
    }
  }

  /// `OpenAPITests` knows the methods of each path.
  @Test func otherPathsAndMethods() {
    for path in [
      "", "/", "/v1", "/v1/", "/v1/app", "/v1/app/", "/v1/app/users", "/v1/app/calls/bob",
      "/v1/app/users/bob/devices", "/v1/app/users/bob/rules/", "/v1/devices/", "/v2/connect",
      "/v1/app/users/bob/history/", "/v1/app/users/bob/history/unread", "/v1/history/unread",
      "/v1/app/groups/desk/history", "//v1/connect", "/healthz/", "/readyz", "/metrics",
    ] {
      #expect(route("GET", path) == .failure(.notFound), "\(path)")
    }
    #expect(route("HEAD", "/v1/devices") == .failure(.method(allowed: "POST")))
    #expect(route("POST", "/v1/rules") == .failure(.method(allowed: "GET, PUT, DELETE")))
  }

  @Test func idsAreChecked() {
    let long = String(repeating: "x", count: 129)
    for (method, path, code) in [
      ("DELETE", "/v1/devices/%0A", .invalidDevice), ("DELETE", "/v1/devices/%zz", .invalidDevice),
      ("DELETE", "/v1/devices/%C3", .invalidDevice),
      ("GET", "/v1/calls/\(long)/\(id)", .invalidCallee),
      ("GET", "/v1/calls//\(id)", .invalidCallee),
      ("GET", "/v1/app/users/\(long)", .invalidField),
      ("GET", "/v1/app/users/%00/calls", .invalidField),
      ("GET", "/v1/app/users//history", .invalidField),
      ("DELETE", "/v1/app/users/bob/devices/%0A", .invalidDevice),
      ("POST", "/v1/app/calls/bob/1234/end", .invalidField),
      ("GET", "/v1/calls/bob/1234", .invalidField),
    ] as [(String, String, CallError.Code)] {
      guard case .failure(.invalid(let error)) = route(method, path) else {
        Issue.record("taken: \(path)")
        continue
      }
      #expect(error.code == code, "\(path)")
    }
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
  @Test(
    .edge(),
    arguments: [
      "", "Host: edge\r\nHost: edge\r\n", "Host: edge\r\nhost: other\r\n", "Host: edge, other\r\n",
      "Host: edge/path\r\n", "Host: user@edge\r\n", "Host: a b\r\n",
    ])
  func othersAreRefused(lines: String) async throws {
    for path in ["/healthz", "/v1/connect"] {
      let client = try await edge.client()
      client.send("GET \(path) HTTP/1.1\r\n\(lines)\r\n")
      let answer = try await client.response()
      #expect(answer.outcome == (400, 106))
      try await client.end()
    }
  }

  @Test(
    .edge(),
    arguments: [
      "Host: edge", "Host: edge.example:8443", "Host: [2001:db8::1]:80", "Host: 192.0.2.1",
      "Host: ",
      nil,
    ])
  func hostsAreTaken(line: String?) async throws {
    let client = try await edge.client()
    // A request of HTTP/1.0 needs none.
    client.send("GET /healthz HTTP/" + (line.map { "1.1\r\n\($0)\r\n\r\n" } ?? "1.0\r\n\r\n"))
    #expect(try await client.response().status == 200)
  }
}
