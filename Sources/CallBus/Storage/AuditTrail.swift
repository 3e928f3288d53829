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
