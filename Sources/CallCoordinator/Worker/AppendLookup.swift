package import CallBus
package import CallCore
internal import CallWire

package typealias LookupResult = AppendMachine.LookupResult

extension LookupResult {
  /// - Parameter records: all that stands behind the record that was expected to be the last, in order.
  package static func evaluate(_ question: Question, behind records: [StoredRecord]) -> LookupResult
  {
    evaluate(
      question,
      behind: records.lazy.map { ($0.sequence, try? ClusterCodec.journalRecord($0.bytes)) })
  }

  /// Reads what stands in the journal, and judges.
  static func read(_ question: Question, shard: Int, in journal: any Journal) async -> LookupResult
  {
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
      return evaluate(question, behind: records)
    } catch {
      return .unreadable("\(error)")
    }
  }
}
