import CallEdge
import Testing

private func address(_ text: String) throws -> PeerAddress { try #require(PeerAddress(text)) }

@Suite struct PeerAddressTests {
  @Test(arguments: ["192.0.2.1", "2001:db8::1", "::1"]) func itIsWrittenAsItIsRead(text: String)
    throws
  {
    #expect(try address(text).description == text)
  }

  @Test(arguments: [
    "", "1.2.3", "1.2.3.4.5", "a.b.c.d", ":::", "1.2.3.4 ", "fe80::1%eth0", "[::1]", "1.2.3.4\u{0}",
    "::f\u{0}/v1",
  ])
  func whatIsNoAddressIsRefused(text: String) {
    #expect(PeerAddress(text) == nil)
  }

  /// On a socket of IPv6 a peer of IPv4 is a mapped address.
  @Test func aPeerIsTheSameOnSocketsOfBothFamilies() throws {
    #expect(try address("::ffff:192.0.2.1") == address("192.0.2.1"))
    #expect(try address("::ffff:192.0.2.1").network == address("192.0.2.1"))
  }

  @Test func limitsCountTheNetworksOfIPv6() throws {
    let network = try address("2001:db8:1:2::1").network
    #expect(try address("2001:db8:1:2:ffff:ffff:ffff:ffff").network == network)
    #expect(try address("2001:db8:1:3::1").network != network)
    #expect(try address("192.0.2.1").network != address("192.0.2.2").network)
  }

  @Test(arguments: [
    ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"), ("10.1.2.3/8", "10.9.9.9", "11.1.2.3"),
    ("192.0.2.7", "192.0.2.7", "192.0.2.8"), ("192.0.2.6/31", "192.0.2.7", "192.0.2.8"),
    ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"), ("::1", "::1", "::2"),
    ("2001:db8::/65", "2001:db8::7fff:0:0:0", "2001:db8::8000:0:0:0"),
    ("0.0.0.0/0", "255.1.2.3", "2001:db8::1"), ("::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.1"),
  ]) func ranges(range: String, inside: String, outside: String) throws {
    let range = try #require(AddressRange(range))
    #expect(range.contains(try address(inside)))
    #expect(!range.contains(try address(outside)))
  }

  @Test func aRangeOfAll() throws {
    let all = try #require(AddressRange("::/0"))
    for text in ["::", "192.0.2.1", "ffff::1"] { #expect(all.contains(try address(text))) }
  }

  @Test(arguments: [
    "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "::/129", "/8", "x/8",
  ])
  func whatIsNoRangeIsRefused(text: String) {
    #expect(AddressRange(text) == nil)
    #expect(AddressRange.list("10.0.0.0/8,\(text)") == nil)
  }

  // MARK: X-Forwarded-For

  private func device(_ lines: String...) throws -> String? {
    let trusted = try #require(AddressRange.list("10.0.0.0/8,2001:db8::/32"))
    let found = ForwardedFor.device(lines) { address in trusted.contains { $0.contains(address) } }
    return found?.description
  }

  @Test func theRightmostAddressThatIsNoProxysCounts() throws {
    #expect(try device("203.0.113.7") == "203.0.113.7")
    // The addresses left of it were claimed by the device itself.
    #expect(try device("198.51.100.1, 203.0.113.7") == "203.0.113.7")
    #expect(try device("198.51.100.1,203.0.113.7 , 10.0.0.1,\t10.0.0.2") == "203.0.113.7")
    #expect(try device("198.51.100.1", "203.0.113.7, 10.0.0.1") == "203.0.113.7")
  }

  @Test func portsAreLeftOut() throws {
    #expect(try device("203.0.113.7:4711") == "203.0.113.7")
    #expect(try device("[2001:db9::7]:4711, [2001:db8::1]") == "2001:db9::7")
    #expect(try device("2001:db9::7") == "2001:db9::7")
  }

  @Test func whatCannotBeReadIsNotPassedOver() throws {
    #expect(try device() == nil)
    #expect(try device("") == nil)
    #expect(try device("unknown") == nil)
    #expect(try device("203.0.113.7, unknown, 10.0.0.1") == "10.0.0.1")
    #expect(try device("10.0.0.1, 10.0.0.2") == "10.0.0.1")
    #expect(
      try device(Array(repeating: "10.0.0.1", count: 5000).joined(separator: ",")) == "10.0.0.1")
  }
}
