import CallCoordinator
import CallCore
import Testing

/// When a checkpoint is due.
@Suite struct JournalTailTests {
  private let policy = CheckpointPolicy(records: 10, bytes: 1000, age: .seconds(60))
  private func at(_ seconds: Int64) -> Timestamp { Timestamp(microseconds: seconds * 1_000_000) }
  private let now = Timestamp(microseconds: 0)

  private func tail(_ records: [(bytes: Int, at: Int64)]) -> JournalTail {
    var tail = JournalTail()
    for record in records { tail.add(bytes: record.bytes, at: at(record.at)) }
    return tail
  }

  @Test func byAgeRecordsOrBytes() {
    #expect(JournalTail().due(policy) == .distantFuture)
    #expect(tail([(1, 100), (1, 130)]).due(policy) == at(160), "the oldest counts")
    let record = (bytes: 1, at: Int64(100))
    #expect(tail(Array(repeating: record, count: 9)).due(policy) == at(160))
    #expect(tail(Array(repeating: record, count: 10)).due(policy) == now)
    #expect(tail([(999, 100)]).due(policy) == at(160))
    #expect(tail([(999, 100), record]).due(policy) == now)
  }

  @Test func whatWasGivenUpIsNotToBeMetAgain() {
    var tail = JournalTail()
    tail.needsCheckpoint = true
    #expect(tail.due(policy) == now)
  }

  @Test func whatCouldNotBeCutOffCountsAgain() {
    var former = JournalTail()
    former.add(records: 6, bytes: 10, at: at(100))
    var tail = JournalTail()
    tail.add(records: 3, bytes: 10, at: at(150))
    tail.prepend(former)
    #expect(tail.records == 9 && tail.bytes == 20 && tail.since == at(100))
    tail.prepend(JournalTail())
    #expect(tail.records == 9 && tail.since == at(100))
  }
}

@Suite struct ShardDeadlinesTests {
  static func at(_ microseconds: Int64) -> Timestamp { Timestamp(microseconds: microseconds) }

  static func due(_ deadlines: ShardDeadlines, _ now: Timestamp) -> [Int] {
    var due: [Int] = []
    deadlines.forEach(until: now) { due.append($0) }
    return due
  }

  @Test(arguments: [1, 2, 3, 5, 64, 100]) func theyAgreeWithASearch(shardCount: Int) {
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
