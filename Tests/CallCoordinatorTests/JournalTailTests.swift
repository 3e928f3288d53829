import CallCoordinator
import CallCore
import Testing

/// When a checkpoint is due.
@Suite struct JournalTailTests {
  private let policy = CheckpointPolicy(records: 10, bytes: 1000, age: .seconds(60))
  private func at(_ seconds: Int64) -> Timestamp { Timestamp(microseconds: seconds * 1_000_000) }
  private let now = Timestamp(microseconds: 0)

  @Test func nothingIsNeverDue() {
    #expect(JournalTail().due(policy) == .distantFuture)
  }

  @Test func byAge() {
    var tail = JournalTail()
    tail.add(bytes: 1, at: at(100))
    tail.add(bytes: 1, at: at(130))
    #expect(tail.due(policy) == at(160), "the oldest counts")
  }

  @Test func byRecords() {
    var tail = JournalTail()
    for _ in 0..<9 { tail.add(bytes: 1, at: at(100)) }
    #expect(tail.due(policy) == at(160))
    tail.add(bytes: 1, at: at(100))
    #expect(tail.due(policy) == now)
  }

  @Test func byBytes() {
    var tail = JournalTail()
    tail.add(bytes: 999, at: at(100))
    #expect(tail.due(policy) == at(160))
    tail.add(bytes: 1, at: at(100))
    #expect(tail.due(policy) == now)
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
