import CallBus
import CallCore
import CallJudge
import CallLoadKit
import CallWire
import Testing

/// The judge that reads the journal: in which order it takes what comes from devices and from the store, what it makes of
/// gaps, and what it keeps.
@Suite struct RunJudgeTests {
  private let caller = Who("u0", "d0")
  private let callee = Who("u1", "d0")

  private func party(_ who: Who) -> Party { Party(user: who.user, device: DeviceID(who.device)) }
  private func at(_ milliseconds: Int64) -> Timestamp {
    Timestamp(microseconds: 1_000_000_000 + milliseconds * 1000)
  }

  /// A run of two users with a device each, which attach at the beginning.
  private struct Run {
    var judge: RunJudge
    var events: [SeenEvent] = []
    var records: [ReadRecord] = []

    mutating func finish() -> JournalFindings {
      judge.add(records, reached: .distantFuture)
      judge.add(events, reached: .distantFuture)
      judge.finish()
      return judge.findings
    }
  }

  private func run(shards: Int = 4, readsJournal: Bool = true) -> Run {
    var run = Run(
      judge: RunJudge(
        app: "load", roster: Roster(devices: 2, devicesPerUser: 1), shardCount: shards,
        readsJournal: readsJournal))
    for (link, who) in [(1, caller), (2, callee)] {
      run.events.append(SeenEvent(at: at(0), .opened(who, link: link)))
    }
    return run
  }

  private enum Step { case invite, answer, hangUp }

  /// Adds a call with its records: placed at a time, answered and hung up a second later each.
  /// - Parameters:
  ///   - lacking: the record of this step is not there.
  ///   - offset: how much later than the rest the clock of the records runs, in milliseconds.
  private func add(
    _ number: UInt64, at start: Int64, to run: inout Run, lacking: Step? = nil, offset: Int64 = 0,
    answers: Bool = true
  ) {
    let call = CallID(high: 7, low: number)
    let (toCallee, own) = (CallAddress(callee: "u1", call: call), CallAddress(call: call))
    var version: UInt64 = 1 << 20
    func sent(_ who: Who, _ time: Int64, _ id: UInt64, _ command: ClientCommand) {
      let frame = ClientFrame(id: number * 10 + id, command: command)
      run.events.append(
        SeenEvent(at: at(start + time), .sent(who, link: who == caller ? 1 : 2, frame)))
    }
    func received(_ who: Who, _ time: Int64, _ frame: ServerFrame) {
      run.events.append(
        SeenEvent(at: at(start + time), .received(who, link: who == caller ? 1 : 2, frame)))
    }
    func delivered(_ who: Who, _ time: Int64, _ event: Delivery.Event) {
      version += 1
      let delivery = Delivery(
        call: call, callee: "u1", version: version, at: at(start + time), event: event)
      received(who, time, .delivery(delivery))
    }
    func record(_ time: Int64, _ changes: JournalEntry.Change...) {
      run.records.append(
        ReadRecord(
          shard: 1,
          JournalRecord(
            epoch: 1, number: number, writer: "c1", at: at(start + time + offset),
            entries: changes.map { JournalEntry(call: call, change: $0) })))
    }
    func state(_ phase: CallPhase) -> CallState {
      CallState(
        call: call, callee: "u1", phase: phase, reason: nil,
        by: phase == .answered ? party(callee) : nil)
    }
    sent(caller, 0, 1, .place(toCallee, PlaceRequest(call: call)))
    let placed = PlacedFacts(
      callee: UserKey(app: "load", user: "u1"), caller: party(caller), placedAt: at(start + 1),
      deadline: at(start + 30_001), video: false, description: "", headers: [],
      legs: [party(callee)], fingerprint: number)
    if lacking != .invite { record(1, .placed(placed)) }
    received(caller, 2, .reply(id: number * 10 + 1, .call(state(.placed))))
    delivered(callee, 2, .invite(Invite(caller: party(caller), deadline: placed.deadline)))
    if answers { sent(callee, 1000, 2, .call(own, .answer(description: ""))) }
    if lacking != .answer {
      record(
        1001,
        .answered(
          AnsweredFacts(
            by: party(callee), at: at(start + 1001), description: "",
            connectDeadline: at(start + 16_000))),
        .connected(caller: true), .connected(caller: false))
    }
    received(
      callee, 1002, .reply(id: number * 10 + 2, .answer(won: true, state(.answered))))
    delivered(caller, 1002, .answered(Answered(by: party(callee))))
    sent(caller, 2000, 3, .call(toCallee, .hangUp))
    if lacking != .hangUp {
      record(
        2001,
        .ended(
          EndedFacts(reason: .hungUp, by: party(caller), at: at(start + 2001), missed: false)))
    }
    received(caller, 2002, .reply(id: number * 10 + 3, .done))
    delivered(callee, 2002, .stop(Stop(reason: .hungUp, by: party(caller))))
  }

