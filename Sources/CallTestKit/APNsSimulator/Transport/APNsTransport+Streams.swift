internal import NIOCore
internal import NIOHPACK

extension APNsTransport {
  mutating func receiveHeaders(_ frame: inout Frame) throws(Failure) {
    guard frame.head.stream != 0, !frame.head.stream.isMultiple(of: 2) else {
      throw Failure(.protocol)
    }
    try removePadding(&frame)
    if frame.head.has(HTTP2.Flag.priority) {
      guard let depends: UInt32 = frame.payload.readInteger(),
        frame.payload.readInteger(as: UInt8.self) != nil,
        depends & 0x7FFF_FFFF != frame.head.stream
      else { throw Failure(.protocol) }
      violations.append(.priorityFrame)
    }
    block = OpenBlock(
      stream: frame.head.stream, endsStream: frame.head.has(HTTP2.Flag.endStream),
      bytes: frame.payload)
    if frame.head.has(HTTP2.Flag.endHeaders) { try endBlock() }
  }

  mutating func receiveContinuation(_ frame: inout Frame) throws(Failure) {
    guard block != nil else { throw Failure(.protocol) }
    block?.bytes.writeBuffer(&frame.payload)
    // A compressed block must not be longer than the limit of plain ones.
    guard (block?.bytes.readableBytes ?? 0) <= 2 * options.headerListMax else {
      throw Failure(.enhanceYourCalm, .headerListTooLarge)
    }
    if frame.head.has(HTTP2.Flag.endHeaders) { try endBlock() }
  }

  private mutating func endBlock() throws(Failure) {
    guard var block else { return }
    self.block = nil
    // Decoded in any case, since the HPACK table must follow.
    let headers: HPACKHeaders
    do {
      headers = try decoder.decodeHeaders(from: &block.bytes)
    } catch is NIOHPACKErrors.MaxHeaderListSizeViolation {
      throw Failure(.enhanceYourCalm, .headerListTooLarge)
    } catch {
      throw Failure(.compression)
    }
    if block.stream > lastStream {
      try open(block, headers)
    } else {
      try trailers(block)
    }
  }

  private mutating func open(_ block: OpenBlock, _ headers: HPACKHeaders) throws(Failure) {
    lastStream = block.stream
    counts.streams += 1
    guard streams.count < limit else {
      guard options.earlyStreams, !confirmsOnce else {
        throw Failure(
          .protocol, .tooManyStreams, debug: "Maximum active streams violated for this endpoint.")
      }
      violations.append(.tooManyStreams)
      return end(block.stream, .refusedStream, ended: block.endsStream)
    }
    if let last = goAwayLast, block.stream > last {
      counts.streamsBehindGoAway += 1
      if !block.endsStream { discard(block.stream) }
      return
    }
    var stream = Stream(sendWindow: peerInitialWindow)
    stream.ended = block.endsStream
    stream.fields.reserveCapacity(12)
    for (name, value, indexing) in headers {
      stream.fields.append(.init(name, value, indexed: indexing == .indexable))
    }
    guard APNsTransport.isWellFormed(stream.fields) else {
      violations.append(.malformedRequest)
      return end(block.stream, .protocol, ended: block.endsStream)
    }
    streams[block.stream] = stream
    counts.streamsInFlightMax = max(counts.streamsInFlightMax, streams.count)
    if block.endsStream { handOut(block.stream) }
  }

  /// A second header block on a stream ends it. APNs ignores its fields.
  private mutating func trailers(_ block: OpenBlock) throws(Failure) {
    if discarding.contains(block.stream) {
      if block.endsStream { discarding.remove(block.stream) }
      return
    }
    guard let stream = streams[block.stream], !stream.ended else { throw Failure(.streamClosed) }
    guard block.endsStream else { throw Failure(.protocol) }
    streams[block.stream]?.ended = true
    handOut(block.stream)
  }

