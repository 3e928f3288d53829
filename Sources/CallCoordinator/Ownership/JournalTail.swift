package import CallCore

/// How much may collect behind a shard's newest checkpoint before the next one is taken.
package struct CheckpointPolicy: Sendable, Equatable {
  package var records: Int
  package var bytes: Int
  package var age: Span
  package init(records: Int, bytes: Int, age: Span) {
    self.records = records
    self.bytes = bytes
    self.age = age
  }
}

/// What stands in a shard's journal behind its newest checkpoint: what a new owner would have to
/// replay. Pure.
package struct JournalTail: Sendable, Equatable {
  package private(set) var records = 0
  package private(set) var bytes = 0
  /// When the first of them was written; nil while there is none.
  package private(set) var since: Timestamp?
  /// A checkpoint is wanted at once, whatever there is.
  package var needsCheckpoint = false

  package init() {}

  package mutating func add(records: Int = 1, bytes: Int, at time: Timestamp) {
    guard records > 0 else { return }
    self.records += records
    self.bytes += bytes
    since = min(since ?? time, time)
  }

  /// The checkpoint that should have cut `former` off could not be written.
  package mutating func prepend(_ former: JournalTail) {
    if let since = former.since {
      add(records: former.records, bytes: former.bytes, at: since)
    }
    needsCheckpoint = needsCheckpoint || former.needsCheckpoint
  }

  /// When a checkpoint is due: at the latest when the first of the records is so old.
  package func due(_ policy: CheckpointPolicy) -> Timestamp {
    if needsCheckpoint || records >= policy.records || bytes >= policy.bytes {
      return Timestamp(microseconds: 0)
    }
    return since.map { $0 + policy.age } ?? .distantFuture
  }
}
