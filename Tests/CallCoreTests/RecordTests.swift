import CallCore
import Testing

/// Records of ended calls: each ended call asks for one until it is stored, and says what the journal says.
@Suite struct RecordTests {
  /// A shard that keeps records.
  private static func bench(limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    bench.shard.storedParts = .record
    return bench
  }

  private static func wanted(_ effects: [Effect]) -> [CallID] {
    effects.compactMap { if case .record(let call) = $0 { call } else { nil } }
  }

  /// Calls to b1 and b2, which b1 answers; the caller hangs up.
  private static func answeredCall(keeps: StoredParts = .record) -> Bench {
    var bench = Bench()
    bench.shard.storedParts = keeps
    bench.attach("b1", "b2")
    bench.place()
    bench.pass(.milliseconds(100))
    bench.acknowledgeAll()
    bench.say(.alerting, "b1")
    bench.pass(.seconds(1))
    bench.answer("b1", "sdp")
    bench.acknowledgeAll()
    bench.caller(.connected)
    bench.say(.connected, "b1")
    bench.pass(.seconds(5))
    bench.caller(.hangUp)
    return bench
  }

  /// The next owner, which keeps records.
  private static func nextOwner(_ bench: Bench, checkpoint: Bool = false) -> Bench {
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    next.shard.storedParts = .record
    return next.begun()
  }

  private static func store(_ bench: inout Bench, _ calls: [CallID] = [Bench.callID]) {
    bench.run { $0.stored(.record, of: calls, now: $1, into: &$2) }
  }

  @Test("a record says where the call went on, and why") func wentOn() throws {
    var bench = DivertingBench()
    bench.owner.shard.storedParts = .record
    bench.owner.set(UserRules(onUnreachable: .init(users: ["carol", "dave"])), of: "bob")
    for user in ["carol", "dave"] { bench.attach(user, "1") }
    _ = bench.owner.take()
    bench.place()
    bench.say(.decline(.everywhere), "carol", "1")
    bench.say(.answer(description: "sdp"), "dave", "1")
    bench.say(.hangUp, "dave", "1")
    let record = try #require(bench.owner.shard.record(of: DivertingBench.id))
    #expect(record.diversions.map(\.from) == ["bob", "carol"])
    #expect(record.diversions.map(\.to) == [["carol", "dave"], []])
    #expect(record.diversions.map(\.reason) == [.unreachable, .declined])
    #expect(record.diversions.map(\.by?.user) == [nil, "carol"])
    #expect(record.answer?.by.user == "dave")
    let timeline = try #require(bench.owner.shard.inspect(call: DivertingBench.id)?.timeline)
    let way = timeline.first { $0.what == "diverted" }
    #expect(way?.reason == "from bob to carol, dave (unreachable)")
  }

  @Test("a record and the end's event say how a side was handed over") func transferred() throws {
    var bench = TransferTests.talking("carol", "dave", subscriptions: .webhooks)
    bench.owner.shard.storedParts = [.record, .events]
    bench.asBob(.handOver(to: "carol"))
    bench.say(.decline(.everywhere), "carol", "1")
    bench.pass(.seconds(1))
    bench.asBob(.handOver(to: "dave"))
    bench.say(.answer(description: "offer"), "dave", "1")
    bench.asAlice(.hangUp)
    let record = try #require(bench.owner.shard.record(of: DivertingBench.id))
    #expect(record.diversions.map(\.from) == ["bob", "bob"])
    #expect(record.diversions.map(\.to) == [["carol"], ["dave"]])
    #expect(record.diversions.map(\.reason) == [.transferred, .transferred])
    #expect(record.diversions.map(\.by?.device) == ["b1", "b1"])
    #expect(record.diversions.map(\.failed) == [.declined, nil])
    #expect(record.diversions.map(\.takenBy?.user) == [nil, "dave"])
    let timeline = try #require(bench.owner.shard.inspect(call: DivertingBench.id)?.timeline)
    let begun = timeline.filter { $0.what == "transfer begun" }
    #expect(begun.map(\.reason) == ["to carol", "to dave"])
    let ended = bench.owner.shard.events(of: DivertingBench.id, .all).first { $0.kind == .ended }
    #expect(ended?.diversions == record.diversions)
  }

