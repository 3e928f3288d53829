import CallCore
import Testing

/// Decide, append, then speak.
@Suite struct PipelineTests {
  static let now = Timestamp(microseconds: 1_000_000)
  static let session = SessionRef(edge: 1, number: 1)

  static func outcome(_ request: UInt64, _ urgency: Outcome.Urgency = .urgent) -> Outcome {
    var outcome = Outcome()
    outcome.entries = [JournalEntry(call: CallID(high: 0, low: request), change: .settled)]
    outcome.effects = [.reply(session, request: request, .done)]
    outcome.raise(to: urgency)
    return outcome
  }

  static func requests(_ effects: [Effect]) -> [UInt64] {
    effects.compactMap { if case .reply(_, let request, _) = $0 { request } else { nil } }
  }

  @Test func nothingLeavesBeforeTheAppend() {
    var pipeline = CommitPipeline(epoch: 3, writer: "n1", lastSequence: 40)
    var outcome = Self.outcome(1)
    pipeline.add(&outcome, now: Self.now, lazyAppend: .milliseconds(5))
    #expect(outcome.isEmpty)
    let record = pipeline.nextAppend(now: Self.now)
    #expect(record?.epoch == 3)
    #expect(record?.number == 1)
    #expect(record?.writer == "n1")
    #expect(record?.entries.count == 1)
    #expect(pipeline.lastSequence == 40)
    var released: [Effect] = []
    pipeline.appended(sequence: 41, releasing: &released)
    #expect(Self.requests(released) == [1])
    #expect(pipeline.lastSequence == 41)
  }

  @Test func oneAppendAtATimeAndGroupCommit() {
    var pipeline = CommitPipeline(epoch: 1, writer: "n1", lastSequence: 0)
    var outcome = Self.outcome(1)
    pipeline.add(&outcome, now: Self.now, lazyAppend: .milliseconds(5))
    #expect(pipeline.nextAppend(now: Self.now) != nil)
    for request in 2...4 {
      var outcome = Self.outcome(UInt64(request))
      pipeline.add(&outcome, now: Self.now, lazyAppend: .milliseconds(5))
      #expect(pipeline.nextAppend(now: Self.now) == nil)
    }
    #expect(pipeline.nextDeadline == .distantFuture)
    var released: [Effect] = []
    pipeline.appended(sequence: 1, releasing: &released)
    #expect(Self.requests(released) == [1], "what was decided during the flight waits for its own")
    let record = pipeline.nextAppend(now: Self.now)
    #expect(record?.entries.count == 3)
    #expect(record?.number == 2)
    pipeline.appended(sequence: 2, releasing: &released)
    #expect(Self.requests(released) == [1, 2, 3, 4])
    #expect(pipeline.waiting == 0)
  }

  /// The limits stand before the decision: what is decided is kept, also beyond them.
  @Test func aFullPipelineKeepsWhatWasDecided() {
    let limits = CommitPipeline.Limits(effectsMax: 3, entryBytesMax: 1_000_000)
    var pipeline = CommitPipeline(epoch: 1, writer: "n1", lastSequence: 0, limits: limits)
    for request in 1...4 {
      #expect(pipeline.isFull == (request > 3))
      var outcome = Self.outcome(UInt64(request))
      pipeline.add(&outcome, now: Self.now, lazyAppend: .milliseconds(5))
    }
    #expect(pipeline.nextAppend(now: Self.now)?.entries.count == 4)
    #expect(pipeline.isFull, "what is in flight counts")
    var released: [Effect] = []
    pipeline.appended(sequence: 1, releasing: &released)
    #expect(Self.requests(released) == [1, 2, 3, 4])
    #expect(!pipeline.isFull && pipeline.waitingBytes == 0)
  }

  @Test func entriesFillItByTheirBytes() {
    let limits = CommitPipeline.Limits(effectsMax: 1000, entryBytesMax: 300)
    var pipeline = CommitPipeline(epoch: 1, writer: "n1", lastSequence: 0, limits: limits)
    var sequence: UInt64 = 0
    for round in 1...3 {
      while !pipeline.isFull {
        var outcome = Self.outcome(UInt64(round))
        pipeline.add(&outcome, now: Self.now, lazyAppend: .milliseconds(5))
      }
      #expect(pipeline.waitingBytes == 384)
      #expect(pipeline.nextAppend(now: Self.now) != nil)
      sequence += 1
      var released: [Effect] = []
      pipeline.appended(sequence: sequence, releasing: &released)
      #expect(pipeline.waitingBytes == 0)
    }
  }

