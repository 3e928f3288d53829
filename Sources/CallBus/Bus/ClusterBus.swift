/// A message bus with journals, buckets and a work queue. All `open` functions throw `BusError`.
public protocol ClusterBus: MessageBus {
  associatedtype JournalType: Journal
  associatedtype BucketType: KeyValueBucket
  associatedtype QueueType: WorkQueue
  associatedtype AuditType: AuditTrail
  associatedtype RecordsType: RecordStream
  associatedtype HistoriesType: HistoryStream
  associatedtype AppStreamType: AppStream
  /// Opens the journal, creating its streams where they are missing.
  func openJournal(_ options: JournalOptions) async throws -> JournalType
  /// Opens a bucket, creating it where it is missing.
  func openBucket(_ name: String, _ options: BucketOptions) async throws -> BucketType
  /// Opens the queue of push jobs, creating it where it is missing.
  func openWorkQueue(_ options: WorkQueueOptions) async throws -> QueueType
  /// Opens the audit trail of operators' orders.
  func openAudit(_ options: AuditOptions) async throws -> AuditType
  /// Opens the stream of call records, and does not create it.
  func openRecords(_ options: RecordOptions) async throws -> RecordsType
  /// Opens the stream of users' histories, and does not create it.
  func openHistories(_ options: HistoryOptions) async throws -> HistoriesType
  /// Opens a stream of what is kept for apps, and does not create it.
  func openAppStream(
    _ kind: AppStreamKind, _ options: AppStreamOptions
  ) async throws -> AppStreamType
}

public struct JournalOptions: Sendable, Equatable {
  /// The number of shards of the cluster. It can never change, since it assigns shards to streams.
  public var shardCount = 64
  public var replicas = 1
  /// Whether to store in memory instead of on disk, for tests that do not restart the server.
  public var inMemory = false
  /// The most bytes of a shard's journal; nil: no limit. Policy: refuse. The store may reserve that much when it
  /// creates the journal.
  public var bytesPerShard: Int64?
  /// The time that an append waits for its answer.
  public var appendTimeout: Duration = .seconds(2)
  public init() {}
}

public struct BucketOptions: Sendable, Equatable {
  public var replicas = 1
  public var inMemory = false
  /// The age at which an entry expires; nil: never.
  public var maximumAge: Duration?
  /// The most bytes of a bucket; nil: no limit. Policy: refuse.
  public var bytesMax: Int64?
  /// Whether to create a missing bucket; otherwise opening it throws `BusError.notReady`. Nodes that do not know the
  /// settings of the cluster's buckets set this to false.
  public var createsMissing = true
  public init() {}

  /// These options for a bucket with little content.
  public var small: BucketOptions {
    var small = self
    small.bytesMax = bytesMax.map { min($0, 16 << 20) }
    return small
  }
}
