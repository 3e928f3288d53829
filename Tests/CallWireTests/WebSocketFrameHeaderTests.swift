import CallWire
import Testing

@Suite struct WebSocketFrameHeaderTests {
  private func written(_ header: WebSocketFrameHeader) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: WebSocketFrameHeader.maskedBytesMax)
    let count = bytes.withUnsafeMutableBytes { header.write(into: $0) }
    return Array(bytes[..<count])
  }

  @Test(arguments: [0, 1, 125, 126, 65_535, 65_536, 1 << 40], [nil, UInt32(0x7856_3412)])
  func whatIsWrittenIsRead(payloadBytes: Int, mask: UInt32?) {
    let header = WebSocketFrameHeader(.binary, payloadBytes: payloadBytes, mask: mask)
    let bytes = written(header)
    let parsed = bytes.withUnsafeBytes { WebSocketFrameHeader.parse($0) }
    #expect(parsed == .header(header, bytes: bytes.count))
    for count in 0..<bytes.count {
      let part = bytes[..<count].withUnsafeBytes { WebSocketFrameHeader.parse($0) }
      #expect(part == .needMore)
    }
  }

  /// The examples of RFC 6455, 5.7.
  @Test func examplesOfTheRFC() {
    #expect(written(WebSocketFrameHeader(.text, payloadBytes: 5)) == [0x81, 0x05])
    let masked = WebSocketFrameHeader(.text, payloadBytes: 5, mask: 0x3d21_fa37)
    #expect(written(masked) == [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d])
    var payload = Array("Hello".utf8)
    payload.withUnsafeMutableBytes {
      WebSocketFrameHeader.applyMask(0x3d21_fa37, to: UnsafeRawBufferPointer($0), into: $0)
    }
    #expect(payload == [0x7f, 0x9f, 0x4d, 0x51, 0x58])
    #expect(
      written(WebSocketFrameHeader(.binary, isFinal: false, payloadBytes: 256))
        == [0x02, 0x7e, 0x01, 0x00])
  }
}
