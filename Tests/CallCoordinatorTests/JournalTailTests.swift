import CallCoordinator
import CallCore
import Testing

/// When a checkpoint is due.
@Suite struct JournalTailTests {
  private let most = JournalTail.Most(records: 10, bytes: 1000, age: .seconds(60))
  private func at(_ seconds: Int64) -> Timestamp { Timestamp(microseconds: seconds * 1_000_000) }
  private let now = Timestamp(microseconds: 0)

  @Test func nothingIsNeverDue() {
    #expect(JournalTail().due(most) == .distantFuture)
  }

  @Test func byAge() {
    var tail = JournalTail()
    tail.add(bytes: 1, at: at(100))
    tail.add(bytes: 1, at: at(130))
    #expect(tail.due(most) == at(160), "the oldest counts")
  }

  @Test func byRecords() {
    var tail = JournalTail()
    for _ in 0..<9 { tail.add(bytes: 1, at: at(100)) }
    #expect(tail.due(most) == at(160))
    tail.add(bytes: 1, at: at(100))
    #expect(tail.due(most) == now)
  }

  @Test func byBytes() {
    var tail = JournalTail()
    tail.add(bytes: 999, at: at(100))
    #expect(tail.due(most) == at(160))
    tail.add(bytes: 1, at: at(100))
    #expect(tail.due(most) == now)
  }

  @Test func whatWasGivenUpIsNotToBeMetAgain() {
    var tail = JournalTail()
    tail.isUnwanted = true
    #expect(tail.due(most) == now)
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

/// How fast shards are given away.
@Suite struct ReleasePaceTests {
  private func at(_ milliseconds: Int64) -> Timestamp {
    Timestamp(microseconds: milliseconds * 1000)
  }

  /// Releases that take `length` each, asked for at every millisecond of a second: when each begins.
  private func run(
    atOnce: Int, interval: Int64, length: Int64, isLeaving: Bool
  ) -> (begins: [Int64], most: Int) {
    var pace = ReleasePace(atOnce: atOnce, interval: .milliseconds(interval))
    var begins: [Int64] = []
    var ends: [Int64] = []
    var most = 0
    for time in Int64(1000)..<2000 {
      while let end = ends.first, end <= time {
        ends.removeFirst()
        pace.ended()
      }
      while pace.begin(isLeaving: isLeaving, now: at(time)) {
        begins.append(time)
        ends.append(time + length)
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
    let begins = pace.begin(isLeaving: false, now: at(1000))
    #expect(begins)
    #expect(pace.waits(now: at(1001)) == at(1050))
    #expect(pace.waits(now: at(1050)) == nil)
  }
}
