internal import Synchronization

/// The seam to the record of what operators ordered: appended, never changed, and bounded, the oldest goes.
public protocol AuditTrail: Sendable {
  /// - Returns: `.appended` when the record is stored.
  func append(_ bytes: [UInt8]) async -> AppendResult

  /// The newest records, the oldest of them first.
  func records(limit: Int) async throws -> [StoredRecord]
}

public struct AuditOptions: Sendable, Equatable {
  public var replicas = 1
  public var inMemory = false
  /// Which nodes append here: NATS lets no other role do that in their name.
  public var role: String
  /// Of all records. The oldest give way.
  public var bytesMax: Int64 = 16 << 20
  /// Whether a missing trail is made; else appending to it fails.
  public var createsMissing = false
  public init(role: String) { self.role = role }
}

/// In memory, for a cluster in one process.
public final class MemoryAudit: AuditTrail {
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
