import CallCore
import Testing

/// Decide, append, then speak.
@Suite struct PipelineTests {
  private static let now = Timestamp(microseconds: 1_000_000)
  private static let session = SessionRef(edge: 1, number: 1)

  private static func outcome(_ request: UInt64, _ urgency: Outcome.Urgency = .urgent) -> Outcome {
    var outcome = Outcome()
    outcome.entries = [JournalEntry(call: CallID(high: 0, low: request), change: .settled)]
    outcome.effects = [.reply(session, request: request, .done)]
    outcome.raise(to: urgency)
    return outcome
  }

  private static func requests(_ effects: [Effect]) -> [UInt64] {
    effects.compactMap { if case .reply(_, let request, _) = $0 { request } else { nil } }
  }

  private func pipeline(
    epoch: UInt64 = 1, lastSequence: UInt64 = 0, limits: CommitPipeline.Limits = .init()
  ) -> CommitPipeline {
    CommitPipeline(epoch: epoch, writer: "n1", lastSequence: lastSequence, limits: limits)
  }

  private func add(
    _ outcome: Outcome, to pipeline: inout CommitPipeline, now: Timestamp = Self.now
  ) {
    var outcome = outcome
    pipeline.add(&outcome, now: now, lazyAppend: .milliseconds(5))
    #expect(outcome.isEmpty)
  }

  /// The requests whose replies leave once the journal has the record.
  private func appended(_ sequence: UInt64, _ pipeline: inout CommitPipeline) -> [UInt64] {
    var released: [Effect] = []
    pipeline.appended(sequence: sequence, releasing: &released)
    return Self.requests(released)
  }

  @Test func nothingLeavesBeforeTheAppend() {
    var pipeline = pipeline(epoch: 3, lastSequence: 40)
    add(Self.outcome(1), to: &pipeline)
    let record = pipeline.nextAppend(now: Self.now)
    #expect(record?.epoch == 3)
    #expect(record?.number == 1)
    #expect(record?.writer == "n1")
    #expect(record?.entries.count == 1)
    #expect(pipeline.lastSequence == 40)
    #expect(appended(41, &pipeline) == [1])
    #expect(pipeline.lastSequence == 41)
  }

  @Test func oneAppendAtATimeAndGroupCommit() {
    var pipeline = pipeline()
    add(Self.outcome(1), to: &pipeline)
    #expect(pipeline.nextAppend(now: Self.now) != nil)
    for request: UInt64 in 2...4 {
      add(Self.outcome(request), to: &pipeline)
      #expect(pipeline.nextAppend(now: Self.now) == nil)
    }
    #expect(pipeline.nextDeadline == .distantFuture)
    #expect(appended(1, &pipeline) == [1], "what was decided during the flight waits for its own")
    let record = pipeline.nextAppend(now: Self.now)
    #expect(record?.entries.count == 3)
    #expect(record?.number == 2)
    #expect(appended(2, &pipeline) == [2, 3, 4])
    #expect(pipeline.waiting == 0)
  }

  /// The limits stand before the decision: what is decided is kept, also beyond them.
  @Test func aFullPipelineKeepsWhatWasDecided() {
    var pipeline = pipeline(limits: .init(effectsMax: 3, entryBytesMax: 1_000_000))
    for request: UInt64 in 1...4 {
      #expect(pipeline.isFull == (request > 3))
      add(Self.outcome(request), to: &pipeline)
    }
    #expect(pipeline.nextAppend(now: Self.now)?.entries.count == 4)
    #expect(pipeline.isFull, "what is in flight counts")
    #expect(appended(1, &pipeline) == [1, 2, 3, 4])
    #expect(!pipeline.isFull && pipeline.waitingBytes == 0)
  }

  @Test func entriesFillItByTheirBytes() {
    var pipeline = pipeline(limits: .init(effectsMax: 1000, entryBytesMax: 300))
    for round: UInt64 in 1...3 {
      while !pipeline.isFull { add(Self.outcome(round), to: &pipeline) }
      #expect(pipeline.waitingBytes == 384)
      #expect(pipeline.nextAppend(now: Self.now) != nil)
      _ = appended(round, &pipeline)
      #expect(pipeline.waitingBytes == 0)
    }
  }

  @Test func effectsWithoutFactsNeedAFence() {
    var pipeline = pipeline()
    var outcome = Self.outcome(1)
    outcome.entries = []
    add(outcome, to: &pipeline)
    #expect(pipeline.nextAppend(now: Self.now)?.entries.isEmpty == true)
  }

  @Test func lazyFactsWaitForCompany() {
    var pipeline = pipeline()
    add(Self.outcome(1, .lazy), to: &pipeline)
    #expect(pipeline.nextAppend(now: Self.now) == nil)
    #expect(pipeline.nextDeadline == Self.now + .milliseconds(5))
    add(Self.outcome(2), to: &pipeline, now: Self.now + .milliseconds(1))
    #expect(pipeline.nextAppend(now: Self.now + .milliseconds(1))?.entries.count == 2)
    add(Self.outcome(3, .idle), to: &pipeline)
    _ = appended(1, &pipeline)
    #expect(pipeline.nextDeadline == Self.now + .seconds(1))
  }

  @Test(
    arguments: [
      (.lazy, 1, 5_000), (.lazy, 4_999, 5_000), (.lazy, 5_000, 10_000), (.relaxed, 1, 20_000),
      (.relaxed, 19_000, 20_000), (.slow, 30_000, 100_000), (.idle, 30_000, 1_000_000),
    ] as [(Outcome.Urgency, Int64, Int64)])
  func whatMayWaitWaitsForATickThatShardsShare(
    urgency: Outcome.Urgency, after microseconds: Int64, due: Int64
  ) {
    var pipeline = pipeline()
    let now = Timestamp(microseconds: 1_000_000 + microseconds)
    add(Self.outcome(1, urgency), to: &pipeline, now: now)
    #expect(pipeline.nextDeadline.microseconds - 1_000_000 == due)
  }

  @Test func nothingToSayNeedsNoAppend() {
    var pipeline = pipeline()
    add(Outcome(), to: &pipeline)
    #expect(pipeline.nextAppend(now: Self.now + .seconds(9)) == nil)
    #expect(pipeline.nextDeadline == .distantFuture)
  }

  @Test func aRecordIsClosedBeforeTheJournalRefusesIt() {
    var pipeline = pipeline()
    let signal = Signal(index: 1, kind: .description, body: String(repeating: "x", count: 65_536))
    for number: UInt64 in 1...20 {
      var outcome = Self.outcome(number)
      outcome.entries[0].change = .signal(fromCaller: true, "a", signal)
      add(outcome, to: &pipeline)
    }
    var released: [UInt64] = []
    var records: UInt64 = 0
    while let record = pipeline.nextAppend(now: Self.now) {
      records += 1
      #expect(record.entries.count <= 6)
      #expect(record.number == records)
      released += appended(records, &pipeline)
      #expect(released.count == min(20, Int(records) * 6), "effects leave with their own facts")
    }
    #expect(records == 4)
    #expect(released == Array(1...20))
    #expect(pipeline.nextDeadline == .distantFuture)
  }
}
