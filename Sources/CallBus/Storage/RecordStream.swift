public import CallCore

/// The records of ended calls (`ClusterCodec.encode([CallRecord])`): append-only, and bounded by age and bytes. Policy:
/// the oldest messages are dropped.
public protocol RecordStream: Sendable {
  /// Creates the stream if it is missing. Until it exists, nothing can be added.
  /// - Parameter followingLimits: whether an existing stream gets the limits of the options.
  /// - Throws: `BusError`.
  func create(followingLimits: Bool) async throws

  /// Adds a message. `completion` is called exactly once, on the bus's thread. An `id` that was added within the
  /// last two minutes succeeds and adds nothing.
  func add(id: String, _ bytes: [UInt8], completion: @escaping AppendCompletion)

  /// The sequences of the first and the last message; nil if there is none.
  /// - Throws: `BusError.notReady` if there is no such stream; `BusError`, as all that read.
  func range() async throws -> ClosedRange<UInt64>?

  /// The messages with these sequences, in order. Messages that were dropped are left out.
  func messages(_ sequences: ClosedRange<UInt64>) async throws -> [StoredRecords]
}

/// A message of the stream of records.
public struct StoredRecords: Sendable, Equatable {
  public var sequence: UInt64
  public var bytes: [UInt8]
  /// When the store took it, by the store's clock.
  public var storedAt: Timestamp
  public init(sequence: UInt64, bytes: [UInt8], storedAt: Timestamp) {
    self.sequence = sequence
    self.bytes = bytes
    self.storedAt = storedAt
  }
}

public struct RecordOptions: Sendable, Equatable {
  public var replicas = 1
  public var inMemory = false
  /// The age at which records are dropped; 0: no records are kept at all.
  public var kept: Duration = .seconds(30 * 86_400)
  /// The most bytes of all records.
  public var bytesMax: Int64 = 1 << 30
  /// The time that `add` waits for the store's answer.
  public var addTimeout: Duration = .seconds(5)
  public init() {}

  public var isOn: Bool { kept > .zero }
}
