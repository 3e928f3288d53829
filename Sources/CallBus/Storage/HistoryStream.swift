public import CallCore

/// The histories of users (`ClusterCodec.encode(HistoryMessage)`): append-only, each user's messages in one order, and
/// bounded by age, by bytes, and by the messages of a user. Policy: the oldest messages are dropped.
public protocol HistoryStream: Sendable {
  /// Creates the stream if it is missing. Until it exists, nothing can be added.
  /// - Parameter followingLimits: whether an existing stream gets the limits of the options.
  /// - Throws: `BusError`.
  func create(followingLimits: Bool) async throws

  /// Adds a message to a user's history. `completion` is called exactly once, on the bus's thread. An `id` that was
  /// added within the last two minutes, to any history, succeeds and adds nothing.
  func add(
    _ user: UserKey, id: String, _ bytes: [UInt8], completion: @escaping AppendCompletion)

  /// All messages of a user, in their order.
  /// - Throws: `BusError`, also if they cannot be read within a few seconds.
  func messages(of user: UserKey) async throws -> [StoredRecord]
}

public struct HistoryOptions: Sendable, Equatable {
  public var replicas = 1
  public var inMemory = false
  /// The age at which entries are dropped; 0: no histories are kept at all.
  public var kept: Duration = .seconds(30 * 86_400)
  /// How many entries of a user are shown.
  public var entriesPerUser = 1000
  /// The most bytes of all histories.
  public var bytesMax: Int64 = 1 << 30
  /// The time that `add` waits for the store's answer.
  public var addTimeout: Duration = .seconds(5)
  public init() {}

  public var isOn: Bool { kept > .zero }

  /// The most messages of a user: what was read is a message as well, and there is never more of that than entries.
  public var messagesPerUser: Int { 2 * entriesPerUser }
}
