internal import CallWire
internal import NIOCore

/// Builds the frames that a server sends: whole and unmasked.
enum WebSocketWriter {
  static func frame(
    _ opcode: WebSocketFrameHeader.Opcode, _ payload: some Collection<UInt8>,
    allocator: ByteBufferAllocator
  ) -> ByteBuffer {
    let header = WebSocketFrameHeader(opcode, payloadBytes: payload.count)
    var buffer = allocator.buffer(
      capacity: header.payloadBytes + WebSocketFrameHeader.unmaskedBytesMax)
    buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: WebSocketFrameHeader.unmaskedBytesMax)
    {
      header.write(into: $0)
    }
    buffer.writeBytes(payload)
    return buffer
  }

  /// A close frame with the reason's code and text.
  static func close(_ reason: CloseReason, allocator: ByteBufferAllocator) -> ByteBuffer {
    let code = reason.rawValue
    return frame(
      .close, [UInt8(code >> 8), UInt8(code & 0xff)] + Array(reason.text.utf8),
      allocator: allocator)
  }
}

extension DeviceCodec {
  /// The opcode of the messages that hold this codec's frames.
  var opcode: WebSocketFrameHeader.Opcode {
    switch self {
    case .protobuf: .binary
    case .json: .text
    }
  }
}
