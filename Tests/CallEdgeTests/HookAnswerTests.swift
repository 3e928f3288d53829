import CallAuth
import CallCore
import CallEdge
import Crypto
import Foundation
import Testing

/// Answers of the servers of apps.
@Suite struct HookAnswerTests {
  private func read(_ text: String) -> Result<HookDecision, HookFailure> {
    HookAnswer.read(Array(text.utf8))
  }

  private func refusal(_ text: String) throws -> CallError {
    guard case .refuse(let error) = try read(text).get() else { throw TestFailure("allowed") }
    return error
  }

  @Test(
    arguments: [
      (#"{"action":"allow"}"#, nil, []), (#" { "action" : "allow" } "#, nil, []),
      (#"{"action":"allow","callerName":null}"#, nil, []),
      (#"{"action":"allow","callerName":""}"#, nil, []),
      (#"{"action":"allow","callerName":"\u0000\u202e"}"#, nil, []),
      (#"{"action":"allow","callerName":"Ann Lee"}"#, "Ann Lee", []),
      (#"{"action":"allow","callerName":"Ann\nLee"}"#, "AnnLee", []),
      (#"{"action":"allow","callerName":"Zoë 👩‍👩‍👧","more":[{"x":1}]}"#, "Zoë 👩‍👩‍👧", []),
      (
        #"{"action":"allow","callerName":"\#(String(repeating: "é", count: 1000))"}"#,
        String(repeating: "é", count: 64), []
      ),
      (#"{"action":"forward","to":["carl"]}"#, nil, ["carl"]),
      (#"{"action":"forward","to":["carl","dora"],"callerName":"Ann"}"#, "Ann", ["carl", "dora"]),
    ] as [(String, String?, [String])])
  func allowed(text: String, name: String?, forward: [String]) throws {
    #expect(try read(text).get() == .allow(callerName: name, forward: forward))
  }

  @Test(
    arguments: [
      ("forbidden", .refusedByApp), ("unknownUser", .unknownUser),
      ("unavailable", .userUnavailable), (nil, .refusedByApp),
      // The app wants no such call.
      ("busy", .refusedByApp), ("", .refusedByApp), ("UNKNOWNUSER", .refusedByApp),
    ] as [(String?, CallError.Code)])
  func refused(reason: String?, code: CallError.Code) throws {
    let given = reason.map { "\"\($0)\"" } ?? "null"
    #expect(try refusal(#"{"action":"refuse","reason":\#(given)}"#) == CallError(code))
    for (message, shown) in [
      (#"Not \u0007today."#, "Not today."),
      (String(repeating: "x", count: 3000), String(repeating: "x", count: 128)),
    ] {
      let told = try refusal(#"{"action":"refuse","reason":\#(given),"message":"\#(message)"}"#)
      #expect(told == CallError(code, shown))
    }
  }

  /// No user is rung whom the app did not mean.
  @Test(arguments: [
    #"{"action":"forward"}"#, #"{"action":"forward","to":[]}"#, #"{"action":"forward","to":[""]}"#,
    #"{"action":"forward","to":["carl","a\u0000b"]}"#,
    #"{"action":"forward","to":["1","2","3","4","5","6","7","8","9","10","11"]}"#,
    "", " ", "allow", "true", "null", "[]", "{}", "42", #""allow""#, #"{"action":null}"#,
    #"{"action":"Allow"}"#, #"{"action":"forward","to":"carl"}"#, #"{"action":["allow"]}"#,
    #"{"action":"allow""#, #"{"action":"allow","callerName":7}"#,
    #"{"action":"allow","callerName":["Ann"]}"#, #"{"action":"refuse","reason":1}"#,
    #"{"action":"refuse","message":{}}"#, #"[{"action":"allow"}]"#, #"{"Action":"allow"}"#,
    "<html>502 Bad Gateway</html>", "\u{feff}{\"action\":\"allow\"}x",
    #"{"action":"allow","x":"# + String(repeating: "[", count: 2000),
  ]) func noAnswers(text: String) {
    #expect(read(text) == .failure(.unreadable))
  }

  @Test func foreignTextDoesNotHarm() {
    let wide = #"{"action":"allow"}"#.utf16.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] }
    #expect(HookAnswer.read(wide) == .failure(.unreadable))
    #expect(HookAnswer.read([0xff, 0xfe, 0x00]) == .failure(.unreadable))
  }

  @Test func sizes() throws {
    #expect(try refusal(#"{"action":"refuse"}"#) == CallError(.refusedByApp))
    let frame = #"{"action":"allow","x":""}"#
    let text = String(repeating: "x", count: HookAnswer.bytesMax - frame.utf8.count)
    #expect(read(#"{"action":"allow","x":"\#(text)"}"#) == .success(.allow(callerName: nil)))
    #expect(read(#"{"action":"allow","x":"\#(text)x"}"#) == .failure(.tooLarge))
  }

  /// As `json.dumps` and `json_encode` write them.
  @Test func theLongestIdsFitHoweverTheyAreEscaped() {
    let users = (0..<HookAnswer.forwardMax).map { String(repeating: "ж", count: 63) + "\($0)" }
    func escaped(_ text: String) -> String {
      text.utf16.map {
        $0 < 128 ? String(UnicodeScalar(UInt8($0))) : "\\u0\(String($0, radix: 16))"
      }
      .joined()
    }
    let name = String(repeating: "ж", count: 64)
    let list = users.map { "\"\(escaped($0))\"" }.joined(separator: ", ")
    let text = #"{"action": "forward", "to": [\#(list)], "callerName": "\#(escaped(name))"}"#
    #expect(read(text) == .success(.allow(callerName: name, forward: users)))
  }
}

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
      user: ann, device: "phone",
      callee: bob, body: .place(request))
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
    // The same call has the same id, also at another edge, and later.
    let least = try self.question()
    #expect(least.id == question.id)
    #expect(
      String(decoding: least.body, as: UTF8.self).hasSuffix(
        #""caller":{"user":"ann","device":"phone"},"callee":{"user":"bob"},"video":false,"headers":[]}}"#
      ))
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
}
