import CallAuth
import CallProcesses
import Foundation
import Testing

/// Settings of an edge that browsers and balancers meet, on real nodes.
@Suite(.timeLimit(.minutes(3))) struct EdgeSettingTests {
  @Test("the list of origins guards pages, and idle connections are closed in time")
  func originsAndIdleConnections() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 0)
    defer { cluster.stop() }
    try cluster.startEdge(
      "e1", ["--allowed-origins", "https://app.example", "--keep-alive-timeout", "1s"])
    try await cluster.waitUntilReady("e1")
    let now = Int64(Date().timeIntervalSince1970)
    let token = try cluster.keys.mintToken(app: "demo", user: "ann", lifetimeSeconds: 600, now: now)
    let cases: [(origin: String, token: String?, status: Int32)] = [
      ("https://app.example", nil, 101), ("https://evil.example", nil, 403),
      // A React Native app's library adds an origin of its own.
      ("https://evil.example", token, 101), ("https://evil.example", "no token", 401),
    ]
    for (origin, token, status) in cases {
      let answer = await HTTPProbe.send(
        "GET", "127.0.0.1", cluster.port("e1"), "/v1/connect", connection: "Upgrade",
        headers: [
          "Origin: \(origin)", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
          "Sec-WebSocket-Protocol: callmesh.v1.json",
        ] + (token.map { ["Authorization: Bearer \($0)"] } ?? []))
      #expect(answer.status == status, "\(origin)")
    }
    let answer = await HTTPProbe.send(
      "GET", "127.0.0.1", cluster.port("e1"), "/healthz", connection: "keep-alive", seconds: 60)
    #expect(answer.status == 200, "the edge closes the connection")
  }
}
