/// The shards' journals: one append-only sequence per shard. Only the shard's owner can append, since every append
/// names the sequence that it expects to be the last one.
public protocol Journal: Sendable {
  /// Starts an append. `completion` is called exactly once, on the bus's thread.
  /// - Parameter expecting: the sequence of the shard's last record; 0 if it has none.
  func append(
    shard: Int, expecting: UInt64, _ bytes: [UInt8],
    completion: @escaping AppendCompletion)

  /// Whether an append acknowledged with `sequence` is known to directly follow the record that it expected. If not,
  /// the records in between must be read: a replicated store may accept two appends that expect the same sequence.
  func isNext(_ sequence: UInt64, after expecting: UInt64) -> Bool

  /// The last record of a shard; nil if it has none.
  /// - Throws: `BusError`, as all functions that read.
  func last(shard: Int) async throws -> StoredRecord?

  /// The next records of a shard at or after a sequence, in order and without gaps: at most `limit`, possibly fewer,
  /// none only at the end. Replays a journal without a round trip per record.
  func records(shard: Int, from sequence: UInt64, limit: Int) async throws -> [StoredRecord]

  /// Removes the shard's records up to and including `sequence`, except for the newest, which carries the fence.
  func purge(shard: Int, through sequence: UInt64) async throws

  /// The size of the store, for operators.
  func statistics() async throws -> JournalStatistics
}

extension Journal {
  package func append(shard: Int, expecting: UInt64, _ bytes: [UInt8]) async -> AppendResult {
    await withCheckedContinuation { continuation in
      append(shard: shard, expecting: expecting, bytes) { continuation.resume(returning: $0) }
    }
  }

  /// For journals that number each shard's records consecutively.
  public func isNext(_ sequence: UInt64, after expecting: UInt64) -> Bool {
    sequence == expecting + 1
  }
}

public typealias AppendCompletion = @Sendable (AppendResult) -> Void

public enum AppendResult: Sendable, Equatable {
  case appended(sequence: UInt64)
  /// The journal's last sequence is not the expected one: another node owns the shard.
  case refused
  /// No answer before the deadline, or the connection broke: it may or may not have been appended.
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

/// The record of operators' orders: append-only and bounded; the oldest records are dropped.
public protocol AuditTrail: Sendable {
  /// - Returns: `.appended` once the record is stored.
  func append(_ bytes: [UInt8]) async -> AppendResult

  /// The newest records, oldest first.
  /// - Throws: `BusError`.
  func records(limit: Int) async throws -> [StoredRecord]
}

public struct AuditOptions: Sendable, Equatable {
  public var replicas = 1
  public var inMemory = false
  /// The role of the node. NATS permits each role to append under its own subject only.
  public var role: String
  /// The most bytes of all records. Policy: drop oldest.
  public var bytesMax: Int64 = 16 << 20
  /// Whether to create a missing trail; otherwise appending to it fails.
  public var createsMissing = false
  public init(role: String) { self.role = role }
}
