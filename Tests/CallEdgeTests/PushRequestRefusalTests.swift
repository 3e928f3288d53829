import CallAuth
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Testing

private let id = "11111111-2222-3333-4444-555555555555"
private let call = CallID(id)!

/// Requests that are refused, whatever they show.
extension PushRequestTests {
  @Test func rateIsLimited() async throws {
    try await EdgeFixture.run(at: StillTime()) {
      $0.commandsBurst = 2
      $0.commandsPerSecond = 1
    } _: { edge in
      let client = try await edge.client()
      let headers = Self.header(try Self.text(edge))
      let path = "/v1/calls/bob/\(id)"
      for _ in 0..<2 {
        #expect(try await client.request("GET", path, headers: headers).status == 200)
      }
      let answer = try await client.request("GET", path, headers: headers)
      #expect(answer.status == 429 && answer.errorCode == 107)
    }
  }

  /// Bodies that are none: without a header there is no telling who asks.
  @Test(arguments: ["", "{", "[]", #"{"capability":7}"#, #"{"capability":""}"#, "nonsense"])
  func unreadableBodiesWithoutAHeader(body: String) async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      for action in ["decline", "busy"] {
        let answer = try await client.request(
          "POST", "/v1/calls/bob/\(id)/\(action)", body: body)
        #expect(answer.status == 401 && answer.errorCode == 200)
      }
    }
  }

  /// Neither errors nor metrics hold any part of a capability or a push token.
  @Test func nothingTellsACapabilityOrAToken() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      let secret = String(repeating: "5ec2e7", count: 10)
      let text = try Self.text(edge, Self.capability(device: "tablet"))
      let token = try await edge.token("ann", device: "phone")
      var told = ""
      for capability in [text, String(text.dropLast()), text + "A"] {
        told += try await client.request(
          "POST", "/v1/calls/ann/\(id)/decline", body: #"{"capability":"\#(capability)"}"#
        ).text
        told += try await client.request(
          "GET", "/v1/calls/ann/\(id)", headers: Self.header(capability)
        ).text
      }
      for field in ["voipToken", "alertToken"] {
        for provider in ["apns", "fcm", "webPush", "pigeon"] {
          let body =
            #"{"\#(field)":{"provider":"\#(provider)","topic":"/","token":"\#(secret)"}}"#
          let answer = try await client.request("POST", "/v1/devices", token: token, body: body)
          #expect(answer.status == 400)
          told += answer.text
        }
      }
      told += edge.metrics.render()
      #expect(!told.contains(secret.prefix(6)))
      #expect(!told.contains(text.prefix(24)) && !told.contains(text.suffix(12)))
    }
  }
}
