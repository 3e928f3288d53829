internal import CallBus
package import CallCore
internal import CallWire

/// The ended calls of a worker's shards whose records are to be stored.
package typealias RecordOutbox = StreamOutbox<ShardCall>

/// A call of a shard that a worker owns.
package struct ShardCall: Sendable, Hashable {
  package var term: ShardTerm
  package var call: CallID
  package init(term: ShardTerm, call: CallID) {
    self.term = term
    self.call = call
  }
}

extension StreamOutbox where Element == ShardCall {
  package typealias Item = ShardCall

  /// How long the first record waits for others.
  package static var delay: Span { .milliseconds(250) }

  package init() { self.init(delay: Self.delay) }

  /// The message that is due, to be sent now; nil where none is.
  /// - Parameter record: returns the record of a call; nil where none is wanted.
  package mutating func next(now: Timestamp, record: (ShardCall) -> CallRecord?) -> Message? {
    next(now: now) { item in record(item).map { ClusterCodec.encode([$0]) } }
  }
}
