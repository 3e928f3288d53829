import CallCore
import CallEdge
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

  @Test(arguments: [
    (#"{"action":"allow"}"#, nil), (#" { "action" : "allow" } "#, nil),
    (#"{"action":"allow","callerName":null}"#, nil),
    (#"{"action":"allow","callerName":""}"#, nil),
    (#"{"action":"allow","callerName":"\u0000\u202e"}"#, nil),
    (#"{"action":"allow","callerName":"Ann Lee"}"#, "Ann Lee"),
    (#"{"action":"allow","callerName":"Ann\nLee"}"#, "AnnLee"),
    (#"{"action":"allow","callerName":"Zoë 👩‍👩‍👧","more":[{"x":1}]}"#, "Zoë 👩‍👩‍👧"),
  ]) func allowed(text: String, name: String?) throws {
    #expect(try read(text).get() == .allow(callerName: name))
  }

  @Test func aLongNameIsCut() throws {
    let name = String(repeating: "é", count: 1000)
    #expect(
      try read(#"{"action":"allow","callerName":"\#(name)"}"#).get()
        == .allow(callerName: String(repeating: "é", count: 64)))
  }

  @Test(arguments: [
    ("forbidden", CallError.Code.refusedByApp), ("unknownUser", .unknownUser),
    ("unavailable", .userUnavailable),
    // The app wants no such call.
    ("busy", .refusedByApp), ("", .refusedByApp), ("UNKNOWNUSER", .refusedByApp),
  ]) func refused(reason: String, code: CallError.Code) throws {
    #expect(try refusal(#"{"action":"refuse","reason":"\#(reason)"}"#) == CallError(code))
    let told = try refusal(
      #"{"action":"refuse","reason":"\#(reason)","message":"Not \u0007today."}"#)
    #expect(told == CallError(code, "Not today."))
  }

  @Test func refusedWithoutAReason() throws {
    #expect(try refusal(#"{"action":"refuse"}"#) == CallError(.refusedByApp))
    #expect(try refusal(#"{"action":"refuse","reason":null}"#) == CallError(.refusedByApp))
    let long = String(repeating: "x", count: 3000)
    #expect(
      try refusal(#"{"action":"refuse","message":"\#(long)"}"#).message
        == String(repeating: "x", count: 128))
  }

  @Test(arguments: [
    (#"{"action":"forward","to":["carl"]}"#, nil, ["carl"]),
    (#"{"action":"forward","to":["carl","dora"],"callerName":"Ann"}"#, "Ann", ["carl", "dora"]),
  ]) func forwarded(text: String, name: String?, to: [String]) throws {
    #expect(try read(text).get() == .allow(callerName: name, forward: to))
  }

  /// No user is rung whom the app did not mean.
  @Test(arguments: [
    #"{"action":"forward"}"#, #"{"action":"forward","to":[]}"#, #"{"action":"forward","to":[""]}"#,
    #"{"action":"forward","to":["carl","a\u0000b"]}"#,
    #"{"action":"forward","to":["1","2","3","4","5","6","7","8","9","10","11"]}"#,
  ]) func forwardedToNobody(text: String) {
    #expect(read(text) == .failure(.unreadable))
  }

  @Test(arguments: [
    "", " ", "allow", "true", "null", "[]", "{}", "42", #""allow""#, #"{"action":null}"#,
    #"{"action":"Allow"}"#, #"{"action":"forward","to":"carl"}"#, #"{"action":["allow"]}"#,
    #"{"action":"allow""#, #"{"action":"allow","callerName":7}"#,
    #"{"action":"allow","callerName":["Ann"]}"#, #"{"action":"refuse","reason":1}"#,
    #"{"action":"refuse","message":{}}"#, #"[{"action":"allow"}]"#, #"{"Action":"allow"}"#,
    "<html>502 Bad Gateway</html>", "\u{feff}{\"action\":\"allow\"}x",
  ]) func noAnswers(text: String) {
    #expect(read(text) == .failure(.unreadable))
  }

  @Test func neitherDeepNorForeignTextHarms() {
    let deep = String(repeating: "[", count: 2000)
    #expect(read(#"{"action":"allow","x":\#(deep)"#) == .failure(.unreadable))
    let wide = #"{"action":"allow"}"#.utf16.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] }
    #expect(HookAnswer.read(wide) == .failure(.unreadable))
    #expect(HookAnswer.read([0xff, 0xfe, 0x00]) == .failure(.unreadable))
  }

  @Test func sizes() {
    let frame = #"{"action":"allow","x":""}"#
    let text = String(repeating: "x", count: HookAnswer.bytesMax - frame.utf8.count)
    #expect(read(#"{"action":"allow","x":"\#(text)"}"#) == .success(.allow(callerName: nil)))
    #expect(read(#"{"action":"allow","x":"\#(text)x"}"#) == .failure(.tooLarge))
  }

  /// Answers that were cut, joined and changed: none traps, and whatever is read is fit to be shown.
  @Test func changedAnswers() {
    var state: UInt64 = 7
    func random(_ bound: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((state >> 33) % UInt64(bound))
    }
    let seeds = [
      #"{"action":"allow","callerName":"Ann \u00e9 👩‍👧"}"#,
      #"{"action":"refuse","reason":"unknownUser","message":"There is \"nobody\"."}"#,
    ].map { Array($0.utf8) }
    var kinds: Set<String> = []
    for _ in 0..<20_000 {
      var bytes = seeds[random(2)]
      for _ in 0..<random(4) {
        switch random(4) {
        case 0: bytes[random(bytes.count)] = UInt8(random(256))
        case 1: bytes.remove(at: random(bytes.count))
        case 2: bytes.insert(Array(#"{}[],:"\0"#.utf8)[random(9)], at: random(bytes.count))
        default: bytes = bytes.prefix(1 + random(bytes.count)) + seeds[random(2)]
        }
      }
      switch HookAnswer.read(bytes) {
      case .success(.allow(let name, _)):
        kinds.insert("allow")
        #expect(name.map { $0 == DisplayName.shown($0) && !$0.isEmpty } ?? true)
      case .success(.refuse(let error)):
        kinds.insert("refuse")
        #expect([.refusedByApp, .unknownUser, .userUnavailable].contains(error.code))
        #expect(!error.message.isEmpty && error.message.utf8.count <= DisplayName.bytesMax)
      case .failure(let failure):
        kinds.insert("\(failure)")
        #expect(failure == .unreadable)
      }
    }
    #expect(kinds == ["allow", "refuse", "unreadable"])
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
