import CallEdge
import NIOCore
import Testing

@Suite struct FrameBuffersTests {
  private func address(_ buffer: ByteBuffer) -> UInt {
    buffer.withVeryUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
  }

  @Test func aBufferWhoseFrameHasLeftIsFilledAgain() {
    var frames = FrameBuffers()
    var addresses: Set<UInt> = []
    for turn in 0..<5 * FrameBuffers.count {
      let text = "frame \(turn)"
      let buffer = frames.filled(bytes: text.utf8.count) { $0.writeString(text) }
      #expect(String(buffer: buffer) == text)
      addresses.insert(address(buffer))
    }
    #expect(addresses.count == FrameBuffers.count)
  }

  @Test func aFrameThatIsHeldStaysAsItIs() {
    var frames = FrameBuffers()
    let held = (0..<3 * FrameBuffers.count).map { number in
      frames.filled(bytes: 8) { $0.writeInteger(number) }
    }
    for (number, var buffer) in held.enumerated() {
      #expect(buffer.readInteger(as: Int.self) == number)
      #expect(buffer.readableBytes == 0)
    }
  }

  @Test(arguments: [0, FrameBuffers.bytes, FrameBuffers.bytes + 1, 100_000])
  func framesOfAnySizeFit(bytes: Int) {
    var frames = FrameBuffers()
    for byte: UInt8 in [1, 2] {
      let buffer = frames.filled(bytes: bytes) { $0.writeRepeatingByte(byte, count: bytes) }
      #expect(Array(buffer: buffer) == Array(repeating: byte, count: bytes))
    }
  }
}
