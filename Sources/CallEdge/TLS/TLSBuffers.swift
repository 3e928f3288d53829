package import NIOCore

// NIOSSL encrypts what is flushed together into one buffer. It keeps that buffer for the life of the connection, at the
// largest size that it ever had, and allocates another one while the socket has not taken the former one's bytes.

/// Stands after TLS: flushes no more at once than fits into the buffer that NIOSSL begins with.
package final class TLSSlices: ChannelOutboundHandler {
  package typealias OutboundIn = ByteBuffer
  package typealias OutboundOut = ByteBuffer

  package static let bufferBytes = 16_384
  /// The most bytes that encryption adds to a record.
  package static let recordBytes = 32
  /// How much of the buffer was filled since the last flush.
  private var filled = 0

  package init() {}

  package func write(
    context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
  ) {
    var buffer = unwrapOutboundIn(data)
    while filled + buffer.readableBytes + Self.recordBytes > Self.bufferBytes {
      let room = Self.bufferBytes - filled - Self.recordBytes
      if room > 0, let slice = buffer.readSlice(length: room) {
        context.write(wrapOutboundOut(slice), promise: nil)
      }
      flush(context: context)
    }
    filled += buffer.readableBytes + Self.recordBytes
    context.write(wrapOutboundOut(buffer), promise: promise)
  }

  package func flush(context: ChannelHandlerContext) {
    filled = 0
    context.flush()
  }
}

/// Stands before TLS: copies what has to wait for the socket into a buffer of its size. Otherwise a few bytes would hold
/// 16 kB, which no limit counts.
package final class TLSExactWrites: ChannelOutboundHandler {
  package typealias OutboundIn = ByteBuffer
  package typealias OutboundOut = ByteBuffer

  package init() {}

  package func write(
    context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
  ) {
    let waits = (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    guard waits > 0 else { return context.write(data, promise: promise) }
    let buffer = unwrapOutboundIn(data)
    var copy = context.channel.allocator.buffer(capacity: buffer.readableBytes)
    copy.writeImmutableBuffer(buffer)
    context.write(wrapOutboundOut(copy), promise: promise)
  }
}
