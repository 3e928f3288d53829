/// The records of ended calls, which go to a store of their own.
///
/// An ended call lacks its record until the driver says that the store has it, which is a fact of the journal. So
/// whoever owns the shard knows which calls still need one, and no call is forgotten without, within a limit.
extension ShardMachine {
  /// The record of an ended call; nil where none is wanted, because the store has it or the call is forgotten.
  public func record(of id: CallID) -> CallRecord? {
    guard let slot = calls.slot(of: id), calls[slot].lacksRecord else { return nil }
    return calls[slot].record
  }

  /// Whether a record of the call is wanted.
  public func lacksRecord(_ id: CallID) -> Bool {
    calls.slot(of: id).map { calls[$0].lacksRecord } ?? false
  }

  /// The store has the records of these calls.
  public mutating func recordsStored(_ ids: [CallID], now: Timestamp, into outcome: inout Outcome) {
    guard isServing else { return }
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    for id in ids {
      guard let slot = calls.slot(of: id), calls[slot].lacksRecord else { continue }
      mutate(id) { $0.commit(.recorded, .idle, &turn) }
      if unrecorded.remove(id) != nil { forget(id) }
    }
  }

  /// Ended calls that are kept for longer than `endedCallKept` because they lack their records.
  public var callsUnrecorded: Int { unrecorded.count }

  /// Forgets a call that is kept no longer, unless it lacks its record.
  mutating func forgetRecorded(_ id: CallID) {
    guard keepsRecords, let slot = calls.slot(of: id), calls[slot].lacksRecord else {
      return forget(id)
    }
    if unrecorded.contains(id) { return }
    guard unrecorded.count < limits.unrecordedCalls else {
      tally.recordsLostTotal += 1
      return forget(id)
    }
    unrecorded.insert(id)
  }

  /// A new owner does not know which records its predecessor was about to store.
  func requestRecords(_ turn: inout Turn) {
    guard keepsRecords else { return }
    for slot in calls.slots where calls[slot].lacksRecord { turn.perform(.record(calls[slot].id)) }
  }
}
