package import CallWire
internal import Crypto
package import NIOCore

/// Reads the frames that a server sends (RFC 6455). It keeps no more than the fragments of one message.
package struct WebSocketClientReader {
  package enum Event: Equatable {
    case text(ByteBuffer)
    case binary(ByteBuffer)
    case ping(ByteBuffer)
    case pong
    case close(code: UInt16)
  }

  /// The most bytes of one message, all fragments together.
  let messageMax: Int
  private var fragments: ByteBuffer?
  private var fragmentsAreText = false

  package init(messageMax: Int) { self.messageMax = messageMax }

  /// Takes frames out of `buffer` until one completes an event.
  /// - Returns: nil when more bytes are needed.
  /// - Throws: `LinkClosed.protocolError`.
  package mutating func next(from buffer: inout ByteBuffer) throws(LinkClosed) -> Event? {
    while true {
      guard let (header, payload) = try readFrame(from: &buffer) else { return nil }
      if let event = try event(of: header, payload) { return event }
    }
  }

  private func readFrame(
    from buffer: inout ByteBuffer
  ) throws(LinkClosed) -> (WebSocketFrameHeader, ByteBuffer)? {
    switch buffer.withUnsafeReadableBytes({ WebSocketFrameHeader.parse($0) }) {
    case .needMore: return nil
    case .reservedBits: throw .protocolError("reserved bits are set")
    case .unknownOpcode(let opcode): throw .protocolError("unknown opcode \(opcode)")
    case .lengthTooLarge: throw .protocolError("the frame is too large")
    case .header(let header, let bytes):
      guard header.mask == nil else { throw .protocolError("a server does not mask") }
      guard header.payloadBytes <= messageMax else {
        throw .protocolError("the frame is too large")
      }
      guard buffer.readableBytes - bytes >= header.payloadBytes else { return nil }
      buffer.moveReaderIndex(forwardBy: bytes)
      return buffer.readSlice(length: header.payloadBytes).map { (header, $0) }
    }
  }

  private mutating func event(
    of header: WebSocketFrameHeader, _ payload: ByteBuffer
  ) throws(LinkClosed) -> Event? {
    switch header.opcode {
    case .continuation:
      guard var whole = fragments else { throw .protocolError("a fragment without a beginning") }
      guard whole.readableBytes + payload.readableBytes <= messageMax else {
        throw .protocolError("the message is too large")
      }
      whole.writeImmutableBuffer(payload)
      fragments = header.isFinal ? nil : whole
      guard header.isFinal else { return nil }
      return fragmentsAreText ? .text(whole) : .binary(whole)
    case .text, .binary:
      guard fragments == nil else { throw .protocolError("a message inside another") }
      guard header.isFinal else {
        fragments = payload
        fragmentsAreText = header.opcode == .text
        return nil
      }
      return header.opcode == .text ? .text(payload) : .binary(payload)
    case .close, .ping, .pong:
      guard header.isFinal, header.payloadBytes <= WebSocketFrameHeader.controlPayloadBytesMax
      else { throw .protocolError("a control frame is fragmented or too large") }
      if header.opcode == .ping { return .ping(payload) }
      if header.opcode == .pong { return .pong }
      let code: UInt16? = payload.getInteger(at: payload.readerIndex)
      return .close(code: code ?? 1005)
    }
  }
}

extension ByteBuffer {
  /// Writes a frame as a client sends it: whole, and masked.
  package mutating func writeWebSocketFrame(
    _ opcode: WebSocketFrameHeader.Opcode, _ payload: some Collection<UInt8>, mask: UInt32
  ) {
    let header = WebSocketFrameHeader(opcode, payloadBytes: payload.count, mask: mask)
    writeWithUnsafeMutableBytes(minimumWritableBytes: WebSocketFrameHeader.maskedBytesMax) {
      header.write(into: $0)
    }
    let start = writerIndex - readerIndex
    writeBytes(payload)
    withUnsafeMutableReadableBytes { bytes in
      let payload = UnsafeMutableRawBufferPointer(rebasing: bytes[start...])
      WebSocketFrameHeader.applyMask(mask, to: UnsafeRawBufferPointer(payload), into: payload)
    }
  }
}

/// The opening handshake of RFC 6455 on the client's side.
package struct WebSocketHandshake: Sendable {
  let key: String
  let subprotocol: String

  /// - Parameter nonce: 16 random bytes.
  package init(nonce: [UInt8], subprotocol: String) {
    self.key = Base64.text(nonce)
    self.subprotocol = subprotocol
  }

  package func request(_ edge: EdgeAddress) -> String {
    """
    GET \(edge.path) HTTP/1.1\r
    Host: \(edge.authority)\r
    Upgrade: websocket\r
    Connection: Upgrade\r
    Sec-WebSocket-Key: \(key)\r
    Sec-WebSocket-Version: 13\r
    Sec-WebSocket-Protocol: \(subprotocol)\r
    \r

    """
  }

  /// Checks the server's response, without its final empty line.
  /// - Returns: why the handshake failed; nil: the WebSocket is open.
  package func refusal(of response: String) -> String? {
    var lines = response.split(whereSeparator: \.isNewline)
    guard !lines.isEmpty else { return "no status line" }
    let status = lines.removeFirst()
    guard status.hasPrefix("HTTP/1.1 101") else { return String(status.prefix(60)) }
    var accept: Substring?
    var chosen: Substring?
    for line in lines {
      guard let colon = line.firstIndex(of: ":") else { continue }
      let value = line[line.index(after: colon)...].drop { $0 == " " }
      switch line[..<colon].lowercased() {
      case "sec-websocket-accept": accept = value
      case "sec-websocket-protocol": chosen = value
      default: break
      }
    }
    let proof = Insecure.SHA1.hash(data: Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))
    let expected = Base64.text(Array(proof))
    guard accept.map(String.init) == expected else { return "wrong Sec-WebSocket-Accept" }
    guard chosen.map(String.init) == subprotocol else { return "subprotocol not accepted" }
    return nil
  }
}
