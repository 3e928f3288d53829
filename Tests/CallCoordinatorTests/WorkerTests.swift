import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

@Suite struct WorkerTests {
  @Test func nothingLeavesBeforeTheJournalHasIt() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      bench.journal.hold()
      bench.query(1, shard: 0)
      try await eventually("the append waits") { bench.journal.waiting == 1 }
      try await bench.flush()
      #expect(!bench.isAnswered(1))
      bench.journal.letGo()
      try await eventually("the reply") { bench.isAnswered(1) }
    }
  }

  @Test func commandsDuringAnAppendShareTheNext() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      bench.journal.hold()
      bench.query(1, shard: 0)
      try await eventually("the first append waits") { bench.journal.waiting == 1 }
      let before = bench.metrics.commands.value
      for request in 2...50 { bench.query(UInt64(request), shard: 0) }
      try await eventually("all are decided") { bench.metrics.commands.value == before + 49 }
      let appends = bench.journal.records.count
      bench.journal.letGo()
      try await eventually("all replies") { (1...50).allSatisfy { bench.isAnswered($0) } }
      #expect(bench.journal.records.count == appends + 1)
    }
  }

  @Test func aRefusedAppendSilencesTheShard() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0)
      try await bench.adopt(1)
      bench.bus.setFaults { $0.onAppend = { shard, _ in shard == 0 ? .refuse : nil } }
      bench.query(1, shard: 0)
      try await eventually("it steps down") { bench.steppedDown == [term] }
      bench.query(2, shard: 0)
      bench.query(3, shard: 1)
      try await eventually("the other shard serves on") { bench.isAnswered(3) }
      try await bench.flush()
      #expect(!bench.isAnswered(1))
      #expect(!bench.isAnswered(2))
      #expect(bench.metrics.appendsRefused.value == 1)
      #expect(bench.metrics.heldBack.value == 0)
      #expect(bench.metrics.shards.value == 1)
    }
  }

  /// The journal has it, only the answer was lost.
  @Test func aLostAnswerOfAStoredAppendIsSettledAsOurs() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let once = Once()
      bench.bus.setFaults { $0.onAppend = { _, _ in once.first() ? .unknown(stored: true) : nil } }
      let appends = bench.journal.records.count
      bench.query(1, shard: 0)
      try await eventually("the reply") { bench.isAnswered(1) }
      #expect(bench.journal.records.count == appends + 1)
      #expect(bench.metrics.appendsUnknown.value == 1)
      // And it goes on behind that record.
      bench.query(2, shard: 0)
      try await eventually("the next reply") { bench.isAnswered(2) }
    }
  }

  /// It never arrived: the same record is appended again.
  @Test func aLostAppendIsRepeated() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let once = Once()
      bench.bus.setFaults {
        $0.onAppend = { _, _ in once.first() ? .unknown(stored: false) : nil }
      }
      let appends = bench.journal.records.count
      bench.query(1, shard: 0)
      try await eventually("the reply") { bench.isAnswered(1) }
      let records = bench.journal.records.suffix(2)
      #expect(bench.journal.records.count == appends + 2)
      #expect(records.first == records.last)
    }
  }

  /// Meanwhile somebody else wrote.
  @Test func aLostAppendBehindWhichAnotherWroteSilencesTheShard() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0)
      bench.query(1, shard: 0)
      try await eventually("the first reply") { bench.isAnswered(1) }
      let end = try await bench.journal.last(shard: 0)?.sequence ?? 0
      let fence = ClusterCodec.encode(
        JournalRecord(
          epoch: 2, number: 0, writer: "other", at: bench.clock.now(), entries: []))
      // The other's record slips in before the answer is known to be lost.
      let journal = bench.journal.inner
      let once = Once()
      bench.bus.setFaults { faults in
        faults.onAppend = { _, _ in
          guard once.first() else { return nil }
          journal.append(shard: 0, expecting: end, fence) { _ in }
          return .unknown(stored: false)
        }
      }
      bench.query(2, shard: 0)
      try await eventually("it steps down") { bench.steppedDown == [term] }
      try await bench.flush()
      #expect(!bench.isAnswered(2))
    }
  }

  /// A replicated store took two records that expected the same, and acknowledged both. The other's
  /// stands first: ours does not count, whatever was acknowledged.
  @Test func anAcknowledgedAppendBehindAnothersSilencesTheShard() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0)
      bench.query(1, shard: 0)
      try await eventually("the first reply") { bench.isAnswered(1) }
      let fence = try await SilenceTests.fence(bench)
      let once = Once()
      bench.bus.setFaults { faults in
        faults.takesRacingAppends = true
        faults.onAppend = { _, _ in once.first() ? .race(before: fence) : nil }
      }
      bench.query(2, shard: 0)
      try await eventually("it steps down") { bench.steppedDown == [term] }
      try await bench.flush()
      #expect(!bench.isAnswered(2))
      #expect(bench.metrics.appendsRefused.value == 1)
    }
  }

  /// An earlier attempt that was taken for lost came after all, beside its repetition.
  @Test func aRecordThatIsStoredTwiceCountsOnce() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      bench.bus.setFaults { faults in
        faults.takesRacingAppends = true
        faults.onAppend = { _, bytes in .race(before: bytes) }
      }
      for request in UInt64(1)...5 {
        bench.query(request, shard: 0)
        try await eventually("the reply") { bench.isAnswered(request) }
      }
      #expect(bench.steppedDown.isEmpty)
    }
  }

  /// The first attempt arrives late: its repetition is refused, which must not be taken for a loss.
  @Test func aRepeatedAppendThatIsRefusedIsLookedAtAgain() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let count = Mutex(0)
      bench.bus.setFaults { faults in
        faults.onAppend = { _, _ in
          let attempt = count.withLock { count in
            count += 1
            return count
          }
          switch attempt {
          case 1: return .unknown(stored: false)
          case 2: return .unknown(stored: true)
          case 3: return .refuse
          default: return nil
          }
        }
      }
      bench.query(1, shard: 0)
      try await eventually("the reply") { bench.isAnswered(1) }
      #expect(bench.steppedDown.isEmpty)
    }
  }

  @Test func aRecordThatTheJournalNeverTakesEndsTheTerm() async throws {
    try await WorkerBench({ $0.appendAttemptsMax = 3 }).run { bench in
      let term = try await bench.adopt(0)
      bench.bus.setFaults { $0.onAppend = { _, _ in .unknown(stored: false) } }
      bench.query(1, shard: 0)
      try await eventually("it steps down") { bench.steppedDown == [term] }
      #expect(!bench.isAnswered(1))
    }
  }
}

/// True the first time.
final class Once: Sendable {
  private let used = Mutex(false)
  func first() -> Bool {
    used.withLock { used in
      defer { used = true }
      return !used
    }
  }
}
