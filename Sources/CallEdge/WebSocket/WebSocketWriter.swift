internal import CallWire
internal import NIOCore

/// Builds the frames that a server sends: whole and unmasked.
enum WebSocketWriter {
  enum Opcode: UInt8 {
    case text = 1
    case binary = 2
    case close = 8
    case ping = 9
    case pong = 10

    init(_ codec: DeviceCodec) {
      switch codec {
      case .protobuf: self = .binary
      case .json: self = .text
      }
    }
  }

  static func frame(
    _ opcode: Opcode, _ payload: some Collection<UInt8>, allocator: ByteBufferAllocator
  ) -> ByteBuffer {
    let count = payload.count
    var buffer = allocator.buffer(capacity: count + 10)
    buffer.writeInteger(0x80 | opcode.rawValue)
    if count < 126 {
      buffer.writeInteger(UInt8(count))
    } else if count <= UInt16.max {
      buffer.writeInteger(UInt8(126))
      buffer.writeInteger(UInt16(count))
    } else {
      buffer.writeInteger(UInt8(127))
      buffer.writeInteger(UInt64(count))
    }
    buffer.writeBytes(payload)
    return buffer
  }

  static func close(_ reason: CloseReason, allocator: ByteBufferAllocator) -> ByteBuffer {
    let code = reason.rawValue
    return frame(
      .close, [UInt8(code >> 8), UInt8(code & 0xff)] + Array(reason.text.utf8),
      allocator: allocator)
  }
}
