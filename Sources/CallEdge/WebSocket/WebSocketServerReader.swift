internal import CallWire

/// Reads the frames that a client sends (RFC 6455): unmasks them, joins fragments, and skips messages that
/// are too large without keeping them.
///
/// It keeps nothing but the fragments of an unfinished message. It reads frames in place and unmasks them
/// into a scratch buffer that all connections of an event loop share.
package struct WebSocketServerReader {
  package enum Kind {
    case text
    case binary
  }

  package enum Event {
    /// The next frame has not arrived in full.
    case needMore
    /// A whole message. The bytes are valid until the next call.
    case message(Kind, UnsafeRawBufferPointer)
    case ping(UnsafeRawBufferPointer)
    case pong
    /// A fragment that completes no message.
    case nothing
    case close(code: UInt16?)
    /// The start of a message that is larger than allowed. The rest of it is skipped. The bytes are valid
    /// until the next call.
    case tooLarge(UnsafeRawBufferPointer)
    /// The peer broke the protocol; what follows cannot be read.
    case violation(CloseReason)
  }

  /// The most bytes of a message; no more than the scratch buffer holds.
  package var messageBytesMax: Int
  /// How much of a message that is too large is handed over.
  private let beginningBytesMax: Int
  /// The most bytes of a message that is skipped.
  private let skippedBytesMax: Int
  /// The most frames of a message.
  private let fragmentsMax: Int
  /// Bytes of the current frame that are still to be skipped.
  private var skipping = 0
  /// The rest of the current message is skipped, up to its last fragment.
  private var isSkippingMessage = false
  private var skippedBytes = 0
  private var fragments: (kind: Kind, bytes: [UInt8])?
  /// How many frames of the current message have been read.
  private var framesRead = 0

  package init(
    messageBytesMax: Int, skippedBytesMax: Int, fragmentsMax: Int = .max, beginningBytesMax: Int = 0
  ) {
    self.messageBytesMax = messageBytesMax
    self.fragmentsMax = fragmentsMax
    self.beginningBytesMax = min(beginningBytesMax, messageBytesMax)
    self.skippedBytesMax = skippedBytesMax
  }

  /// Whether a message has begun and not ended. Bytes that `next` has not consumed
  /// do not count.
  package var isAmidMessage: Bool { fragments != nil || isSkippingMessage || skipping > 0 }

  /// How many bytes of the current message are kept.
  package var keptBytes: Int { fragments?.bytes.count ?? 0 }

  /// Drops the fragments that are kept. The reader cannot be used afterwards.
  package mutating func abandon() { fragments = nil }

  /// Reads the next event.
  /// - Parameters:
  ///   - input: all bytes that have arrived and were not consumed before.
  ///   - consumed: the offset in `input` from which to read; it grows by what was read.
  ///   - scratch: at least `messageBytesMax` bytes.
  package mutating func next(
    _ input: UnsafeRawBufferPointer, consumed: inout Int, scratch: UnsafeMutableRawBufferPointer
  ) -> Event {
    if skipping > 0 {
      let count = min(skipping, input.count - consumed)
      skipping -= count
      consumed += count
      if skipping > 0 { return .needMore }
    }
    let rest = UnsafeRawBufferPointer(rebasing: input[consumed...])
    switch WebSocketFrameHeader.parse(rest) {
    case .needMore: return .needMore
    case .reservedBits, .unknownOpcode, .lengthTooLarge: return .violation(.protocolError)
    case .header(let header, let bytes):
      // Clients must mask (RFC 6455, 5.1).
      guard let mask = header.mask else { return .violation(.protocolError) }
      let frame = Frame(
        header: header, headerBytes: bytes, mask: mask,
        payload: UnsafeRawBufferPointer(rebasing: rest[bytes...]))
      return header.opcode.isControl
        ? control(frame, consumed: &consumed, scratch: scratch)
        : data(frame, consumed: &consumed, scratch: scratch)
    }
  }

  /// A frame whose header has arrived.
  private struct Frame {
    let header: WebSocketFrameHeader
    let headerBytes: Int
    let mask: UInt32
    /// As much of the payload as has arrived, and whatever follows it.
    let payload: UnsafeRawBufferPointer

    /// How many bytes the whole frame takes.
    var bytes: Int { headerBytes + header.payloadBytes }

    /// Unmasks the payload, or its first `count` bytes, into `scratch`.
    /// - Returns: nil until all of that has arrived.
    func unmask(
      _ count: Int? = nil, into scratch: UnsafeMutableRawBufferPointer
    ) -> UnsafeRawBufferPointer? {
      let count = count ?? header.payloadBytes
      guard payload.count >= count, scratch.count >= count else { return nil }
      let masked = UnsafeRawBufferPointer(rebasing: payload[..<count])
      WebSocketFrameHeader.applyMask(mask, to: masked, into: scratch)
      return UnsafeRawBufferPointer(rebasing: scratch[..<count])
    }
  }

  private func control(
    _ frame: Frame, consumed: inout Int, scratch: UnsafeMutableRawBufferPointer
  ) -> Event {
    guard frame.header.isFinal,
      frame.header.payloadBytes <= WebSocketFrameHeader.controlPayloadBytesMax
    else { return .violation(.protocolError) }
    guard let payload = frame.unmask(into: scratch) else { return .needMore }
    consumed += frame.bytes
    switch frame.header.opcode {
    case .ping: return .ping(payload)
    case .pong: return .pong
    case .close, .continuation, .text, .binary:
      guard payload.count != 1 else { return .violation(.protocolError) }
      return .close(code: payload.count < 2 ? nil : UInt16(payload[0]) << 8 | UInt16(payload[1]))
    }
  }

  private mutating func data(
    _ frame: Frame, consumed: inout Int, scratch: UnsafeMutableRawBufferPointer
  ) -> Event {
    let begins = frame.header.opcode != .continuation
    // A message begins only when none is open, and is continued only when one is.
    guard begins != (fragments != nil || isSkippingMessage) else {
      return .violation(.protocolError)
    }
    if begins { framesRead = 0 }
    // Without this limit a message of empty fragments would never end.
    guard framesRead < fragmentsMax else { return .violation(.messageTooLarge) }
    if isSkippingMessage || frame.header.payloadBytes > messageBytesMax - keptBytes {
      return skip(frame, consumed: &consumed, scratch: scratch)
    }
    guard let payload = frame.unmask(into: scratch) else { return .needMore }
    consumed += frame.bytes
    let kind: Kind = frame.header.opcode == .text ? .text : .binary
    if begins, frame.header.isFinal { return .message(kind, payload) }
    return join(payload, kind, isLast: frame.header.isFinal, scratch: scratch)
  }

  /// Adds a fragment to its message.
  /// - Parameter kind: the message's kind, where this is its first fragment.
  private mutating func join(
    _ payload: UnsafeRawBufferPointer, _ kind: Kind, isLast: Bool,
    scratch: UnsafeMutableRawBufferPointer
  ) -> Event {
    var open = fragments ?? (kind, [])
    fragments = nil
    open.bytes.append(contentsOf: payload)
    guard isLast else {
      fragments = open
      framesRead += 1
      return .nothing
    }
    scratch.copyBytes(from: open.bytes)
    return .message(open.kind, UnsafeRawBufferPointer(rebasing: scratch[..<open.bytes.count]))
  }

  private mutating func skip(
    _ frame: Frame, consumed: inout Int, scratch: UnsafeMutableRawBufferPointer
  ) -> Event {
    guard frame.header.payloadBytes <= skippedBytesMax - skippedBytes else {
      return .violation(.messageTooLarge)
    }
    let isFirst = !isSkippingMessage
    var beginning = UnsafeRawBufferPointer(rebasing: scratch[..<0])
    if isFirst {
      guard let found = self.beginning(of: frame, scratch: scratch) else { return .needMore }
      beginning = found
    }
    fragments = nil
    framesRead += 1
    skipping = frame.header.payloadBytes
    skippedBytes = frame.header.isFinal ? 0 : skippedBytes + skipping
    isSkippingMessage = !frame.header.isFinal
    consumed += frame.headerBytes
    return isFirst ? .tooLarge(beginning) : .nothing
  }

  /// The start of a message that is too large: the fragments before this frame, and the start of the frame.
  /// - Returns: nil until it has arrived.
  private func beginning(
    of frame: Frame, scratch: UnsafeMutableRawBufferPointer
  ) -> UnsafeRawBufferPointer? {
    let before = fragments?.bytes.prefix(beginningBytesMax) ?? []
    let count = min(frame.header.payloadBytes, beginningBytesMax - before.count)
    let behind = UnsafeMutableRawBufferPointer(rebasing: scratch[before.count...])
    guard frame.unmask(count, into: behind) != nil else { return nil }
    scratch.copyBytes(from: before)
    return UnsafeRawBufferPointer(rebasing: scratch[..<(before.count + count)])
  }
}
