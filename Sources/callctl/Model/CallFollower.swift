package import CallBus
internal import CallCore

/// The calls that end after a list was printed, each once, in the order in which their records are stored.
package struct CallFollower: Sendable {
  private let filter: CallFilter
  private var reader: RecordReader
  /// The sequence from which to read on.
  private var next: UInt64
  private var seen = RecentCalls()

  /// - Parameters:
  ///   - first: the sequence behind the records that were read for the list.
  ///   - shown: the list. A repeated record of one of them is left out.
  package init(
    _ stream: any RecordStream, from first: UInt64, filter: CallFilter, shown: [CallRow]
  ) {
    self.filter = filter
    reader = RecordReader(stream)
    next = first
    for row in shown { _ = seen.isNew(CallKey(row.record)) }
  }

  /// - Returns: further calls, and whether there may be more to read at once.
  /// - Throws: `BusError`.
  package mutating func further() async throws -> (rows: [CallRow], isBehind: Bool) {
    let (records, behind) = try await reader.forwards(from: next)
    defer { next = behind }
    var rows: [CallRow] = []
    for record in records where filter.matches(record) && seen.isNew(CallKey(record)) {
      rows.append(CallRow(record))
    }
    return (rows, next != behind)
  }
}
