internal import NIOCore
internal import NIOHPACK

extension APNsTransport {
  mutating func receiveHeaders(
    _ head: HTTP2.FrameHead, _ payload: inout ByteBuffer, _ events: inout [Event]
  ) {
    guard head.stream != 0, !head.stream.isMultiple(of: 2) else {
      return fail(HTTP2.ErrorCode.protocol)
    }
    guard removePadding(head, &payload) else { return fail(HTTP2.ErrorCode.protocol) }
    if head.has(HTTP2.Flag.priority) {
      guard let depends: UInt32 = payload.readInteger(), payload.readInteger(as: UInt8.self) != nil,
        depends & 0x7FFF_FFFF != head.stream
      else { return fail(HTTP2.ErrorCode.protocol) }
      violations.append(.priorityFrame)
    }
    block = OpenBlock(
      stream: head.stream, endsStream: head.has(HTTP2.Flag.endStream), bytes: payload)
    if head.has(HTTP2.Flag.endHeaders) { endBlock(&events) }
  }

  mutating func receiveContinuation(
    _ head: HTTP2.FrameHead, _ payload: inout ByteBuffer, _ events: inout [Event]
  ) {
    guard block != nil else { return fail(HTTP2.ErrorCode.protocol) }
    block?.bytes.writeBuffer(&payload)
    // Compressed it may not be longer than it may be plain.
    guard (block?.bytes.readableBytes ?? 0) <= 2 * options.headerListMax else {
      return fail(HTTP2.ErrorCode.enhanceYourCalm, .headerListTooLarge)
    }
    if head.has(HTTP2.Flag.endHeaders) { endBlock(&events) }
  }

  private mutating func endBlock(_ events: inout [Event]) {
    guard var block else { return }
    self.block = nil
    // Decoded whatever becomes of the stream: the table must follow.
    let headers: HPACKHeaders
    do {
      headers = try decoder.decodeHeaders(from: &block.bytes)
    } catch is NIOHPACKErrors.MaxHeaderListSizeViolation {
      return fail(HTTP2.ErrorCode.enhanceYourCalm, .headerListTooLarge)
    } catch {
      return fail(HTTP2.ErrorCode.compression)
    }
    if block.stream > lastStream {
      open(block, headers, &events)
    } else {
      trailers(block, &events)
    }
  }

  private mutating func open(
    _ block: OpenBlock, _ headers: HPACKHeaders, _ events: inout [Event]
  ) {
    lastStream = block.stream
    counts.streams += 1
    guard streams.count < limit else {
      violations.append(.tooManyStreams)
      if options.earlyStreams, !confirmsOnce {
        return end(block.stream, code: HTTP2.ErrorCode.refusedStream, ended: block.endsStream)
      }
      return fail(
        HTTP2.ErrorCode.protocol, nil,
        debug: "Maximum active streams violated for this endpoint.")
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
      var isIndexed = false
      if case .indexable = indexing { isIndexed = true }
      stream.fields.append(.init(name, value, indexed: isIndexed))
    }
    guard APNsTransport.isWellFormed(stream.fields) else {
      violations.append(.malformedRequest)
      return end(block.stream, code: HTTP2.ErrorCode.protocol, ended: block.endsStream)
    }
    streams[block.stream] = stream
    counts.streamsInFlightMax = max(counts.streamsInFlightMax, streams.count)
    if block.endsStream { handOut(block.stream, &events) }
  }

  /// A second header block on a stream ends it; its fields mean nothing to APNs.
  private mutating func trailers(_ block: OpenBlock, _ events: inout [Event]) {
    if discarding.contains(block.stream) {
      if block.endsStream { discarding.remove(block.stream) }
      return
    }
    guard let stream = streams[block.stream], !stream.ended else {
      return fail(HTTP2.ErrorCode.streamClosed)
    }
    guard block.endsStream else { return fail(HTTP2.ErrorCode.protocol) }
    streams[block.stream]?.ended = true
    handOut(block.stream, &events)
  }

  mutating func receiveData(
    _ head: HTTP2.FrameHead, _ payload: inout ByteBuffer, _ events: inout [Event]
  ) {
    guard head.stream != 0, head.stream <= lastStream else {
      return fail(HTTP2.ErrorCode.protocol)
    }
    // Padding counts too.
    guard head.length <= receiveWindow else {
      return fail(HTTP2.ErrorCode.flowControl, .windowOverrun)
    }
    receiveWindow -= head.length
    refillWindow(head.length)
    guard removePadding(head, &payload) else { return fail(HTTP2.ErrorCode.protocol) }
    if discarding.contains(head.stream) {
      if head.has(HTTP2.Flag.endStream) { discarding.remove(head.stream) }
      return
    }
    guard streams[head.stream]?.ended == false else { return fail(HTTP2.ErrorCode.streamClosed) }
    guard takeBody(head, payload) else {
      return fail(HTTP2.ErrorCode.flowControl, .windowOverrun)
    }
    if head.has(HTTP2.Flag.endStream) {
      streams[head.stream]?.ended = true
      handOut(head.stream, &events)
    } else if (streams[head.stream]?.bodyLength ?? 0) > HTTP2.frameBytesMax {
      // Too large for any push, and its window is never refilled: it is answered now.
      handOut(head.stream, &events)
    }
  }

