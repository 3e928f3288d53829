import CallCoordinator
import CallCore
import Testing

/// How fast shards are given away.
@Suite struct HandoverThrottleTests {
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
    var handovers = HandoverThrottle(atOnce: atOnce, interval: .milliseconds(interval))
    var begins: [Int64] = []
    var ends: [(at: Int64, shard: Int)] = []
    var most = 0
    for time in Int64(1000)..<2000 {
      while let end = ends.first, end.at <= time {
        ends.removeFirst()
        handovers.parted(end.shard, waitsUntil: nil)
      }
      while handovers.begin(term(begins.count), isLeaving: isLeaving, now: at(time)) {
        ends.append((time + length, begins.count))
        begins.append(time)
      }
      most = max(most, handovers.running)
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

  /// It waits for the earlier of the interval and the hand-over.
  @Test func whoWaitsForItsTurnLooksAgainThen() {
    var handovers = HandoverThrottle(atOnce: 4, interval: .milliseconds(50))
    #expect(handovers.waits(now: at(1000)) == nil)
    #expect(handovers.begin(term(1), isLeaving: false, now: at(1000)) == true)
    #expect(handovers.waits(now: at(1001)) == at(1050))
    #expect(handovers.waits(now: at(1050)) == nil)
    handovers.parted(1, waitsUntil: at(1020))
    #expect(handovers.waits(now: at(1001)) == at(1020))
    handovers.parted(1, waitsUntil: at(1500))
    #expect(handovers.waits(now: at(1001)) == at(1050))
  }

  // MARK: A shard is on its way until it is read back

  /// A node that leaves, and may have one shard on its way, which it has given up.
  private func parted(until: Int64?) -> HandoverThrottle {
    var handovers = HandoverThrottle(atOnce: 1, interval: .milliseconds(50))
    #expect(handovers.begin(term(7, 3), isLeaving: true, now: at(1000)) == true)
    handovers.parted(7, waitsUntil: until.map { at($0) })
    return handovers
  }

  @Test func theNextOneWaitsUntilThisOneIsReadBack() {
    var handovers = parted(until: 1500)
    #expect(handovers.begin(term(8), isLeaving: true, now: at(1100)) == false)
    // Words of former owners and about other shards mean nothing.
    for term in [term(7, 3), term(7, 2), term(6, 9)] { handovers.recovered(term) }
    #expect(handovers.running == 1)
    handovers.recovered(term(7, 4))
    #expect(handovers.begin(term(8), isLeaving: true, now: at(1100)) == true)
    #expect(handovers.running == 1)
  }

  @Test func nobodyToWaitFor() {
    #expect(parted(until: nil).running == 0)
  }

  @Test func whoIsNotHeardIsNotWaitedForForEver() {
    var handovers = parted(until: 1500)
    // The interval is over by then: the hand-over alone is what is waited for.
    #expect(handovers.waits(now: at(1200)) == at(1500))
    handovers.expire(now: at(1499))
    #expect(handovers.running == 1)
    handovers.expire(now: at(1500))
    #expect(handovers.running == 0)
    #expect(handovers.waits(now: at(1500)) == nil)
    // Its word comes late.
    handovers.recovered(term(7, 4))
    #expect(handovers.running == 0)
  }

  /// The next owner's request can overtake the news that the shard was given up.
  @Test func readBackBeforeItIsKnownToHaveParted() {
    var handovers = HandoverThrottle(atOnce: 1, interval: .milliseconds(50))
    #expect(handovers.begin(term(7, 3), isLeaving: true, now: at(1000)) == true)
    handovers.recovered(term(7, 4))
    #expect(handovers.begin(term(8), isLeaving: true, now: at(1001)) == false)
    handovers.expire(now: at(9000))
    #expect(handovers.running == 1)
    handovers.parted(7, waitsUntil: at(1500))
    #expect(handovers.running == 0)
  }

  /// Lost in place of given up, and claimed again by this node: what was is over.
  @Test func oneThatWasLostIsNotWaitedFor() {
    var handovers = HandoverThrottle(atOnce: 1, interval: .milliseconds(50))
    #expect(handovers.begin(term(7, 3), isLeaving: true, now: at(1000)) == true)
    handovers.parted(7, waitsUntil: nil)
    #expect(handovers.begin(term(7, 5), isLeaving: true, now: at(1001)) == true)
    handovers.recovered(term(7, 4))
    handovers.parted(7, waitsUntil: at(1500))
    #expect(handovers.running == 1)
    handovers.recovered(term(7, 6))
    #expect(handovers.running == 0)
  }
}
