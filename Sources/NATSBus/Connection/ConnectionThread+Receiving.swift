internal import CNATS
internal import CallBus
internal import Synchronization

extension ConnectionThread {
  /// Delivers what the library has just read.
  ///
  /// Searches the subscriptions only until all messages are found; busy ones move to the front.
  func deliver() {
    let messagesIn = link?.messagesIn ?? 0
    var expected = messagesIn &- lastMessagesIn
    lastMessagesIn = messagesIn
    guard expected > 0 else { return }
    var index = 0
    while expected > 0, index < entries.count {
      if let library = entries[index].library, case let queued = library.queued, queued > 0 {
        deliver(queued, from: library, to: entries[index].subscription)
        expected -= min(expected, queued)
        entries.swapAt(index, index / 2)
      }
      index += 1
    }
    for handler in readCompleteHandlers.withLock({ $0 }) { handler() }
  }

  private func deliver(
    _ count: UInt64, from library: LibrarySubscription, to subscription: NATSSubscription
  ) {
    var left = count
    while left > 0 {
      switch library.next(reclaimer) {
      case .message(let message):
        counters.messagesIn.add(1, ordering: .relaxed)
        subscription.handle(message)
        left -= 1
      case .noResponders:
        subscription.onNoResponders?()
        left -= 1
      case .slowConsumer: counters.dropped.add(library.takeDropped(), ordering: .relaxed)
      case .nothing: return
      }
    }
  }

  // MARK: Subscriptions

  func subscribe(_ subscription: NATSSubscription) {
    guard !subscription.isCancelled else { return }
    var entry = Entry(subscription: subscription)
    open(&entry)
    entries.append(entry)
  }

  /// Subscribes over the present link. If that has broken, the next one subscribes.
  func open(_ entry: inout Entry) {
    let subscription = entry.subscription
    guard link != nil, !subscription.isCancelled else { return }
    do throws(LibraryError) {
      let library = try link?.subscribe(subscription.subject, queue: subscription.queue)
      library?.setPendingLimits(
        messages: options.subscriptionMessagesMax, bytes: options.subscriptionBytesMax)
      entry.library = library
    } catch {
      if error.status == NATS_CONNECTION_CLOSED { return }
      options.onEvent(
        .failure("cannot subscribe to \(subscription.subject): \(natsErrorText(error.status))"))
    }
  }

  func unsubscribe(_ subscription: NATSSubscription) {
    guard let index = entries.lastIndex(where: { $0.subscription === subscription }) else { return }
    entries.swapAt(index, entries.count - 1)
    entries.removeLast()
  }
}

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
    if let refusal { reportOutage("\(refusal)") }
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

/// The counters of a connection, readable from anywhere.
final class Counters: Sendable {
  let connected = Atomic(false)
  let reconnects = Atomic<UInt64>(0)
  let messagesIn = Atomic<UInt64>(0)
  let messagesOut = Atomic<UInt64>(0)
  /// Dropped by the library or not sent; what the outbox refused is counted there.
  let dropped = Atomic<UInt64>(0)
  let backlog = Atomic<Int>(0)
  let server = Mutex("")
  let serverVersion = Mutex("")
}
