internal import CallCore
internal import CallWire

/// How an event loop gives its devices up.
extension EdgeLoop {
  /// Tells every session that the edge goes, each with a time to come back that spreads them over
  /// `span`. From now on nobody attaches.
  /// - Returns: how many sessions there are.
  func beginDrain(over span: Span) -> Int {
    draining = true
    let handlers = devices
    for (position, handler) in handlers.enumerated() {
      let share = Double(position) / Double(max(1, handlers.count))
      handler.send(.notice(goAway(after: Double(span.microseconds) / 1000 * share)))
    }
    flushTouched()
    return handlers.count
  }

  /// Closes sessions until at most `count` are left.
  func closeSessions(leaving count: Int) {
    let now = self.now
    for handler in devices.dropFirst(max(0, count)) { handler.close(goAway(after: 0), now: now) }
    flushTouched()
    flushCommands(all: true)
  }

  /// Closes every socket.
  func closeAll() {
    for handler in devices + closing.values { handler.abort() }
    for handler in Array(requests.values) { handler.abort() }
    flushCommands(all: true)
  }

  private var devices: [WebSocketHandler] {
    endpoints.values.compactMap { if case .device(let handler) = $0 { handler } else { nil } }
  }

  private func goAway(after milliseconds: Double) -> Notice {
    Notice(
      kind: .goAway, message: "This edge stops. Connect to another.",
      retryAfterMilliseconds: UInt32(max(0, min(milliseconds, 600_000))))
  }
}
