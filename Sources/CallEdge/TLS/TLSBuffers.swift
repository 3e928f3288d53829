package import NIOCore

// NIOSSL encrypts all that is flushed together into one buffer, which it keeps for the life of the connection at the
// largest size that it ever had, and makes anew while the socket has not taken what was in it.

/// Stands behind TLS: hands over as much at once as fits into the buffer that NIOSSL begins with.
package final class TLSSlices: ChannelOutboundHandler {
  package typealias OutboundIn = ByteBuffer
  package typealias OutboundOut = ByteBuffer

  package static let bufferBytes = 16_384
  /// What encryption adds to a record, at most.
  package static let recordBytes = 32
  /// Of the buffer, since the last flush.
  private var taken = 0

  package init() {}

  package func write(
    context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
  ) {
    var buffer = unwrapOutboundIn(data)
    while taken + buffer.readableBytes + Self.recordBytes > Self.bufferBytes {
      let room = Self.bufferBytes - taken - Self.recordBytes
      if room > 0, let slice = buffer.readSlice(length: room) {
        context.write(wrapOutboundOut(slice), promise: nil)
      }
      flush(context: context)
    }
    taken += buffer.readableBytes + Self.recordBytes
    context.write(wrapOutboundOut(buffer), promise: promise)
  }

  package func flush(context: ChannelHandlerContext) {
    taken = 0
    context.flush()
  }
}

/// Stands in front of TLS: what has to wait for the socket waits in a buffer of its own size. Else a few bytes would
/// hold 16 kB, which no limit counts.
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
