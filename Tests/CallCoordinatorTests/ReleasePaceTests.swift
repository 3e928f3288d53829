import CallCoordinator
import CallCore
import Testing

/// How fast shards are given away.
@Suite struct ReleasePaceTests {
  private func at(_ milliseconds: Int64) -> Timestamp {
    Timestamp(microseconds: milliseconds * 1000)
  }

  private func term(_ shard: Int, _ epoch: UInt64 = 1) -> ShardTerm {
    ShardTerm(shard: shard, epoch: epoch)
  }

  /// Hand-overs that take `length` each, asked for at every millisecond of a second: when each begins.
  private func run(
    atOnce: Int, interval: Int64, length: Int64, isLeaving: Bool
  ) -> (begins: [Int64], most: Int) {
    var pace = ReleasePace(atOnce: atOnce, interval: .milliseconds(interval))
    var begins: [Int64] = []
    var ends: [(at: Int64, shard: Int)] = []
    var most = 0
    for time in Int64(1000)..<2000 {
      while let end = ends.first, end.at <= time {
        ends.removeFirst()
        pace.parted(end.shard, waitsUntil: nil)
      }
      while pace.begin(term(begins.count), isLeaving: isLeaving, now: at(time)) {
        ends.append((time + length, begins.count))
        begins.append(time)
      }
      most = max(most, pace.running)
    }
    return (begins, most)
  }

  @Test func oneThatStaysGivesOneShardPerInterval() {
    let (begins, most) = run(atOnce: 4, interval: 50, length: 10, isLeaving: false)
    #expect(begins == (0..<20).map { 1000 + 50 * $0 })
    #expect(most == 1)
  }

  @Test func soManyAtATimeWhereOneTakesLong() {
    let (begins, most) = run(atOnce: 4, interval: 50, length: 400, isLeaving: false)
    #expect(most == 4)
    #expect(zip(begins, begins.dropFirst()).allSatisfy { $1 - $0 >= 50 })
    #expect(begins.count <= 4 * 3)
  }

  @Test func oneThatLeavesKeepsTheNumberOnly() {
    let (begins, most) = run(atOnce: 4, interval: 50, length: 100, isLeaving: true)
    #expect(most == 4)
    #expect(begins.count == 40)
  }

  @Test func whoWaitsForItsTurnLooksAgainThen() {
    var pace = ReleasePace(atOnce: 4, interval: .milliseconds(50))
    #expect(pace.waits(now: at(1000)) == nil)
    let begins = pace.begin(term(1), isLeaving: false, now: at(1000))
    #expect(begins)
    #expect(pace.waits(now: at(1001)) == at(1050))
    #expect(pace.waits(now: at(1050)) == nil)
  }

  // MARK: A shard is on its way until it is read back

  /// A node that leaves, and may have one shard on its way, which it has given up.
  private func parted(until: Int64?) -> ReleasePace {
    var pace = ReleasePace(atOnce: 1, interval: .milliseconds(50))
    let begins = pace.begin(term(7, 3), isLeaving: true, now: at(1000))
    #expect(begins)
    pace.parted(7, waitsUntil: until.map { at($0) })
    return pace
  }

  @Test func theNextOneWaitsUntilThisOneIsReadBack() {
    var pace = parted(until: 1500)
    let early = pace.begin(term(8), isLeaving: true, now: at(1100))
    #expect(!early && pace.running == 1)
    pace.readBack(term(7, 4))
    let then = pace.begin(term(8), isLeaving: true, now: at(1100))
    #expect(then && pace.running == 1)
  }

  @Test func wordsOfFormerOwnersAndOtherShardsMeanNothing() {
    var pace = parted(until: 1500)
    pace.readBack(term(7, 3))
    pace.readBack(term(7, 2))
    pace.readBack(term(6, 9))
    #expect(pace.running == 1)
  }

  @Test func nobodyToWaitFor() {
    #expect(parted(until: nil).running == 0)
  }

  @Test func whoIsNotHeardIsNotWaitedForForEver() {
    var pace = parted(until: 1500)
    // The interval is over by then: the hand-over alone is what is waited for.
    #expect(pace.waits(now: at(1200)) == at(1500))
    pace.expire(now: at(1499))
    #expect(pace.running == 1)
    pace.expire(now: at(1500))
    #expect(pace.running == 0)
    #expect(pace.waits(now: at(1500)) == nil)
    // Its word comes late.
    pace.readBack(term(7, 4))
    #expect(pace.running == 0)
  }

  @Test func theEarlierOfIntervalAndHandOver() {
    var pace = ReleasePace(atOnce: 4, interval: .milliseconds(50))
    let first = pace.begin(term(1), isLeaving: false, now: at(1000))
    #expect(first)
    pace.parted(1, waitsUntil: at(1020))
    #expect(pace.waits(now: at(1001)) == at(1020))
    pace.parted(1, waitsUntil: at(1500))
    #expect(pace.waits(now: at(1001)) == at(1050))
  }

  /// The next owner's request can overtake the news that the shard was given up.
  @Test func readBackBeforeItIsKnownToHaveParted() {
    var pace = ReleasePace(atOnce: 1, interval: .milliseconds(50))
    let begins = pace.begin(term(7, 3), isLeaving: true, now: at(1000))
    #expect(begins)
    pace.readBack(term(7, 4))
    let early = pace.begin(term(8), isLeaving: true, now: at(1001))
    #expect(!early)
    pace.expire(now: at(9000))
    #expect(pace.running == 1)
    pace.parted(7, waitsUntil: at(1500))
    #expect(pace.running == 0)
  }

  /// Lost in place of given up, and claimed again by this node: what was is over.
  @Test func oneThatWasLostIsNotWaitedFor() {
    var pace = ReleasePace(atOnce: 1, interval: .milliseconds(50))
    let first = pace.begin(term(7, 3), isLeaving: true, now: at(1000))
    pace.parted(7, waitsUntil: nil)
    let again = pace.begin(term(7, 5), isLeaving: true, now: at(1001))
    #expect(first && again)
    pace.readBack(term(7, 4))
    pace.parted(7, waitsUntil: at(1500))
    #expect(pace.running == 1)
    pace.readBack(term(7, 6))
    #expect(pace.running == 0)
  }
}
