import CallEdge
import NIOCore
import NIOEmbedded
import Testing

@Suite struct FrameBuffersTests {
  @Test func aBufferWhoseFrameHasLeftIsFilledAgain() {
    var frames = FrameBuffers()
    var addresses: Set<UInt> = []
    for turn in 0..<5 * FrameBuffers.count {
      let text = "frame \(turn)"
      let buffer = frames.filled(bytes: text.utf8.count) { $0.writeString(text) }
      #expect(String(buffer: buffer) == text)
      addresses.insert(buffer.withVeryUnsafeBytes { UInt(bitPattern: $0.baseAddress) })
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

/// The bytes that a connection over TLS holds on to.
@Suite struct TLSBufferTests {
  /// Notes how much comes between two flushes, with what encryption adds to each write.
  private final class Flushes: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    var sums: [Int] = []
    private var sum = 0

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
      sum += unwrapOutboundIn(data).readableBytes + TLSSlices.recordBytes
      context.write(data, promise: promise)
    }

    func flush(context: ChannelHandlerContext) {
      sums.append(sum)
      sum = 0
      context.flush()
    }
  }

  @Test(arguments: [
    [100], [16_352], [16_353], [200_000], [10_000, 10_000, 10_000],
    [Int](repeating: 20, count: 2000),
    [16_340, 0, 40], [],
  ])
  func noMoreIsFlushedAtOnceThanFits(sizes: [Int]) throws {
    let flushes = Flushes()
    let channel = EmbeddedChannel(handlers: [flushes, TLSSlices()])
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    var expected: [UInt8] = []
    var taken = 0
    for (index, size) in sizes.enumerated() {
      let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &+ index) }
      expected += bytes
      let promise = channel.eventLoop.makePromise(of: Void.self)
      promise.futureResult.assumeIsolated().whenSuccess { taken += 1 }
      channel.write(ByteBuffer(bytes: bytes), promise: promise)
    }
    channel.flush()
    var written: [UInt8] = []
    while let part = try channel.readOutbound(as: ByteBuffer.self) {
      written += Array(part.readableBytesView)
    }
    #expect(written == expected)
    #expect(taken == sizes.count)
    #expect(flushes.sums.allSatisfy { $0 <= TLSSlices.bufferBytes }, "\(flushes.sums)")
    _ = try? channel.finish()
  }
}
