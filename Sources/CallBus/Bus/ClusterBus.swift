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
