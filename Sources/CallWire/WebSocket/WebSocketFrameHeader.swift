/// The header of a WebSocket frame, which servers and clients read and write alike (RFC 6455, 5.2).
package struct WebSocketFrameHeader: Equatable, Sendable {
  package enum Opcode: UInt8, Sendable {
    case continuation = 0
    case text = 1
    case binary = 2
    case close = 8
    case ping = 9
    case pong = 10

    package var isControl: Bool { rawValue & 8 != 0 }
  }

  package enum Parsed: Equatable {
    /// The header has not arrived in full.
    case needMore
    /// The header, and how many bytes it took.
    case header(WebSocketFrameHeader, bytes: Int)
    /// A reserved bit is set. These belong to extensions, of which none is negotiated.
    case reservedBits
    case unknownOpcode(UInt8)
    /// The length is 2^62 or more.
    case lengthTooLarge
  }

  package var opcode: Opcode
  package var isFinal: Bool
  package var payloadBytes: Int
  /// The masking key, its first byte on the wire lowest; nil: the payload is not masked.
  package var mask: UInt32?

  /// The longest header without a mask, as servers write it.
  package static let unmaskedBytesMax = 10
  /// The longest header with a mask, as clients write it.
  package static let maskedBytesMax = 14
  /// The longest payload of a control frame (RFC 6455, 5.5).
  package static let controlPayloadBytesMax = 125

  package init(_ opcode: Opcode, isFinal: Bool = true, payloadBytes: Int, mask: UInt32? = nil) {
    self.opcode = opcode
    self.isFinal = isFinal
    self.payloadBytes = payloadBytes
    self.mask = mask
  }

  /// Reads the header at the start of `input`.
  package static func parse(_ input: UnsafeRawBufferPointer) -> Parsed {
    guard input.count >= 2 else { return .needMore }
    guard unsafe input[0] & 0x70 == 0 else { return .reservedBits }
    guard let opcode = unsafe Opcode(rawValue: input[0] & 0x0f) else {
      return unsafe .unknownOpcode(input[0] & 0x0f)
    }
    var bytes = 2
    var length = unsafe UInt64(input[1] & 0x7f)
    if length >= 126 {
      let lengthBytes = length == 126 ? 2 : 8
      guard input.count >= 2 + lengthBytes else { return .needMore }
      length = unsafe input[2..<2 + lengthBytes].reduce(0) { $0 << 8 | UInt64($1) }
      guard length < 1 << 62 else { return .lengthTooLarge }
      bytes += lengthBytes
    }
    var mask: UInt32?
    if unsafe input[1] & 0x80 != 0 {
      guard input.count >= bytes + 4 else { return .needMore }
      mask = unsafe UInt32(
        littleEndian: input.loadUnaligned(fromByteOffset: bytes, as: UInt32.self))
      bytes += 4
    }
    return unsafe .header(
      WebSocketFrameHeader(
        opcode, isFinal: input[0] & 0x80 != 0, payloadBytes: Int(length), mask: mask), bytes: bytes)
  }

  /// Writes the header.
  /// - Parameter output: room for the longest header: `maskedBytesMax` bytes, or `unmaskedBytesMax` without a
  ///   mask.
  /// - Returns: how many bytes the header takes.
  package func write(into output: UnsafeMutableRawBufferPointer) -> Int {
    unsafe output[0] = (isFinal ? 0x80 : 0) | opcode.rawValue
    let maskBit: UInt8 = mask == nil ? 0 : 0x80
    var end = 2
    if payloadBytes < 126 {
      unsafe output[1] = maskBit | UInt8(payloadBytes)
    } else if payloadBytes <= UInt16.max {
      unsafe output[1] = maskBit | 126
      unsafe output.storeBytes(
        of: UInt16(payloadBytes).bigEndian, toByteOffset: end, as: UInt16.self)
      end += 2
    } else {
      unsafe output[1] = maskBit | 127
      unsafe output.storeBytes(
        of: UInt64(payloadBytes).bigEndian, toByteOffset: end, as: UInt64.self)
      end += 8
    }
    if let mask {
      unsafe output.storeBytes(of: mask.littleEndian, toByteOffset: end, as: UInt32.self)
      end += 4
    }
    return end
  }

  /// Masks a payload, or unmasks it, which is the same (RFC 6455, 5.3).
  /// - Parameter output: room for as many bytes as `input` has. It may be the same memory.
  package static func applyMask(
    _ mask: UInt32, to input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
  ) {
    let count = input.count
    let wide = UInt64(mask) << 32 | UInt64(mask)
    var offset = 0
    while offset + 8 <= count {
      let word = unsafe UInt64(
        littleEndian: input.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
      unsafe output.storeBytes(
        of: (word ^ wide).littleEndian, toByteOffset: offset, as: UInt64.self)
      offset += 8
    }
    while offset < count {
      let key = UInt8(truncatingIfNeeded: mask >> (8 * UInt32(offset & 3)))
      unsafe output[offset] = unsafe input[offset] ^ key
      offset += 1
    }
  }
}
