internal import Synchronization

/// The shards' journals in memory. Each opening is one writer, as each node's is over a network.
public final class InProcessJournal: Journal {
  private let core: InProcessCore

  init(_ core: InProcessCore) {
    self.core = core
  }

  public func append(
    shard: Int, expecting: UInt64, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    let taken = core.enqueue { [core] in
      let fault = core.faults.withLock { $0.onAppend }?(shard, bytes)
      if case .race(let other) = fault {
        return completion(
          core.store.withLock {
            _ = $0.journal.append("\(shard)", other, expecting: expecting, keepOne: false)
            return $0.journal.append("\(shard)", bytes, expecting: nil, keepOne: false)
          })
      }
      completion(
        Self.perform(fault) {
          core.store.withLock {
            $0.journal.append("\(shard)", bytes, expecting: expecting, keepOne: false)
          }
        })
    }
    if !taken { completion(.unknown("the bus is closed")) }
  }

  /// One thread checks and stores.
  public func isNext(_ sequence: UInt64, after expecting: UInt64) -> Bool {
    !core.faults.withLock { $0.takesRacingAppends }
  }

  static func perform(_ fault: InProcessFaults.Append?, _ append: () -> AppendResult)
    -> AppendResult
  {
    switch fault {
    case nil, .race: return append()
    case .refuse: return .refused
    case .unknown(let stored):
      if stored { _ = append() }
      return .unknown("a fault for tests")
    }
  }

  public func last(shard: Int) async throws -> StoredRecord? {
    try await core.perform { [core] in
      core.store.withLock { $0.journal.subjects["\(shard)"]?.last }.map(Self.record)
    }
  }

  public func next(shard: Int, from sequence: UInt64) async throws -> StoredRecord? {
    try await core.perform { [core] in
      core.store.withLock { store in
        store.journal.subjects["\(shard)"]?.first { $0.sequence >= sequence }
      }.map(Self.record)
    }
  }

  public func records(
    shard: Int, from sequence: UInt64, limit: Int
  ) async throws -> [StoredRecord] {
    try await core.perform { [core] in
      core.store.withLock { store in
        let all = store.journal.subjects["\(shard)"] ?? []
        return all.drop { $0.sequence < sequence }.prefix(limit).map(Self.record)
      }
    }
  }

  private static func record(_ entry: InProcessStore.Entry) -> StoredRecord {
    StoredRecord(sequence: entry.sequence, bytes: entry.bytes ?? [])
  }

  public func purge(shard: Int, through sequence: UInt64) async throws {
    try await core.perform { [core] in
      core.store.withLock { store in
        let newest = store.journal.lastSequence(of: "\(shard)")
        store.journal.subjects["\(shard)"]?.removeAll {
          $0.sequence <= sequence && $0.sequence < newest
        }
      }
    }
  }

  public func statistics() async throws -> JournalStatistics {
    try await core.perform { [core] in
      core.store.withLock { store in
        var statistics = JournalStatistics()
        for entries in store.journal.subjects.values {
          statistics.messages += UInt64(entries.count)
          statistics.bytes += entries.reduce(0) { $0 + UInt64($1.bytes?.count ?? 0) }
        }
        return statistics
      }
    }
  }
}
