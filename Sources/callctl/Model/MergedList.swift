package import CallTelemetry

/// One list from the answers of all coordinators.
package struct MergedList<Entry: ListEntry> {
  /// In order, each entry once.
  package var entries: [Entry]
  /// Entries that are not shown.
  package var leftOut: Int
  /// Shards that no coordinator has searched.
  package var shardsMissing: Int

  /// - Parameter limit: the most entries.
  package init(_ answers: [ListReport<Entry>], limit: Int) {
    entries = []
    // A shard that moves may be searched twice. Then an entry stands beside its twin.
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
}

/// The number of shards of the cluster, from what nodes answer.
struct ShardCount {
  var count: Int

  /// Shards are numbered from 0 to 4095, whatever nodes say.
  static func of(_ answers: [Int]) -> Self { Self(count: min(max(0, answers.max() ?? 0), 4096)) }

  /// How many shards are not among those that were searched.
  func missing(from searched: [Int]) -> Int {
    count - Set(searched).count { (0..<count).contains($0) }
  }
}
