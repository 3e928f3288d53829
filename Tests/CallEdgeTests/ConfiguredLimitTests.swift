import CallEdge
import Testing

/// An operator may set limits: a refusal names the one in force. (Those of sessions are in
/// `DeviceSessionTests`.)
@Suite struct ConfiguredLimitTests {
  @Test func rateOfRequests() async throws {
    try await EdgeFixture.run(at: StillTime()) {
      $0.commandsBurst = 1
      $0.commandsPerSecond = 7
    } _: { edge in
      let client = try await edge.client()
      let token = try await edge.token("ann", device: "phone")
      let path = "/v1/calls/bob/11111111-2222-3333-4444-555555555555"
      #expect(try await client.request("GET", path, token: token).status == 200)
      let refused = try await client.request("GET", path, token: token)
      #expect(refused.status == 429)
      #expect(refused.text.contains("Too many commands: 7 a second, 1 at once."))
    }
  }
}