  private mutating func takeBody(_ head: HTTP2.FrameHead, _ payload: ByteBuffer) -> Bool {
    guard let window = streams[head.stream]?.receiveWindow, head.length <= window else {
      return false
    }
    // No more is kept than tells a push that is too large from one that is not.
    let kept = APNsPushType.voip.payloadBytesMax + 1 - (streams[head.stream]?.body.count ?? 0)
    streams[head.stream]?.receiveWindow -= head.length
    streams[head.stream]?.bodyLength += payload.readableBytes
    streams[head.stream]?.body.append(contentsOf: payload.readableBytesView.prefix(max(0, kept)))
    return true
  }

  private mutating func handOut(_ id: UInt32, _ events: inout [Event]) {
    guard let stream = streams[id], !stream.isHandedOut else { return }
    if stream.ended, let text = stream.fields.first(where: { $0.name == "content-length" })?.value,
      Int(text) != stream.bodyLength
    {
      violations.append(.malformedRequest)
      return end(id, code: HTTP2.ErrorCode.protocol, ended: true)
    }
    streams[id]?.isHandedOut = true
    streams[id]?.fields = []
    streams[id]?.body = []
    events.append(
      .request(
        id,
        APNsRequest(fields: stream.fields, body: stream.body, bodyLength: stream.bodyLength)))
  }

  mutating func receiveReset(_ head: HTTP2.FrameHead, _ events: inout [Event]) {
    guard head.length == 4 else { return fail(HTTP2.ErrorCode.frameSize) }
    guard head.stream != 0, head.stream <= lastStream else {
      return fail(HTTP2.ErrorCode.protocol)
    }
    discarding.remove(head.stream)
    guard let stream = streams.removeValue(forKey: head.stream) else { return }
    counts.abandoned += 1
    if stream.isHandedOut { events.append(.abandoned(head.stream)) }
  }

  mutating func receivePriority(_ head: HTTP2.FrameHead) {
    guard head.length == 5, head.stream != 0 else { return fail(HTTP2.ErrorCode.frameSize) }
    violations.append(.priorityFrame)
  }

  /// Ends a stream with RST_STREAM.
  mutating func end(_ id: UInt32, code: UInt32, times: Int = 1, ended: Bool) {
    for _ in 0..<times { output.writeResetStream(id, code: code) }
    streams[id] = nil
    if !ended { discard(id) }
  }

  mutating func discard(_ id: UInt32) {
    guard discarding.count < Self.discardingMax else {
      return fail(HTTP2.ErrorCode.enhanceYourCalm)
    }
    discarding.insert(id)
  }

  private func removePadding(_ head: HTTP2.FrameHead, _ payload: inout ByteBuffer) -> Bool {
    guard head.has(HTTP2.Flag.padded) else { return true }
    guard let length: UInt8 = payload.readInteger(), Int(length) <= payload.readableBytes else {
      return false
    }
    payload.moveWriterIndex(to: payload.writerIndex - Int(length))
    return true
  }

  /// RFC 9113 8.2 and 8.3: names in lower case, the three pseudo-header fields once each and first,
  /// nothing of HTTP/1.1's connections.
  package static func isWellFormed(_ fields: [APNsRequest.Field]) -> Bool {
    var method = 0
    var scheme = 0
    var path = 0
    var authority = 0
    var isPastPseudo = false
    for field in fields {
      if field.name.utf8.first == UInt8(ascii: ":") {
        if isPastPseudo { return false }
        switch field.name {
        case ":method": method += 1
        case ":scheme":
          scheme += 1
          guard field.value == "https" else { return false }
        case ":path": path += 1
        case ":authority": authority += 1
        default: return false
        }
        continue
      }
      isPastPseudo = true
      if field.name.utf8.contains(where: { 0x41...0x5A ~= $0 }) { return false }
      switch field.name {
      case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
        return false
      case "te": guard field.value == "trailers" else { return false }
      default: break
      }
    }
    return method == 1 && scheme == 1 && path == 1 && authority <= 1
  }
}
