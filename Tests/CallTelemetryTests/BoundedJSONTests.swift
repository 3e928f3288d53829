import CallTelemetry
import Testing

/// Requests to nodes over the bus may be anything.
@Suite struct BoundedJSONTests {
  @Test(arguments: [65, 512, 513, 20_000])
  func whatIsTooDeepIsRefused(count: Int) {
    for bracket in ["[", #"{"a":"#, #"{"]]]]\"]]]]":"#, "[]["] {
      let text = String(repeating: bracket, count: count)
      #expect(!BoundedJSON.isShallow(Array(text.utf8)))
      #expect(BoundedJSON.decode(DrainRequest.self, Array(text.utf8)) == nil)
    }
  }

  /// The decoder takes it, too; in bytes of U+2200 and its like stands what looks like a quote.
  @Test(arguments: [512, 600]) func otherEncodingsAreRefused(count: Int) {
    let text = "[\"\u{2200}\"," + String(repeating: "[", count: count)
    let little = text.utf16.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] }
    let big = text.utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xff)] }
    for bytes in [little, big, [0xff, 0xfe] + little, [0xfe, 0xff] + big] {
      #expect(BoundedJSON.decode(DrainRequest.self, bytes) == nil)
    }
  }

  /// Closing what was not opened makes nothing deeper: the decoder ends at the first of them.
  @Test func closersFirst() {
    for count in [1, 511, 512, 600] {
      let text = String(repeating: "]", count: count) + String(repeating: "[", count: count)
      #expect(BoundedJSON.decode(DrainRequest.self, Array(text.utf8)) == nil)
    }
  }

  @Test func manyBesideEachOtherAndInStringsAreNoDepth() {
    let text = "[" + Array(repeating: #"["[[[[[[\"[["]"#, count: 500).joined(separator: ",") + "]"
    #expect(BoundedJSON.decode([[String]].self, Array(text.utf8))?.count == 500)
  }

  @Test func whatIsMeantIsRead() {
    let text = #"{"node":"edge-1","action":"drain"}"#
    #expect(
      BoundedJSON.decode(DrainRequest.self, Array(text.utf8))
        == DrainRequest(node: "edge-1", action: .drain))
    #expect(BoundedJSON.decode(DrainRequest.self, Array(text.utf8), bytesMax: 10) == nil)
    #expect(BoundedJSON.decode(DrainRequest.self, []) == nil)
  }
}
