internal import Synchronization

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
