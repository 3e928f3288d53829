package import NIOCore

/// Reads a server's frames (RFC 6455) and reassembles fragments, of `messageMax` bytes at most.
package struct WebSocketReader {
  package enum Event: Equatable {
    case text(ByteBuffer)
    case binary(ByteBuffer)
    case ping(ByteBuffer)
    case pong
    case close(code: UInt16)
  }

  /// Limit of one message, in bytes, all its fragments together.
  let messageMax: Int
  private var fragments: ByteBuffer?
  private var fragmentsAreText = false

  package init(messageMax: Int) { self.messageMax = messageMax }

  /// Takes the next frame out of `buffer`; nil when it is not complete.
  package mutating func next(from buffer: inout ByteBuffer) throws(LinkClosed) -> Event? {
    while true {
      guard let frame = try readFrame(from: &buffer) else { return nil }
      if let event = try take(frame) { return event }
    }
  }

  private struct Frame {
    var opcode: UInt8
    var final: Bool
    var payload: ByteBuffer
  }

  private func readFrame(from buffer: inout ByteBuffer) throws(LinkClosed) -> Frame? {
    let start = buffer.readerIndex
    guard let first: UInt8 = buffer.getInteger(at: start),
      let second: UInt8 = buffer.getInteger(at: start + 1)
    else { return nil }
    guard first & 0x70 == 0 else { throw .protocolError("reserved bits are set") }
    guard second & 0x80 == 0 else { throw .protocolError("a server does not mask") }
    var header = 2
    var length = Int(second)
    if second == 126 {
      guard let long: UInt16 = buffer.getInteger(at: start + 2) else { return nil }
      length = Int(long)
      header = 4
    } else if second == 127 {
      guard let long: UInt64 = buffer.getInteger(at: start + 2) else { return nil }
      guard long <= UInt64(messageMax) else { throw .protocolError("the frame is too large") }
      length = Int(long)
      header = 10
    }
    guard length <= messageMax else { throw .protocolError("the frame is too large") }
    guard let payload = buffer.getSlice(at: start + header, length: length) else { return nil }
    buffer.moveReaderIndex(forwardBy: header + length)
    return Frame(opcode: first & 0x0F, final: first & 0x80 != 0, payload: payload)
  }

  private mutating func take(_ frame: Frame) throws(LinkClosed) -> Event? {
    switch frame.opcode {
    case 0x0:
      guard var whole = fragments else { throw .protocolError("a fragment without a beginning") }
      guard whole.readableBytes + frame.payload.readableBytes <= messageMax else {
        throw .protocolError("the message is too large")
      }
      whole.writeImmutableBuffer(frame.payload)
      fragments = frame.final ? nil : whole
      guard frame.final else { return nil }
      return fragmentsAreText ? .text(whole) : .binary(whole)
    case 0x1, 0x2:
      guard fragments == nil else { throw .protocolError("a message inside another") }
      guard frame.final else {
        fragments = frame.payload
        fragmentsAreText = frame.opcode == 0x1
        return nil
      }
      return frame.opcode == 0x1 ? .text(frame.payload) : .binary(frame.payload)
    case 0x8, 0x9, 0xA:
      guard frame.final, frame.payload.readableBytes <= 125 else {
        throw .protocolError("a control frame is in pieces or too large")
      }
      if frame.opcode == 0x9 { return .ping(frame.payload) }
      if frame.opcode == 0xA { return .pong }
      let code: UInt16? = frame.payload.getInteger(at: frame.payload.readerIndex)
      return .close(code: code ?? 1005)
    default: throw .protocolError("unknown opcode \(frame.opcode)")
    }
  }
}

/// Writes a client's frames: unfragmented and masked.
enum WebSocketWriter {
  enum Opcode: UInt8 {
    case text = 0x1
    case binary = 0x2
    case close = 0x8
    case pong = 0xA
  }

  static func write(
    _ opcode: Opcode, _ payload: some Collection<UInt8>, mask: UInt32, into buffer: inout ByteBuffer
  ) {
    let count = payload.count
    buffer.writeInteger(0x80 | opcode.rawValue)
    switch count {
    case ..<126: buffer.writeInteger(UInt8(count) | 0x80)
    case ..<65_536:
      buffer.writeInteger(UInt8(126 | 0x80))
      buffer.writeInteger(UInt16(count))
    default:
      buffer.writeInteger(UInt8(127 | 0x80))
      buffer.writeInteger(UInt64(count))
    }
    buffer.writeInteger(mask)
    let key = (
      UInt8(truncatingIfNeeded: mask >> 24), UInt8(truncatingIfNeeded: mask >> 16),
      UInt8(truncatingIfNeeded: mask >> 8), UInt8(truncatingIfNeeded: mask)
    )
    buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { out in
      var at = 0
      for byte in payload {
        let part =
          switch at & 3 {
          case 0: key.0
          case 1: key.1
          case 2: key.2
          default: key.3
          }
        out[at] = byte ^ part
        at += 1
      }
      return count
    }
  }
}
