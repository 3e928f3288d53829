import CallClient
import NIOCore
import Testing

@Suite struct EdgeAddressTests {
  @Test(arguments: [
    ("ws://127.0.0.1:8080", EdgeAddress(host: "127.0.0.1", port: 8080)),
    ("ws://example.org", EdgeAddress(host: "example.org", port: 80)),
    ("wss://example.org", EdgeAddress(host: "example.org", port: 443, isSecure: true)),
    ("wss://[::1]:9/x", EdgeAddress(host: "::1", port: 9, path: "/x", isSecure: true)),
    ("example.org:81/", EdgeAddress(host: "example.org", port: 81)),
    ("ws://[::1]:9/x", EdgeAddress(host: "::1", port: 9, path: "/x")),
  ])
  func reads(text: String, address: EdgeAddress) { #expect(EdgeAddress(text) == address) }

  @Test(arguments: [
    "", "http://a", "wss://", "ws://", "ws://a:0", "ws://a:x", "ws://a:70000",
    "ws://a/b c", "ws://[::1", "ws://[::1]x",
  ])
  func refuses(text: String) { #expect(EdgeAddress(text) == nil) }
}

@Suite("Source addresses") struct SourceAddressTests {
  @Test("in turn, and only towards the loopback network") func inTurn() {
    var sources = SourceAddresses(second: 66, count: 251)
    var taken: [String] = []
    for _ in 0..<252 { taken.append(sources.next(for: "127.0.0.1")?.ipAddress ?? "") }
    #expect(taken[0] == "127.66.0.1")
    #expect(taken[249] == "127.66.0.250")
    #expect(taken[250] == "127.66.1.1")
    #expect(taken[251] == "127.66.0.1")
    #expect(sources.next(for: "192.0.2.1") == nil)
    #expect(sources.next(for: "localhost") == nil)
  }
}
