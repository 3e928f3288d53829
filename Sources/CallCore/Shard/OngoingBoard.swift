/// A user's ongoing calls as its devices see them, and which of these devices have seen the present version.
///
/// It holds a state, not events: a session waits for the newest version or for nothing, whatever happened before.
struct OngoingBoard: Sendable {
  /// A session whose device asked to see the user's calls.
  struct Watcher: Sendable {
    var device: DeviceID
    var session: SessionRef
    /// The device may not have the present version.
    var isBehind: Bool
    var repeats = StateRepeats()
  }

  private(set) var state: OngoingCalls
  /// It has had a higher version than a new board has.
  private var isRaised = false
  private(set) var watchers: [Watcher] = []
  /// While no session shows it: until when it is kept all the same.
  private(set) var keptUntil: Timestamp?
  /// When a call of a device without a session is over; the far future where there is none.
  var staleAt = Timestamp.distantFuture
  /// It is to be looked at before the turn ends.
  var isNoted = false
  /// The deadline that stands in the shard's queue.
  var armedAt = Timestamp.distantFuture

  /// Messages of before may arrive for so long, and their versions must not be used again.
  private static let memory: Span = .seconds(75)

  /// The version is above what edges take for a former owner's.
  init(epoch: UInt64) { state = OngoingCalls(version: epoch << 20 | 1) }

  /// When something is due next.
  var nextDeadline: Timestamp {
    watchers.reduce(min(staleAt, keptUntil ?? staleAt)) {
      $1.isBehind ? min($0, $1.repeats.nextAt) : $0
    }
  }

  /// A session shows the state from now on.
  /// - Parameters:
  ///   - shown: what its device has seen; from an edge, which may be an attacker's.
  ///   - isInReply: the reply to its attach has the present state.
  mutating func watch(
    _ device: DeviceID, _ session: SessionRef, shown: OngoingMark, isInReply: Bool, epoch: UInt64
  ) {
    // No version of this epoch is higher, and none of a later one is known here.
    let known = min(shown.version, epoch << 20 | 0xF_FFFF)
    let isRepeated = watchers.contains { $0.session == session }
    // The board may have begun anew since, when its user had no session for a while.
    if known >= state.version, !isRepeated { (state.version, isRaised) = (known + 1, true) }
    let lacks = shown.version != state.version && (shown.showsCalls || !state.calls.isEmpty)
    // The reply to a repeated attach may be the first one, which was late.
    let isBehind = isInReply ? isRepeated : lacks
    keptUntil = nil
    watchers.removeAll { $0.device == device }
    watchers.append(Watcher(device: device, session: session, isBehind: isBehind))
  }

  /// The user's calls as they are now. If they have changed, all are to be sent them.
  mutating func show(_ calls: [OngoingCall]) {
    guard calls != state.calls else { return }
    state = OngoingCalls(version: state.version + 1, calls: calls)
    isRaised = true
    for index in watchers.indices {
      watchers[index].isBehind = true
      watchers[index].repeats = StateRepeats()
    }
  }

  /// Drops the sessions that are over.
  /// - Returns: false where the board has become useless.
  mutating func keepWatchers(at now: Timestamp, where isThere: (Watcher) -> Bool) -> Bool {
    watchers.removeAll { !isThere($0) }
    guard watchers.isEmpty else { return true }
    let until = keptUntil ?? now + Self.memory
    keptUntil = until
    return now < until && isRaised
  }

  mutating func acknowledge(_ session: SessionRef, _ version: UInt64) {
    guard version == state.version,
      let index = watchers.firstIndex(where: { $0.session == session })
    else { return }
    watchers[index].isBehind = false
  }

  /// Sends the state to the sessions for which that is due.
  /// - Returns: how many of these had it before.
  mutating func send(_ turn: inout Turn) -> Int {
    var retransmitted = 0
    for index in watchers.indices
    where watchers[index].isBehind && watchers[index].repeats.isDue(turn) {
      turn.perform(.showOngoing(watchers[index].session, state), .relaxed)
      if watchers[index].repeats.isRepeated { retransmitted += 1 }
    }
    return retransmitted
  }
}
