import CallEdge
import Testing

private func address(_ text: String) throws -> PeerAddress { try #require(PeerAddress(text)) }

@Suite struct PeerAddressTests {
  /// On a socket of IPv6 a peer of IPv4 is a mapped address.
  @Test(
    arguments: [
      ("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::1"), ("::1", "::1"),
      ("::ffff:192.0.2.1", "192.0.2.1"), ("", nil), ("1.2.3", nil), ("1.2.3.4.5", nil),
      ("a.b.c.d", nil), (":::", nil), ("1.2.3.4 ", nil), ("fe80::1%eth0", nil), ("[::1]", nil),
      ("1.2.3.4\u{0}", nil), ("::f\u{0}/v1", nil),
    ] as [(String, String?)])
  func itIsReadAndWritten(text: String, written: String?) throws {
    #expect(PeerAddress(text)?.description == written)
    if let written { #expect(try address(text) == address(written)) }
  }

  @Test func limitsCountTheNetworksOfIPv6() throws {
    let network = try address("2001:db8:1:2::1").network
    #expect(try address("2001:db8:1:2:ffff:ffff:ffff:ffff").network == network)
    #expect(try address("2001:db8:1:3::1").network != network)
    #expect(try address("192.0.2.1").network != address("192.0.2.2").network)
    #expect(try address("::ffff:192.0.2.1").network == address("192.0.2.1"))
  }

  @Test(
    arguments: [
      ("10.0.0.0/8", ["10.255.0.1"], "11.0.0.1"), ("10.1.2.3/8", ["10.9.9.9"], "11.1.2.3"),
      ("192.0.2.7", ["192.0.2.7"], "192.0.2.8"), ("192.0.2.6/31", ["192.0.2.7"], "192.0.2.8"),
      ("2001:db8::/32", ["2001:db8:ffff::1"], "2001:db9::1"), ("::1", ["::1"], "::2"),
      ("2001:db8::/65", ["2001:db8::7fff:0:0:0"], "2001:db8::8000:0:0:0"),
      ("0.0.0.0/0", ["255.1.2.3"], "2001:db8::1"),
      ("::ffff:10.0.0.0/104", ["10.9.9.9"], "11.0.0.1"),
      ("::/0", ["::", "192.0.2.1", "ffff::1"], nil),
    ] as [(String, [String], String?)])
  func ranges(range: String, inside: [String], outside: String?) throws {
    let range = try #require(AddressRange(range))
    for text in inside { #expect(range.contains(try address(text))) }
    if let outside { #expect(!range.contains(try address(outside))) }
  }

  @Test(arguments: [
    "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "::/129", "/8", "x/8",
  ])
  func whatIsNoRangeIsRefused(text: String) {
    #expect(AddressRange(text) == nil)
    #expect(AddressRange.list("10.0.0.0/8,\(text)") == nil)
  }

  /// `X-Forwarded-For`: the rightmost address that is no proxy's counts. Those left of it were claimed by the device
  /// itself. Ports are left out, and what cannot be read is not passed over.
  @Test(
    arguments: [
      (["203.0.113.7"], "203.0.113.7"), (["198.51.100.1, 203.0.113.7"], "203.0.113.7"),
      (["198.51.100.1,203.0.113.7 , 10.0.0.1,\t10.0.0.2"], "203.0.113.7"),
      (["198.51.100.1", "203.0.113.7, 10.0.0.1"], "203.0.113.7"),
      (["203.0.113.7:4711"], "203.0.113.7"), (["[2001:db9::7]:4711, [2001:db8::1]"], "2001:db9::7"),
      (["2001:db9::7"], "2001:db9::7"), ([], nil), ([""], nil), (["unknown"], nil),
      (["203.0.113.7, unknown, 10.0.0.1"], "10.0.0.1"), (["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
      ([Array(repeating: "10.0.0.1", count: 5000).joined(separator: ",")], "10.0.0.1"),
    ] as [([String], String?)])
  func forwarded(lines: [String], device: String?) throws {
    let trusted = try #require(AddressRange.list("10.0.0.0/8,2001:db8::/32"))
    let found = ForwardedFor.device(lines) { address in trusted.contains { $0.contains(address) } }
    #expect(found?.description == device)
  }
}

/// A header of the PROXY protocol, version 2.
func proxyHeader(
  command: UInt8 = 1, family: UInt8 = 0x11,
  body: [UInt8] = [203, 0, 113, 7, 127, 0, 0, 1, 9, 9, 1, 187]
) -> [UInt8] {
  [0x0d, 0x0a, 0x0d, 0x0a, 0, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, 0x20 | command, family]
    + [UInt8(body.count >> 8), UInt8(body.count & 255)] + body
}

@Suite struct ProxyHeaderTests {
  private func read(_ bytes: [UInt8], bytesMax: Int = 1024) -> ProxyHeader.Outcome {
    bytes.withUnsafeBytes { ProxyHeader.read($0, bytesMax: bytesMax) }
  }

  @Test func connections() {
    let ofIPv4 = ProxyHeader.Outcome.header(bytes: 28, source: PeerAddress("203.0.113.7"))
    #expect(read(proxyHeader()) == ofIPv4)
    // The bytes that follow are the connection's.
    #expect(read(proxyHeader() + Array("GET /".utf8)) == ofIPv4)
    let source: [UInt8] = [0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [7]
    let further = [UInt8](repeating: 1, count: 20) + [UInt8](repeating: 9, count: 100)
    #expect(
      read(proxyHeader(family: 0x21, body: source + further))
        == .header(bytes: 16 + 136, source: PeerAddress("2001:db8::7")))
  }

  @Test func whatTheProxySaysOfItselfHasNoSource() {
    #expect(read(proxyHeader(command: 0)) == .header(bytes: 28, source: nil))
    #expect(read(proxyHeader(command: 0, family: 0, body: [])) == .header(bytes: 16, source: nil))
    #expect(read(proxyHeader(family: 0, body: [1, 2, 3])) == .header(bytes: 19, source: nil))
    // Datagrams.
    #expect(read(proxyHeader(family: 0x12)) == .header(bytes: 28, source: nil))
    let socket = [UInt8](repeating: 65, count: 216)
    #expect(read(proxyHeader(family: 0x31, body: socket)) == .header(bytes: 232, source: nil))
  }

  @Test func everyBeginningNeedsMoreAndOtherBytesAreRefusedAtOnce() {
    let header = proxyHeader()
    for count in 0..<header.count {
      #expect(read(Array(header[..<count])) == .needMore, "\(count)")
    }
    #expect(read(Array("G".utf8)) == .violation)
    // Version 1.
    #expect(read(Array("PROXY TCP4 203.0.113.7 127.0.0.1 2313 443\r\n".utf8)) == .violation)
    let versions: [UInt8] = [0x01, 0x11, 0x31, 0x22, 0x2f, 0xf1]
    for (index, byte) in (0..<12).map({ ($0, header[$0] ^ 1) }) + versions.map({ (12, $0) }) {
      var header = header
      header[index] = byte
      #expect(read(header) == .violation, "\(index): \(byte)")
    }
  }

  @Test func lengthsAreChecked() {
    #expect(read(proxyHeader(body: [1, 2, 3])) == .violation)
    #expect(read(proxyHeader(family: 0x21)) == .violation)
    #expect(read(proxyHeader(family: 0x31)) == .violation)
    #expect(read(proxyHeader(), bytesMax: 12) != .violation)
    #expect(read(proxyHeader(), bytesMax: 11) == .violation)
    // It is refused by its length, before the rest has come.
    #expect(read(Array(proxyHeader(body: [UInt8](repeating: 0, count: 1025))[..<16])) == .violation)
  }

  /// Whatever comes, it never reads past the input, nor waits for more than it allows.
  @Test func mutatedHeaders() {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<20_000 {
      let body = (0..<Int.random(in: 0...300, using: &random)).map { _ in
        UInt8.random(in: 0...255, using: &random)
      }
      var bytes = proxyHeader(
        command: UInt8.random(in: 0...1, using: &random),
        family: [0, 0x11, 0x12, 0x21, 0x31, 0xff].randomElement(using: &random) ?? 0, body: body)
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        let index = Int.random(in: 0..<min(bytes.count, 20), using: &random)
        bytes[index] = UInt8.random(in: 0...255, using: &random)
      }
      bytes = Array(bytes[..<Int.random(in: 0...bytes.count, using: &random)])
      switch read(bytes, bytesMax: 256) {
      case .needMore: #expect(bytes.count < 16 + 256)
      case .violation: break
      case .header(let count, _): #expect((16...bytes.count).contains(count), "\(bytes)")
      }
    }
  }
}
