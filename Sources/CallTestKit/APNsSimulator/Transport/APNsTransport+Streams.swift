internal import NIOCore
internal import NIOHPACK

extension APNsTransport {
  mutating func receiveHeaders(
    _ head: HTTP2.FrameHead, _ payload: inout ByteBuffer, _ events: inout [Event]
  ) throws(Failure) {
    guard head.stream != 0, !head.stream.isMultiple(of: 2) else { throw Failure(.protocol) }
    try removePadding(head, &payload)
    if head.has(HTTP2.Flag.priority) {
      guard let depends: UInt32 = payload.readInteger(), payload.readInteger(as: UInt8.self) != nil,
        depends & 0x7FFF_FFFF != head.stream
      else { throw Failure(.protocol) }
      violations.append(.priorityFrame)
    }
    block = OpenBlock(
      stream: head.stream, endsStream: head.has(HTTP2.Flag.endStream), bytes: payload)
    if head.has(HTTP2.Flag.endHeaders) { try endBlock(&events) }
  }

  mutating func receiveContinuation(
    _ head: HTTP2.FrameHead, _ payload: inout ByteBuffer, _ events: inout [Event]
  ) throws(Failure) {
    guard block != nil else { throw Failure(.protocol) }
    block?.bytes.writeBuffer(&payload)
    // Compressed it may not be longer than it may be plain.
    guard (block?.bytes.readableBytes ?? 0) <= 2 * options.headerListMax else {
      throw Failure(.enhanceYourCalm, .headerListTooLarge)
    }
    if head.has(HTTP2.Flag.endHeaders) { try endBlock(&events) }
  }

  private mutating func endBlock(_ events: inout [Event]) throws(Failure) {
    guard var block else { return }
    self.block = nil
    // Decoded whatever becomes of the stream: the table must follow.
    let headers: HPACKHeaders
    do {
      headers = try decoder.decodeHeaders(from: &block.bytes)
    } catch is NIOHPACKErrors.MaxHeaderListSizeViolation {
      throw Failure(.enhanceYourCalm, .headerListTooLarge)
    } catch {
      throw Failure(.compression)
    }
    if block.stream > lastStream {
      try open(block, headers, &events)
    } else {
      try trailers(block, &events)
    }
  }

  private mutating func open(
    _ block: OpenBlock, _ headers: HPACKHeaders, _ events: inout [Event]
  ) throws(Failure) {
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
    if block.endsStream { handOut(block.stream, &events) }
  }

  /// A second header block on a stream ends it; its fields mean nothing to APNs.
  private mutating func trailers(
    _ block: OpenBlock, _ events: inout [Event]
  ) throws(Failure) {
    if discarding.contains(block.stream) {
      if block.endsStream { discarding.remove(block.stream) }
      return
    }
    guard let stream = streams[block.stream], !stream.ended else { throw Failure(.streamClosed) }
    guard block.endsStream else { throw Failure(.protocol) }
    streams[block.stream]?.ended = true
    handOut(block.stream, &events)
  }

  mutating func receiveData(
    _ head: HTTP2.FrameHead, _ payload: inout ByteBuffer, _ events: inout [Event]
  ) throws(Failure) {
    guard head.stream != 0, head.stream <= lastStream else { throw Failure(.protocol) }
    // Padding counts too.
    guard head.length <= receiveWindow else { throw Failure(.flowControl, .windowOverrun) }
    receiveWindow -= head.length
    refillWindow(head.length)
    try removePadding(head, &payload)
    if discarding.contains(head.stream) {
      if head.has(HTTP2.Flag.endStream) { discarding.remove(head.stream) }
      return
    }
    guard streams[head.stream]?.ended == false else { throw Failure(.streamClosed) }
    try takeBody(head, payload)
    if head.has(HTTP2.Flag.endStream) {
      streams[head.stream]?.ended = true
      handOut(head.stream, &events)
    } else if (streams[head.stream]?.bodyLength ?? 0) > HTTP2.frameBytesMax {
      // Too large for any push, and its window is never refilled: it is answered now.
      handOut(head.stream, &events)
    }
  }

  private mutating func takeBody(
    _ head: HTTP2.FrameHead, _ payload: ByteBuffer
  ) throws(Failure) {
    guard let window = streams[head.stream]?.receiveWindow, head.length <= window else {
      throw Failure(.flowControl, .windowOverrun)
    }
    // No more is kept than tells a push that is too large from one that is not.
    let kept = APNsPushType.voip.payloadBytesMax + 1 - (streams[head.stream]?.body.count ?? 0)
    streams[head.stream]?.receiveWindow -= head.length
    streams[head.stream]?.bodyLength += payload.readableBytes
    streams[head.stream]?.body.append(contentsOf: payload.readableBytesView.prefix(max(0, kept)))
  }

  private mutating func handOut(_ id: UInt32, _ events: inout [Event]) {
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

  mutating func receiveReset(
    _ head: HTTP2.FrameHead, _ events: inout [Event]
  ) throws(Failure) {
    guard head.length == 4 else { throw Failure(.frameSize) }
    guard head.stream != 0, head.stream <= lastStream else { throw Failure(.protocol) }
    discarding.remove(head.stream)
    guard let stream = streams.removeValue(forKey: head.stream) else { return }
    counts.abandoned += 1
    if stream.isHandedOut { events.append(.abandoned(head.stream)) }
  }

  mutating func receivePriority(_ head: HTTP2.FrameHead) throws(Failure) {
    guard head.length == 5, head.stream != 0 else { throw Failure(.frameSize) }
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

  private func removePadding(
    _ head: HTTP2.FrameHead, _ payload: inout ByteBuffer
  ) throws(Failure) {
    guard head.has(HTTP2.Flag.padded) else { return }
    guard let length: UInt8 = payload.readInteger(), Int(length) <= payload.readableBytes else {
      throw Failure(.protocol)
    }
    payload.moveWriterIndex(to: payload.writerIndex - Int(length))
  }

  /// RFC 9113 8.2 and 8.3: names in lower case, the pseudo-header fields once each and first,
  /// nothing of HTTP/1.1's connections.
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
