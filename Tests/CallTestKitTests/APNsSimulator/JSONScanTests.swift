import CallTestKit
import Testing

struct JSONScanTests {
  private func object(_ text: String) -> [String: JSONScan.Value]? {
    JSONScan.object(Array(text.utf8))
  }

  @Test func takesWhatRFC8259Allows() {
    #expect(object("{}") == [:])
    #expect(
      object(#" { "a" : "x" , "b":12,"c":-0,"d":1.5e+3,"e":[],"f":{"g":[1,{}]},"h":true } "#) == [
        "a": .string("x"), "b": .integer(12), "c": .integer(0), "d": .other, "e": .other,
        "f": .other, "h": .other,
      ])
    #expect(object(#"{"a":"ä\n\u00e4\ud83d\ude00\"\\"}"#) == ["a": .string("ä\nä😀\"\\")])
    #expect(object(#"{"\u0061":false,"n":null}"#) == ["a": .other, "n": .other])
    #expect(object(#"{"a":99999999999999999999}"#) == ["a": .other])
  }

  @Test func takesNothingElse() {
    for wrong in [
      "", " ", "{", "}", "{}}", "[]", "1", "\"a\"", "{a:1}", "{'a':1}", #"{"a"}"#, #"{"a":}"#,
      #"{"a":1,}"#, #"{,"a":1}"#, #"{"a":1 "b":2}"#, #"{"a":01}"#, #"{"a":+1}"#, #"{"a":1.}"#,
      #"{"a":.5}"#, #"{"a":1e}"#, #"{"a":-}"#, #"{"a":tru}"#, #"{"a":True}"#, #"{"a":NaN}"#,
      #"{"a":[1,]}"#, #"{"a":[1 2]}"#, #"{"a":"x}"#, #"{"a":"\x"}"#, #"{"a":"\u12"}"#,
      "{\"a\":\"\n\"}", #"{"a":1,"a":2}"#, "{} {}", "{}\u{0}", "\u{FEFF}{}", #"{"a":1/*x*/}"#,
    ] { #expect(object(wrong) == nil, "\(wrong)") }
    #expect(JSONScan.object([0x7B, 0x22, 0xFF, 0x22, 0x3A, 0x31, 0x7D]) == nil)
  }

  @Test func nestsSoDeepAndNoDeeper() {
    func nested(_ depth: Int) -> String {
      #"{"a":"# + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}"
    }
    #expect(object(nested(63)) != nil)
    #expect(object(nested(64)) == nil)
    #expect(object(nested(100_000)) == nil)
  }

  @Test func noPrefixOfAnObjectIsOne() {
    let text = Array(#"{"a":[1,{"b":"\u00e4"}],"c":-1.5e3,"d":null}"#.utf8)
    for length in 0..<text.count { #expect(!JSONScan.isObject(Array(text[..<length]))) }
    #expect(JSONScan.isObject(text))
  }
}
