/// The state of a user's history as its devices see it, and which of their sessions have the newest one.
///
/// A state, not events: a session waits for the newest one or for nothing. Its version is the store's number of the
/// user's newest message, so the states of all owners are in one order.
struct HistoryBoard: Sendable {
  struct Watcher: Sendable {
    var device: DeviceID
    var session: SessionRef
    /// The cursor of the state that its edge has written to the device; nil: none was written.
    var shown: HistoryCursor?
    var repeats = StateRepeats()
  }

  private(set) var state: HistoryState?
  private(set) var watchers: [Watcher] = []
  /// The driver reads the history.
  private var isReading = false
  /// It may have changed since the read began, or a read has failed.
  private var isStale = true
  /// A mark that was sent to the store, which may lack it. The next read stores it first.
  private(set) var openMark: HistoryCursor?
  /// After a read that failed.
  private var failures = 0
  private var readNotBefore = Timestamp(microseconds: 0)
  /// The deadline that stands in the shard's queue.
  var armedAt = Timestamp.distantFuture

  private static let backoff = Backoff(.seconds(1), to: .seconds(8))

  /// When something is due next.
  var nextDeadline: Timestamp {
    let read = isStale && !isReading ? readNotBefore : .distantFuture
    return watchers.reduce(read) { isBehind($1) ? min($0, $1.repeats.nextAt) : $0 }
  }

  private func isBehind(_ watcher: Watcher) -> Bool {
    guard let state else { return false }
    return watcher.shown.map { $0 < state.cursor } ?? true
  }

  mutating func watch(_ device: DeviceID, _ session: SessionRef, shown: HistoryCursor?) {
    watchers.removeAll { $0.device == device }
    watchers.append(Watcher(device: device, session: session, shown: shown))
  }

  /// - Returns: whether sessions are left.
  mutating func keepWatchers(where isThere: (Watcher) -> Bool) -> Bool {
    watchers.removeAll { !isThere($0) }
    return !watchers.isEmpty
  }

  /// - Parameter openMark: a mark that the store may lack.
  mutating func changed(openMark mark: HistoryCursor? = nil) {
    isStale = true
    openMark = [openMark, mark].compactMap(\.self).max()
  }

  /// Whether the history is to be read now. The read is under way then.
  mutating func beginRead(now: Timestamp) -> Bool {
    guard isStale, !isReading, readNotBefore <= now else { return false }
    (isReading, isStale) = (true, false)
    return true
  }

  /// - Parameter found: nil: it could not be read.
  mutating func wasRead(_ found: HistoryState?, now: Timestamp) {
    isReading = false
    guard let found else {
      isStale = true
      readNotBefore = now + Self.backoff.pause(after: failures)
      failures += 1
      return
    }
    failures = 0
    if !isStale { openMark = nil }
    if let state, found.cursor <= state.cursor { return }
    state = found
    for index in watchers.indices { watchers[index].repeats = StateRepeats() }
  }

  mutating func acknowledge(_ session: SessionRef, _ version: UInt64) {
    guard let index = watchers.firstIndex(where: { $0.session == session }) else { return }
    let cursor = HistoryCursor(version)
    watchers[index].shown = max(watchers[index].shown ?? cursor, cursor)
  }

  /// Sends the state to the sessions for which that is due.
  /// - Returns: how many of these were sent it before.
  mutating func send(_ turn: inout Turn) -> Int {
    guard let state else { return 0 }
    var retransmitted = 0
    for index in watchers.indices
    where isBehind(watchers[index]) && watchers[index].repeats.isDue(turn) {
      turn.perform(.history(.show(watchers[index].session, state)), .relaxed)
      if watchers[index].repeats.isRepeated { retransmitted += 1 }
    }
    return retransmitted
  }
}
