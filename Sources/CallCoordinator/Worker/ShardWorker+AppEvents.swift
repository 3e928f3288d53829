internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import Logging

/// Events of calls and devices whose apps have webhooks leave for a stream of their own. A slow or missing stream delays
/// nothing else.
extension ShardWorker {
  func add(events kinds: AppEventKinds, of call: CallID, _ shard: HeldShard, now: Timestamp) {
    guard let app = shard.machine.app(of: call) else { return }
    add(.call(ShardCall(term: shard.term, call: call), kinds), app: app, now: now)
  }

  /// Its token stays in the store until the stream has it.
  func add(deviceEvent event: AppEvent, _ token: UInt64, _ shard: HeldShard, now: Timestamp) {
    add(.device(shard.term, event, token: token), app: event.callee.app, now: now)
  }

  private func add(_ item: EventOutbox.Item, app: String, now: Timestamp) {
    appEvents.add(item, app: app, now: now, isWanted: { isWanted($0) })
  }

  private func isWanted(_ item: EventOutbox.Item) -> Bool {
    switch item {
    case .call(let call, _): holding(call.term)?.machine.mayLackEvents(call.call) ?? false
    // The gateway says it again to another owner.
    case .device(let term, _, _): holding(term) != nil
    }
  }

  private func events(_ item: EventOutbox.Item) -> [AppEvent] {
    switch item {
    case .call(let call, let kinds):
      holding(call.term)?.machine.events(of: call.call, kinds) ?? []
    case .device(let term, let event, _): holding(term) == nil ? [] : [event]
    }
  }

  func sendAppEvents(now: Timestamp) {
    guard appEvents.nextDeadline <= now, let eventStream else { return }
    let messages = appEvents.next(now: now, events: { events($0) })
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
    for (term, items) in Dictionary(grouping: stored, by: \.term) {
      // A new owner stores them again, and readers drop the repetitions.
      guard let shard = holding(term) else { continue }
      if case .parting = shard.phase { continue }
      noteStored(items, shard, now: now)
    }
  }

  private func noteStored(_ items: [EventOutbox.Item], _ shard: HeldShard, now: Timestamp) {
    var ended: [CallID] = []
    for item in items {
      switch item {
      // The events that are stored with a call's end, or before it, are all the events of the call.
      case .call(let call, let kinds): if kinds.contains(.ended) { ended.append(call.call) }
      case .device(_, _, let token):
        decide(shard, now: now) { $0.appEventStored(token: token, now: now, into: &$1) }
        touch(shard.number)
      }
    }
    guard !ended.isEmpty else { return }
    decide(shard, now: now) { $0.stored(.events, of: ended, now: now, into: &$1) }
    touch(shard.number)
  }

  private func failedEvents(_ reason: String, now: Timestamp) {
    metrics.eventMessagesFailed.increment()
    failedEventLogs.warn(
      logger, now: now, "Events for webhooks could not be stored. They are kept and retried.",
      [.reason: "\(reason)"])
  }
}
