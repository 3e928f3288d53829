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

  /// The record in pieces, each of which begins with an entry that may follow from another call's.
  var parts: [ReadRecord] {
    var parts = [self]
    parts[0].record.entries = []
    for entry in record.entries {
      if entry.change.cause != nil, !parts[parts.count - 1].record.entries.isEmpty {
        var next = self
        next.missingSince = nil
        next.record.entries = []
        parts.append(next)
      }
      parts[parts.count - 1].record.entries.append(entry)
    }
    return parts
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

  /// Whether it takes a call in place of one that has given way by `entry`.
  func follows(_ entry: JournalEntry) -> Bool {
    guard case .answered(let answer) = self, case .ended = entry.change else { return false }
    return answer.merged == entry.call
  }
}
