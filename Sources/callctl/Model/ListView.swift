package import CallTelemetry

/// One list from the answers of all coordinators, as `callctl users` and `callctl calls` print it.
package struct ListView<Entry: ListEntry> {
  /// In order, each entry once.
  package var entries: [Entry]
  /// Entries that are not shown.
  package var leftOut: Int
  /// Shards that no coordinator has searched.
  package var shardsMissing: Int
  /// In milliseconds since 1970; the ages of calls count up to it.
  var now: Int64

  /// - Parameter limit: the most entries.
  package init(
    _ answers: [ListReport<Entry>], limit: Int, now: Int64 = CalendarTime.nowMilliseconds()
  ) {
    self.now = now
    entries = []
    // A shard that moves may be searched twice. Then an entry is next to its duplicate.
    for entry in answers.flatMap(\.entries).sorted(by: { $0.precedes($1) })
    where entries.last.map({ $0.precedes(entry) }) ?? true {
      entries.append(entry)
    }
    leftOut = max(0, entries.count - limit)
    entries.removeLast(leftOut)
    for answer in answers { leftOut.add(max(0, answer.leftOut)) }
    shardsMissing = ShardCount.of(answers.map(\.shardCount)).missing(
      from: answers.flatMap(\.shards))
  }

  /// The time since a call was placed, in whole seconds; 0 where the clocks of two machines differ.
  func age(of call: ListedCall) -> Int64 {
    let (age, overflows) = now.subtractingReportingOverflow(call.placedAtMilliseconds)
    return overflows ? 0 : max(0, age / 1000)
  }
}

/// The JSON for scripts: names are stable.
extension ListView: Encodable {
  private enum Key: CodingKey { case users, calls, leftOut, shardsMissing, ageSeconds }

  package func encode(to encoder: any Encoder) throws {
    var members = encoder.container(keyedBy: Key.self)
    try members.encode(leftOut, forKey: .leftOut)
    try members.encode(shardsMissing, forKey: .shardsMissing)
    var list = members.nestedUnkeyedContainer(
      forKey: Entry.self == ListedCall.self ? .calls : .users)
    for entry in entries {
      let object = list.superEncoder()
      try entry.encode(to: object)
      if let call = entry as? ListedCall {
        var further = object.container(keyedBy: Key.self)
        try further.encode(age(of: call), forKey: .ageSeconds)
      }
    }
  }
}

/// The number of shards of the cluster, from the nodes' answers.
struct ShardCount {
  var count: Int

  /// Shards are numbered from 0 to 4095, whatever nodes answer.
  static func of(_ answers: [Int]) -> Self { Self(count: min(max(0, answers.max() ?? 0), 4096)) }

  /// The number of shards that are not among those that were searched.
  func missing(from searched: [Int]) -> Int {
    count - Set(searched).count { (0..<count).contains($0) }
  }
}
