import CallCore
import CallEdge
import Testing

private let id = "11111111-2222-3333-4444-555555555555"

/// The HTTP API lets two things wait: requests that come too fast, and bodies until it wants them.
@Suite struct HTTPLimitTests {
  @Test func rateIsLimited() async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) {
      $0.commandsBurst = 3
      $0.commandsPerSecond = 1
    } _: { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann", device: "phone")
      let path = "/v1/calls/bob/\(id)"
      for _ in 0..<3 {
        #expect(try await client.request("GET", path, token: token).status == 200)
      }
      let response = try await client.request("GET", path, token: token)
      #expect(response.status == 429 && response.errorCode == 107)
      #expect(response.headers["retry-after"] == "1")
      #expect(edge.metric("callmesh_edge_http_rates") == 1)
      time.pass(.seconds(1))
      for status in [200, 429] {
        #expect(try await client.request("GET", path, token: token).status == status)
      }
    }
  }

  /// Behind a proxy many users share a connection, and anybody may open many.
  @Test func rateIsThatOfAUserNotOfAConnection() async throws {
    try await EdgeFixture.run(at: StillTime()) {
      $0.commandsBurst = 2
      $0.commandsPerSecond = 1
    } _: { edge in
      let client = try await edge.client()
      let path = "/v1/calls/bob/\(id)"
      let ann = try await edge.token("ann")
      for device in ["phone", "tablet"] {
        let answer = try await client.request("GET", "\(path)?device=\(device)", token: ann)
        #expect(answer.status == 200)
      }
      // Nor does another name help, nor another connection.
      for client in [client, try await edge.client(), try await edge.client()] {
        let answer = try await client.request("GET", "\(path)?device=watch", token: ann)
        #expect(answer.status == 429 && answer.errorCode == 107)
      }
      // Others on the same connection are not concerned, nor a device with a token of its own.
      for token in [try await edge.token("eve"), try await edge.token("ann", device: "phone")] {
        let answer = try await client.request("GET", "\(path)?device=phone", token: token)
        #expect(answer.status == 200)
      }
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
  @Test func bodiesThatWaitAreAskedFor() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann")
      func head(_ length: Int, version: String = "1.1", method: String = "POST") -> String {
        "\(method) /v1/devices HTTP/\(version)\r\nHost: edge\r\nAuthorization: Bearer \(token)\r\n"
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
      let refused = try await client.response()
      #expect(refused.status == 413 && refused.errorCode == 101)
      try await client.end()
    }
  }
}
