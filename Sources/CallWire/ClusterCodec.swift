internal import CCallProto
internal import CProtobufC
public import CallCore

/// Swift values to and from the protobuf bytes that nodes exchange and keep.
public enum ClusterCodec {
  /// The highest number of the rules that this version reads. What it means and when it grows is
  /// written in docs/operations.md.
  ///
  /// 2: pushes in the journal, and senders of commands that are no edges.
  public static let format: UInt32 = 2
  /// What is written that a reader of the first rules understands says so.
  static let firstFormat: UInt32 = 1
  /// The first format whose readers know of pushes.
  public static let pushFormat: UInt32 = 2

  public static func encode(_ value: CommandBatch) -> [UInt8] {
    Packer.bytes(CommandBatchMapping.self, value)
  }
  public static func encode(_ value: EdgeBatch) -> [UInt8] {
    Packer.bytes(EdgeBatchMapping.self, value)
  }
  public static func encode(_ value: Heartbeat) -> [UInt8] {
    Packer.bytes(HeartbeatMapping.self, value)
  }
  public static func encode(_ value: AnnounceRequest) -> [UInt8] {
    Packer.bytes(AnnounceRequestMapping.self, value)
  }
  public static func encode(_ value: AnnounceDone) -> [UInt8] {
    Packer.bytes(AnnounceDoneMapping.self, value)
  }
  public static func encode(_ value: Lease) -> [UInt8] {
    Packer.bytes(LeaseMapping.self, value)
  }
  public static func encode(_ value: ClusterRecord) -> [UInt8] {
    Packer.bytes(ClusterRecordMapping.self, value)
  }
  public static func encode(_ value: JournalRecord) -> [UInt8] {
    Packer.bytes(JournalRecordMapping.self, value)
  }
  public static func encode(_ value: Checkpoint) -> [UInt8] {
    Packer.bytes(CheckpointMapping.self, value)
  }
  public static func encode(_ value: Registration) -> [UInt8] {
    Packer.bytes(RegistrationMapping.self, value)
  }
  public static func encode(_ value: TokenOwner) -> [UInt8] {
    Packer.bytes(TokenOwnerMapping.self, value)
  }

  /// Calls of which gateways are to send no more rings.
  public static func encode(withdrawn calls: [CallID]) -> [UInt8] {
    Packer.bytes(PushWithdrawalMapping.self, calls)
  }

  public static func commandBatch(_ bytes: [UInt8]) throws(WireError) -> CommandBatch {
    try read(CommandBatchMapping.self, bytes, "command batch", callmesh__v1__command_batch__unpack)
  }
  public static func edgeBatch(_ bytes: [UInt8]) throws(WireError) -> EdgeBatch {
    try read(EdgeBatchMapping.self, bytes, "edge batch", callmesh__v1__edge_batch__unpack)
  }
  public static func heartbeat(_ bytes: [UInt8]) throws(WireError) -> Heartbeat {
    try read(HeartbeatMapping.self, bytes, "heartbeat", callmesh__v1__heartbeat__unpack)
  }
  public static func announceRequest(_ bytes: [UInt8]) throws(WireError) -> AnnounceRequest {
    try read(
      AnnounceRequestMapping.self, bytes, "announce request",
      callmesh__v1__announce_request__unpack)
  }
  public static func announceDone(_ bytes: [UInt8]) throws(WireError) -> AnnounceDone {
    try read(AnnounceDoneMapping.self, bytes, "announce done", callmesh__v1__announce_done__unpack)
  }
  public static func lease(_ bytes: [UInt8]) throws(WireError) -> Lease {
    try read(LeaseMapping.self, bytes, "lease", callmesh__v1__lease__unpack)
  }
  public static func clusterRecord(_ bytes: [UInt8]) throws(WireError) -> ClusterRecord {
    try read(
      ClusterRecordMapping.self, bytes, "cluster record", callmesh__v1__cluster_record__unpack)
  }
  /// - Throws: also where an entry is of a kind, or the record of a form, that this version does not
  ///   know. Such a shard must not be continued.
  public static func journalRecord(_ bytes: [UInt8]) throws(WireError) -> JournalRecord {
    try read(
      JournalRecordMapping.self, bytes, "journal record", callmesh__v1__journal_record__unpack)
  }
  /// - Throws: as `journalRecord(_:)`.
  public static func checkpoint(_ bytes: [UInt8]) throws(WireError) -> Checkpoint {
    try read(CheckpointMapping.self, bytes, "checkpoint", callmesh__v1__checkpoint__unpack)
  }
  public static func registration(_ bytes: [UInt8]) throws(WireError) -> Registration {
    try read(
      RegistrationMapping.self, bytes, "registration", callmesh__v1__registration_record__unpack)
  }
  public static func tokenOwner(_ bytes: [UInt8]) throws(WireError) -> TokenOwner {
    try read(TokenOwnerMapping.self, bytes, "token owner", callmesh__v1__token_owner__unpack)
  }
  /// Calls whose rings are withdrawn.
  public static func pushWithdrawal(_ bytes: [UInt8]) throws(WireError) -> [CallID] {
    try read(
      PushWithdrawalMapping.self, bytes, "push withdrawal", callmesh__v1__push_withdrawal__unpack)
  }

  @inline(__always)
  static func read<Map: Mapping>(
    _ map: Map.Type, _ bytes: [UInt8], _ what: StaticString,
    _ unpack: (
      UnsafeMutablePointer<ProtobufCAllocator>?, Int, UnsafePointer<UInt8>?
    ) -> UnsafeMutablePointer<Map.Message>?
  ) throws(WireError) -> Map.Value {
    do throws(Fault) {
      return try bytes.withUnsafeBufferPointer { (buffer) throws(Fault) -> Map.Value in
        // Our own nodes wrote it: the limit is only there for bytes that went bad.
        try Unpacker.value(map, UnsafeRawBufferPointer(buffer), memoryPerByte: 256, unpack)
      }
    } catch {
      throw WireError("\(what): \(error.sentence)")
    }
  }
}

/// Bytes on the bus or in the store that cannot be read.
public struct WireError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  public init(_ message: String) { self.message = message }
  public var description: String { message }
}