  @Test func anAnsweredCall() throws {
    let bench = Self.answeredCall()
    #expect(Self.wanted(bench.effects) == [Bench.callID])
    let record = try #require(bench.shard.record(of: Bench.callID))
    let start = record.placedAt
    #expect(record.callee == UserKey(app: Bench.app, user: "bob"))
    #expect(record.caller == .alice1)
    #expect(record.answer?.by.device == "b1")
    #expect(record.answer?.at == start + .milliseconds(1100))
    #expect(record.end == bench.ends.first)
    #expect(record.end?.reason == .hungUp && record.end?.by?.device == "alice1")
    #expect(record.legs.map(\.party.deviceName) == ["Bob's b1", "Bob's b2"])
    #expect(record.legs.map(\.fate) == [.won, .stopped])
    let winner = record.legs[0]
    #expect(winner.invitedAt == start && winner.deliveredAt == start + .milliseconds(100))
    #expect(winner.alertedAt == start + .milliseconds(100))
    #expect(winner.endedAt == record.end?.at && winner.pushedAt == nil)
    #expect(record.legs[1].endedAt == record.answer?.at && record.legs[1].alertedAt == nil)
    #expect(record.events.first == CallRecord.Event(.placed, offset: 0, who: .caller))
    #expect(record.events.contains { $0.kind == .answered && $0.who == .leg(0) })
    #expect(record.events.last?.kind == .hungUp && record.events.last?.who == .caller)
  }

  @Test func theFatesOfLegs() throws {
    var bench = Self.bench()
    bench.attach("b1", "b2", "b3")
    bench.place()
    bench.say(.busy, "b1")
    bench.say(.decline(.here), "b2")
    bench.say(.decline(.everywhere), "b3")
    let record = try #require(bench.shard.record(of: Bench.callID))
    #expect(record.legs.map(\.fate) == [.busy, .declined, .declined])
    #expect(record.end?.reason == .declined && record.answer == nil)
    #expect(record.end?.missed == false)
  }

  @Test func aCallWithoutDevices() throws {
    var bench = Self.bench()
    bench.place()
    bench.pass(.seconds(10))
    let record = try #require(bench.shard.record(of: Bench.callID))
    #expect(record.end?.reason == .unreachable && record.end?.unreachable == .noDevice)
    #expect(record.end?.missed == true && record.legs.isEmpty)
  }

  /// The next owner's records begin with the calls that are kept.
  @Test func whereRecordsAreOffNothingAsksForThem() {
    var bench = Self.answeredCall(keeps: [])
    #expect(Self.wanted(bench.effects).isEmpty)
    #expect(Self.wanted(Self.nextOwner(bench).effects) == [Bench.callID])
    bench.acknowledgeAll()
    bench.pass(.seconds(700))
    #expect(bench.shard.inspect(call: Bench.callID) == nil)
    #expect(bench.shard.counts.recordsLostTotal == 0)
  }

  @Test func aCallThatIsRecordedInTimeIsForgottenInTime() {
    var bench = Self.answeredCall()
    Self.store(&bench)
    Self.store(&bench, [Bench.callID, CallID(high: 7, low: 7)])
    #expect(bench.journal.count { $0.change == .recorded } == 1)
    #expect(bench.shard.record(of: Bench.callID) == nil)
    bench.pass(.seconds(590))
    #expect(bench.shard.inspect(call: Bench.callID) != nil)
    bench.pass(.seconds(20))
    #expect(bench.shard.inspect(call: Bench.callID) == nil)
  }

  @Test func aCallThatGoesOnHasNone() {
    var bench = Self.bench()
    bench.attach("b1")
    bench.place()
    #expect(bench.shard.record(of: Bench.callID) == nil)
    Self.store(&bench)
    #expect(!bench.journal.contains { $0.change == .recorded })
  }

  // MARK: A new owner

