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
