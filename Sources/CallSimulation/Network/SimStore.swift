package import CallBus

/// The content of the store's streams: journals and buckets.
package struct SimStore {
  struct Entry {
    var revision: UInt64
    /// nil: a deletion, which only watches see.
    var value: [UInt8]?
  }

  struct Bucket {
    var lastRevision: UInt64 = 0
    var entries: [String: Entry] = [:]
  }

  /// By shard. The newest record is never purged.
  package private(set) var journals: [[StoredRecord]] = []
  private(set) var buckets: [String: Bucket] = [:]
  /// Whether all shards share one sequence, as in a stream that holds several.
  let shardsShareSequence: Bool
  private var lastShared: UInt64 = 0

  package init(shardsShareSequence: Bool) { self.shardsShareSequence = shardsShareSequence }

  // MARK: Journals

  private mutating func reach(_ shard: Int) {
    while journals.count <= shard { journals.append([]) }
  }

  /// Appends if `expecting` is the sequence of the shard's last record.
  /// - Parameter always: also if it is not.
  mutating func append(
    _ shard: Int, expecting: UInt64, _ bytes: [UInt8], always: Bool = false
  ) -> AppendResult {
    reach(shard)
    let last = journals[shard].last?.sequence ?? 0
    guard always || last == expecting else { return .refused }
    let sequence = nextSequence(behind: last)
    lastShared = max(lastShared, sequence)
    journals[shard].append(StoredRecord(sequence: sequence, bytes: bytes))
    return .appended(sequence: sequence)
  }

  /// The sequence of the next append, if no other comes first.
  func nextSequence(behind sequence: UInt64) -> UInt64 {
    shardsShareSequence ? lastShared + 1 : sequence + 1
  }

  mutating func purge(_ shard: Int, through sequence: UInt64) {
    reach(shard)
    let last = journals[shard].last?.sequence ?? 0
    let purged = journals[shard].prefix { $0.sequence <= sequence && $0.sequence < last }
    journals[shard].removeFirst(purged.count)
  }

  func last(_ shard: Int) -> StoredRecord? {
    journals.indices.contains(shard) ? journals[shard].last : nil
  }

  /// The shard's records at or after a sequence.
  package func records(_ shard: Int, from sequence: UInt64, limit: Int = .max) -> [StoredRecord] {
    guard journals.indices.contains(shard) else { return [] }
    return Array(journals[shard].drop { $0.sequence < sequence }.prefix(limit))
  }

  package mutating func lose(shard: Int, index: Int) {
    journals[shard].remove(at: index)
  }

  // MARK: Buckets

  mutating func put(
    _ bucket: String, _ key: String, _ value: [UInt8]?, expecting: UInt64?
  ) -> AppendResult {
    var found = buckets.removeValue(forKey: bucket) ?? Bucket()
    defer { buckets[bucket] = found }
    let present = found.entries[key]
    if let expecting {
      let isAbsent = present?.value == nil
      guard present?.revision ?? 0 == expecting || (expecting == 0 && isAbsent) else {
        return .refused
      }
    }
    found.lastRevision += 1
    found.entries[key] = Entry(revision: found.lastRevision, value: value)
    return .appended(sequence: found.lastRevision)
  }

  package func get(_ bucket: String, _ key: String) -> KeyValueEntry? {
    guard let entry = buckets[bucket]?.entries[key], let value = entry.value else { return nil }
    return KeyValueEntry(key: key, value: value, revision: entry.revision)
  }

  /// Entries of a bucket after a revision, in the order of their revisions.
  package func entries(
    _ bucket: String, behind revision: UInt64 = 0, deletions: Bool = false,
    _ isWanted: (String) -> Bool
  ) -> [KeyValueEntry] {
    (buckets[bucket]?.entries ?? [:]).compactMap { key, entry in
      guard entry.revision > revision, deletions || entry.value != nil, isWanted(key) else {
        return nil
      }
      return KeyValueEntry(key: key, value: entry.value, revision: entry.revision)
    }.sorted { $0.revision < $1.revision }
  }
}