  @Test func aRunWithoutFaultIsGood() {
    var run = run()
    for number in 1...5 { add(UInt64(number), at: Int64(number) * 3000, to: &run) }
    let findings = run.finish()
    #expect(findings.violations == [:])
    #expect(findings.records == 15)
    #expect(findings.problem == nil)
  }

  @Test(arguments: [(Step.invite, HistoryRule.appendThenSpeak), (.answer, .appendThenSpeak)])
  private func whatIsSaidIsInTheJournal(_ lacking: Step, _ rule: HistoryRule) {
    var run = run()
    add(1, at: 1000, to: &run, lacking: lacking)
    let findings = run.finish()
    #expect(findings.violations == [rule: 1])
    #expect(findings.examples[rule]?.first?.contains("d0") == true)
  }

  @Test func aCallThatNeverEndedIsFoundAtTheEnd() {
    var run = run()
    add(1, at: 1000, to: &run)
    run.events.removeLast(2)
    run.records.removeLast()
    #expect(run.finish().violations == [.callsEnd: 1])
  }

  /// The clocks of processes differ by as much as lies between their readings of the machine's.
  @Test(arguments: [-150, -2, 0, 2, 150])
  func clocksMayDiffer(_ offset: Int64) {
    var run = run()
    add(1, at: 1000, to: &run, offset: offset)
    #expect(run.finish().violations == [:])
  }

  /// Two calls cross, and the clock of the shard that has the survivor is ahead, or behind.
  @Test(
    arguments: [
      (0, false, [:]), (150, false, [:]), (-150, false, [:]), (250, false, [.oneStory: 1]),
      (15, true, [:]),
    ] as [(Int64, Bool, [HistoryRule: Int])])
  func aRecordComesAfterThoseThatItRefersTo(
    ahead: Int64, isOneRecord: Bool, found: [HistoryRule: Int]
  ) {
    let shards = 64
    var run = run(shards: shards)
    let (own, survivor) = (CallID(high: 7, low: 2), CallID(high: 7, low: 1))
    func place(_ call: CallID, by who: Who, to user: String, at time: Int64, clock: Int64) {
      let frame = ClientFrame(
        id: call.low,
        command: .place(CallAddress(callee: user, call: call), PlaceRequest(call: call)))
      run.events.append(SeenEvent(at: at(time), .sent(who, link: who == caller ? 1 : 2, frame)))
      let placed = PlacedFacts(
        callee: UserKey(app: "load", user: user), caller: party(who), placedAt: at(time + clock),
        deadline: at(time + 30_000), video: false, description: "", headers: [], legs: [],
        fingerprint: call.low)
      record(call, to: user, .placed(placed), at: time + clock)
    }
    func record(_ call: CallID, to user: String, _ change: JournalEntry.Change, at time: Int64) {
      run.records.append(
        ReadRecord(
          shard: ShardHash.shard(of: UserKey(app: "load", user: user), count: shards),
          JournalRecord(
            epoch: 1, number: UInt64(run.records.count + 1), writer: "c1", at: at(time),
            entries: [JournalEntry(call: call, change: change)])))
    }
    place(own, by: caller, to: "u1", at: 1000, clock: 0)
    place(survivor, by: callee, to: "u0", at: 1010, clock: ahead)
    var gaveWay = EndedFacts(reason: .glare, by: party(callee), at: at(1020), missed: false)
    gaveWay.survivor = survivor
    record(own, to: "u1", .ended(gaveWay), at: 1020)
    var merged = AnsweredFacts(
      by: party(caller), at: at(1030), description: "", connectDeadline: at(16_030))
    merged.merged = own
    record(survivor, to: "u0", .answered(merged), at: 1030 + ahead)
    let hangUp = ClientFrame(
      id: 9, command: .call(CallAddress(callee: "u0", call: survivor), .hangUp))
    run.events.append(SeenEvent(at: at(1100), .sent(callee, link: 2, hangUp)))
    let hungUp = EndedFacts(reason: .hungUp, by: party(callee), at: at(1100), missed: false)
    record(survivor, to: "u0", .ended(hungUp), at: 1100 + ahead)
    if isOneRecord {
      let answer = run.records.remove(at: 3)
      run.records[1].record.entries += answer.record.entries
    }
    let findings = run.finish()
    #expect(findings.violations == found, "\(findings.examples)")
  }

