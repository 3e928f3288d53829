/// Reads the frames of one WebSocket (RFC 6455, the server's side): unmasks, joins fragments, and
/// skips messages that are too large without keeping them.
///
/// Holds nothing but the fragments of an unfinished message. It works on bytes in place and unmasks
/// into a scratch buffer that all connections of an event loop share.
package struct WebSocketReader {
  package enum Kind: UInt8 {
    case text = 1
    case binary = 2
  }

  package enum Event {
    /// Nothing whole is there.
    case needMore
    /// The bytes are valid until the next call.
    case message(Kind, UnsafeRawBufferPointer)
    case ping(UnsafeRawBufferPointer)
    case pong
    /// Something that asks for nothing: part of a message.
    case nothing
    case close(code: UInt16?)
    /// A message larger than allowed begins so; the rest of it is skipped. The bytes are valid until
    /// the next call.
    case tooLarge(UnsafeRawBufferPointer)
    /// Going on makes no sense.
    case violation(CloseReason)
  }

  /// Never more than the scratch buffer holds.
  package var messageBytesMax: Int
  /// How much of a message that is too large is handed over.
  private let beginningBytesMax: Int
  private let skippedBytesMax: Int
  /// Bytes of the present frame still to be thrown away.
  private var skipping = 0
  /// Until the message's last fragment, all of it is thrown away.
  private var discarding = false
  private var discarded = 0
  private var fragments: (kind: Kind, bytes: [UInt8])?
  /// Frames of the present message before this one.
  private var framesBefore = 0
  private let fragmentsMax: Int

  /// Larger control frames are a violation (RFC 6455, 5.5).
  private static let controlBytesMax = 125

  /// - Parameter fragmentsMax: frames of one message.
  package init(
    messageBytesMax: Int, skippedBytesMax: Int, fragmentsMax: Int = .max, beginningBytesMax: Int = 0
  ) {
    self.messageBytesMax = messageBytesMax
    self.fragmentsMax = fragmentsMax
    self.beginningBytesMax = min(beginningBytesMax, messageBytesMax)
    self.skippedBytesMax = skippedBytesMax
  }

  /// Whether a message was begun whose end has not come. (What `next` has not consumed of a frame is not
  /// known here.)
  package var isAmidMessage: Bool { fragments != nil || discarding || skipping > 0 }

  /// How much of it is kept.
  package var keptBytes: Int { fragments?.bytes.count ?? 0 }

  /// Lets go of what is kept. Nothing can be read any more.
  package mutating func abandon() { fragments = nil }

  /// Reads the next thing.
  /// - Parameters:
  ///   - input: all that has arrived and was not consumed before.
  ///   - consumed: grows by what was read.
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
    let header: Header
    switch Header.read(rest) {
    case .needMore: return .needMore
    case .violation: return .violation(.protocolError)
    case .header(let read): header = read
    }
    if header.isControl { return control(header, rest, consumed: &consumed, scratch: scratch) }
    return data(header, rest, consumed: &consumed, scratch: scratch)
  }

  private mutating func control(
    _ header: Header, _ rest: UnsafeRawBufferPointer, consumed: inout Int,
    scratch: UnsafeMutableRawBufferPointer
  ) -> Event {
    guard header.isFinal, header.payloadBytes <= Self.controlBytesMax else {
      return .violation(.protocolError)
    }
    guard let payload = header.unmask(rest, into: scratch) else { return .needMore }
    consumed += header.bytes + payload.count
    switch header.opcode {
    case 8:
      guard payload.count != 1 else { return .violation(.protocolError) }
      return .close(
        code: payload.count < 2 ? nil : UInt16(payload[0]) << 8 | UInt16(payload[1]))
    case 9: return .ping(payload)
    case 10: return .pong
    default: return .violation(.protocolError)
    }
  }

  private mutating func data(
    _ header: Header, _ rest: UnsafeRawBufferPointer, consumed: inout Int,
    scratch: UnsafeMutableRawBufferPointer
  ) -> Event {
    let begins = header.opcode != 0
    // A message begins only when none is open; a continuation only when one is.
    guard begins != (fragments != nil || discarding) else { return .violation(.protocolError) }
    guard !begins || Kind(rawValue: header.opcode) != nil else {
      return .violation(.protocolError)
    }
    // Empty ones would never come to an end.
    if begins { framesBefore = 0 }
    guard framesBefore < fragmentsMax else { return .violation(.messageTooLarge) }
    let before = fragments?.bytes.count ?? 0
    if discarding || header.payloadBytes > UInt64(messageBytesMax - before) {
      return skip(header, rest, consumed: &consumed, scratch: scratch)
    }
    guard let payload = header.unmask(rest, into: scratch) else { return .needMore }
    consumed += header.bytes + payload.count
    if begins, header.isFinal, let kind = Kind(rawValue: header.opcode) {
      return .message(kind, payload)
    }
    return join(header, payload, scratch: scratch)
  }

  /// Adds a fragment to its message.
  private mutating func join(
    _ header: Header, _ payload: UnsafeRawBufferPointer, scratch: UnsafeMutableRawBufferPointer
  ) -> Event {
    var open = fragments ?? (Kind(rawValue: header.opcode) ?? .binary, [])
    fragments = nil
    open.bytes.append(contentsOf: payload)
    guard header.isFinal else {
      fragments = open
      framesBefore += 1
      return .nothing
    }
    scratch.copyBytes(from: open.bytes)
    return .message(
      open.kind, UnsafeRawBufferPointer(rebasing: scratch[..<open.bytes.count]))
  }

  private mutating func skip(
    _ header: Header, _ rest: UnsafeRawBufferPointer, consumed: inout Int,
    scratch: UnsafeMutableRawBufferPointer
  ) -> Event {
    guard header.payloadBytes <= UInt64(skippedBytesMax - discarded) else {
      return .violation(.messageTooLarge)
    }
    let first = !discarding
    var beginning = UnsafeRawBufferPointer(rebasing: scratch[..<0])
    if first {
      guard let found = self.beginning(header, rest, scratch: scratch) else { return .needMore }
      beginning = found
    }
    fragments = nil
    framesBefore += 1
    skipping = Int(header.payloadBytes)
    discarded = header.isFinal ? 0 : discarded + skipping
    discarding = !header.isFinal
    consumed += header.bytes
    return first ? .tooLarge(beginning) : .nothing
  }

  /// The beginning of a message that is too large; nil until it is there.
  private func beginning(
    _ header: Header, _ rest: UnsafeRawBufferPointer, scratch: UnsafeMutableRawBufferPointer
  ) -> UnsafeRawBufferPointer? {
    let before = fragments?.bytes.prefix(beginningBytesMax) ?? []
    var part = header
    part.payloadBytes = min(header.payloadBytes, UInt64(beginningBytesMax - before.count))
    let behind = UnsafeMutableRawBufferPointer(rebasing: scratch[before.count...])
    guard part.unmask(rest, into: behind) != nil else { return nil }
    scratch.copyBytes(from: before)
    return UnsafeRawBufferPointer(
      rebasing: scratch[..<(before.count + Int(part.payloadBytes))])
  }
}

