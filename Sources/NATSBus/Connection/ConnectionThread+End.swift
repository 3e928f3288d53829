internal import CallBus
internal import Synchronization

/// Closing.
extension ConnectionThread {
  var isFinished: Bool {
    if refusal != nil { return true }
    guard closing.load(ordering: .acquiring) else { return false }
    let deadline = closeDeadline ?? .now + options.closeTimeout
    closeDeadline = deadline
    if isAttached, !mustWrite, position == backlog.count, outbox.isEmpty { return true }
    return deadline <= .now
  }

  func finish() {
    outbox.close()
    reconnecting?.abandon()
    reconnecting = nil
    if case .failed(let reason)? = refusal { options.onEvent(.failure(reason)) }
    requests.endAll(BusError.closed)
    for observer in observers.withLock({ $0 }) { observer.disconnected() }
    observers.withLock { $0.removeAll() }
    dropLink()
    entries.removeAll()
    counters.connected.store(false, ordering: .relaxed)
    options.onEvent(.closed)
    let waiters = closeWaiters.withLock { state in
      state.finished = true
      return state.waiters
    }
    for waiter in waiters { waiter() }
    timers.end()
    executor.end()
  }
}
