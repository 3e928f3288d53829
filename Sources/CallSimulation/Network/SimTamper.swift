package import CallBus

/// Sabotage of the store. Each breaks a guarantee that coordinators rely on.
package struct SimTamper {
  /// An append is acknowledged at once, before it is stored.
  package var answersAppendsEarly = false
  /// A purge of a journal removes more than it was asked to.
  package var purgesThrough: (_ sequence: UInt64) -> UInt64 = { $0 }
  /// A compare-and-set in a bucket is stored unconditionally.
  package var bucketExpectationIgnored: (_ bucket: String) -> Bool = { _ in false }
  /// A write to a bucket is acknowledged and not stored.
  package var forgetsPut: (_ bucket: String, _ key: String) -> Bool = { _, _ in false }
  /// A write to a bucket is stored late, and so are the writer's later ones.
  package var holdsPutBack: (_ bucket: String) -> Bool = { _ in false }
  /// What the journal stores in place of a writer's record.
  package var changesAppend: (_ bytes: [UInt8]) -> [UInt8] = { $0 }
  /// What a reader gets in place of a record of a journal; nil: the record is left out.
  package var changesRecord: ((_ shard: Int, StoredRecord) -> StoredRecord?)?

  /// The id under which the work queue stores a job.
  package var changesJobID: (_ id: String) -> String = { $0 }
  /// What a gateway gets in place of a job.
  package var changesJob: (_ bytes: [UInt8]) -> [UInt8] = { $0 }
  /// A read of a key finds nothing.
  package var hidesEntry: (_ bucket: String) -> Bool = { _ in false }

  package init() {}
}