  @Test func effectsWithoutFactsNeedAFence() {
    var pipeline = CommitPipeline(epoch: 1, writer: "n1", lastSequence: 0)
    var outcome = Outcome()
    outcome.effects = [.reply(Self.session, request: 1, .done)]
    outcome.raise(to: .urgent)
    pipeline.add(&outcome, now: Self.now, lazyAppend: .milliseconds(5))
    let record = pipeline.nextAppend(now: Self.now)
    #expect(record?.entries.isEmpty == true)
  }

  @Test func lazyFactsWaitForCompany() {
    var pipeline = CommitPipeline(epoch: 1, writer: "n1", lastSequence: 0)
    var lazy = Self.outcome(1, .lazy)
    pipeline.add(&lazy, now: Self.now, lazyAppend: .milliseconds(5))
    #expect(pipeline.nextAppend(now: Self.now) == nil)
    #expect(pipeline.nextDeadline == Self.now + .milliseconds(5))
    var urgent = Self.outcome(2)
    pipeline.add(&urgent, now: Self.now + .milliseconds(1), lazyAppend: .milliseconds(5))
    #expect(pipeline.nextAppend(now: Self.now + .milliseconds(1))?.entries.count == 2)
    var idle = Self.outcome(3, .idle)
    pipeline.add(&idle, now: Self.now, lazyAppend: .milliseconds(5))
    var released: [Effect] = []
    pipeline.appended(sequence: 1, releasing: &released)
    #expect(pipeline.nextDeadline == Self.now + .seconds(1))
  }

  @Test func whatMayWaitWaitsForATickThatShardsShare() {
    func due(_ urgency: Outcome.Urgency, after microseconds: Int64) -> Int64 {
      var pipeline = CommitPipeline(epoch: 1, writer: "n1", lastSequence: 0)
      var outcome = Self.outcome(1, urgency)
      let now = Timestamp(microseconds: 1_000_000 + microseconds)
      pipeline.add(&outcome, now: now, lazyAppend: .milliseconds(5))
      return pipeline.nextDeadline.microseconds - 1_000_000
    }
    #expect(due(.lazy, after: 1) == 5_000)
    #expect(due(.lazy, after: 4_999) == 5_000)
    #expect(due(.lazy, after: 5_000) == 10_000)
    #expect(due(.relaxed, after: 1) == 20_000)
    #expect(due(.relaxed, after: 19_000) == 20_000)
    #expect(due(.slow, after: 30_000) == 100_000)
    #expect(due(.idle, after: 30_000) == 1_000_000)
  }

  @Test func nothingToSayNeedsNoAppend() {
    var pipeline = CommitPipeline(epoch: 1, writer: "n1", lastSequence: 0)
    var outcome = Outcome()
    pipeline.add(&outcome, now: Self.now, lazyAppend: .milliseconds(5))
    #expect(pipeline.nextAppend(now: Self.now + .seconds(9)) == nil)
    #expect(pipeline.nextDeadline == .distantFuture)
  }

  @Test func aRecordIsClosedBeforeTheJournalRefusesIt() {
    var pipeline = CommitPipeline(epoch: 1, writer: "n1", lastSequence: 0)
    let body = String(repeating: "x", count: 65_536)
    for number in 1...20 {
      var outcome = Self.outcome(UInt64(number))
      outcome.entries = [
        JournalEntry(
          call: CallID(high: 0, low: UInt64(number)),
          change: .signal(
            fromCaller: true, "a", Signal(index: 1, kind: .description, body: body)))
      ]
      pipeline.add(&outcome, now: Self.now, lazyAppend: .milliseconds(5))
    }
    var released: [Effect] = []
    var records = 0
    while let record = pipeline.nextAppend(now: Self.now) {
      records += 1
      #expect(record.entries.count <= 6)
      #expect(record.number == UInt64(records))
      pipeline.appended(sequence: UInt64(records), releasing: &released)
      #expect(released.count == min(20, records * 6), "effects leave with their own facts")
    }
    #expect(records == 4)
    #expect(Self.requests(released) == Array(1...20))
    #expect(pipeline.nextDeadline == .distantFuture)
  }
}
