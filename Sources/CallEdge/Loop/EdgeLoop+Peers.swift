internal import CallCore
internal import CallTelemetry

/// Limits on what waits for peers, and on what peers send in part.
extension EdgeLoop {
  // MARK: Unfinished messages

  /// A message of a session has arrived in part, or in full.
  /// - Parameters:
  ///   - bytes: how much of it is kept; nil: it is complete.
  ///   - begins: whether it is another message than the last time.
  func noteUnfinished(_ handler: WebSocketHandler, bytes: Int?, begins: Bool) {
    let before = unfinished.bytes
    unfinished.note(handler.number, bytes: bytes, begins: begins, now: now)
    metrics.unfinishedBytes.add(Int64(unfinished.bytes - before))
    let most = shared.gate.limits.unfinishedBytesPerLoop
    guard bytes != nil, unfinished.bytes > most else { return }
    for number in unfinished.largest(leaving: most - most / 8) {
      (device(number) ?? closing[number])?.abort(.unfinishedBytes)
    }
  }

  /// Closes sessions whose message has not arrived in full in time.
  func sweepUnfinished(now: Timestamp) {
    for number in unfinished.begun(before: now, by: shared.gate.limits.messageTimeout) {
      metrics.count(limit: .messageTimeout)
      (device(number) ?? closing[number])?.messageTimedOut(now: now)
    }
  }

  // MARK: Slow readers

  /// The amount of data that waits for a device has crossed one of its channel's water marks.
  func noteSlow(_ handler: WebSocketHandler, _ isSlow: Bool) {
    slow[handler.number] = isSlow ? handler : nil
    if slow.isEmpty { sweepSlow() }
  }

  /// Cuts off the devices for which most waits, where too much waits in all.
  func sweepSlow() {
    var waiting = slow.values.map { (bytes: $0.bytesWaiting, handler: $0) }
    var sum = waiting.reduce(0) { $0 + $1.bytes }
    let most = shared.gate.limits.outboundBytesPerLoop
    if sum > most {
      waiting.sort { $0.bytes > $1.bytes }
      for (bytes, handler) in waiting where sum > most {
        sum -= bytes
        handler.abort(.outboundBytes)
      }
    }
    metrics.outboundBytes.add(Int64(sum - slowBytes))
    slowBytes = sum
  }
}

/// The messages of one event loop that have arrived in part, by session.
struct UnfinishedMessages {
  private struct Entry {
    var since: Timestamp
    var bytes: Int
  }
  private var entries: [UInt64: Entry] = [:]
  /// How many bytes are kept of all of them.
  private(set) var bytes = 0

  /// - Parameter bytes: how much of it is kept; nil: the session no longer has such a message.
  mutating func note(_ session: UInt64, bytes: Int?, begins: Bool, now: Timestamp) {
    let before = entries[session]
    self.bytes += (bytes ?? 0) - (before?.bytes ?? 0)
    entries[session] = bytes.map {
      Entry(since: begins ? now : before?.since ?? now, bytes: $0)
    }
  }

  /// The sessions whose message began at least `span` ago.
  func begun(before now: Timestamp, by span: Span) -> [UInt64] {
    entries.filter { $0.value.since + span <= now }.map(\.key).sorted()
  }

  /// The sessions that hold most, so many of them that the others hold at most `rest` bytes.
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
