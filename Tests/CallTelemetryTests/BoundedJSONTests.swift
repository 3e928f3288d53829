import CallTelemetry
import Testing

/// What nodes are asked over the bus may be anything.
@Suite struct BoundedJSONTests {
  @Test(arguments: [127, 512, 513, 20_000])
  func manyBracketsAreRefused(count: Int) {
    for bracket in ["[", #"{"a":"#] {
      let text = String(repeating: bracket, count: count)
      #expect(BoundedJSON.decode(DrainRequest.self, Array(text.utf8)) == nil)
    }
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
