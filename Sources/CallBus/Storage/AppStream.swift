/// The kinds of data that a cluster keeps for apps, each in a stream with one subject for each app.
public enum AppStreamKind: Sendable, CaseIterable {
  /// Events of calls, for webhooks. `ClusterCodec.encode([AppEvent])`.
  case events
  /// Events that a webhook did not take. `DeadLetter`.
  case deadLetters
}

/// A stream with one subject for each app: append-only, and bounded by age and bytes. Policy: the oldest messages are
/// dropped.
public protocol AppStream: Sendable {
  /// Creates the stream if it is missing. Until it exists, nothing can be added.
  /// - Parameter followingLimits: whether an existing stream gets the limits of the options.
  /// - Throws: `BusError`.
  func create(followingLimits: Bool) async throws

  /// Adds a message. `completion` is called exactly once, on the bus's thread. An `id` that was added within the
  /// last two minutes succeeds and adds nothing.
  func add(id: String, app: String, _ bytes: [UInt8], completion: @escaping AppendCompletion)

  /// The first message of an app at or after a sequence; nil if there is none.
  /// - Throws: `BusError`, as all that read.
  func next(of app: String, from sequence: UInt64) async throws -> StoredRecords?

  /// The last message of an app; nil if there is none.
  func last(of app: String) async throws -> StoredRecords?

  /// The sequences of the first and the last message of all apps; nil if there is none.
  /// - Throws: `BusError.notReady` if there is no such stream.
  func range() async throws -> ClosedRange<UInt64>?
}

extension AppStream {
  package func add(id: String, app: String, _ bytes: [UInt8]) async -> AppendResult {
    await withCheckedContinuation { continuation in
      add(id: id, app: app, bytes) { continuation.resume(returning: $0) }
    }
  }
}

public struct AppStreamOptions: Sendable, Equatable {
  public var replicas = 1
  public var inMemory = false
  /// The age at which messages are dropped; 0: none are kept at all.
  public var kept: Duration
  /// The most bytes of all messages.
  public var bytesMax: Int64
  /// The time that `add` waits for the store's answer.
  public var addTimeout: Duration = .seconds(5)

  public init(kept: Duration, bytesMax: Int64) {
    self.kept = kept
    self.bytesMax = bytesMax
  }

  public var isOn: Bool { kept > .zero }

  /// Longer than webhooks are retried.
  public static let events = AppStreamOptions(kept: .seconds(3 * 86_400), bytesMax: 1 << 30)
  public static let deadLetters = AppStreamOptions(kept: .seconds(30 * 86_400), bytesMax: 256 << 20)
}
