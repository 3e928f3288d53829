import CallCoordinator
import CallCore
import Testing

@Suite struct ShardDeadlinesTests {
  static func at(_ microseconds: Int64) -> Timestamp { Timestamp(microseconds: microseconds) }

  static func due(_ deadlines: ShardDeadlines, _ now: Timestamp) -> [Int] {
    var due: [Int] = []
    deadlines.forEach(until: now) { due.append($0) }
    return due
  }

  @Test(arguments: [1, 2, 3, 5, 64, 100])
  func theyAgreeWithASearch(shardCount: Int) {
    var deadlines = ShardDeadlines(shardCount: shardCount)
    var plain = Array(repeating: Timestamp.distantFuture, count: shardCount)
    var random = SplitMix64(seed: UInt64(shardCount))
    for _ in 0..<2000 {
      let shard = Int.random(in: 0..<shardCount, using: &random)
      let time = Int64.random(in: 0...50, using: &random)
      plain[shard] = time == 50 ? .distantFuture : Self.at(time)
      deadlines[shard] = plain[shard]
      #expect(deadlines.earliest == plain.min())
      #expect(deadlines[shard] == plain[shard])
      let now = Self.at(Int64.random(in: 0...50, using: &random))
      #expect(Self.due(deadlines, now) == plain.indices.filter { plain[$0] <= now })
    }
  }
}