  @Test(arguments: [false, true]) func aNewOwnerAsksForWhatIsNotStored(checkpoint: Bool) throws {
    let bench = Self.answeredCall()
    let first = try #require(bench.shard.record(of: Bench.callID))
    let next = Self.nextOwner(bench, checkpoint: checkpoint)
    #expect(Self.wanted(next.effects) == [Bench.callID])
    let second = try #require(next.shard.record(of: Bench.callID))
    #expect(second.end == first.end && second.answer == first.answer)
    #expect(second.legs.map(\.fate) == first.legs.map(\.fate))
    #expect(second.events.contains { $0.kind == .takenOver })
  }

  @Test(arguments: [false, true]) func aNewOwnerDoesNotAskForWhatIsStored(checkpoint: Bool) {
    var bench = Self.answeredCall()
    Self.store(&bench)
    let next = Self.nextOwner(bench, checkpoint: checkpoint)
    #expect(Self.wanted(next.effects).isEmpty)
    #expect(next.shard.record(of: Bench.callID) == nil)
  }

  // MARK: Limits

  @Test("a call is kept until its record is stored, also by a new owner", arguments: [false, true])
  func isKept(hasNewOwner: Bool) {
    var bench = Self.answeredCall()
    if !hasNewOwner { bench.acknowledgeAll() }
    bench.pass(.seconds(3600))
    if hasNewOwner {
      bench = Self.nextOwner(bench)
      #expect(Self.wanted(bench.effects) == [Bench.callID])
      bench.pass(.seconds(3600))
    }
    #expect(bench.shard.record(of: Bench.callID) != nil)
    #expect(bench.shard.callsUnrecorded == 1)
    Self.store(&bench)
    #expect(bench.shard.inspect(call: Bench.callID) == nil)
    #expect(bench.shard.callsUnrecorded == 0 && bench.shard.counts.endedKept == 0)
    #expect(bench.journal.last?.change == .recorded)
  }

  @Test func aboveTheLimitACallIsForgottenAndCounted() {
    var bench = Self.bench(limits: .with { $0.unrecordedCalls = 2 })
    let calls = (1...5).map { CallID(high: 1, low: $0) }
    for call in calls { bench.place(call) }
    bench.pass(.seconds(3600))
    #expect(Set(Self.wanted(bench.effects)) == Set(calls))
    #expect(bench.shard.callsUnrecorded == 2 && bench.shard.counts.endedKept == 2)
    #expect(bench.shard.counts.recordsLostTotal == 3)
    let kept = calls.filter { bench.shard.record(of: $0) != nil }
    #expect(kept.count == 2)
    Self.store(&bench, calls)
    #expect(bench.shard.counts.endedKept == 0)
    #expect(bench.journal.count { $0.change == .recorded } == 2)
  }
}

/// Times as ISO 8601 has them.
@Suite struct ISOTimeTests {
  @Test(arguments: [
    ("1970-01-01T00:00:00Z", 0), ("2026-11-26T00:14:19.123456789Z", 1_795_652_059_123_456),
    ("2026-11-26T00:14:19Z", 1_795_652_059_000_000), ("2026-11-26", 1_795_651_200_000_000),
    ("2026-11-26T02:14+02:00", 1_795_652_040_000_000), ("2024-02-29", 1_709_164_800_000_000),
    ("2026-11-26T00:14", 1_795_652_040_000_000), ("1969-12-31T23:59:59.5Z", -500_000),
  ])
  func read(text: String, microseconds: Int64) {
    #expect(Timestamp(iso8601: text)?.microseconds == microseconds)
  }

  @Test(arguments: [
    "", "now", "2026", "2026-13-01", "2026-11-26T", "2026-11-26T25:00", "2026-11-26T00:14:19.Z",
    "2026-11-26T00:14:19ZZ", "2026-11-26T00:14+2", "2026-11-26T00:14:19.1234567890Z", "2026-1-1",
    "２０２６-11-26",
  ])
  func refused(text: String) { #expect(Timestamp(iso8601: text) == nil) }
}
