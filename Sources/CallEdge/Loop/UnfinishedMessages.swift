internal import CallCore

/// The messages of one event loop that have arrived in part, by session.
struct UnfinishedMessages {
  private struct Entry {
    var since: Timestamp
    var bytes: Int
  }
  private var entries: [UInt64: Entry] = [:]
  /// How many bytes are kept of all of them.
  private(set) var bytes = 0

  /// - Parameter bytes: how much of it is kept; nil: the session has no such message any more.
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
