internal import CCallProto
public import CallCore

/// Swift values to and from the protobuf bytes that nodes exchange and keep.
public enum ClusterCodec {
  /// The highest number of the rules that this version reads. What it means and when it grows is
  /// written in docs/operations.md.
  ///
  /// 2: pushes in the journal, and senders of commands that are no edges. 3: calls that moved to another device in the
  /// journal. 4: calls that go on to other users. 5: transfers.
  public static let format: UInt32 = 5
  /// Written in messages that readers of the first format understand.
  static let firstFormat: UInt32 = 1
  /// The first format with pushes.
  public static let pushFormat: UInt32 = 2
  /// The first format with calls that were taken over.
  public static let moveFormat: UInt32 = 3
  /// The first format with calls that go on to other users.
  public static let divertFormat: UInt32 = 4
  /// The first format with calls that are transferred.
  public static let transferFormat: UInt32 = 5

  public static func encode(_ value: CommandBatch) -> [UInt8] {
    Packer.bytes(Callmesh__V1__CommandBatch.self, value)
  }
  public static func encode(_ value: EdgeBatch) -> [UInt8] {
    Packer.bytes(Callmesh__V1__EdgeBatch.self, value)
  }
  public static func encode(_ value: Heartbeat) -> [UInt8] {
    Packer.bytes(Callmesh__V1__Heartbeat.self, value)
  }
  public static func encode(_ value: AnnounceRequest) -> [UInt8] {
    Packer.bytes(Callmesh__V1__AnnounceRequest.self, value)
  }
  public static func encode(_ value: AnnounceDone) -> [UInt8] {
    Packer.bytes(Callmesh__V1__AnnounceDone.self, value)
  }
  public static func encode(_ value: Lease) -> [UInt8] {
    Packer.bytes(Callmesh__V1__Lease.self, value)
  }
  public static func encode(_ value: ClusterRecord) -> [UInt8] {
    Packer.bytes(Callmesh__V1__ClusterRecord.self, value)
  }
  public static func encode(_ value: JournalRecord) -> [UInt8] {
    Packer.bytes(Callmesh__V1__JournalRecord.self, value)
  }
  public static func encode(_ value: Checkpoint) -> [UInt8] {
    Packer.bytes(Callmesh__V1__Checkpoint.self, value)
  }
  public static func encode(_ value: Registration) -> [UInt8] {
    Packer.bytes(Callmesh__V1__RegistrationRecord.self, value)
  }
  public static func encode(_ value: StoredRules) -> [UInt8] {
    Packer.bytes(Callmesh__V1__RulesRecord.self, value)
  }
  public static func encode(_ value: TokenOwner) -> [UInt8] {
    Packer.bytes(Callmesh__V1__TokenOwner.self, value)
  }

  /// One message of the stream of records.
  public static func encode(_ records: [CallRecord]) -> [UInt8] {
    Packer.bytes(Callmesh__V1__CallRecords.self, CallRecordBatch(records: records))
  }
  /// The JSON of one record, on one line.
  public static func json(_ record: CallRecord) -> [UInt8] {
    MessageWriter.bytes(Callmesh__V1__CallRecord.self, record, .callRecord)
  }

  /// One message of a user's history.
  public static func encode(_ message: HistoryMessage) -> [UInt8] {
    Packer.bytes(Callmesh__V1__HistoryRecord.self, message)
  }

  /// Calls of which gateways are to send no more rings.
  public static func encode(withdrawn calls: [PushRinging]) -> [UInt8] {
    Packer.bytes(Callmesh__V1__PushWithdrawal.self, calls)
  }

  /// - Throws: for bytes that are no such message.
  public static func commandBatch(_ bytes: [UInt8]) throws(WireError) -> CommandBatch {
    try read(Callmesh__V1__CommandBatch.self, bytes, "command batch")
  }

  /// - Throws: for bytes that are no such message.
  public static func edgeBatch(_ bytes: [UInt8]) throws(WireError) -> EdgeBatch {
    try read(Callmesh__V1__EdgeBatch.self, bytes, "edge batch")
  }

