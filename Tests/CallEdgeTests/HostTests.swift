import CallEdge
import Testing

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