  mutating func receiveData(_ frame: inout Frame) throws(Failure) {
    guard frame.head.stream != 0, frame.head.stream <= lastStream else { throw Failure(.protocol) }
    // Padding counts too.
    guard frame.head.length <= receiveWindow else { throw Failure(.flowControl, .windowOverrun) }
    receiveWindow -= frame.head.length
    refillWindow(frame.head.length)
    try removePadding(&frame)
    if discarding.contains(frame.head.stream) {
      if frame.head.has(HTTP2.Flag.endStream) { discarding.remove(frame.head.stream) }
      return
    }
    guard streams[frame.head.stream]?.ended == false else { throw Failure(.streamClosed) }
    try receiveBody(frame)
    if frame.head.has(HTTP2.Flag.endStream) {
      streams[frame.head.stream]?.ended = true
      handOut(frame.head.stream)
    } else if (streams[frame.head.stream]?.bodyLength ?? 0) > HTTP2.frameBytesMax {
      // Too large for any push, and its window is never refilled, so it is answered now.
      handOut(frame.head.stream)
    }
  }

  private mutating func receiveBody(_ frame: Frame) throws(Failure) {
    guard let window = streams[frame.head.stream]?.receiveWindow, frame.head.length <= window else {
      throw Failure(.flowControl, .windowOverrun)
    }
    // Keeps one byte more than the largest push, to detect one that is too large.
    let kept = APNsPushType.voip.payloadBytesMax + 1 - (streams[frame.head.stream]?.body.count ?? 0)
    streams[frame.head.stream]?.receiveWindow -= frame.head.length
    streams[frame.head.stream]?.bodyLength += frame.payload.readableBytes
    streams[frame.head.stream]?.body.append(
      contentsOf: frame.payload.readableBytesView.prefix(max(0, kept)))
  }

  private mutating func handOut(_ id: UInt32) {
    guard let stream = streams[id], !stream.isHandedOut else { return }
    if stream.ended, let text = stream.fields.first(where: { $0.name == "content-length" })?.value,
      Int(text) != stream.bodyLength
    {
      violations.append(.malformedRequest)
      return end(id, .protocol, ended: true)
    }
    streams[id]?.isHandedOut = true
    streams[id]?.fields = []
    streams[id]?.body = []
    events.append(
      .request(
        id,
        APNsRequest(fields: stream.fields, body: stream.body, bodyLength: stream.bodyLength)))
  }

  mutating func receiveReset(_ frame: Frame) throws(Failure) {
    guard frame.head.length == 4 else { throw Failure(.frameSize) }
    guard frame.head.stream != 0, frame.head.stream <= lastStream else { throw Failure(.protocol) }
    discarding.remove(frame.head.stream)
    guard let stream = streams.removeValue(forKey: frame.head.stream) else { return }
    counts.abandoned += 1
    if stream.isHandedOut { events.append(.abandoned(frame.head.stream)) }
  }

  mutating func receivePriority(_ frame: Frame) throws(Failure) {
    guard frame.head.length == 5, frame.head.stream != 0 else { throw Failure(.frameSize) }
    violations.append(.priorityFrame)
  }

  /// Ends a stream with RST_STREAM.
  mutating func end(_ id: UInt32, _ code: HTTP2.ErrorCode, ended: Bool) {
    output.writeResetStream(id, code: code.rawValue)
    streams[id] = nil
    if !ended { discard(id) }
  }

  mutating func discard(_ id: UInt32) {
    guard discarding.count < Self.discardingMax else { return fail(Failure(.enhanceYourCalm)) }
    discarding.insert(id)
  }

  private func removePadding(_ frame: inout Frame) throws(Failure) {
    guard frame.head.has(HTTP2.Flag.padded) else { return }
    guard let length: UInt8 = frame.payload.readInteger(),
      Int(length) <= frame.payload.readableBytes
    else { throw Failure(.protocol) }
    frame.payload.moveWriterIndex(to: frame.payload.writerIndex - Int(length))
  }

  /// RFC 9113 8.2 and 8.3: names in lower case, each pseudo-header field once and first, no connection fields of
  /// HTTP/1.1.
  private static func isWellFormed(_ fields: [APNsRequest.Field]) -> Bool {
    let pseudo = fields.prefix { $0.name.hasPrefix(":") }
    let names = pseudo.map(\.name).sorted()
    guard names.drop(while: { $0 == ":authority" }) == [":method", ":path", ":scheme"],
      names.count <= 4, pseudo.contains(where: { $0.name == ":scheme" && $0.value == "https" })
    else { return false }
    return fields.dropFirst(pseudo.count).allSatisfy { field in
      switch field.name {
      case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade": false
      case "te": field.value == "trailers"
      default: !field.name.utf8.contains { 0x41...0x5A ~= $0 || $0 == UInt8(ascii: ":") }
      }
    }
  }
}