  /// - Throws: for bytes that are no such message.
  public static func heartbeat(_ bytes: [UInt8]) throws(WireError) -> Heartbeat {
    try read(Callmesh__V1__Heartbeat.self, bytes, "heartbeat")
  }

  /// - Throws: for bytes that are no such message.
  public static func announceRequest(_ bytes: [UInt8]) throws(WireError) -> AnnounceRequest {
    try read(Callmesh__V1__AnnounceRequest.self, bytes, "announce request")
  }

  /// - Throws: for bytes that are no such message.
  public static func announceDone(_ bytes: [UInt8]) throws(WireError) -> AnnounceDone {
    try read(Callmesh__V1__AnnounceDone.self, bytes, "announce done")
  }

  /// - Throws: for bytes that are no such message.
  public static func lease(_ bytes: [UInt8]) throws(WireError) -> Lease {
    try read(Callmesh__V1__Lease.self, bytes, "lease")
  }

  /// - Throws: for bytes that are no such message.
  public static func clusterRecord(_ bytes: [UInt8]) throws(WireError) -> ClusterRecord {
    try read(Callmesh__V1__ClusterRecord.self, bytes, "cluster record")
  }
  /// - Throws: also where an entry is of a kind, or the record of a form, that this version does not
  ///   know. Such a shard must not be continued.
  public static func journalRecord(_ bytes: [UInt8]) throws(WireError) -> JournalRecord {
    try read(Callmesh__V1__JournalRecord.self, bytes, "journal record")
  }
  /// - Throws: as `journalRecord(_:)`.
  public static func checkpoint(_ bytes: [UInt8]) throws(WireError) -> Checkpoint {
    try read(Callmesh__V1__Checkpoint.self, bytes, "checkpoint")
  }

  /// - Throws: for bytes that are no such message.
  public static func registration(_ bytes: [UInt8]) throws(WireError) -> Registration {
    try read(Callmesh__V1__RegistrationRecord.self, bytes, "registration")
  }

  /// - Throws: for bytes that are no such message.
  public static func rules(_ bytes: [UInt8]) throws(WireError) -> StoredRules {
    try read(Callmesh__V1__RulesRecord.self, bytes, "rules")
  }

  /// - Throws: for bytes that are no such message.
  public static func tokenOwner(_ bytes: [UInt8]) throws(WireError) -> TokenOwner {
    try read(Callmesh__V1__TokenOwner.self, bytes, "token owner")
  }
  /// The records that this version can read, and how many others there are.
  /// - Throws: for bytes that are no such message.
  public static func callRecords(_ bytes: [UInt8]) throws(WireError) -> CallRecordBatch {
    try read(Callmesh__V1__CallRecords.self, bytes, "call records")
  }
  /// One message of a user's history.
  /// - Throws: for bytes that are no such message, or one of a later version.
  public static func historyMessage(_ bytes: [UInt8]) throws(WireError) -> HistoryMessage {
    try read(Callmesh__V1__HistoryRecord.self, bytes, "history")
  }
  /// Calls whose rings are withdrawn.
  /// - Throws: for bytes that are no such message.
  public static func pushWithdrawal(_ bytes: [UInt8]) throws(WireError) -> [PushRinging] {
    try read(Callmesh__V1__PushWithdrawal.self, bytes, "push withdrawal")
  }

  @safe @inline(__always)
  static func read<Message: Root>(
    _ message: Message.Type, _ bytes: [UInt8], _ what: StaticString
  ) throws(WireError) -> Message.Value {
    do throws(Fault) {
      return unsafe try bytes.withUnsafeBufferPointer { (buffer) throws(Fault) -> Message.Value in
        // Our own nodes wrote it: the limit is only there for bytes that went bad.
        try Unpacker.value(message, UnsafeRawBufferPointer(buffer), memoryPerByte: 256)
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
