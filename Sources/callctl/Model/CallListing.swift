internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import Synchronization

/// Collects the rows of `callctl calls`: from the stream of records, and from the shards.
struct CallListing {
  let questions: ClusterQuestions
  let filter: CallFilter
  let limit: Int
  private(set) var rows = CallRows()
  /// The sequence behind the records that were read.
  private(set) var next: UInt64 = 1

  init(questions: ClusterQuestions, filter: CallFilter, limit: Int) {
    self.questions = questions
    self.filter = filter
    self.limit = limit
  }

  /// Adds records, the newest first, until there are enough.
  mutating func addRecords() async throws {
    let progress = Progress("Reading call records")
    let stream = try await questions.records()
    var reader = RecordReader(stream) { progress.report($0, of: $1, "messages") }
    let (filter, limit) = (filter, limit)
    var rows = rows
    next = try await questions.reading {
      let end = try await reader.end()
      try await reader.backwards { records, storedAt in
        if let since = filter.since, storedAt + RecordReader.skew < since { return false }
        if rows.count >= limit {
          // A call's first record stands before its repetitions, and behind its end.
          guard let earliest = rows.earliestEnd, storedAt + RecordReader.skew >= earliest else {
            return false
          }
        }
        for record in records.reversed() where filter.matches(record) { rows.add(CallRow(record)) }
        return true
      }
      return end
    }
    self.rows = rows
    if reader.unreadable > 0 {
      writeToStandardError(
        "callctl: \(Figures.counted(reader.unreadable, "record")) of a later version left out.\n")
    }
  }

  /// Adds what the shards know, where there is no record.
  mutating func addKnown(live: Bool, ended: Bool) async throws {
    let query = ListQuery(
      app: filter.app, user: filter.user, live: live, limit: min(limit, ListQuery.limitMax))
    let list: ListView<ListedCall>
    do {
      list = ListView(try await questions.calls(query), limit: limit)
    } catch let error as CallctlError where !live && rows.count > 0 {
      return writeToStandardError("callctl: only records are listed: \(error.description)\n")
    }
    if list.shardsMissing > 0 {
      let shards = Figures.counted(list.shardsMissing, "shard")
      writeToStandardError("callctl: no coordinator answered for \(shards): see callctl status.\n")
    }
    // Which users a live call rings is not in the list: coordinators have compared them.
    var filter = filter
    filter.user = nil
    for call in list.entries {
      guard let row = CallRow(call), filter.matches(row.record),
        !ended || row.record.end != nil
      else { continue }
      rows.addKnown(row)
    }
  }
}

/// Says how far something is that takes longer than two seconds, on standard error.
final class Progress: Sendable {
  private let what: String
  private let last = Mutex(ContinuousClock.now)

  init(_ what: String) { self.what = what }

  func report(_ done: UInt64, of all: UInt64, _ unit: String) {
    let now = ContinuousClock.now
    let isDue = last.withLock { last in
      guard now - last >= .seconds(2) else { return false }
      last = now
      return true
    }
    if isDue { writeToStandardError("callctl: \(what): \(done) of \(all) \(unit)\n") }
  }
}
