/// Edges that come and go, and what that means for devices whose sessions the shard does not know.
extension ShardMachine {
  /// The shard does not know which sessions an edge has: it fell silent, or came back and has not
  /// announced them yet. Until then no call ends as unreachable at once.
  public mutating func edgeMissing(_ edge: UInt64, until: Timestamp, now: Timestamp) {
    missingEdges = missingEdges.filter { now < $0.value }
    if now < until { missingEdges[edge] = max(until, missingEdges[edge] ?? until) }
  }

  /// An edge has announced all its sessions. Devices whose sockets it closed while it was missing are on
  /// their way to an edge: for `reattachGrace` more no call ends as unreachable at once.
  public mutating func edgeAnnounced(_ edge: UInt64, now: Timestamp) {
    guard let until = missingEdges[edge] else { return }
    missingEdges[edge] = min(until, now + limits.reattachGrace)
  }

  /// How many sessions of an edge are known.
  public func sessions(on edge: UInt64) -> Int {
    users.values.reduce(0) { $0 + $1.devices.count { $0.session?.edge == edge } }
  }

  /// Until when a call to a user without a device waits for one; nil where all sessions are known.
  func sessionsUnknownUntil(of callee: UserKey, _ turn: borrowing Turn) -> Timestamp? {
    if missingEdges.contains(where: { turn.now < $0.value }) {
      return turn.now + limits.reattachGrace
    }
    return brokenSessions.awaited(callee, now: turn.now, grace: limits.reattachGrace)
  }

  /// Takes note of a broken session if its device may still have had the one before.
  mutating func noteBroken(_ device: User.Device?, of key: UserKey, _ turn: borrowing Turn) {
    guard let device, device.registration == nil, let replacedAt = device.replacedAt,
      turn.now < replacedAt + limits.reattachGrace
    else { return }
    brokenSessions.note(key, at: turn.now, grace: limits.reattachGrace)
  }

  /// An edge is gone, and its sessions with it (R11).
  public mutating func edgeLost(_ edge: UInt64, now: Timestamp, into outcome: inout Outcome) {
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    for key in Array(users.keys) {
      let dropped = users[key]?.dropSessions(at: now, graceful: false) { $0.edge == edge } ?? []
      for session in dropped {
        tally.sessions -= 1
        calleeSessionLost(key, session, graceful: false, &turn)
      }
      if !dropped.isEmpty { tidy(key) }
    }
    for slot in calls.slots {
      guard let session = calls[slot].caller.session, session.edge == edge else { continue }
      mutate(calls[slot].id) { $0.callerSessionLost(session, &turn) }
    }
    carryOutPushes(&turn)
    if !changedBoards.isEmpty { showOngoing(&turn) }
  }
}

/// Users with an unregistered device whose session broke shortly after it had replaced another one.
///
/// Such a device exists in the shard by its session alone, so without one it is gone (R19). But an attach that was delayed
/// by an outage may replace the session that the device still uses, and then break with the old socket on which it
/// was sent. The device is about to attach again, so a call to its user waits for it.
package struct BrokenSessions: Sendable {
  package init() {}

  private var times: [UserKey: Timestamp] = [:]
  /// At this size the entries whose time is over are dropped.
  private var sweepAt = Self.sweepAtLeast
  private static let sweepAtLeast = 64

  package var count: Int { times.count }

  /// - Parameter grace: how long a user is remembered.
  package mutating func note(_ user: UserKey, at now: Timestamp, grace: Span) {
    times[user] = now
    guard times.count >= sweepAt else { return }
    times = times.filter { now < $0.value + grace }
    sweepAt = max(Self.sweepAtLeast, 2 * times.count)
  }

  /// The user has a session again.
  mutating func forget(_ user: UserKey) {
    if !times.isEmpty { times[user] = nil }
  }

  /// Until when a device of the user may come back; nil where none is expected.
  func awaited(_ user: UserKey, now: Timestamp, grace: Span) -> Timestamp? {
    guard let until = times[user].map({ $0 + grace }), now < until else { return nil }
    return until
  }
}
