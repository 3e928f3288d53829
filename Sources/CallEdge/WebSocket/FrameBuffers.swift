package import NIOCore

/// Buffers of frames, which a loop uses in turn. A buffer whose frame has left is filled again; in place of one that a
/// socket still holds there is a new one.
package struct FrameBuffers {
  private var buffers: [ByteBuffer]
  private var next = 0
  package let allocator = ByteBufferAllocator()

  /// More than the sockets that one turn writes to.
  package static let count = 64
  /// Nearly all frames fit into this size. Larger ones get buffers of their own: a slow socket holds little more than
  /// its frames.
  package static let bytes = 512

  package init() { buffers = Array(repeating: ByteBuffer(), count: Self.count) }

  /// A buffer that holds what `body` writes.
  /// - Parameter bytes: at least as many as that.
  package mutating func filled(bytes: Int, _ body: (inout ByteBuffer) -> Void) -> ByteBuffer {
    guard bytes <= Self.bytes else {
      var buffer = allocator.buffer(capacity: bytes)
      body(&buffer)
      return buffer
    }
    next = (next + 1) % Self.count
    // Moved, since a second reference would make it a copy.
    var buffer = ByteBuffer()
    swap(&buffer, &buffers[next])
    buffer.clear(minimumCapacity: Self.bytes)
    body(&buffer)
    buffers[next] = buffer
    return buffer
  }
}
