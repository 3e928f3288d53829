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
  }
}
