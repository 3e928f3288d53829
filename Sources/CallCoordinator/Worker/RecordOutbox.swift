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
  /// - Parameter record: nil where none is wanted any more.
  package mutating func next(now: Timestamp, record: (ShardCall) -> CallRecord?) -> Message? {
    var records: [CallRecord] = []
    return next(
      now: now,
      collect: { item in
        guard let record = record(item) else { return nil }
        records.append(record)
        return record.approximateBytes
      }, encode: { ClusterCodec.encode(records) })
  }
}

extension Party {
  /// About how many bytes it has in a message.
  var approximateBytes: Int {
    16 + user.utf8.count + device.text.utf8.count + deviceName.utf8.count + name.utf8.count
  }
}

extension CallRecord {
  /// About how many it has in a message.
  fileprivate var approximateBytes: Int {
    let ends = [caller, answer?.by, end?.by].compactMap(\.self).reduce(0) {
      $0 + $1.approximateBytes
    }
    return 128 + callee.app.utf8.count + callee.user.utf8.count + ends
      + legs.reduce(0) { $0 + 48 + $1.party.approximateBytes }
      + events.reduce(0) { $0 + 16 + $1.reason.utf8.count }
  }
}
