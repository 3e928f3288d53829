import CallTestKit
import CallWire
import Testing

struct StrictJSONTests {
  private func object(_ text: String) -> [String: PayloadValue]? {
    strictJSONObject(Array(text.utf8))
  }

  @Test func takesWhatRFC8259Allows() {
    #expect(object("{}") == [:])
    let members = object(
      #" { "a" : "x\u00e4\ud83d\ude00\"\\" , "b":12,"c":-0,"d":1.5e+3,"e":[],"f":{"g":[1,{}]},"n":null } "#
    )
    #expect(members?["a"] == .text("xä😀\"\\"))
    #expect(members?["b"] == .number(12))
    #expect(members?.keys.sorted() == ["a", "b", "c", "d", "e", "f"])
  }

  @Test func takesNothingElse() {
    for wrong in [
      "", " ", "{", "}", "{}}", "[]", "1", "\"a\"", "{a:1}", "{'a':1}", #"{"a"}"#, #"{"a":}"#,
      #"{"a":1,}"#, #"{,"a":1}"#, #"{"a":1 "b":2}"#, #"{"a":01}"#, #"{"a":+1}"#, #"{"a":1.}"#,
      #"{"a":.5}"#, #"{"a":1e}"#, #"{"a":-}"#, #"{"a":tru}"#, #"{"a":True}"#, #"{"a":NaN}"#,
      #"{"a":[1,]}"#, #"{"a":[1 2]}"#, #"{"a":"x}"#, #"{"a":"\x"}"#, #"{"a":"\u12"}"#,
      "{\"a\":\"\n\"}", #"{"a":1,"a":2}"#, "{} {}", "{}\u{0}", "\u{FEFF}{}", #"{"a":1/*x*/}"#,
    ] { #expect(object(wrong) == nil, "\(wrong)") }
    #expect(strictJSONObject([0x7B, 0x22, 0xFF, 0x22, 0x3A, 0x31, 0x7D]) == nil)
    let deep = String(repeating: "[", count: 100_000)
    #expect(object(#"{"a":\#(deep)"#) == nil)
  }

  @Test func noPrefixOfAnObjectIsOne() {
    let text = Array(#"{"a":[1,{"b":"\u00e4"}],"c":-1.5e3,"d":null}"#.utf8)
    for length in 0..<text.count { #expect(strictJSONObject(Array(text[..<length])) == nil) }
    #expect(strictJSONObject(text) != nil)
  }
}
