import CallTelemetry
import Testing

/// What nodes are asked over the bus may be anything.
@Suite struct BoundedJSONTests {
  @Test(arguments: [65, 512, 513, 20_000])
  func whatIsTooDeepIsRefused(count: Int) {
    for bracket in ["[", #"{"a":"#, #"{"]]]]\"]]]]":"#, "[]["] {
      let text = String(repeating: bracket, count: count)
      #expect(!BoundedJSON.isShallow(Array(text.utf8)))
      #expect(BoundedJSON.decode(DrainRequest.self, Array(text.utf8)) == nil)
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
