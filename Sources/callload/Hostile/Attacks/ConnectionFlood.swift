extension AttackContext {
  /// Each connection takes a file descriptor and a little memory.
  func floodConnections() {
    _ = keepSockets { [self] _, _ in account.attempts += 1 }
  }
}
