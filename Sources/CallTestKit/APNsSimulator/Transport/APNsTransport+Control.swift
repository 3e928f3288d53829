internal import NIOCore
internal import NIOHPACK

extension APNsTransport {
  mutating func receiveSettings(_ frame: inout Frame) throws(Failure) {
    guard frame.head.stream == 0 else { throw Failure(.protocol) }
    if frame.head.has(HTTP2.Flag.ack) {
      guard frame.head.length == 0 else { throw Failure(.frameSize) }
      guard !limitsSent.isEmpty else { throw Failure(.protocol) }
      if let limit = limitsSent.removeFirst() { limitConfirmed = limit }
      confirmsOnce = true
      return
    }
    guard frame.head.length.isMultiple(of: 6) else { throw Failure(.frameSize) }
    while let (name, value) = frame.payload.readMultipleIntegers(as: (UInt16, UInt32).self) {
      try apply(HTTP2.Setting(rawValue: name), value)
    }
    output.writeFrameHead(length: 0, type: .settings, flags: HTTP2.Flag.ack)
    flushWaiting()
  }

  private mutating func apply(_ setting: HTTP2.Setting?, _ value: UInt32) throws(Failure) {
    switch setting {
    // The next header block then announces that we use no table.
    case .headerTableSize: try? encoder.setDynamicTableSize(0)
    case .enablePush: guard value <= 1 else { throw Failure(.protocol) }
    case .maxFrameSize: guard 16384...16_777_215 ~= value else { throw Failure(.protocol) }
    case .initialWindowSize:
      guard value <= UInt32(HTTP2.windowMax) else { throw Failure(.flowControl) }
      let change = Int(value) - peerInitialWindow
      peerInitialWindow = Int(value)
      for id in Array(streams.keys) { streams[id]?.sendWindow += change }
    case .maxConcurrentStreams, .maxHeaderListSize, nil: break
    }
  }

  mutating func receiveWindowUpdate(_ frame: inout Frame) throws(Failure) {
    guard frame.head.length == 4, let word: UInt32 = frame.payload.readInteger() else {
      throw Failure(.frameSize)
    }
    let bytes = Int(word & 0x7FFF_FFFF)
    guard bytes > 0, frame.head.stream <= lastStream else { throw Failure(.protocol) }
    if frame.head.stream == 0 {
      sendWindow += bytes
      guard sendWindow <= HTTP2.windowMax else { throw Failure(.flowControl) }
    } else if let stream = streams[frame.head.stream] {
      guard stream.sendWindow + bytes <= HTTP2.windowMax else {
        violations.append(.protocolError)
        return end(frame.head.stream, .flowControl, ended: stream.ended)
      }
      streams[frame.head.stream]?.sendWindow += bytes
    }
    flushWaiting()
  }

  mutating func receivePing(_ frame: inout Frame) throws(Failure) {
    guard frame.head.stream == 0 else { throw Failure(.protocol) }
    guard frame.head.length == 8 else { throw Failure(.frameSize) }
    if frame.head.has(HTTP2.Flag.ack) { return }
    counts.pings += 1
    output.writeFrameHead(length: 8, type: .ping, flags: HTTP2.Flag.ack)
    output.writeBuffer(&frame.payload)
  }

  mutating func receiveGoAway(_ frame: Frame) throws(Failure) {
    guard frame.head.stream == 0 else { throw Failure(.protocol) }
    guard frame.head.length >= 8 else { throw Failure(.frameSize) }
    // The client opens no more streams. Open ones are answered.
    if goAwayLast == nil { goAwayLast = lastStream }
    closesWhenDone = true
  }

  /// Refills the window once half of it is used, to save frames.
  mutating func refillWindow(_ bytes: Int) {
    receivedSinceUpdate += bytes
    guard receivedSinceUpdate >= max(1, options.connectionWindow / 2) else { return }
    output.writeWindowUpdate(0, by: receivedSinceUpdate)
    receiveWindow += receivedSinceUpdate
    receivedSinceUpdate = 0
  }

  /// Announces another limit of streams.
  package mutating func announce(limit: Int) {
    output.writeSettings([(.maxConcurrentStreams, UInt32(clamping: limit))])
    limitsSent.append(limit)
  }

  /// Changes the limit this many times; the last change restores it.
  package mutating func flipSettings(_ times: Int) {
    let restored = limitAnnounced
    for flip in 1...max(1, times) { announce(limit: flip.isMultiple(of: 2) ? restored : 1) }
    if limitAnnounced != restored { announce(limit: restored) }
  }
}