  /// A reader gets a record when devices were notified of it long ago.
  @Test func recordsMayComeLate() {
    var run = run()
    add(1, at: 1000, to: &run)
    run.judge.add(run.events, reached: at(60_000))
    run.judge.judge()
    #expect(run.judge.findings.violations == [:])
    run.events = []
    #expect(run.finish().violations == [:])
  }

  @Test func ofCallsBehindAGapNothingIsJudged() {
    var run = run()
    add(1, at: 1000, to: &run, lacking: .answer)
    run.records[1].missingSince = run.records[0].at
    add(2, at: 5000, to: &run)
    let findings = run.finish()
    #expect(findings.gaps == 1)
    #expect(findings.violations == [:])
  }

  /// The records of two calls are missing, from the placing of one to that of the other.
  @Test func ofCallsInAGapNothingIsJudged() {
    var run = run()
    add(1, at: 1000, to: &run)
    add(2, at: 5000, to: &run)
    add(3, at: 9000, to: &run)
    add(4, at: 13_000, to: &run, lacking: .answer)
    run.records.removeSubrange(4...6)
    run.records[4].missingSince = run.records[3].at
    let findings = run.finish()
    #expect(findings.gaps == 1)
    #expect(findings.violations == [.appendThenSpeak: 1])
  }

  private enum Later { case gap, next, itself }

  /// A record is not there when what follows from it is judged. The shard's next one tells whether it was ever stored.
  @Test(arguments: [(Later.gap, 0), (.itself, 0), (.next, 1)])
  private func theNextRecordConfirms(_ later: Later, _ found: Int) {
    var run = run()
    add(1, at: 1000, to: &run)
    let records = run.records
    run.judge.add([records[0]], reached: at(60_000))
    run.judge.add(run.events, reached: at(60_000))
    run.judge.judge()
    #expect(run.judge.findings.violations == [:])
    (run.events, run.records) = ([], [])
    switch later {
    case .itself: run.records = Array(records[1...])
    case .next, .gap:
      add(2, at: 70_000, to: &run)
      if later == .gap { run.records[0].missingSince = records[0].at }
    }
    #expect(run.finish().violations.values.reduce(0, +) == found)
  }

  @Test func eachCallBreaksOneRule() {
    var run = run()
    for number in 1...4 {
      add(UInt64(number), at: Int64(number) * 3000, to: &run, lacking: .answer)
    }
    let findings = run.finish()
    #expect(findings.violations == [.appendThenSpeak: 4])
    #expect(findings.examples[.appendThenSpeak]?.count == 3)
  }

  @Test func aRunWithoutRecordsIsNotJudged() {
    var run = run()
    #expect(run.finish().problem != nil)
  }

  /// An hour's calls take no more memory than those of the last minutes.
  @Test(arguments: [true, false]) func judgedCallsAreForgotten(readsJournal: Bool) {
    var run = run(readsJournal: readsJournal)
    var most: [Int] = []
    for minute in 0..<60 {
      for second in 0..<20 {
        let number = minute * 20 + second + 1
        add(UInt64(number), at: Int64(minute) * 60_000 + Int64(second) * 3000, to: &run)
        // As if it had moved to a device that is not seen.
        guard !readsJournal, second == 0 else { continue }
        let address = CallAddress(call: CallID(high: 7, low: UInt64(number)))
        let pull = CallVerb.pull(PullRequest(from: DeviceID("d9")))
        let id = UInt64(number) * 10 + 9
        let frame = ClientFrame(id: id, command: .call(address, pull))
        let reply = ServerFrame.reply(id: id, .error(CallError(.wrongState)))
        run.events += [
          SeenEvent(at: at(Int64(minute) * 60_000 + 1), .sent(callee, link: 2, frame)),
          SeenEvent(at: at(Int64(minute) * 60_000 + 2), .received(callee, link: 2, reply)),
        ]
      }
      run.judge.add(run.records, reached: at(Int64(minute + 1) * 60_000))
      run.judge.add(run.events, reached: at(Int64(minute + 1) * 60_000))
      (run.events, run.records) = ([], [])
      run.judge.judge()
      most.append(run.judge.callsKept)
    }
    let settled = readsJournal ? 5 : 20
    #expect(most[settled...].max() ?? .max <= most[..<settled].max() ?? 0)
    #expect(most[59] < 80)
    #expect(run.finish().violations == [:])
  }

