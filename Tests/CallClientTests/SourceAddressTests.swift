import CallClient
import NIOCore
import Testing

@Suite("Source addresses") struct SourceAddressTests {
  @Test("in turn, and only towards the loopback network") func inTurn() {
    var sources = SourceAddresses(second: 66, count: 251)
    var taken: [String] = []
    for _ in 0..<252 { taken.append(sources.take(for: "127.0.0.1")?.ipAddress ?? "") }
    #expect(taken[0] == "127.66.0.1")
    #expect(taken[249] == "127.66.0.250")
    #expect(taken[250] == "127.66.1.1")
    #expect(taken[251] == "127.66.0.1")
    #expect(sources.take(for: "192.0.2.1") == nil)
    #expect(sources.take(for: "localhost") == nil)
  }
}
