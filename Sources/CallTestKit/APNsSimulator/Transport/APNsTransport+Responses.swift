internal import NIOCore

extension APNsTransport {
  /// Answers a stream; nothing happens if it is not open any more, or behind our GOAWAY.
  package mutating func respond(
    to id: UInt32, _ response: APNsResponse, apnsID: String, uniqueID: String? = nil,
    shape: APNsResponseShape = []
  ) {
    guard !isDead, let stream = streams[id], stream.isHandedOut, !stream.isAnswered else { return }
    if let last = goAwayLast, id > last { return }
    let body = response.body
    var block = ByteBuffer()
    if announcesTable {
      block.writeInteger(0x20 as UInt8)  // Dynamic table size: 0.
      announcesTable = false
    }
    block.writeStatus(response.status)
    block.writeField("apns-id", apnsID)
    if let uniqueID { block.writeField("apns-unique-id", uniqueID) }
    let ends = body.isEmpty && !shape.contains(.emptyEnd)
    writeHeaders(id, block, ends: ends, shape)
    streams[id]?.isAnswered = true
    if ends {
      finish(id)
    } else {
      writeBody(id, body, shape)
    }
  }

  private mutating func writeHeaders(
    _ id: UInt32, _ block: ByteBuffer, ends: Bool, _ shape: APNsResponseShape
  ) {
    var block = block
    var flags: UInt8 = ends ? HTTP2.Flag.endStream : 0
    let padding = shape.contains(.padding) ? 17 : 0
    let first = shape.contains(.continuation) ? block.readableBytes / 2 : block.readableBytes
    if first == block.readableBytes { flags |= HTTP2.Flag.endHeaders }
    if padding > 0 { flags |= HTTP2.Flag.padded }
    output.writeFrameHead(
      length: first + (padding > 0 ? 1 + padding : 0), type: HTTP2.FrameType.headers, flags: flags,
      stream: id)
    if padding > 0 { output.writeInteger(UInt8(padding)) }
    if var part = block.readSlice(length: first) { output.writeBuffer(&part) }
    output.writeRepeatingByte(0, count: padding)
    if block.readableBytes > 0 {
      output.writeFrameHead(
        length: block.readableBytes, type: HTTP2.FrameType.continuation,
        flags: HTTP2.Flag.endHeaders, stream: id)
      output.writeBuffer(&block)
    }
  }

  private mutating func writeBody(_ id: UInt32, _ body: [UInt8], _ shape: APNsResponseShape) {
    var rest = body[...]
    if shape.contains(.splitBody), rest.count > 1, let room = room(id), room >= rest.count / 2 {
      let half = rest.prefix(rest.count / 2)
      rest = rest.dropFirst(half.count)
      writeData(id, half, ends: false)
    }
    if shape.contains(.padding), let room = room(id), room >= rest.count + 10 {
      spend(id, rest.count + 10)
      output.writeFrameHead(
        length: rest.count + 10, type: HTTP2.FrameType.data,
        flags: HTTP2.Flag.padded | (shape.contains(.emptyEnd) ? 0 : HTTP2.Flag.endStream),
        stream: id)
      output.writeInteger(9 as UInt8)
      output.writeBytes(rest)
      output.writeRepeatingByte(0, count: 9)
      rest = []
      if !shape.contains(.emptyEnd) { return finish(id) }
    } else if shape.contains(.emptyEnd), let room = room(id), room >= rest.count {
      if !rest.isEmpty { writeData(id, rest, ends: false) }
      rest = []
    }
    streams[id]?.waiting = rest
    flush(id)
  }

  /// What flow control lets through on a stream now.
  private func room(_ id: UInt32) -> Int? {
    streams[id].map { min($0.sendWindow, sendWindow) }
  }

  private mutating func spend(_ id: UInt32, _ bytes: Int) {
    sendWindow -= bytes
    streams[id]?.sendWindow -= bytes
  }

  private mutating func writeData(_ id: UInt32, _ bytes: ArraySlice<UInt8>, ends: Bool) {
    spend(id, bytes.count)
    output.writeFrameHead(
      length: bytes.count, type: HTTP2.FrameType.data, flags: ends ? HTTP2.Flag.endStream : 0,
      stream: id)
    output.writeBytes(bytes)
  }

  /// Sends what the windows let through of a response's body; the rest waits for them.
  private mutating func flush(_ id: UInt32) {
    guard let stream = streams[id], stream.isAnswered else { return }
    let room = max(0, min(stream.sendWindow, sendWindow))
    let part = stream.waiting.prefix(room)
    let isLast = part.count == stream.waiting.count
    if part.isEmpty, !isLast { return }
    writeData(id, part, ends: isLast)
    streams[id]?.waiting = stream.waiting.dropFirst(part.count)
    if isLast { finish(id) }
  }

  mutating func flushWaiting() {
    for id in inFlight where streams[id]?.isAnswered == true { flush(id) }
  }

  /// The response is out. If the request is not in yet, the client is told to keep the rest.
  private mutating func finish(_ id: UInt32) {
    guard let stream = streams.removeValue(forKey: id), !stream.ended else { return }
    output.writeResetStream(id, code: HTTP2.ErrorCode.none)
    discard(id)
  }

  /// Ends a stream without an answer.
  package mutating func reset(_ id: UInt32, code: UInt32, times: Int = 1) {
    guard !isDead, let stream = streams[id] else { return }
    end(id, code: code, times: times, ended: stream.ended)
  }

  /// Says GOAWAY. Streams above `last` are forgotten; with `closes` the connection ends when those up
  /// to it are answered.
  package mutating func goAway(
    last: UInt32, code: UInt32 = HTTP2.ErrorCode.none, reason: APNsReason? = nil, closes: Bool
  ) {
    guard !isDead else { return }
    let debug = reason.map { "{\"reason\":\"\($0.rawValue)\"}" } ?? ""
    output.writeGoAway(last: last, code: code, debug: debug)
    // 2^31-1 only warns: nothing is forgotten yet.
    guard last < 0x7FFF_FFFF else { return }
    goAwayLast = min(last, goAwayLast ?? last)
    closesWhenDone = closesWhenDone || closes
    for id in inFlight where id > last {
      if streams[id]?.ended == false { discard(id) }
      streams[id] = nil
    }
  }

  package var lastStreamOpened: UInt32 { lastStream }
}

/// HPACK (RFC 7541) of the few fields that APNs answers with. The dynamic table is not used.
extension ByteBuffer {
  fileprivate mutating func writeStatus(_ status: Int) {
    switch status {
    case 200: writeInteger(0x88 as UInt8)
    case 400: writeInteger(0x8C as UInt8)
    case 404: writeInteger(0x8D as UInt8)
    case 500: writeInteger(0x8E as UInt8)
    default:
      writeInteger(0x08 as UInt8)  // Literal, named as entry 8 of the static table.
      writeText(String(status))
    }
  }

  fileprivate mutating func writeField(_ name: String, _ value: String) {
    writeInteger(0x00 as UInt8)  // Literal without indexing, with a name of its own.
    writeText(name)
    writeText(value)
  }

  /// A plain string of fewer than 127 bytes.
  private mutating func writeText(_ text: String) {
    writeInteger(UInt8(text.utf8.count))
    writeString(text)
  }
}
