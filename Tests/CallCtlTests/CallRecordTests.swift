import CallBus
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing
import callctl

/// `callctl calls` and `callctl call` on records: which are read, what is printed.
@Suite struct CallRecordTests {
  private static let placedAt = Timestamp(microseconds: 1_790_000_000_000_000)

  private static func id(_ number: UInt64) -> CallID { CallID(high: 1, low: number) }

  /// A call of ann that bob's pad answered after 4 s, and that ended after `seconds`.
  private static func record(
    _ number: UInt64, user: String = "bob", reason: EndReason = .hungUp, seconds: Int64 = 65
  ) -> CallRecord {
    var record = CallRecord(
      call: id(number), callee: UserKey(app: "demo", user: user),
      caller: Party(user: "ann", device: "phone", deviceName: "Ann's", name: "Ann, \"A\""),
      placedAt: placedAt)
    record.end = EndedFacts(
      reason: reason, by: Party(user: "ann", device: "phone"), at: placedAt + .seconds(seconds),
      missed: reason.isMissedCall)
    record.legs = [
      .init(party: Party(user: user, device: "pad"), fate: .won),
      .init(party: Party(user: user, device: "old"), fate: .stopped, endedAt: record.end?.at),
    ]
    if reason == .hungUp {
      record.answer = .init(by: record.legs[0].party, at: placedAt + .seconds(4))
    }
    record.events = [
      .init(.placed, offset: 0, who: .caller), .init(.invited, offset: 900, who: .leg(0)),
      .init(.alerting, offset: 31_000, who: .leg(0)),
      .init(.pushed, offset: 950, who: .leg(1), purpose: .ring),
      .init(
        .pushRejected, offset: 150_000, who: .leg(1), purpose: .ring,
        reason: "DeviceTokenNotForTopic"
      ),
      .init(.answered, offset: 4_000_000, who: .leg(0)),
      .init(.hungUp, offset: UInt32(seconds * 1_000_000), who: .caller),
    ]
    return record
  }

  private static func listed(
    _ number: UInt64, _ phase: String, at milliseconds: Int64, owner: String
  ) -> ListedCall {
    ListedCall(
      call: id(number).description, phase: phase, reason: nil, app: "demo",
      caller: .init(user: "ann", device: "phone", deviceName: ""), callee: "bob", winner: nil,
      placedAtMilliseconds: milliseconds, shard: 9, owner: owner)
  }

  /// A bus that is gone answers nothing.
  private static let buses = Mutex<[InProcessBus]>([])

  private static func stream(_ messages: [[CallRecord]]) async throws -> InProcessRecords {
    let bus = InProcessBus()
    buses.withLock { $0.append(bus) }
    let stream = try await bus.openRecords(RecordOptions())
    for (index, records) in messages.enumerated() {
      await add("\(index)", ClusterCodec.encode(records), to: stream)
    }
    return stream
  }

  private static func add(_ id: String, _ bytes: [UInt8], to stream: InProcessRecords) async {
    await withCheckedContinuation { continuation in
      stream.add(id: id, bytes) { _ in continuation.resume() }
    }
  }

  // MARK: Reading

  @Test func backwardsOverManyReads() async throws {
    let stream = try await Self.stream((1...700).map { [Self.record(UInt64($0))] })
    var reader = RecordReader(stream)
    var read: [UInt64] = []
    try await reader.backwards { records, _ in
      read += records.map(\.call.low)
      return true
    }
    #expect(read == (1...700).reversed().map(UInt64.init))
    read = []
    try await reader.backwards { records, _ in
      read += records.map(\.call.low)
      return read.count < 300
    }
    #expect(read.count == 300)
  }

  @Test func forwardsAndOn() async throws {
    let stream = try await Self.stream((1...300).map { [Self.record(UInt64($0))] })
    var reader = RecordReader(stream)
    let first = try await reader.forwards(from: 1)
    #expect(first.records.count == 256 && first.next == 257)
    let second = try await reader.forwards(from: first.next)
    #expect(second.records.map(\.call.low).last == 300 && second.next == 301)
    let third = try await reader.forwards(from: second.next)
    #expect(third.records.isEmpty && third.next == 301)
    #expect(try await reader.end() == 301)
  }

  /// A new owner stored it again, and knew less.
  @Test func theFirstRecordOfACallCounts() async throws {
    var again = Self.record(2)
    again.events = []
    let stream = try await Self.stream([
      [Self.record(1), Self.record(2)], [again, Self.record(3)],
    ])
    var reader = RecordReader(stream)
    #expect(try await reader.record(of: Self.id(2))?.events.isEmpty == false)
    #expect(try await reader.record(of: Self.id(3))?.call == Self.id(3))
    #expect(try await reader.record(of: Self.id(4)) == nil)
    var recent = RecentCalls()
    let (one, two) = (CallKey(Self.record(1)), CallKey(Self.record(2)))
    #expect(recent.isNew(one) && recent.isNew(two) && !recent.isNew(one))
    let isNewOfCarol = recent.isNew(CallKey(Self.record(1, user: "carol")))
    #expect(isNewOfCarol)
  }

