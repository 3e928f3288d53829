internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import Logging

/// Events of calls whose apps have webhooks leave for a stream of their own. A slow or missing stream delays nothing
/// else.
extension ShardWorker {
  func add(events kinds: AppEventKinds, of call: CallID, _ shard: HeldShard, now: Timestamp) {
    guard let app = shard.machine.app(of: call) else { return }
    let item = EventOutbox.Item(call: ShardCall(term: shard.term, call: call), kinds: kinds)
    appEvents.add(item, app: app, now: now) { item in
      holding(item.call.term)?.machine.mayLackEvents(item.call.call) ?? false
    }
  }

  func sendAppEvents(now: Timestamp) {
    guard let eventStream, appEvents.nextDeadline <= now else { return }
    let messages = appEvents.next(now: now) { item in
      holding(item.call.term)?.machine.events(of: item.call.call, item.kinds) ?? []
    }
    for (app, message) in messages {
      let (inbox, number) = (inbox, message.number)
      // Numbers are those of the app's messages of this worker.
      let id = "\(configuration.writer)-\(index)-\(Subjects.keyPart(app))-\(number)"
      eventStream.add(id: id, app: app, message.bytes) {
        inbox.offer(.eventsAdded(app: app, number, $0))
      }
    }
  }

  func appEventsAdded(_ app: String, _ number: UInt64, _ result: AppendResult, now: Timestamp) {
    var isStored = false
    switch result {
    case .appended:
      isStored = true
      metrics.eventMessages.increment()
    case .refused: failedEvents("the stream refuses it", now: now)
    case .unknown(let reason): failedEvents(reason, now: now)
    }
    let stored = appEvents.answered(app, number, isStored: isStored, now: now)
    // What is stored with a call's end, or before it, is all that there is of the call.
    let ended = stored.filter { $0.kinds.contains(.ended) }
    for (term, items) in Dictionary(grouping: ended, by: \.call.term) {
      // A new owner stores them again, and readers drop the repetitions.
      guard let shard = holding(term) else { continue }
      if case .parting = shard.phase { continue }
      decide(shard, now: now) {
        $0.stored(.events, of: items.map(\.call.call), now: now, into: &$1)
      }
      touch(term.shard)
    }
  }

  private func failedEvents(_ reason: String, now: Timestamp) {
    metrics.eventMessagesFailed.increment()
    failedEventLogs.warn(
      logger, now: now, "Events for webhooks could not be stored. They are kept and retried.",
      [.reason: "\(reason)"])
  }
}
