package import NIOCore

/// The frames of HTTP/2 (RFC 9113), as far as a server without streams of its own needs them.
///
/// Written anew in place of NIOHTTP2's, which would keep the peer from seeing what a server must be
/// able to do to it: answers behind a GOAWAY, floods of SETTINGS, streams without an answer. And a
/// sender that stands on NIOHTTP2 is judged by code that does not share its mistakes.
package enum HTTP2 {
  package enum FrameType {
    package static let data: UInt8 = 0
    package static let headers: UInt8 = 1
    package static let priority: UInt8 = 2
    package static let resetStream: UInt8 = 3
    package static let settings: UInt8 = 4
    package static let pushPromise: UInt8 = 5
    package static let ping: UInt8 = 6
    package static let goAway: UInt8 = 7
    package static let windowUpdate: UInt8 = 8
    package static let continuation: UInt8 = 9
  }

  package enum Flag {
    package static let endStream: UInt8 = 0x1
    package static let ack: UInt8 = 0x1
    package static let endHeaders: UInt8 = 0x4
    package static let padded: UInt8 = 0x8
    package static let priority: UInt8 = 0x20
  }

  package enum ErrorCode {
    package static let none: UInt32 = 0
    package static let `protocol`: UInt32 = 1
    package static let `internal`: UInt32 = 2
    package static let flowControl: UInt32 = 3
    package static let streamClosed: UInt32 = 5
    package static let frameSize: UInt32 = 6
    package static let refusedStream: UInt32 = 7
    package static let cancel: UInt32 = 8
    package static let compression: UInt32 = 9
    package static let enhanceYourCalm: UInt32 = 11
  }

  package enum Setting {
    package static let headerTableSize: UInt16 = 1
    package static let enablePush: UInt16 = 2
    package static let maxConcurrentStreams: UInt16 = 3
    package static let initialWindowSize: UInt16 = 4
    package static let maxFrameSize: UInt16 = 5
    package static let maxHeaderListSize: UInt16 = 6
  }

  package static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
  /// The largest payload of a frame that we take: the smallest limit there is, and we ask for no more.
  package static let frameBytesMax = 16384
  package static let defaultWindow = 65535
  package static let windowMax = 0x7FFF_FFFF

  package struct FrameHead: Equatable {
    package var length: Int
    package var type: UInt8
    package var flags: UInt8
    package var stream: UInt32
    package func has(_ flag: UInt8) -> Bool { flags & flag != 0 }
  }

  /// The head of the frame that the buffer begins with; nil if it is not complete. Reads nothing away.
  package static func peekHead(_ buffer: ByteBuffer) -> FrameHead? {
    let at = buffer.readerIndex
    guard let word: UInt32 = buffer.getInteger(at: at),
      let flags: UInt8 = buffer.getInteger(at: at + 4),
      let stream: UInt32 = buffer.getInteger(at: at + 5)
    else { return nil }
    return FrameHead(
      length: Int(word >> 8), type: UInt8(truncatingIfNeeded: word), flags: flags,
      stream: stream & 0x7FFF_FFFF)
  }
}

extension ByteBuffer {
  package mutating func writeFrameHead(
    length: Int, type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0
  ) {
    writeInteger(UInt32(length) << 8 | UInt32(type))
    writeInteger(flags)
    writeInteger(stream)
  }

  package mutating func writeSettings(_ settings: [(UInt16, UInt32)]) {
    writeFrameHead(length: 6 * settings.count, type: HTTP2.FrameType.settings)
    for (name, value) in settings { writeMultipleIntegers(name, value) }
  }

  package mutating func writeResetStream(_ stream: UInt32, code: UInt32) {
    writeFrameHead(length: 4, type: HTTP2.FrameType.resetStream, stream: stream)
    writeInteger(code)
  }

  package mutating func writeWindowUpdate(_ stream: UInt32, by bytes: Int) {
    writeFrameHead(length: 4, type: HTTP2.FrameType.windowUpdate, stream: stream)
    writeInteger(UInt32(bytes))
  }

  package mutating func writeGoAway(last: UInt32, code: UInt32, debug: String) {
    let text = Array(debug.utf8.prefix(1024))
    writeFrameHead(length: 8 + text.count, type: HTTP2.FrameType.goAway)
    writeMultipleIntegers(last, code)
    writeBytes(text)
  }
}
