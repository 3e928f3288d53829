import CallEdge
import Testing

private let id = "11111111-2222-3333-4444-555555555555"

/// Pages of other origins (CORS).
@Suite struct OriginTests {
  private static func preflight(
    _ method: String, origin: String = "https://app.example"
  ) -> [String] {
    [
      "Origin: \(origin)", "Access-Control-Request-Method: \(method)",
      "Access-Control-Request-Headers: authorization,content-type",
    ]
  }

  @Test(
    .edge { $0.allowedOrigins = ["https://other.example", "https://app.example"] },
    arguments: [
      ("POST", "/v1/devices"), ("DELETE", "/v1/devices/phone"), ("GET", "/v1/calls/bob/\(id)"),
      ("POST", "/v1/calls/bob/\(id)/decline"), ("POST", "/v1/calls/bob/\(id)/busy"),
    ])
  func preflightOfEachRoute(method: String, path: String) async throws {
    let answer = try await edge.request("OPTIONS", path, headers: Self.preflight(method))
    #expect(answer.status == 204 && answer.body.isEmpty)
    #expect(answer.headers["content-length"] == nil)
    #expect(answer.headers["access-control-allow-origin"] == "https://app.example")
    #expect(answer.headers["access-control-allow-methods"] == method)
    #expect(answer.headers["access-control-allow-headers"] == "Authorization, Content-Type")
    #expect(answer.headers["access-control-max-age"] == "600")
    #expect(answer.headers["vary"] == "Origin")
    // A method that the path does not take is not allowed.
    let other = try await edge.request("OPTIONS", path, headers: Self.preflight("PUT"))
    #expect(other.status == 204 && other.headers["access-control-allow-methods"] == method)
  }

  @Test(.edge { $0.allowedOrigins = ["https://app.example"] })
  func answersAndErrorsCarryTheHeaders() async throws {
    let token = try edge.token("ann")
    let path = "/v1/calls/bob/\(id)?device=phone"
    for (token, status) in [(token, 200), ("x", 401)] {
      let answer = try await edge.request(
        "GET", path, token: token, headers: ["Origin: https://app.example"])
      #expect(answer.status == status)
      #expect(answer.headers["access-control-allow-origin"] == "https://app.example")
      #expect(answer.headers["access-control-expose-headers"] == "Retry-After")
      #expect(answer.headers["vary"] == "Origin")
    }
    // Another page may ask, but its browser does not show it the answer.
    let other = try await edge.request(
      "GET", path, token: token, headers: ["Origin: https://evil.example"])
    #expect(other.status == 200 && other.headers["vary"] == "Origin")
    #expect(other.headers["access-control-allow-origin"] == nil)
    let none = try await edge.request("GET", path, token: token)
    #expect(none.headers["access-control-allow-origin"] == nil)
    #expect(none.headers["vary"] == "Origin")
  }

  @Test(.edge { $0.allowedOrigins = ["https://app.example"] })
  func foreignPreflightsAreRefused() async throws {
    for origin in ["https://evil.example", "null", "http://app.example"] {
      let answer = try await edge.request(
        "OPTIONS", "/v1/devices", headers: Self.preflight("POST", origin: origin))
      #expect(answer.outcome == (403, 202))
      #expect(answer.headers["access-control-allow-origin"] == nil)
    }
    for path in ["/metrics", "/nothing"] {
      let answer = try await edge.request("OPTIONS", path, headers: Self.preflight("GET"))
      #expect(answer.status == 404)
    }
  }

  @Test(.edge { $0.allowedOrigins = ["*"] }) func aStarAllowsAll() async throws {
    let answer = try await edge.request(
      "OPTIONS", "/v1/devices", headers: Self.preflight("POST", origin: "http://localhost:3000"))
    #expect(answer.status == 204)
    #expect(answer.headers["access-control-allow-origin"] == "http://localhost:3000")
    #expect(try await upgrade(edge, origin: "https://any.example") == 101)
    // But no page may ask what is an app's server's to ask.
    let server = try await edge.request(
      "OPTIONS", "/v1/app/users/bob", headers: Self.preflight("GET"))
    #expect(server.status == 404)
  }

  @Test(.edge()) func withoutAListNothingChanges() async throws {
    let preflight = try await edge.request(
      "OPTIONS", "/v1/devices", headers: Self.preflight("POST"))
    #expect(preflight.outcome == (405, 110))
    #expect(preflight.headers["vary"] == nil)
    #expect(try await upgrade(edge, origin: "https://any.example") == 101)
  }

  @Test(.edge { $0.allowedOrigins = ["https://app.example"] })
  func webSocketsFollowTheList() async throws {
    // An app that authenticates in the handshake is no page, whatever origin its library adds.
    for (origin, token, status) in [
      ("https://app.example", nil, 101), (nil, nil, 101), ("https://evil.example", nil, 403),
      ("https://evil.example", try edge.token("ann"), 101), ("https://evil.example", "x", 401),
    ] as [(String?, String?, Int)] {
      let answer = try await upgrade(edge, origin: origin, token: token)
      #expect(answer == status)
    }
  }

  @Test(
    "any scheme can be listed, and is compared as browsers write it",
    arguments: [
      ("capacitor://localhost", "capacitor://localhost"),
      ("tauri://localhost", "tauri://localhost"),
      ("chrome-extension://abcdefghijklmnopabcdefghijklmnop", nil),
      ("HTTPS://App.Example", "https://app.example"),
      ("https://app.example:443", "https://app.example"),
      ("http://localhost:80", "http://localhost"),
      ("http://[::1]:3000", nil), ("https://app.example:8443", nil),
    ] as [(String, String?)])
  func serialized(entry: String, written: String?) {
    let origins = AllowedOrigins([entry])
    #expect(origins.allows(written ?? entry))
    #expect(!origins.allows("https://evil.example") && !origins.allows("null"))
  }

  @Test(
    "what no browser writes is no origin",
    arguments: [
      "app.example", "https://", "https://app.example/", "https://app.example/path", "null",
      "file://x", "https://ann@app.example", "https://app.example:0", "https://app.example:65536",
      "https://app.example:", "https://a..b", "https://[x]", "https://bücher.example", "://x",
      "1a://x", "https://app.example:80:90", "",
    ])
  func noOrigin(text: String) {
    #expect(AllowedOrigins.serialized(text) == nil)
  }

  private func upgrade(
    _ edge: EdgeFixture, origin: String?, token: String? = nil
  ) async throws -> Int {
    try await edge.client().upgrade(
      "callmesh.v1.json", token: token, headers: origin.map { ["Origin: \($0)"] } ?? []
    ).status
  }
}
