/// The seam to the shards' journals: one append-only sequence per shard, of which only the owner
/// can append, because every append says what it expects to follow.
public protocol Journal: Sendable {
  /// Starts an append. `completion` is called exactly once, on the bus's thread.
  /// - Parameter expecting: the sequence of this shard's last record; 0 when it has none.
  func append(
    shard: Int, expecting: UInt64, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void)

  /// Whether an append that is acknowledged with `sequence` is known to stand directly behind the
  /// record that it expected. Where it is not, what stands between must be looked at: a replicated
  /// store may take two appends that expect the same.
  func isNext(_ sequence: UInt64, after expecting: UInt64) -> Bool

  /// The last record of a shard; nil when it has none.
  func last(shard: Int) async throws -> StoredRecord?

  /// The first record of a shard at or after a sequence; nil when there is none.
  func next(shard: Int, from sequence: UInt64) async throws -> StoredRecord?

  /// The next records of a shard at or after a sequence, in order, none left out: `limit` at most,
  /// perhaps fewer, none only at the end. To read a journal back without a round trip for each.
  func records(shard: Int, from sequence: UInt64, limit: Int) async throws -> [StoredRecord]

  /// Removes the shard's records up to and including `sequence`. The newest record of a shard is
  /// always kept: it carries the fence.
  func purge(shard: Int, through sequence: UInt64) async throws

  /// What the store holds, for operators.
  func statistics() async throws -> JournalStatistics
}

extension Journal {
  /// One by one, for stores in which a read costs nothing.
  public func records(
    shard: Int, from sequence: UInt64, limit: Int
  ) async throws -> [StoredRecord] {
    var records: [StoredRecord] = []
    var from = sequence
    while records.count < limit, let record = try await next(shard: shard, from: from) {
      records.append(record)
      from = record.sequence + 1
    }
    return records
  }
}

extension Journal {
  /// For journals that number the records of each shard one by one.
  public func isNext(_ sequence: UInt64, after expecting: UInt64) -> Bool {
    sequence == expecting + 1
  }
}

public enum AppendResult: Sendable, Equatable {
  case appended(sequence: UInt64)
  /// The journal's last sequence is another: somebody else owns the shard.
  case refused
  /// No answer within the deadline, or the connection broke: it may have been appended or not.
  case unknown(String)
}

public struct StoredRecord: Sendable, Equatable {
  public var sequence: UInt64
  public var bytes: [UInt8]
  public init(sequence: UInt64, bytes: [UInt8]) {
    self.sequence = sequence
    self.bytes = bytes
  }
}

public struct JournalStatistics: Sendable, Equatable {
  public var messages: UInt64 = 0
  public var bytes: UInt64 = 0
  public init() {}
}
