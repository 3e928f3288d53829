package import CallBus
internal import CallCore
internal import CallWire

/// What became of an append whose answer was lost, or does not prove enough, judged by what stands in
/// the journal behind the record that was expected to be the last.
package enum Settlement: Sendable, Equatable {
  /// The record counts. `end`: the journal's last record.
  case ours(sequence: UInt64, end: UInt64)
  /// Nothing that counts came behind the record that it is to follow.
  case unchanged(end: UInt64)
  /// Another record counts in its place: the shard has another owner.
  case foreign
  /// The journal could not be read now.
  case unreadable(String)

  /// The append in question.
  package struct Question: Sendable, Equatable {
    /// Of the record that it names as the last that counts.
    package var follows: UInt64
    /// What it expected to be the journal's last record.
    package var expecting: UInt64
    /// With epoch and number what tells the writer's own record from all others.
    package var writer: String
    package var epoch: UInt64
    package var number: UInt64

    package init(
      follows: UInt64, expecting: UInt64, writer: String, epoch: UInt64, number: UInt64
    ) {
      self.follows = follows
      self.expecting = expecting
      self.writer = writer
      self.epoch = epoch
      self.number = number
    }

    func isAnsweredBy(_ record: JournalRecord) -> Bool {
      record.writer == writer && record.epoch == epoch && record.number == number
    }
  }

  /// - Parameter records: all that stands behind `expecting`, in order.
  package static func judge(_ question: Question, behind records: [StoredRecord]) -> Settlement {
    let end = records.last?.sequence ?? question.expecting
    var chain = JournalChain(position: question.follows, end: question.expecting)
    for stored in records {
      guard let record = try? ClusterCodec.journalRecord(stored.bytes) else { return .foreign }
      switch chain.take(stored.sequence, follows: record.follows) {
      case .void: continue
      case .gap: return .foreign
      case .counts:
        return question.isAnsweredBy(record) ? .ours(sequence: stored.sequence, end: end) : .foreign
      }
    }
    return .unchanged(end: end)
  }

  /// Reads what stands in the journal, and judges.
  static func look(_ question: Question, shard: Int, in journal: any Journal) async -> Settlement {
    do {
      let last = try await journal.last(shard: shard)?.sequence ?? 0
      if last == 0, question.expecting > 0 { return .foreign }
      // A leader that was cut off shows an older end than the one that is known.
      if last < question.expecting { return .unreadable("the journal's end is not up to date") }
      var records: [StoredRecord] = []
      while records.last?.sequence ?? question.expecting < last {
        let next = try await journal.records(
          shard: shard, from: (records.last?.sequence ?? question.expecting) + 1, limit: 64)
        if next.isEmpty { return .unreadable("the journal's end is not up to date") }
        records += next
        // So many can only be another owner's.
        if records.count > 10_000 { return .foreign }
      }
      return judge(question, behind: records)
    } catch {
      return .unreadable("\(error)")
    }
  }
}