  @Test func whoIsToldToRingLongAfterTheEndIsNoticed() {
    var run = run()
    add(1, at: 1000, to: &run)
    add(2, at: 120_000, to: &run)
    let call = CallID(high: 7, low: 1)
    let invite = Invite(caller: party(caller), deadline: at(200_000))
    let delivery = Delivery(
      call: call, callee: "u1", version: 3 << 20, at: at(130_000), event: .invite(invite))
    run.events.append(
      SeenEvent(at: at(130_000), .received(callee, link: 2, .delivery(delivery))))
    #expect(run.finish().violations == [.noInviteAfterStop: 1])
  }

  // MARK: The devices

  /// Devices lose connections, come back, and act while they have none: each frame is on a connection that is there.
  @Test func framesAreOnOpenConnections() throws {
    var twin = TwinRun(durationSeconds: 15)
    let queue = EventQueue()
    twin.events = queue
    _ = try #require(try twin.outcome())
    let (events, _) = queue.take()
    var (open, frames, closed) = (Set<Int>(), 0, 0)
    for seen in events {
      switch seen.event {
      case .opened(_, let link, _):
        let isNew = open.insert(link).inserted
        #expect(isNew)
      case .closed(let link):
        #expect(open.remove(link) != nil)
        closed += 1
      case .sent(_, let link, _), .received(_, let link, _):
        #expect(open.contains(link))
        frames += 1
      default: break
      }
    }
    #expect(frames > 1000)
    #expect(closed > 5)
    #expect(zip(events, events.dropFirst()).allSatisfy { $0.at <= $1.at })
  }

  // MARK: The reader

  private func record(_ previous: UInt64, at time: Int64) -> [UInt8] {
    ClusterCodec.encode(
      JournalRecord(
        epoch: 1, number: 1, writer: "c1", at: at(time), entries: [], previous: previous))
  }

  @Test func aReaderGetsEachRecordOnceAndNoticesGaps() async throws {
    let bus = InProcessBus()
    defer { withExtendedLifetime(bus) {} }
    let journal = try await bus.openJournal(JournalOptions())
    var reader = JournalReader(shards: 2)
    var last: [UInt64] = [0, 0]
    func append(_ shard: Int, at time: Int64) async throws {
      let result = await journal.append(
        shard: shard, expecting: last[shard], record(last[shard], at: time))
      guard case .appended(let sequence) = result else { throw BusError.failed("\(result)") }
      last[shard] = sequence
    }
    #expect(await reader.read(journal).records.isEmpty)
    try await append(0, at: 5)
    try await append(1, at: 7)
    let first = await reader.read(journal).records
    #expect(first.map(\.shard) == [0, 1])
    #expect(first.map(\.missingSince) == [nil, nil])
    #expect(await reader.read(journal).records.isEmpty)
    // The next owner's clock is behind.
    for time: Int64 in [10, 11, 12, 3, 4, 12, 13, 14, 15] { try await append(0, at: time) }
    let more = await reader.read(journal).records
    #expect(more.allSatisfy { $0.missingSince == nil })
    #expect(more.map(\.at) == [10, 11, 12, 12, 12, 12, 13, 14, 15].map(at))
    // A replicated store may keep both of two racing appends. The one that does not follow the last record does not count.
    let raced = await journal.append(shard: 0, expecting: last[0], record(last[0] - 1, at: 16))
    guard case .appended(let void) = raced else { throw BusError.failed("\(raced)") }
    let won = await journal.append(shard: 0, expecting: void, record(last[0], at: 17))
    guard case .appended(let next) = won else { throw BusError.failed("\(won)") }
    last[0] = next
    #expect(await reader.read(journal).records.map(\.at) == [at(17)])
    for time: Int64 in 20...23 { try await append(0, at: time) }
    try await journal.purge(shard: 0, through: last[0] - 2)
    let rest = await reader.read(journal).records
    #expect(rest.map(\.missingSince) == [at(17), nil])
  }

  /// The first shard has a record that cannot be read.
  @Test func aShardThatIsAwayKeepsNoOtherFromBeingRead() async throws {
    let bus = InProcessBus()
    defer { withExtendedLifetime(bus) {} }
    let journal = try await bus.openJournal(JournalOptions())
    var reader = JournalReader(shards: 2)
    _ = await journal.append(shard: 0, expecting: 0, [0xff])
    _ = await journal.append(shard: 1, expecting: 0, record(0, at: 5))
    var found: [Int] = []
    for _ in 0..<2 {
      let (records, isWhole) = await reader.read(journal)
      #expect(!isWhole)
      found += records.map(\.shard)
    }
    #expect(found == [1])
  }
}
