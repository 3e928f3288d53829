public import CallCore

/// Swift values to and from the protobuf bytes that nodes exchange and keep.
public enum ClusterCodec {
  public static func encode(_ value: CommandBatch) -> [UInt8] { [] }
  public static func encode(_ value: EdgeBatch) -> [UInt8] { [] }
  public static func encode(_ value: Heartbeat) -> [UInt8] { [] }
  public static func encode(_ value: AnnounceRequest) -> [UInt8] { [] }
  public static func encode(_ value: AnnounceDone) -> [UInt8] { [] }
  public static func encode(_ value: Lease) -> [UInt8] { [] }
  public static func encode(_ value: JournalRecord) -> [UInt8] { [] }
  public static func encode(_ value: Checkpoint) -> [UInt8] { [] }
  public static func encode(_ value: Registration) -> [UInt8] { [] }

  public static func commandBatch(_ bytes: [UInt8]) throws(WireError) -> CommandBatch {
    throw .notBuilt
  }
  public static func edgeBatch(_ bytes: [UInt8]) throws(WireError) -> EdgeBatch { throw .notBuilt }
  public static func heartbeat(_ bytes: [UInt8]) throws(WireError) -> Heartbeat { throw .notBuilt }
  public static func announceRequest(_ bytes: [UInt8]) throws(WireError) -> AnnounceRequest {
    throw .notBuilt
  }
  public static func announceDone(_ bytes: [UInt8]) throws(WireError) -> AnnounceDone {
    throw .notBuilt
  }
  public static func lease(_ bytes: [UInt8]) throws(WireError) -> Lease { throw .notBuilt }
  public static func journalRecord(_ bytes: [UInt8]) throws(WireError) -> JournalRecord {
    throw .notBuilt
  }
  public static func checkpoint(_ bytes: [UInt8]) throws(WireError) -> Checkpoint {
    throw .notBuilt
  }
  public static func registration(_ bytes: [UInt8]) throws(WireError) -> Registration {
    throw .notBuilt
  }
}

/// Bytes on the bus or in the store that cannot be read.
public struct WireError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  public init(_ message: String) { self.message = message }
  public var description: String { message }
  static let notBuilt = WireError("not built")
}
