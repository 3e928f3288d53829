/// What is stored of ended calls, in stores of their own (`StoredParts`).
///
/// An ended call lacks each part until the driver says that the store has it. Once it lacks none, that is a fact of the
/// journal. So whoever owns the shard knows which calls still need something, and no call is forgotten before, within a
/// limit.
extension ShardMachine {
  /// The record of an ended call; nil where none is wanted, because the store has it or the call is forgotten.
  public func record(of id: CallID) -> CallRecord? {
    guard let slot = calls.slot(of: id), calls[slot].lacking(keeps).contains(.record) else {
      return nil
    }
    return calls[slot].record
  }

  /// Whether something of a call is wanted.
  public func lacks(_ part: StoredParts, of id: CallID) -> Bool {
    calls.slot(of: id).map { !calls[$0].lacking(keeps).isDisjoint(with: part) } ?? false
  }

  /// The store has a part of these calls.
  public mutating func stored(
    _ part: StoredParts, of ids: [CallID], now: Timestamp, into outcome: inout Outcome
  ) {
    guard isServing else { return }
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    for id in ids {
      guard lacks(part, of: id) else { continue }
      mutate(id) { $0.noteStored(part) }
      guard !lacks(keeps, of: id) else { continue }
      mutate(id) { $0.commit(.recorded, .idle, &turn) }
      if unrecorded.remove(id) != nil { forget(id) }
    }
  }

  /// Ended calls that are kept for longer than `endedCallKept` because something of them is not stored.
  public var callsUnrecorded: Int { unrecorded.count }

  /// Forgets a call that is kept no longer, unless something of it is to be stored.
  mutating func forgetRecorded(_ id: CallID) {
    guard let slot = calls.slot(of: id) else { return }
    let lacking = calls[slot].lacking(keeps)
    if lacking.isEmpty { return forget(id) }
    if unrecorded.contains(id) { return }
    guard unrecorded.count < limits.unrecordedCalls else {
      if lacking.contains(.record) { tally.recordsLostTotal += 1 }
      if lacking.contains(.history) { tally.historiesLostTotal += 1 }
      return forget(id)
    }
    unrecorded.insert(id)
  }

  /// A new owner does not know what its predecessor was about to store.
  func requestStoring(_ turn: inout Turn) {
    guard !keeps.isEmpty else { return }
    for slot in calls.slots { calls[slot].requestStoring(&turn) }
  }
}