/// The first bytes of a frame.
private struct Header {
  enum Result {
    case needMore
    case violation
    case header(Header)
  }

  var isFinal: Bool
  var opcode: UInt8
  var payloadBytes: UInt64
  /// In the order of the wire, the first byte lowest.
  var mask: UInt32
  /// The header's own length.
  var bytes: Int

  var isControl: Bool { opcode & 8 != 0 }

  static func read(_ input: UnsafeRawBufferPointer) -> Result {
    guard input.count >= 2 else { return .needMore }
    // Reserved bits belong to extensions, of which none was agreed; clients must mask (5.1, 5.2).
    guard input[0] & 0x70 == 0, input[1] & 0x80 != 0 else { return .violation }
    var bytes = 2
    var payloadBytes = UInt64(input[1] & 0x7f)
    if payloadBytes >= 126 {
      let lengthBytes = payloadBytes == 126 ? 2 : 8
      guard input.count >= 2 + lengthBytes else { return .needMore }
      payloadBytes = input[2..<2 + lengthBytes].reduce(0) { $0 << 8 | UInt64($1) }
      guard payloadBytes < 1 << 62 else { return .violation }
      bytes += lengthBytes
    }
    guard input.count >= bytes + 4 else { return .needMore }
    let mask = UInt32(
      littleEndian: input.loadUnaligned(fromByteOffset: bytes, as: UInt32.self))
    return .header(
      Header(
        isFinal: input[0] & 0x80 != 0, opcode: input[0] & 0x0f, payloadBytes: payloadBytes,
        mask: mask, bytes: bytes + 4))
  }

  /// The payload, unmasked into `scratch`; nil until all of it is there.
  func unmask(_ input: UnsafeRawBufferPointer, into scratch: UnsafeMutableRawBufferPointer)
    -> UnsafeRawBufferPointer?
  {
    let count = Int(payloadBytes)
    guard input.count - bytes >= count, scratch.count >= count else { return nil }
    let wide = UInt64(mask) << 32 | UInt64(mask)
    var offset = 0
    while offset + 8 <= count {
      let word = UInt64(
        littleEndian: input.loadUnaligned(fromByteOffset: bytes + offset, as: UInt64.self))
      scratch.storeBytes(of: (word ^ wide).littleEndian, toByteOffset: offset, as: UInt64.self)
      offset += 8
    }
    while offset < count {
      let key = UInt8(truncatingIfNeeded: mask >> (8 * UInt32(offset & 3)))
      scratch[offset] = input[bytes + offset] ^ key
      offset += 1
    }
    return UnsafeRawBufferPointer(rebasing: scratch[..<count])
  }
}
