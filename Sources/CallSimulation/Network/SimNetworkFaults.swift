package import CallBus
package import CallCore

/// Faults between nodes and NATS. All are probabilities, 0...1.
package struct SimNetworkFaults: Sendable, Equatable {
  /// Latency of one hop: from a node to the server, or from there to a node.
  package var hopShortest = Span(microseconds: 40)
  package var hopLongest = Span(microseconds: 400)

  package var lose = 0.0
  /// A message is delivered twice, the second time late.
  package var duplicate = 0.0
  /// A message is late, and so are later ones of the same publisher on the same subject.
  package var delay = 0.0
  package var delayLongest = Span.milliseconds(400)
  /// A message is late and later ones overtake it, which a real bus does not do.
  package var reorder = 0.0

  /// A write is lost, and gets no reply.
  package var writeLost = 0.0
  /// A write is stored, and its reply is lost.
  package var writeAnswerLost = 0.0
  /// A write is stored late, possibly after its writer's timeout.
  package var writeLate = 0.0
  package var writeLateLongest = Span.seconds(4)
  /// An append that expects an older end is stored after the records in between, and acknowledged,
  /// as by a replicated store that checks on arrival, not on commit.
  package var appendRaces = 0.0
  /// A compare-and-set in a bucket is stored although another one came first a moment ago.
  package var putRaces = 0.0
  /// The store reports that it is not ready, and does not store the write.
  package var writeFails = 0.0
  /// The store refuses a write for a conflict that does not exist.
  package var writeRefused = 0.0
  /// A job is lost on its way to a gateway. The queue delivers it again later.
  package var jobLost = 0.0
  /// A gateway's acknowledgement of a job is lost.
  package var settlementLost = 0.0
  package var readLost = 0.0
  /// A read of a journal's end is answered by a replica that lags.
  package var readStale = 0.0

  package init() {}

  package static let none = SimNetworkFaults()

  /// Whether nothing is lost, late, repeated or refused. Latency alone is no fault.
  var isNone: Bool {
    var faultless = Self.none
    faultless.hopLongest = hopLongest
    return self == faultless
  }
}

/// Sabotage of the store. Each breaks a guarantee that coordinators rely on.
package struct SimTamper {
  /// The store ignores what an append expects.
  package var ignoresJournalExpectation = false
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
  /// The bytes that the journal stores in place of a writer's record.
  package var changesAppend: (_ bytes: [UInt8]) -> [UInt8] = { $0 }
  /// The record that a reader gets in place of one of a journal; nil: the record is left out.
  package var changesRecord: ((_ shard: Int, StoredRecord) -> StoredRecord?)?

  /// The id under which the work queue stores a job.
  package var changesJobID: (_ id: String) -> String = { $0 }
  /// The bytes that a gateway gets in place of a job.
  package var changesJob: (_ bytes: [UInt8]) -> [UInt8] = { $0 }
  /// The bytes that the stream of call records stores in place of a message; nil: the message is acknowledged and lost.
  package var changesRecords: (_ bytes: [UInt8]) -> [UInt8]? = { $0 }
  /// The same for the users' histories.
  package var changesHistory: (_ bytes: [UInt8]) -> [UInt8]? = { $0 }
  /// The same for a message of the streams of what is kept for apps.
  package var changesAppStream: (_ bytes: [UInt8]) -> [UInt8]? = { $0 }
  /// The bytes that a reader of many keys of a bucket gets in place of a value.
  package var changesEntry: ((_ key: String, _ value: [UInt8]) -> [UInt8])?
  /// A read of a key finds nothing.
  package var hidesEntry: (_ bucket: String) -> Bool = { _ in false }

  package init() {}
}
