internal import CallCore
internal import CallTelemetry
internal import NIOCore

/// What an event loop does about peers that take too much.
extension EdgeLoop {
  // MARK: Connections

  /// Closes a connection that is not taken; a bounded number of peers is told why.
  func refuse(_ channel: any Channel, _ refusal: ConnectionRefusal) throws {
    let limits = shared.gate.limits
    // To say it in TLS would take a handshake.
    guard shared.configuration.tls == nil, refusalsTold < limits.refusalsToldPerLoop,
      let answer = HTTPAnswer(refusal, limits)
    else {
      // Whoever initializes a channel closes it then.
      throw refusal
    }
    refusalsTold += 1
    channel.closeFuture.assumeIsolated().whenComplete { [weak self] _ in self?.refusalsTold -= 1 }
    try channel.pipeline.syncOperations.addHandler(RefusedConnection(answer))
  }

  /// What takes the PROXY header off a connection; nil where there is none.
  func proxyHeader(of connection: Connection) -> ProxyHeaderHandler? {
    let gate = shared.gate
    guard shared.configuration.proxyProtocol, let proxy = connection.address, gate.isTrusted(proxy)
    else { return nil }
    return ProxyHeaderHandler(bytesMax: gate.limits.proxyHeaderBytesMax) { [weak self] outcome in
      guard case .header(_, let source) = outcome else {
        gate.metrics.limit(.proxyHeader)
        return false
      }
      guard let source else { return true }
      return self?.identify(connection, as: source) ?? false
    }
  }

  // MARK: Messages that are not whole

  /// A session's message is not whole, or is now.
  /// - Parameters:
  ///   - bytes: how much of it is kept; nil: it is whole.
  ///   - begins: whether another one than the last time.
  func noteUnfinished(_ handler: WebSocketHandler, bytes: Int?, begins: Bool) {
    let before = unfinished.bytes
    unfinished.note(handler.number, bytes: bytes, begins: begins, now: now)
    shared.gate.metrics.unfinishedBytes.add(Int64(unfinished.bytes - before))
    let most = shared.gate.limits.unfinishedBytesPerLoop
    guard bytes != nil, unfinished.bytes > most else { return }
    for number in unfinished.largest(leaving: most - most / 8) {
      shared.gate.metrics.limit(.unfinishedBytes)
      (device(number) ?? closing[number])?.abort()
    }
  }

  /// Closes sessions whose message is not whole in time.
  func sweepUnfinished(now: Timestamp) {
    for number in unfinished.begun(before: now, by: shared.gate.limits.messageTimeout) {
      shared.gate.metrics.limit(.messageTimeout)
      (device(number) ?? closing[number])?.messageTookTooLong(now: now)
    }
  }

  // MARK: Slow readers

  /// More, or less, waits for a session than a device that reads leaves.
  func noteSlow(_ handler: WebSocketHandler, _ isSlow: Bool) {
    slow[handler.number] = isSlow ? handler : nil
    if slow.isEmpty { sweepSlow() }
  }

  /// Cuts off those for whom most waits, where too much does in all.
  func sweepSlow() {
    var waiting = slow.values.map { (bytes: $0.bytesWaiting, handler: $0) }
    var sum = waiting.reduce(0) { $0 + $1.bytes }
    let most = shared.gate.limits.outboundBytesPerLoop
    if sum > most {
      waiting.sort { $0.bytes > $1.bytes }
      for (bytes, handler) in waiting where sum > most {
        sum -= bytes
        shared.gate.metrics.limit(.outboundBytes)
        handler.cutOff()
      }
    }
    shared.gate.metrics.outboundBytes.add(Int64(sum - slowBytes))
    slowBytes = sum
  }
}

/// The messages of one event loop that are not whole, by session.
struct UnfinishedMessages {
  private struct Entry {
    var since: Timestamp
    var bytes: Int
  }
  private var entries: [UInt64: Entry] = [:]
  /// What is kept of all of them.
  private(set) var bytes = 0

  /// - Parameter bytes: nil: the session has none any more.
  mutating func note(_ session: UInt64, bytes: Int?, begins: Bool, now: Timestamp) {
    let before = entries[session]
    self.bytes += (bytes ?? 0) - (before?.bytes ?? 0)
    entries[session] = bytes.map {
      Entry(since: begins ? now : before?.since ?? now, bytes: $0)
    }
  }

  func begun(before now: Timestamp, by span: Span) -> [UInt64] {
    entries.filter { $0.value.since + span <= now }.map(\.key).sorted()
  }

  /// Those that hold most, so many that at most `rest` bytes are left without them.
  func largest(leaving rest: Int) -> [UInt64] {
    var left = bytes
    var out: [UInt64] = []
    for (session, entry) in entries.sorted(by: { $0.value.bytes > $1.value.bytes }) {
      if left <= rest { break }
      left -= entry.bytes
      out.append(session)
    }
    return out
  }
}
