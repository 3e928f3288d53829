internal import CNATS
internal import CallBus
internal import Synchronization

/// How the connection ends.
extension ConnectionThread {
  var isFinished: Bool {
    if libraryClosed.load(ordering: .acquiring) { return true }
    guard closing.load(ordering: .acquiring) else { return false }
    let deadline = closeDeadline ?? .now + options.closeTimeout
    closeDeadline = deadline
    if isAttached, !mustWrite, position == backlog.count, outbox.isEmpty { return true }
    return deadline <= .now
  }

  func finish() {
    outbox.close()
    reportLoss()
    requests.endAll(BusError.closed)
    for observer in observers.withLock({ $0 }) { observer.disconnected() }
    observers.withLock { $0.removeAll() }
    for entry in entries { natsSubscription_Destroy(entry.raw) }
    entries.removeAll()
    natsConnection_Destroy(connection)
    natsStatistics_Destroy(libraryStatistics)
    counters.connected.store(false, ordering: .relaxed)
    options.onEvent(.closed)
    let waiters = closeWaiters.withLock { state in
      state.finished = true
      return state.waiters
    }
    for waiter in waiters { waiter() }
    timers.end()
    jobs.end(on: executor.asUnownedSerialExecutor())
  }

  /// Why the library gave the connection up, where nobody asked for that.
  private func reportLoss() {
    guard !closing.load(ordering: .acquiring) else { return }
    var text: UnsafePointer<CChar>?
    let status = natsConnection_GetLastError(connection, &text)
    guard status != NATS_OK else { return }
    let reason = text.map { String(cString: $0) } ?? ""
    options.onEvent(
      .failure(withoutCredentials(text: reason.isEmpty ? natsErrorText(status) : reason)))
  }
}
