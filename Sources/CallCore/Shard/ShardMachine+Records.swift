/// What goes to stores of its own: the records of ended calls, and the events of calls whose apps have webhooks.
///
/// An ended call lacks a part until the driver says that the store has it. When it has all of them, that is a fact of
/// the journal. So whoever owns the shard knows which calls still need something, and no call is forgotten without,
/// within a limit.
extension ShardMachine {
  /// The parts that are kept of calls.
  var keptParts: StoredParts {
    var parts: StoredParts = []
    if keepsRecords { parts.insert(.record) }
    if keepsEvents { parts.insert(.events) }
    return parts
  }

  /// The record of an ended call; nil where none is wanted, because the store has it or the call is forgotten.
  public func record(of id: CallID) -> CallRecord? {
    guard let slot = calls.slot(of: id), calls[slot].missing(keptParts).contains(.record) else {
      return nil
    }
    return calls[slot].record
  }

  /// Whether a record of the call is wanted.
  public func lacksRecord(_ id: CallID) -> Bool {
    calls.slot(of: id).map { calls[$0].missing(keptParts).contains(.record) } ?? false
  }

  /// The events of a call among `kinds`, in order; none where none are wanted, because the store has them or the call
  /// is forgotten.
  public func events(of id: CallID, _ kinds: AppEventKinds) -> [AppEvent] {
    guard lacksEvents(id), let slot = calls.slot(of: id) else { return [] }
    return calls[slot].events(kinds)
  }

  /// Whether events of the call may be wanted.
  public func lacksEvents(_ id: CallID) -> Bool {
    guard keepsEvents, let slot = calls.slot(of: id), calls[slot].hasWebhooks else { return false }
    return !calls[slot].isEnded || calls[slot].missing(keptParts).contains(.events)
  }

  /// The store has the records of these calls.
  public mutating func recordsStored(_ ids: [CallID], now: Timestamp, into outcome: inout Outcome) {
    stored(.record, of: ids, now: now, into: &outcome)
  }

  /// The store has all events of these calls, which have ended.
  public mutating func eventsStored(_ ids: [CallID], now: Timestamp, into outcome: inout Outcome) {
    stored(.events, of: ids, now: now, into: &outcome)
  }

  private mutating func stored(
    _ part: StoredParts, of ids: [CallID], now: Timestamp, into outcome: inout Outcome
  ) {
    guard isServing else { return }
    let kept = keptParts
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    for id in ids {
      guard let slot = calls.slot(of: id), calls[slot].missing(kept).contains(part) else {
        continue
      }
      var isComplete = false
      mutate(id) { call in
        call.noteStored(part)
        isComplete = call.missing(kept).isEmpty
        if isComplete { call.commit(.recorded, .idle, &turn) }
      }
      if isComplete, unrecorded.remove(id) != nil { forget(id) }
    }
  }

  /// Ended calls that are kept for longer than `endedCallKept` because something of them is not stored.
  public var callsUnrecorded: Int { unrecorded.count }

  /// Forgets a call that is kept no longer, unless it lacks something that is to be stored.
  mutating func forgetRecorded(_ id: CallID) {
    guard let slot = calls.slot(of: id), !calls[slot].missing(keptParts).isEmpty else {
      return forget(id)
    }
    if unrecorded.contains(id) { return }
    guard unrecorded.count < limits.unrecordedCalls else {
      tally.recordsLostTotal += 1
      return forget(id)
    }
    unrecorded.insert(id)
  }

  /// A new owner does not know what its predecessor was about to store.
  func requestRecords(_ turn: inout Turn) {
    guard keepsRecords else { return }
    for slot in calls.slots where calls[slot].missing(.record).contains(.record) {
      turn.perform(.record(calls[slot].id))
    }
  }

  /// As `requestRecords`, before anything is decided: what the owner decides itself follows in order.
  func requestEvents(_ turn: inout Turn) {
    guard keepsEvents else { return }
    for slot in calls.slots where lacksEvents(calls[slot].id) {
      turn.perform(.events(calls[slot].id, calls[slot].pastEvents))
    }
  }

  /// The app of a call; nil where the shard does not have the call.
  public func app(of id: CallID) -> String? {
    calls.slot(of: id).map { calls[$0].facts.callee.app }
  }
}
