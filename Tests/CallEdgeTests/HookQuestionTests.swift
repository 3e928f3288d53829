import CallAuth
import CallCore
import CallEdge
import Crypto
import Foundation
import Testing

/// Questions to the servers of apps.
@Suite struct HookQuestionTests {
  private static let now = Timestamp(microseconds: 1_800_000_000_123_456)

  private func question(
    at now: Timestamp = now, _ change: (inout PlaceRequest) -> Void = { _ in }
  ) throws -> HookQuestion {
    let call = try #require(CallID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
    var request = PlaceRequest(call: call)
    change(&request)
    let command = Command(
      session: SessionRef(edge: 1, number: 2), request: 3,
      user: UserKey(app: "demo", user: "ann"), device: "phone",
      callee: UserKey(app: "demo", user: "bob"), body: .place(request))
    return HookQuestion(command, request, now: now)
  }

  @Test func allOfIt() throws {
    let question = try question {
      $0.setup.headers = [CustomHeader(name: "X-Team", value: "a \"b\"")]
      $0.setup.video = true
      $0.deviceName = "Ann's phone"
      $0.callerName = "Ann Lee"
      // Descriptions are between the devices.
      $0.setup.description = "v=0"
      $0.setup.pushData = "opaque"
    }
    #expect(question.id == "call_6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    #expect(question.seconds == 1_800_000_000)
    #expect(
      String(decoding: question.body, as: UTF8.self) == """
        {"type":"call.placing","timestamp":"2027-01-15T08:00:00.123Z","data":\
        {"call":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","app":"demo",\
        "caller":{"user":"ann","device":"phone","deviceName":"Ann's phone","name":"Ann Lee"},\
        "callee":{"user":"bob"},"video":true,\
        "headers":[{"name":"X-Team","value":"a \\"b\\""}]}}
        """)
  }

  @Test func leastOfIt() throws {
    #expect(
      String(decoding: try question().body, as: UTF8.self).hasSuffix(
        #""caller":{"user":"ann","device":"phone"},"callee":{"user":"bob"},"video":false,"headers":[]}}"#
      ))
  }

  /// The example in the specification of Standard Webhooks.
  @Test func theSignatureIsThatOfStandardWebhooks() throws {
    let secret = try #require(Data(base64Encoded: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
    let settings = HookSettings(url: "https://app.example", secrets: [Array(secret)])
    #expect(
      settings.signature(
        id: "msg_p5jXN8AQM9LWM0D4loKWxJek", seconds: 1_614_265_330,
        body: Array(#"{"test": 2432232314}"#.utf8))
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
  }

  @Test func eachSecretSigns() throws {
    let secrets = [[UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 24)]
    let question = try question()
    let headers = Dictionary(
      uniqueKeysWithValues: question.headers(
        HookSettings(url: "https://app.example", secrets: secrets)))
    #expect(headers["webhook-id"] == question.id)
    #expect(headers["webhook-timestamp"] == "1800000000")
    #expect(headers["content-type"] == "application/json")
    let signed = Data("\(question.id).1800000000.".utf8) + question.body
    let expected = secrets.map { secret in
      let code = HMAC<SHA256>.authenticationCode(for: signed, using: SymmetricKey(data: secret))
      return "v1," + Data(code).base64EncodedString()
    }
    #expect(headers["webhook-signature"] == expected.joined(separator: " "))
  }

  /// docs/hooks.md shows a question as it is sent.
  @Test func thePageShowsOne() throws {
    let page = try String(
      contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../docs/hooks.md").standardizedFileURL, encoding: .utf8)
    let secret = try #require(Data(base64Encoded: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
    let question = try question(at: Timestamp(microseconds: 1_800_000_000_000_000)) {
      $0.setup.headers = [CustomHeader(name: "X-Team", value: "support")]
      $0.deviceName = "Ann's phone"
      $0.callerName = "Ann Lee"
    }
    for (name, value) in question.headers(
      HookSettings(url: "https://app.example/callmesh", secrets: [Array(secret)]))
    {
      #expect(page.contains("\n\(name): \(value)\n"))
    }
    #expect(page.contains("\n" + String(decoding: question.body, as: UTF8.self) + "\n"))
  }

  /// Also at another edge, and later.
  @Test func theSameCallHasTheSameId() throws {
    #expect(try question().id == (try question { $0.setup.video = true }.id))
  }
}
