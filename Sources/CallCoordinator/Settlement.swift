package import CallBus
internal import CallCore
internal import CallWire

/// What became of an append whose answer was lost, judged by the journal's end.
package enum Settlement: Sendable, Equatable {
  /// The last record is the one that was appended.
  case ours(sequence: UInt64)
  /// Nothing came behind the record that was expected to be the last.
  case unchanged
  /// Another record stands there: the shard has another owner.
  case foreign
  /// The journal could not be read now.
  case unreadable(String)

  /// - Parameters:
  ///   - last: the shard's last record, as read after the append had failed.
  ///   - expecting: what the append expected to follow.
  ///   - writer: with epoch and number what tells the writer's own record from all others.
  package static func judge(
    last: StoredRecord?, expecting: UInt64, writer: String, epoch: UInt64, number: UInt64
  ) -> Settlement {
    guard let last else { return expecting == 0 ? .unchanged : .foreign }
    if last.sequence == expecting { return .unchanged }
    // A replica that lags shows an older end than the one that is known.
    if last.sequence < expecting { return .unreadable("the journal's end is not up to date") }
    guard let record = try? ClusterCodec.journalRecord(last.bytes), record.writer == writer,
      record.epoch == epoch, record.number == number
    else { return .foreign }
    return .ours(sequence: last.sequence)
  }
}
