internal import CNATS
internal import CallBus
internal import Synchronization

/// What comes in.
extension ConnectionThread {
  /// Hands over what the library has just read.
  ///
  /// The number of messages is known, so that the subscriptions need to be searched only until they
  /// are found; busy ones move forward.
  func deliver() {
    var messagesIn: UInt64 = 0
    natsConnection_GetStats(connection, libraryStatistics)
    natsStatistics_GetCounts(libraryStatistics, &messagesIn, nil, nil, nil, nil)
    var expected = messagesIn &- lastMessagesIn
    lastMessagesIn = messagesIn
    guard expected > 0 else { return }
    var index = 0
    while expected > 0, index < entries.count {
      var queued: UInt64 = 0
      if let raw = entries[index].raw, natsSubscription_QueuedMsgs(raw, &queued) == NATS_OK,
        queued > 0
      {
        deliver(queued, of: index)
        expected -= min(expected, queued)
        entries.swapAt(index, index / 2)
      }
      index += 1
    }
    for handler in readCompleteHandlers.withLock({ $0 }) { handler() }
  }

  private func deliver(_ count: UInt64, of index: Int) {
    let entry = entries[index]
    var left = count
    while left > 0 {
      var raw: OpaquePointer?
      let status = natsSubscription_NextMsg(&raw, entry.raw, 0)
      if status == NATS_OK, let raw {
        counters.messagesIn.add(1, ordering: .relaxed)
        counters.bytesIn.add(UInt64(natsMsg_GetDataLength(raw)), ordering: .relaxed)
        entry.subscription.handle(NATSMessage(owning: raw, graveyard))
        left -= 1
      } else if status == NATS_NO_RESPONDERS {
        entry.subscription.onNoResponders?()
        left -= 1
      } else if status == NATS_SLOW_CONSUMER {
        countDrops(of: index)
      } else {
        return
      }
    }
  }

  private func countDrops(of index: Int) {
    var total: Int64 = 0
    guard natsSubscription_GetDropped(entries[index].raw, &total) == NATS_OK else { return }
    counters.dropped.add(UInt64(max(0, total - entries[index].dropped)), ordering: .relaxed)
    entries[index].dropped = total
  }

  // MARK: Subscriptions

  func subscribe(_ subscription: NATSSubscription) {
    guard !subscription.isCancelled else { return }
    var entry = Entry(subscription: subscription)
    open(&entry)
    entries.append(entry)
  }

  /// Where the link has broken meanwhile, the next one does it.
  func open(_ entry: inout Entry) {
    let subscription = entry.subscription
    guard let connection, !subscription.isCancelled else { return }
    var raw: OpaquePointer?
    let status =
      if let queue = subscription.queue {
        natsConnection_QueueSubscribeSync(&raw, connection, subscription.subject, queue)
      } else {
        natsConnection_SubscribeSync(&raw, connection, subscription.subject)
      }
    guard status == NATS_OK, let raw else {
      if status == NATS_CONNECTION_CLOSED { return }
      return options.onEvent(
        .failure("cannot subscribe to \(subscription.subject): \(natsErrorText(status))"))
    }
    natsSubscription_SetPendingLimits(
      raw, options.subscriptionMessagesMax, options.subscriptionBytesMax)
    entry.raw = raw
    entry.dropped = 0
  }

  func unsubscribe(_ subscription: NATSSubscription) {
    guard let index = entries.lastIndex(where: { $0.subscription === subscription }) else { return }
    if let raw = entries[index].raw { natsSubscription_Destroy(raw) }
    entries.swapAt(index, entries.count - 1)
    entries.removeLast()
  }
}
