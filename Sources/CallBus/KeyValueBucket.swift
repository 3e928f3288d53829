/// The seam to a key-value bucket with revisions and compare-and-set.
///
/// Keys are made of `[-/_=.a-zA-Z0-9]`; `Subjects.keyPart` encodes anything else.
public protocol KeyValueBucket: Sendable {
  /// Starts a write. `completion` is called exactly once, on the bus's thread.
  /// - Parameter expecting: the revision that the key must have (0: it must not exist, or its last
  ///   entry is a deletion); nil writes whatever is there.
  func put(
    _ key: String, _ value: [UInt8], expecting: UInt64?,
    completion: @escaping @Sendable (AppendResult) -> Void)

  /// Starts a deletion. In the end nothing of the key stays in the store, so that keys which come and go
  /// do not fill it.
  /// - Parameter expecting: the revision that the key must have; nil deletes whatever is there.
  func delete(
    _ key: String, expecting: UInt64?, completion: @escaping @Sendable (AppendResult) -> Void)

  /// The key's present entry; nil when it has none or was deleted.
  func get(_ key: String) async throws -> KeyValueEntry?

  /// All present entries whose keys match a filter such as `12.>` or `>`.
  func entries(matching filter: String) async throws -> [KeyValueEntry]

  /// Calls `handler` on the bus's thread for every present entry that matches, then for every
  /// change. Of changes of one key that come close together it may hear the last one only. A deletion
  /// has a nil value, and may pass unheard: nothing of it stays for a watch that lags.
  func watch(
    _ filter: String, handler: @escaping @Sendable (KeyValueEntry) -> Void
  ) async throws -> any BusSubscription

  /// What the store holds, what it keeps of deletions included.
  func statistics() async throws -> JournalStatistics
}

extension KeyValueBucket {
  public func delete(_ key: String, completion: @escaping @Sendable (AppendResult) -> Void) {
    delete(key, expecting: nil, completion: completion)
  }

  /// For stores that keep nothing but what is present.
  public func statistics() async throws -> JournalStatistics {
    var statistics = JournalStatistics()
    for entry in try await entries(matching: ">") {
      statistics.messages += 1
      statistics.bytes += UInt64(entry.value?.count ?? 0)
    }
    return statistics
  }
}

public struct KeyValueEntry: Sendable, Equatable {
  public var key: String
  /// nil: deleted.
  public var value: [UInt8]?
  public var revision: UInt64
  public init(key: String, value: [UInt8]?, revision: UInt64) {
    self.key = key
    self.value = value
    self.revision = revision
  }
}

/// All that a node needs of the cluster's engine.
public protocol ClusterBus: MessageBus {
  associatedtype JournalType: Journal
  associatedtype BucketType: KeyValueBucket
  associatedtype QueueType: WorkQueue
  associatedtype AuditType: AuditTrail
  /// Opens the journal, creating its streams where they are missing.
  func openJournal(_ options: JournalOptions) async throws -> JournalType
  /// Opens a bucket, creating it where it is missing.
  func openBucket(_ name: String, _ options: BucketOptions) async throws -> BucketType
  /// Opens the queue of push jobs, creating it where it is missing.
  func openWorkQueue(_ options: WorkQueueOptions) async throws -> QueueType
  /// Opens the record of operators' orders.
  func openAudit(_ options: AuditOptions) async throws -> AuditType
}

public struct JournalOptions: Sendable, Equatable {
  /// How many shards the cluster has: for ever the same, since shards share streams by it.
  public var shardCount = 64
  public var replicas = 1
  /// In memory instead of on disk: for tests that do not restart the server.
  public var inMemory = false
  /// How much the journal of a shard may hold; nil: as much as comes. Policy: refuse. The store may hold that
  /// much free when the journal is made.
  public var bytesPerShard: Int64?
  /// How long an append waits for its answer.
  public var appendTimeout: Duration = .seconds(2)
  public init() {}
}

public struct BucketOptions: Sendable, Equatable {
  public var replicas = 1
  public var inMemory = false
  /// After which an entry goes; nil: never.
  public var maximumAge: Duration?
  /// How much a bucket may hold; nil: as much as comes. Policy: refuse.
  public var bytesMax: Int64?
  /// Whether a missing bucket is made; else opening it fails as `BusError.notReady`. For nodes that
  /// do not know how the cluster's buckets are to be.
  public var createsMissing = true
  public init() {}

  /// Of a bucket that holds little.
  public var small: BucketOptions {
    var small = self
    small.bytesMax = bytesMax.map { min($0, 16 << 20) }
    return small
  }
}