  /// Devices choose the ids: a stranger's call may have the same one.
  @Test func callsOfTheSameIdAreToldApart() async throws {
    var again = Self.record(1)
    again.events = []
    let stream = try await Self.stream([[Self.record(1), Self.record(1, user: "carol")], [again]])
    var reader = RecordReader(stream)
    let record = try await reader.record(of: Self.id(1))
    #expect(record?.callee.user == "bob" && record?.events.isEmpty == false)
    let carol = UserKey(app: "demo", user: "carol")
    #expect(try await reader.record(of: Self.id(1), to: carol)?.callee == carol)
    #expect(try await reader.record(of: Self.id(1), to: UserKey(app: "demo", user: "dave")) == nil)
    var rows = CallRows()
    for record in [Self.record(1), again, Self.record(1, user: "carol")] {
      rows.add(CallRow(record))
    }
    #expect(rows.count == 2)
  }

  /// `callctl calls --follow`.
  @Test func eachFurtherCallIsShownOnce() async throws {
    let stream = try await Self.stream([[Self.record(1)], [Self.record(2)]])
    var follower = CallFollower(
      stream, from: 2, filter: CallFilter(user: "bob"), shown: [CallRow(Self.record(1))])
    func further() async throws -> [UInt64] {
      let (rows, isBehind) = try await follower.further()
      #expect(isBehind == !rows.isEmpty)
      return rows.map(\.record.call.low)
    }
    #expect(try await further() == [2])
    #expect(try await further() == [])
    // Repetitions by a new owner, and another user's call.
    for (id, records) in [
      ("a", [Self.record(1), Self.record(3), Self.record(2)]), ("b", [Self.record(3)]),
      ("c", [Self.record(5, user: "carol"), Self.record(4)]),
    ] {
      await Self.add(id, ClusterCodec.encode(records), to: stream)
    }
    #expect(try await further() == [3, 4])
    #expect(try await further() == [])
  }

  @Test func anEmptyStreamAndBytesThatAreNoRecords() async throws {
    var reader = RecordReader(try await Self.stream([]))
    #expect(try await reader.record(of: Self.id(1)) == nil)
    #expect(try await reader.forwards(from: 1).records.isEmpty)
    let stream = try await Self.stream([[Self.record(1)]])
    await Self.add("x", [0xFF, 1, 2], to: stream)
    reader = RecordReader(stream)
    #expect(try await reader.record(of: Self.id(1)) != nil)
    #expect(reader.unreadable == 1)
  }

  // MARK: Choosing

  @Test func filters() {
    let record = Self.record(1)
    var live = record
    live.end = nil
    #expect(CallFilter().matches(record))
    #expect(CallFilter(app: "demo", user: "ann", reason: .hungUp).matches(record))
    #expect(CallFilter(user: "bob").matches(record))
    #expect(!CallFilter(app: "other").matches(record) && !CallFilter(user: "carol").matches(record))
    // A member of a group that was called.
    var rung = record
    rung.legs.append(CallRecord.Leg(party: Party(user: "carol", device: "c1"), fate: .stopped))
    #expect(CallFilter(user: "carol").matches(rung) && !CallFilter(user: "dave").matches(rung))
    #expect(!CallFilter(reason: .busy).matches(record) && !CallFilter(reason: .busy).matches(live))
    let end = Self.placedAt + .seconds(65)
    #expect(CallFilter(since: end).matches(record))
    #expect(!CallFilter(since: end + .seconds(1)).matches(record))
    #expect(CallFilter(since: end + .seconds(1)).matches(live))
  }

  @Test func since() {
    let now: Int64 = 1_790_000_000_000
    #expect(SinceTime.parse("2h", now: now) == Self.placedAt + .seconds(-7200))
    #expect(SinceTime.parse("2026-09-21T14:13:20Z", now: now) == Self.placedAt)
    for text in ["", "yesterday", "-1h", "9999999999d", "2h ago"] {
      #expect(SinceTime.parse(text, now: now) == nil, "\(text)")
    }
  }

  @Test func aCallWithARecordStandsOnce() {
    var rows = CallRows()
    rows.add(CallRow(Self.record(1, seconds: 10)))
    rows.add(CallRow(Self.record(2, seconds: 20)))
    for (number, phase) in [(UInt64(1), "ended"), (3, "ringing"), (4, "answered")] {
      let listed = Self.listed(
        number, phase, at: Self.placedAt.milliseconds + Int64(number), owner: "c1")
      if let row = CallRow(listed) { rows.addKnown(row) }
    }
    #expect(rows.first(10).map(\.record.call.low) == [4, 3, 2, 1])
    #expect(rows.first(10).map(\.owner) == ["c1", "c1", nil, nil])
    #expect(rows.first(3).count == 3)
    #expect(rows.earliestEnd == Self.placedAt + .seconds(10))
  }

