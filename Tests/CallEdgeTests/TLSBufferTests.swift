import CallEdge
import NIOCore
import NIOEmbedded
import Testing

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
