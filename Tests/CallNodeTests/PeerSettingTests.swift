import CallCore
import CallEdge
import CallNodeKit
import Foundation
import Testing

/// The limits and the files of an edge as an operator sets them.
@Suite struct PeerSettingTests {
  @Test func defaultsAreThoseOfTheEdge() throws {
    let node = try node([:], for: .edge)
    #expect(node.edge.peers == PeerLimits())
    #expect(
      node.connectionsMax == nil && !node.edge.proxyProtocol && node.edge.trustedProxies.isEmpty)
    #expect(node.edge.unlimitedAddresses == AddressRange.list("127.0.0.1,::1"))
  }

  @Test func eachReachesTheEdge() throws {
    let node = try node(
      [
        "connectionsMax": "5", "connectionsPerAddress": "4", "unattachedMax": "3",
        "requestsPerAddress": "2", "failedAuthsPerAddress": "1", "trustedProxies": "10.0.0.0/8",
        "proxyProtocol": "true", "unlimitedAddresses": "192.0.2.1,2001:db8::/32",
      ], for: .edge)
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
    let error = #expect(throws: ConfigurationError.self) {
      try node(["trustedProxies": text], for: .edge)
    }
    #expect("\(String(describing: error))".contains("trustedProxies"))
  }

  @Test(
    arguments: [
      (["proxyProtocol": "true"], "--trusted-proxies"), (["tlsCertificate": "x.pem"], "--tls-key"),
      (["tlsKey": "x.pem"], "--tls-certificate"), (["turnUrls": "turn:a"], "--turn-secret-file"),
      (["turnSecretFile": "turn"], "--turn-urls"),
      (["turnUrls": "stun:a", "turnSecretFile": "turn"], "turnUrls"),
    ] as [([SettingKey: String], String)])
  func whatIsMissingOrWrongIsNamed(flags: [SettingKey: String], name: String) {
    let error = #expect(throws: ConfigurationError.self) { try node(flags, for: .edge) }
    #expect("\(String(describing: error))".contains(name))
  }

  @Test func certificateAndKey() throws {
    let none = try node([:], for: .edge)
    #expect(none.tlsCertificate == nil && none.tlsKey == nil)
    let both = try node(["tlsCertificate": "c.pem", "tlsKey": "k.pem"], for: .edge)
    #expect(both.tlsCertificate == "c.pem" && both.tlsKey == "k.pem")
  }

  @Test func turn() throws {
    let both = try node(
      ["turnUrls": "turn:a?transport=udp,turns:b", "turnSecretFile": "turn"], for: .edge)
    #expect(both.turnURLs == ["turn:a?transport=udp", "turns:b"])
    #expect(both.turnSecretFile == "turn" && both.turnLifetime == .seconds(3600))
  }

  @Test(arguments: [
    (1_048_576, 8, 1_000_000), (65_536, 2, 65_432), (1024, 4, 880), (100, 2, 50), (100, 256, 50),
    (1, 1, 1),
  ]) func someDescriptorsAreLeft(files: Int, loops: Int, connections: Int) {
    #expect(DescriptorLimit(files: files).connections(eventLoops: loops) == connections)
  }

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
