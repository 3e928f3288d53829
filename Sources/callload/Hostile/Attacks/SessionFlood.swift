import CallCore

extension AttackContext {
  /// One user's token attaches as many devices as it can; then all leave in one moment.
  func floodSessions() {
    let fleet = keepSessions(
      { ("hostile-sessions", "s\($0)") },
      prepare: { [self] _, _ in account.attempts += 1 })
    every(.seconds(4)) {
      for session in Array(fleet.members.values) { session.leave() }
    }
  }
}
