/// The parts of calls that go to stores of their own (`StoredParts`): the records of ended calls and their entries in
/// the histories of their users, and the events of calls whose apps have webhooks.
///
/// An ended call lacks a part until the driver says that the store has it. When it has all of them, that is a fact of
/// the journal. So whoever owns the shard knows which calls still need something, and no call is forgotten without,
/// within a limit.
extension ShardMachine {
  /// The record of an ended call; nil where none is wanted, because the store has it or the call is forgotten.
  public func record(of id: CallID) -> CallRecord? {
    guard let slot = calls.slot(of: id), calls[slot].lacking(storedParts).contains(.record) else {
      return nil
    }
    return calls[slot].record
  }

  /// Whether one of these parts of an ended call is wanted.
  public func lacks(_ parts: StoredParts, of id: CallID) -> Bool {
    calls.slot(of: id).map { !calls[$0].lacking(storedParts).isDisjoint(with: parts) } ?? false
  }

  /// The events of a call among `kinds`, in order; none where none are wanted, because the store has them or the call
  /// is forgotten.
  public func events(of id: CallID, _ kinds: AppEventKinds) -> [AppEvent] {
    guard mayLackEvents(id), let slot = calls.slot(of: id) else { return [] }
    return calls[slot].events(kinds)
  }

  /// Whether events of the call may be wanted, be it under way or ended.
  public func mayLackEvents(_ id: CallID) -> Bool {
    guard storedParts.contains(.events), let slot = calls.slot(of: id), calls[slot].hasWebhooks
    else {
      return false
    }
    return !calls[slot].isEnded || calls[slot].lacking(storedParts).contains(.events)
  }

  /// The store has a part of these calls, which have ended.
  public mutating func stored(
    _ part: StoredParts, of ids: [CallID], now: Timestamp, into outcome: inout Outcome
  ) {
    guard isServing else { return }
    let storedParts = storedParts
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    for id in ids {
      guard lacks(part, of: id) else { continue }
      var isComplete = false
      mutate(id) { call in
        call.noteStored(part)
        isComplete = call.lacking(storedParts).isEmpty
        if isComplete { call.commit(.recorded, .idle, &turn) }
      }
      if isComplete, unrecorded.remove(id) != nil { forget(id) }
    }
  }

  /// Ended calls that are kept for longer than `endedCallKept` because something of them is not stored.
  public var callsUnrecorded: Int { unrecorded.count }

  /// Forgets a call that is kept no longer, unless it lacks something that is to be stored.
  mutating func forgetRecorded(_ id: CallID) {
    guard let slot = calls.slot(of: id) else { return }
    let lacking = calls[slot].lacking(storedParts)
    if lacking.isEmpty { return forget(id) }
    if unrecorded.contains(id) { return }
    guard unrecorded.count < limits.unrecordedCalls else {
      if !lacking.isDisjoint(with: [.record, .events]) { tally.recordsLostTotal += 1 }
      if lacking.contains(.history) { tally.historiesLostTotal += 1 }
      return forget(id)
    }
    unrecorded.insert(id)
  }

  /// A new owner does not know what its predecessor was about to store.
  func requestStoring(_ turn: inout Turn) {
    guard !storedParts.isEmpty else { return }
    for slot in calls.slots { calls[slot].requestStoring(&turn) }
  }

  /// As `requestStoring`, before anything is decided: what the owner decides itself follows in order.
  func requestEvents(_ turn: inout Turn) {
    guard storedParts.contains(.events) else { return }
    for slot in calls.slots where mayLackEvents(calls[slot].id) {
      turn.perform(.events(calls[slot].id, calls[slot].pastEvents))
    }
  }

  /// The app of a call; nil where the shard does not have the call.
  public func app(of id: CallID) -> String? {
    calls.slot(of: id).map { calls[$0].facts.callee.app }
  }
}
