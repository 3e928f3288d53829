package import NIOCore

/// The frames of HTTP/2 (RFC 9113) that a server without own streams needs.
///
/// Does not use NIOHTTP2, which prevents faults that this server must be able to produce: answers after a GOAWAY,
/// floods of SETTINGS, streams without an answer. Also, a sender that uses NIOHTTP2 is judged by code without the same
/// bugs.
package enum HTTP2 {
  package enum FrameType: UInt8 {
    case data, headers, priority, resetStream, settings, pushPromise, ping, goAway, windowUpdate
    case continuation
  }

  package enum Flag {
    package static let endStream: UInt8 = 0x1
    package static let ack: UInt8 = 0x1
    package static let endHeaders: UInt8 = 0x4
    package static let padded: UInt8 = 0x8
    package static let priority: UInt8 = 0x20
  }

  package enum ErrorCode: UInt32 {
    case none, `protocol`, `internal`, flowControl, settingsTimeout, streamClosed, frameSize
    case refusedStream, cancel, compression, connect, enhanceYourCalm
  }

  package enum Setting: UInt16 {
    case headerTableSize = 1
    case enablePush, maxConcurrentStreams, initialWindowSize, maxFrameSize, maxHeaderListSize
  }

  package static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
  /// The largest payload of a frame that we accept, which is the minimum of HTTP/2.
  package static let frameBytesMax = 16384
  package static let defaultWindow = 65535
  package static let windowMax = 0x7FFF_FFFF

  package struct FrameHead: Equatable {
    package var length: Int
    /// nil: unknown, to be ignored.
    package var type: FrameType?
    package var flags: UInt8
    package var stream: UInt32
    package func has(_ flag: UInt8) -> Bool { flags & flag != 0 }
  }

  /// The head of the first frame in the buffer; nil if it is incomplete. Consumes nothing.
  package static func peekHead(_ buffer: ByteBuffer) -> FrameHead? {
    let at = buffer.readerIndex
    guard let word: UInt32 = buffer.getInteger(at: at),
      let flags: UInt8 = buffer.getInteger(at: at + 4),
      let stream: UInt32 = buffer.getInteger(at: at + 5)
    else { return nil }
    return FrameHead(
      length: Int(word >> 8), type: FrameType(rawValue: UInt8(truncatingIfNeeded: word)),
      flags: flags, stream: stream & 0x7FFF_FFFF)
  }
}

extension ByteBuffer {
  package mutating func writeFrameHead(
    length: Int, type: HTTP2.FrameType, flags: UInt8 = 0, stream: UInt32 = 0
  ) {
    writeInteger(UInt32(length) << 8 | UInt32(type.rawValue))
    writeMultipleIntegers(flags, stream)
  }

  package mutating func writeSettings(_ settings: [(HTTP2.Setting, UInt32)]) {
    writeFrameHead(length: 6 * settings.count, type: .settings)
    for (name, value) in settings { writeMultipleIntegers(name.rawValue, value) }
  }

  mutating func writeResetStream(_ stream: UInt32, code: UInt32) {
    writeFrameHead(length: 4, type: .resetStream, stream: stream)
    writeInteger(code)
  }

  mutating func writeGoAway(last: UInt32, code: UInt32, debug: String) {
    let text = Array(debug.utf8.prefix(1024))
    writeFrameHead(length: 8 + text.count, type: .goAway)
    writeMultipleIntegers(last, code)
    writeBytes(text)
  }

  mutating func writeWindowUpdate(_ stream: UInt32, by bytes: Int) {
    writeFrameHead(length: 4, type: .windowUpdate, stream: stream)
    writeInteger(UInt32(bytes))
  }
}
