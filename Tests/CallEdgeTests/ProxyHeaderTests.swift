import CallEdge
import Testing

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

  @Test func connectionsOfIPv4() {
    let header = proxyHeader()
    let expected = ProxyHeader.Outcome.header(bytes: 28, source: PeerAddress("203.0.113.7"))
    #expect(read(header) == expected)
    // The bytes that follow are the connection's.
    #expect(read(header + Array("GET /".utf8)) == expected)
  }

  @Test func connectionsOfIPv6WithFurtherFields() {
    let source: [UInt8] = [0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [7]
    let body = source + [UInt8](repeating: 1, count: 20) + [UInt8](repeating: 9, count: 100)
    #expect(
      read(proxyHeader(family: 0x21, body: body))
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

  @Test func everyBeginningNeedsMore() {
    let header = proxyHeader()
    for count in 0..<header.count {
      #expect(read(Array(header[..<count])) == .needMore, "\(count)")
    }
  }

  @Test func otherBytesAreRefusedAtOnce() {
    #expect(read(Array("G".utf8)) == .violation)
    // Version 1.
    #expect(read(Array("PROXY TCP4 203.0.113.7 127.0.0.1 2313 443\r\n".utf8)) == .violation)
    for index in 0..<12 {
      var header = proxyHeader()
      header[index] ^= 1
      #expect(read(header) == .violation, "\(index)")
    }
    for byte: UInt8 in [0x01, 0x11, 0x31, 0x22, 0x2f, 0xf1] {
      var header = proxyHeader()
      header[12] = byte
      #expect(read(header) == .violation, "\(byte)")
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
      var bytes = proxyHeader(
        command: UInt8.random(in: 0...1, using: &random),
        family: [0, 0x11, 0x12, 0x21, 0x31, 0xff].randomElement(using: &random) ?? 0,
        body: (0..<Int.random(in: 0...300, using: &random)).map { _ in
          UInt8.random(in: 0...255, using: &random)
        })
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        bytes[Int.random(in: 0..<min(bytes.count, 20), using: &random)] = UInt8.random(
          in: 0...255, using: &random)
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
