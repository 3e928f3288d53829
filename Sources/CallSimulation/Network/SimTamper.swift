package import CallBus

/// What sabotage changes at the store: all of it breaks what coordinators rely on.
package struct SimTamper {
  /// An append is answered at once; it is made all the same, later.
  package var answersAppendsEarly = false
  /// A purge of a journal goes further than it was asked to.
  package var purgesThrough: (_ sequence: UInt64) -> UInt64 = { $0 }
  /// A compare-and-set in a bucket is taken whatever is there.
  package var bucketExpectationIgnored: (_ bucket: String) -> Bool = { _ in false }
  /// A write to a bucket is acknowledged, and not made.
  package var forgetsPut: (_ bucket: String, _ key: String) -> Bool = { _, _ in false }
  /// A write to a bucket is taken late, and so is what its writer writes there behind it.
  package var holdsPutBack: (_ bucket: String) -> Bool = { _ in false }
  /// What the journal takes in place of what a writer appends.
  package var changesAppend: (_ bytes: [UInt8]) -> [UInt8] = { $0 }
  /// What a reader gets for a record of a journal; nil: it is left out.
  package var changesRecord: ((_ shard: Int, StoredRecord) -> StoredRecord?)?

  /// Under which id the work queue takes a job.
  package var changesJobID: (_ id: String) -> String = { $0 }
  /// What a gateway gets in place of a job.
  package var changesJob: (_ bytes: [UInt8]) -> [UInt8] = { $0 }
  /// What a reader finds under a key of a bucket is not there.
  package var hidesEntry: (_ bucket: String) -> Bool = { _ in false }

  package init() {}
}