  // MARK: Printing

  @Test func table() {
    let rows = [CallRow(Self.record(1)), CallRow(Self.record(2, reason: .cancelled, seconds: 3))]
    #expect(
      CallRowsText.table(rows) == """
        CALL                                  STATE             PLACED                    RANG  TALKED  \
        CALLER       CALLEE  ANSWERED BY  APP
        00000000-0000-0001-0000-000000000001  ended, hungUp     2026-09-21T14:13:20.000Z  4.0s   61.0s  \
        ann (phone)  bob     bob (pad)    demo
        00000000-0000-0001-0000-000000000002  ended, cancelled  2026-09-21T14:13:20.000Z  3.0s       -  \
        ann (phone)  bob     -            demo

        """)
    #expect(CallRowsText.table([]) == "No calls.\n")
  }

  @Test func csv() {
    var record = Self.record(1, user: "=1+1")
    record.callee = UserKey(app: "demo", user: "=1+1")
    let at = record.placedAt
    record.diversions = [
      .init(from: "=1+1", to: ["cy", "di"], reason: .noAnswer, at: at),
      .init(from: "cy", to: ["di"], reason: .ringSlotOver, at: at),
      .init(from: "di", to: [], reason: .declined, at: at),
    ]
    #expect(
      CallRowsText.csv(CallRow(record))
        == "00000000-0000-0001-0000-000000000001,ended,demo,ann,phone,\"Ann, \"\"A\"\"\",\"'=1+1\","
        + "false,2026-09-21T14:13:20.000Z,2026-09-21T14:13:24.000Z,\"'=1+1\",pad,"
        + "2026-09-21T14:14:25.000Z,hungUp,ann,phone,false,,\"'=1+1/pad=won =1+1/old=stopped\","
        + "\"'=1+1>cy+di=noAnswer cy>di=turn di>=declined\"\r\n")
    let columns = CallRowsText.csvHeading.split(separator: ",").count
    #expect(
      CallRowsText.csv(CallRow(Self.record(2))).split(
        separator: ",", omittingEmptySubsequences: false
      ).count == columns + 1, "a comma is quoted")
  }

  @Test func json() throws {
    var listed = Self.listed(1, "ringing", at: 1000, owner: "c\"1")
    #expect(
      CallRow(listed)?.json == #"{"call":"00000000-0000-0001-0000-000000000001","app":"demo","#
        + #""callee":"bob","caller":{"user":"ann","device":"phone"},"placedAtUs":1000000,"#
        + #""phase":"ringing","shard":9,"owner":"c\"1"}"#)
    listed.call = "no id"
    #expect(CallRow(listed) == nil)
    let line = CallRow(Self.record(1)).json
    #expect(line.hasSuffix(#","phase":"ended"}"#) && line.contains(#""reason":"hungUp""#))
  }

  /// "Why did my phone not ring", when no node knows the call any longer.
  @Test func whyAPhoneDidNotRing() {
    let text = Story.text(CallReport(Self.record(1)))
    for words in [
      "From    its record, written when it had ended",
      "State   ended, hungUp by ann, device phone",
      "bob (pad) rang after 31.0 ms and answered after 4.0 s.",
      "bob (old) did not come: it had no session, and the push that was to wake it was refused after "
        + "150 ms (DeviceTokenNotForTopic); stopped",
    ] {
      #expect(text.contains(words), "\(text)")
    }
  }

  @Test func whereACallWent() {
    var record = Self.record(1)
    record.events.insert(.init(.diverted, offset: 2_000_000, who: .call), at: 5)
    record.diversions = [
      .init(from: "desk\u{1B}", to: ["bob"], reason: .noAnswer, at: Self.placedAt + .seconds(2))
    ]
    let text = Story.text(CallReport(record))
    #expect(text.contains("diverted: from desk\\u001b to bob (noAnswer)\n"), "\(text)")
    record.diversions[0].at = Self.placedAt
    let other = Story.text(CallReport(record))
    #expect(other.contains(" diverted\n"), "\(other)")
  }

  /// Times and indices that no node writes.
  @Test func whateverARecordSays() {
    var record = Self.record(1)
    record.placedAt = Timestamp(microseconds: .max)
    record.end?.at = Timestamp(microseconds: .min)
    record.events.append(.init(.stopped, offset: .max, who: .leg(99)))
    record.caller.user = "\u{1B}[2J"
    let row = CallRow(record)
    for text in [
      Story.text(CallReport(record)), CallRowsText.table([row]),
      CallRowsText.line(row), row.json,
    ] { #expect(!text.contains("\u{1B}")) }
    _ = CallRowsText.csv(row)
  }
}
