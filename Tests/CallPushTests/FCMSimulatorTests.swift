import AsyncHTTPClient
import CallPush
import Foundation
import NIOCore
import NIOHTTP1
import PushSimulators
import Testing

/// Requests that a strict simulator must refuse.
@Suite("The simulator of FCM says no", .timeLimit(.minutes(1)))
struct FCMSimulatorTests {
  let simulator: FCMSimulator

  init() async throws {
    simulator = try await FCMSimulator.start(authority: nil) { 1_800_000_000 }
  }

  func post(
    _ url: String, _ headers: [(String, String)], _ body: String
  ) async throws -> Int {
    var request = HTTPClientRequest(url: url)
    request.method = .POST
    request.headers = HTTPHeaders(headers)
    request.body = .bytes(Array(body.utf8))
    let response = try await HTTPClient.shared.execute(request, timeout: .seconds(10))
    _ = try await response.body.collect(upTo: 65_536)
    return Int(response.status.code)
  }

  func account(at: Int64) throws -> String {
    try ServiceAccount.load(path: simulator.serviceAccountFile, sender: "main").assertion(
      nowSeconds: at)
  }

  func exchange(_ assertion: String, type: String = "application/x-www-form-urlencoded")
    async throws -> Int
  {
    try await post(
      simulator.tokenEndpoint, [("content-type", type)],
      "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)")
  }

  @Test func toAssertionsThatAreNotInOrder() async throws {
    let good = try account(at: 1_800_000_000)
    #expect(try await exchange(good) == 200)
    #expect(simulator.violations.isEmpty)
    #expect(try await exchange(account(at: 1_800_000_100)) == 400)
    #expect(try await exchange(account(at: 1_799_990_000)) == 400)
    #expect(try await exchange(good, type: "application/json") == 400)
    #expect(try await exchange("a.b") == 400)
    let parts = good.split(separator: ".").map(String.init)
    let other = try account(at: 1_799_999_999).split(separator: ".").map(String.init)
    #expect(try await exchange("\(parts[0]).\(parts[1]).\(other[2])") == 400)
    #expect(
      simulator.violations
        == [
          "token: iat", "token: iat", "token: content type", "token: assertion",
          "token: signature",
        ])
    await simulator.stop()
  }

  @Test func toMessagesThatAreNotInOrder() async throws {
    #expect(try await exchange(account(at: 1_800_000_000)) == 200)
    let url = simulator.origin + "/v1/projects/\(simulator.project)/messages:send"
    func send(_ body: String, token: String = "ya29.simulated-1") async throws -> Int {
      try await post(
        url, [("authorization", "Bearer \(token)"), ("content-type", "application/json")], body)
    }
    func message(
      _ android: String, data: String = #"{"a":"b"}"#, token: String = "t"
    ) -> String {
      #"{"message":{"token":"\#(token)","data":\#(data),"android":{\#(android)},"#
        + #""webpush":{"headers":{"TTL":"30","Urgency":"high"}}}}"#
    }
    let android = #""priority":"high","ttl":"30s","direct_boot_ok":true"#
    #expect(try await send(message(android)) == 200)
    #expect(try await send(message(android), token: "other") == 401)
    let bad = [
      "", "{}", #"{"message":{}}"#, message(#""priority":"high","direct_boot_ok":true"#),
      message(android.replacingOccurrences(of: "30s", with: "30")),
      message(android.replacingOccurrences(of: "30s", with: "-1s")),
      message(android.replacingOccurrences(of: "high", with: "HIGH")),
      message(android.replacingOccurrences(of: "true", with: "false")),
      message(android + #","extra":1"#), message(android, data: #"{"a":1}"#),
      message(android, data: "{}"), message(android, data: #"{"from":"x"}"#),
      message(android, data: #"{"a":"\#(String(repeating: "x", count: 4096))"}"#),
      message(android, token: ""),
      message(android).replacingOccurrences(of: #""TTL":"30""#, with: #""TTL":"31""#),
      message(android).replacingOccurrences(of: "}}}}", with: #"}},"apns":{}}}"#),
      #"{"message":{"token":"t","notification":{},"data":{"a":"b"},"android":{\#(android)}}}"#,
    ]
    for body in bad { #expect(try await send(body) == 400, "\(body.prefix(100))") }
    #expect(simulator.violations.count == bad.count)
    #expect(simulator.accepted.count == 1)
    await simulator.stop()
  }
}
