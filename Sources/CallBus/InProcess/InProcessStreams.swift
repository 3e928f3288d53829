internal import Synchronization

/// The shards' journals in memory.
public final class InProcessJournal: Journal {
  private let core: InProcessCore

  init(_ core: InProcessCore) { self.core = core }

  public func append(
    shard: Int, expecting: UInt64, _ bytes: [UInt8], completion: @escaping AppendCompletion
  ) {
    core.write(
      completion, fault: { $0.onAppend?(shard, bytes) },
      body: { [core] fault in
        core.store.withLock { store in
          guard case .race(let other) = fault else {
            return store.journal.append("\(shard)", bytes, expecting: expecting, keepOne: false)
          }
          _ = store.journal.append("\(shard)", other, expecting: expecting, keepOne: false)
          return store.journal.append("\(shard)", bytes, expecting: nil, keepOne: false)
        }
      })
  }

  /// True unless a test injects racing appends: one thread checks and stores.
  public func isNext(_ sequence: UInt64, after expecting: UInt64) -> Bool {
    !core.faults.withLock { $0.takesRacingAppends }
  }

  public func last(shard: Int) async throws -> StoredRecord? {
    try await core.withStore { $0.journal.subjects["\(shard)"]?.last.map(Self.record) }
  }

  public func records(
    shard: Int, from sequence: UInt64, limit: Int
  ) async throws -> [StoredRecord] {
    try await core.withStore { store in
      let all = store.journal.subjects["\(shard)"] ?? []
      return all.drop { $0.sequence < sequence }.prefix(limit).map(Self.record)
    }
  }

  private static func record(_ entry: InProcessStore.Entry) -> StoredRecord {
    StoredRecord(sequence: entry.sequence, bytes: entry.bytes ?? [])
  }

  public func purge(shard: Int, through sequence: UInt64) async throws {
    try await core.withStore { store in
      let newest = store.journal.lastSequence(of: "\(shard)")
      store.journal.subjects["\(shard)"]?.removeAll {
        $0.sequence <= sequence && $0.sequence < newest
      }
    }
  }

  public func statistics() async throws -> JournalStatistics {
    try await core.withStore { store in
      var statistics = JournalStatistics()
      for entries in store.journal.subjects.values {
        statistics.messages += UInt64(entries.count)
        statistics.bytes += entries.reduce(0) { $0 + UInt64($1.bytes?.count ?? 0) }
      }
      return statistics
    }
  }
}

/// The streams that a JetStream server would hold. A stream has one sequence, and records by subject.
struct InProcessStore {
  struct Entry {
    var sequence: UInt64
    /// nil: a deletion marker.
    var bytes: [UInt8]?
  }

  struct Stream {
    var lastSequence: UInt64 = 0
    var subjects: [String: [Entry]] = [:]

    func lastSequence(of subject: String) -> UInt64 { subjects[subject]?.last?.sequence ?? 0 }

    /// Appends, if `expecting` is the subject's last sequence or nil.
    /// - Parameter keepOne: whether to remove the subject's older records.
    mutating func append(
      _ subject: String, _ bytes: [UInt8]?, expecting: UInt64?, keepOne: Bool
    ) -> AppendResult {
      if let expecting, expecting != lastSequence(of: subject) { return .refused }
      lastSequence += 1
      let entry = Entry(sequence: lastSequence, bytes: bytes)
      if keepOne {
        subjects[subject] = [entry]
      } else {
        subjects[subject, default: []].append(entry)
      }
      return .appended(sequence: lastSequence)
    }
  }

  struct Watch {
    var id: UInt64
    var bucket: String
    var filter: SubjectFilter
    var handler: EntryHandler
  }

  var journal = Stream()
  var buckets: [String: Stream] = [:]
  var records = InProcessRecords.Shared()
  var histories = InProcessHistories.Shared()
  var appStreams: [AppStreamKind: InProcessAppStream.Shared] = [:]
  var watches: [Watch] = []
  var lastWatch: UInt64 = 0
}

/// An audit trail in memory. Policy when full: the oldest record is dropped.
public final class InProcessAuditTrail: AuditTrail {
  private static let recordsMax = 1000
  private let kept = Mutex<[StoredRecord]>([])

  public init() {}

  public func append(_ bytes: [UInt8]) async -> AppendResult {
    kept.withLock { kept in
      let sequence = (kept.last?.sequence ?? 0) + 1
      kept.append(StoredRecord(sequence: sequence, bytes: bytes))
      if kept.count > Self.recordsMax { kept.removeFirst() }
      return .appended(sequence: sequence)
    }
  }

  public func records(limit: Int) async throws -> [StoredRecord] {
    kept.withLock { Array($0.suffix(limit)) }
  }
}
