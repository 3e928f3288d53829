internal import NIOCore

extension APNsTransport {
  mutating func receiveSettings(_ head: HTTP2.FrameHead, _ payload: inout ByteBuffer) {
    guard head.stream == 0 else { return fail(HTTP2.ErrorCode.protocol) }
    if head.has(HTTP2.Flag.ack) {
      guard head.length == 0 else { return fail(HTTP2.ErrorCode.frameSize) }
      guard !limitsSent.isEmpty else { return fail(HTTP2.ErrorCode.protocol) }
      if let limit = limitsSent.removeFirst() { limitConfirmed = limit }
      confirmsOnce = true
      return
    }
    guard head.length.isMultiple(of: 6) else { return fail(HTTP2.ErrorCode.frameSize) }
    while let (name, value) = payload.readMultipleIntegers(as: (UInt16, UInt32).self) {
      guard apply(name, value) else { return }
    }
    output.writeFrameHead(length: 0, type: HTTP2.FrameType.settings, flags: HTTP2.Flag.ack)
    flushWaiting()
  }

  private mutating func apply(_ name: UInt16, _ value: UInt32) -> Bool {
    switch name {
    case HTTP2.Setting.headerTableSize: announcesTable = true
    case HTTP2.Setting.enablePush:
      guard value <= 1 else {
        fail(HTTP2.ErrorCode.protocol)
        return false
      }
    case HTTP2.Setting.maxFrameSize:
      guard 16384...16_777_215 ~= value else {
        fail(HTTP2.ErrorCode.protocol)
        return false
      }
    case HTTP2.Setting.initialWindowSize:
      guard value <= UInt32(HTTP2.windowMax) else {
        fail(HTTP2.ErrorCode.flowControl)
        return false
      }
      let change = Int(value) - peerInitialWindow
      peerInitialWindow = Int(value)
      for id in Array(streams.keys) { streams[id]?.sendWindow += change }
    default: break
    }
    return true
  }

  mutating func receiveWindowUpdate(_ head: HTTP2.FrameHead, _ payload: inout ByteBuffer) {
    guard head.length == 4, let word: UInt32 = payload.readInteger() else {
      return fail(HTTP2.ErrorCode.frameSize)
    }
    let bytes = Int(word & 0x7FFF_FFFF)
    guard bytes > 0, head.stream <= lastStream else { return fail(HTTP2.ErrorCode.protocol) }
    if head.stream == 0 {
      sendWindow += bytes
      guard sendWindow <= HTTP2.windowMax else { return fail(HTTP2.ErrorCode.flowControl) }
    } else if let window = streams[head.stream]?.sendWindow {
      guard window + bytes <= HTTP2.windowMax else {
        violations.append(.protocolError)
        let ended = streams[head.stream]?.ended ?? true
        return end(head.stream, code: HTTP2.ErrorCode.flowControl, ended: ended)
      }
      streams[head.stream]?.sendWindow = window + bytes
    }
    flushWaiting()
  }

  mutating func receivePing(_ head: HTTP2.FrameHead, _ payload: inout ByteBuffer) {
    guard head.stream == 0 else { return fail(HTTP2.ErrorCode.protocol) }
    guard head.length == 8 else { return fail(HTTP2.ErrorCode.frameSize) }
    if head.has(HTTP2.Flag.ack) { return }
    counts.pings += 1
    output.writeFrameHead(length: 8, type: HTTP2.FrameType.ping, flags: HTTP2.Flag.ack)
    output.writeBuffer(&payload)
  }

  mutating func receiveGoAway(_ head: HTTP2.FrameHead) {
    guard head.stream == 0 else { return fail(HTTP2.ErrorCode.protocol) }
    guard head.length >= 8 else { return fail(HTTP2.ErrorCode.frameSize) }
    counts.goAwaysReceived += 1
    // It will open no more streams; those that are open are answered.
    if goAwayLast == nil { goAwayLast = lastStream }
    closesWhenDone = true
  }

  /// Gives the window back once half of it is used, so that it costs few frames.
  mutating func refillWindow(_ bytes: Int) {
    receivedSinceUpdate += bytes
    guard receivedSinceUpdate >= max(1, options.connectionWindow / 2) else { return }
    output.writeWindowUpdate(0, by: receivedSinceUpdate)
    receiveWindow += receivedSinceUpdate
    receivedSinceUpdate = 0
  }

  /// Announces another limit of streams.
  package mutating func announce(limit: Int) {
    output.writeSettings([(HTTP2.Setting.maxConcurrentStreams, UInt32(clamping: limit))])
    limitsSent.append(limit)
  }

  /// So many changes of the limit to and fro; the last restores what was announced.
  package mutating func flipSettings(_ times: Int) {
    let restored = limitAnnounced
    for flip in 1...max(1, times) { announce(limit: flip.isMultiple(of: 2) ? restored : 1) }
    if limitAnnounced != restored { announce(limit: restored) }
  }
}
