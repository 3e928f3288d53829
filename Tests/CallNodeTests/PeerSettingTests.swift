import CallEdge
import CallNodeKit
import Foundation
import Testing

/// The limits of an edge as an operator sets them.
@Suite struct PeerSettingTests {
  private func node(_ flags: [SettingKey: String]) throws -> NodeConfiguration {
    let settings = try ResolvedSettings.resolve(
      flags: flags.merging(["keysFile": "keys.json"]) { a, _ in a }, environment: [:], file: nil)
    return try settings.node(for: .edge, generatedNodeID: "n")
  }

  @Test func defaultsAreThoseOfTheEdge() throws {
    let node = try node([:])
    #expect(node.edge.peers == PeerLimits())
    #expect(
      node.connectionsMax == nil && !node.edge.proxyProtocol && node.edge.trustedProxies.isEmpty)
    #expect(node.edge.unlimitedAddresses == AddressRange.list("127.0.0.1,::1"))
  }

  @Test func eachReachesTheEdge() throws {
    let node = try node([
      "connectionsMax": "5", "connectionsPerAddress": "4", "unattachedMax": "3",
      "requestsPerAddress": "2", "failedAuthsPerAddress": "1", "trustedProxies": "10.0.0.0/8",
      "proxyProtocol": "true", "unlimitedAddresses": "192.0.2.1,2001:db8::/32",
    ])
    var expected = PeerLimits()
    expected.connectionsPerAddress = 4
    expected.unattachedMax = 3
    expected.requestsPerAddress = 2
    expected.failedAuthsPerAddress = 1
    #expect(node.edge.peers == expected && node.connectionsMax == 5 && node.edge.proxyProtocol)
    #expect(node.edge.trustedProxies == AddressRange.list("10.0.0.0/8"))
    #expect(node.edge.unlimitedAddresses == AddressRange.list("192.0.2.1,2001:db8::/32"))
  }

  @Test(arguments: ["", "10.0.0.0/33", "proxy.example", "10.0.0.1, 10.0.0.2", "10.0.0.1,"])
  func whatIsNoAddressIsRefused(text: String) {
    let error = #expect(throws: ConfigurationError.self) { try node(["trustedProxies": text]) }
    #expect("\(String(describing: error))".contains("trustedProxies"))
  }

  @Test func thePROXYProtocolNeedsAProxy() {
    let error = #expect(throws: ConfigurationError.self) { try node(["proxyProtocol": "true"]) }
    #expect("\(String(describing: error))".contains("--trusted-proxies"))
  }

  @Test(arguments: [
    (1_048_576, 8, 1_000_000), (65_536, 2, 65_432), (1024, 4, 880), (100, 2, 50), (100, 256, 50),
    (1, 1, 1),
  ]) func someDescriptorsAreLeft(files: Int, loops: Int, connections: Int) {
    #expect(DescriptorLimit(files: files).connections(eventLoops: loops) == connections)
  }
}

@Suite struct PeerLimitDocumentTests {
  @Test func operationsHaveEveryLimitOfPeers() throws {
    let path = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "docs/operations.md")
    let lines = try String(contentsOf: path, encoding: .utf8).split(separator: "\n")
    for (name, value) in Mirror(reflecting: PeerLimits()).children {
      let name = try #require(name)
      let row = lines.first { $0.hasPrefix("| `\(name)`") }
      let line = try #require(row.map(String.init), "\(name) has no row")
      // Where `callnode` works it out there is no number.
      guard let number = value as? Int, name != "connectionsMax" else { continue }
      #expect(line.contains("| \(number)"), "\(name)")
    }
    for limit in PeerLimit.allCases {
      let label = "`limit=\"\(limit.rawValue)\"`"
      #expect(lines.contains { $0.contains(label) }, "\(label)")
    }
  }
}
