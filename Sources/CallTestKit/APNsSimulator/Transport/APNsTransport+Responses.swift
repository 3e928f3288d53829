internal import NIOCore
internal import NIOHPACK

extension APNsTransport {
  /// Answers a stream. Ignores one that is closed, or above the last stream of our GOAWAY.
  package mutating func respond(
    to id: UInt32, _ response: APNsResponse, apnsID: String, uniqueID: String? = nil,
    shape: APNsResponseShape = []
  ) {
    guard !isDead, let stream = streams[id], stream.isHandedOut, !stream.isAnswered else { return }
    if let last = goAwayLast, id > last { return }
    streams[id]?.isAnswered = true
    let pieces = pieces(response.body, shape)
    streams[id]?.waiting = pieces
    var headers = HPACKHeaders()
    let asksForAPause = shape.contains(.retryAfterAnHour) && response.status >= 429
    let fields = [
      (":status", "\(response.status)"), ("apns-id", apnsID), ("apns-unique-id", uniqueID),
      ("retry-after", asksForAPause ? "3600" : nil),
    ]
    for (name, value) in fields {
      if let value { headers.add(name: name, value: value, indexing: .nonIndexable) }
    }
    writeHeaders(id, headers, ends: pieces.isEmpty, shape)
    if pieces.isEmpty { finish(id) } else { flush(id) }
  }

  private func pieces(_ body: [UInt8], _ shape: APNsResponseShape) -> [Piece] {
    let half = shape.contains(.splitBody) ? body.count / 2 : 0
    var pieces = [Piece(bytes: body[..<half]), Piece(bytes: body[half...])]
    pieces.removeAll { $0.bytes.isEmpty }
    if shape.contains(.padding), !pieces.isEmpty { pieces[pieces.count - 1].padding = 9 }
    if shape.contains(.emptyEnd) { pieces.append(Piece(bytes: [])) }
    return pieces
  }

  private mutating func writeHeaders(
    _ id: UInt32, _ headers: HPACKHeaders, ends: Bool, _ shape: APNsResponseShape
  ) {
    var block = ByteBuffer()
    try? encoder.encode(headers: headers, to: &block)
    let bytes = block.readableBytesView
    let first = shape.contains(.continuation) ? bytes.prefix(bytes.count / 2) : bytes
    var flags = ends ? HTTP2.Flag.endStream : 0
    if first.count == bytes.count { flags |= HTTP2.Flag.endHeaders }
    write(.headers, id, flags, first, padding: shape.contains(.padding) ? 17 : 0)
    if first.count < bytes.count {
      write(.continuation, id, HTTP2.Flag.endHeaders, bytes.dropFirst(first.count))
    }
  }

  /// - Parameter padding: in bytes, without the length byte; 0: none.
  private mutating func write(
    _ type: HTTP2.FrameType, _ id: UInt32, _ flags: UInt8, _ bytes: some Collection<UInt8>,
    padding: Int = 0
  ) {
    let padded = padding > 0 ? HTTP2.Flag.padded : 0
    output.writeFrameHead(
      length: bytes.count + (padding > 0 ? padding + 1 : 0), type: type, flags: flags | padded,
      stream: id)
    if padding > 0 { output.writeInteger(UInt8(padding)) }
    output.writeBytes(bytes)
    output.writeRepeatingByte(0, count: padding)
  }

  /// Sends as much of a response's body as the windows allow.
  private mutating func flush(_ id: UInt32) {
    while let stream = streams[id], let piece = stream.waiting.first {
      let room = max(0, min(stream.sendWindow, sendWindow))
      let padding = piece.bytes.count + piece.padding < room ? piece.padding : 0
      let part = piece.bytes.prefix(room)
      if part.isEmpty, !piece.bytes.isEmpty { return }
      let isWhole = part.count == piece.bytes.count
      let isLast = isWhole && stream.waiting.count == 1
      let spent = part.count + (padding > 0 ? padding + 1 : 0)
      sendWindow -= spent
      streams[id]?.sendWindow -= spent
      write(.data, id, isLast ? HTTP2.Flag.endStream : 0, part, padding: padding)
      if isLast { return finish(id) }
      if isWhole {
        streams[id]?.waiting.removeFirst()
      } else {
        streams[id]?.waiting[0].bytes.removeFirst(part.count)
      }
    }
  }

  mutating func flushWaiting() {
    for id in inFlight where streams[id]?.isAnswered == true { flush(id) }
  }

  /// The response is complete. If the request is not, a reset tells the client to stop sending it.
  private mutating func finish(_ id: UInt32) {
    guard let stream = streams.removeValue(forKey: id), !stream.ended else { return }
    output.writeResetStream(id, code: HTTP2.ErrorCode.none.rawValue)
    discard(id)
  }

  /// Ends a stream without an answer.
  package mutating func reset(_ id: UInt32, code: UInt32, times: Int = 1) {
    guard !isDead, let stream = streams.removeValue(forKey: id) else { return }
    for _ in 0..<times { output.writeResetStream(id, code: code) }
    if !stream.ended { discard(id) }
  }

  /// Sends GOAWAY and drops the streams above `last`. With `closes` the connection ends when the others are answered.
  package mutating func goAway(
    last: UInt32, code: UInt32 = 0, reason: APNsReason? = nil, closes: Bool
  ) {
    guard !isDead else { return }
    let debug = reason.map { "{\"reason\":\"\($0.rawValue)\"}" } ?? ""
    output.writeGoAway(last: last, code: code, debug: debug)
    // 2^31-1 is only a warning, which drops nothing.
    guard last < 0x7FFF_FFFF else { return }
    goAwayLast = min(last, goAwayLast ?? last)
    closesWhenDone = closesWhenDone || closes
    for id in inFlight where id > last {
      if streams[id]?.ended == false { discard(id) }
      streams[id] = nil
    }
  }
}
