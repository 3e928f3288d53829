package import CallCore

/// A record of a shard's journal, as a reader got it.
package struct ReadRecord: Sendable {
  package var shard: Int
  package var record: JournalRecord
  /// Its place in the order of the run; no earlier than that of the shard's record before it.
  package var at: Timestamp
  /// The place of the record before those that were purged while their reader was away; nil: none is missing.
  package var missingSince: Timestamp?

  package init(
    shard: Int, _ record: JournalRecord, after former: Timestamp? = nil, isBehindGap: Bool = false
  ) {
    self.shard = shard
    self.record = record
    if isBehindGap { missingSince = former ?? .zero }
    at = max(record.at, former ?? record.at)
  }
}

extension JournalEntry.Change {
  /// The call of another shard, perhaps, that this follows from: a call gives way to another one, that one is merged with
  /// it then, and a call to ask about another ends when that is handed over.
  var cause: CallID? {
    switch self {
    case .ended(let end): end.survivor
    case .answered(let answer): answer.merged
    default: nil
    }
  }
}
