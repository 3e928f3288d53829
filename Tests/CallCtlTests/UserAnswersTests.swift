import CallCore
import CallTelemetry
import Testing
import callctl

/// `callctl user`: one picture from the answers of all nodes.
@Suite struct UserAnswersTests {
  private static func call(
    _ name: String, _ direction: String?, _ with: String?, at milliseconds: Int64? = 40_000
  ) -> UserReport.Call {
    var call = Story.call(name, reason: "hungUp")
    (call.direction, call.with, call.placedAtMilliseconds) = (direction, with, milliseconds)
    return call
  }

  /// A coordinator's answer; the cluster has four shards.
  private static func answer(
    _ node: String, shards: [Int], placed: [UserReport.Call] = [], leftOut: Int = 0
  ) -> UserReport {
    var report = UserReport(found: false, node: node)
    report.placed = UserReport.Placed(
      calls: placed, leftOut: leftOut, shards: shards, shardCount: 4)
    return report
  }

  /// As `answer`, of the coordinator that knows ann.
  private static func owner(
    _ node: String, shards: [Int], calls: [UserReport.Call], placed: [UserReport.Call] = []
  ) -> UserReport {
    var report = answer(node, shards: shards, placed: placed)
    report.found = true
    report.shard = shards.first
    report.app = "demo"
    report.user = "ann"
    report.devices = []
    report.calls = calls
    return report
  }

  private static func merged(_ answers: UserReport...) -> UserReport? {
    UserAnswers.merged(answers, app: "demo", user: "ann")
  }

  private static let edge = UserReport(found: false, node: "e1")

  @Test func callsPlacedAndCallsToTheUser() throws {
    let report = try #require(
      Self.merged(
        Self.edge,
        Self.answer("c2", shards: [2, 3], placed: [Self.call("p2", "placed", "bob", at: 3)]),
        Self.owner(
          "c1", shards: [0, 1], calls: [Self.call("c", "called", "eve", at: 2)],
          placed: [Self.call("p1", "placed", "dan", at: 1)])))
    #expect(report.found && report.node == "c1" && report.shard == 0)
    let calls = try #require(report.calls)
    #expect(calls.map(\.call) == ["p1", "c", "p2"])
    #expect(calls.map(\.direction) == ["placed", "called", "placed"])
    #expect(calls.map(\.with) == ["dan", "eve", "bob"])
    #expect(report.callsLeftOut == 0 && report.shardsMissing == 0 && report.placed == nil)
    let text = try report.sortedJSON()
    #expect(text.contains(#""direction":"placed""#) && text.contains(#""direction":"called""#))
  }

  @Test func aUserWithoutDevicesWhomNobodyCalls() throws {
    let shard = ShardHash.shard(of: UserKey(app: "demo", user: "ann"), count: 4)
    let others = (0..<4).filter { $0 != shard }
    let report = try #require(
      Self.merged(
        Self.answer("c1", shards: others, placed: [Self.call("p", "placed", "bob")]),
        Self.answer("c2", shards: [shard])))
    #expect(report.found && report.node == "c2" && report.shard == shard)
    #expect(report.calls?.map(\.call) == ["p"])
    #expect(report.shardsMissing == 0)
    #expect(UserText.render(report, now: 100_000).hasPrefix("User   ann in app demo\n"))
    // Nor does anybody know one without calls.
    #expect(Self.merged(Self.answer("c1", shards: others), Self.edge) == nil)
  }

  /// A shard that moves may be searched by both of its owners.
  @Test func aCallIsShownOnce() throws {
    let call = Self.call("p", "placed", "bob")
    let report = try #require(
      Self.merged(
        Self.owner("c1", shards: [0, 1], calls: [], placed: [call]),
        Self.answer("c2", shards: [1, 2, 3], placed: [call])))
    #expect(report.calls?.map(\.call) == ["p"])
    #expect(report.shardsMissing == 0)
  }

  @Test func onlyTheNewestAreShown() throws {
    func many(_ numbers: Range<Int>) -> [UserReport.Call] {
      numbers.map { Self.call("p\($0)", "placed", "bob", at: Int64($0)) }
    }
    let report = try #require(
      Self.merged(
        Self.owner("c1", shards: [0, 1], calls: [], placed: many(0..<100)),
        Self.answer("c2", shards: [2, 3], placed: many(100..<160), leftOut: 5)))
    #expect(report.calls?.map(\.call) == (60..<160).map { "p\($0)" })
    #expect(report.callsLeftOut == 65)
    #expect(UserText.render(report, now: 100_000).hasSuffix("(65 older calls not shown.)\n"))
  }

  @Test func theScreenSaysOnlyWhatIsKnown() throws {
    let nothing = try #require(
      Self.merged(Self.owner("c1", shards: [0, 1], calls: []), Self.answer("c2", shards: [2, 3])))
    #expect(
      UserText.render(nothing, now: 100_000)
        .hasSuffix("\nNo calls, now or in the last minutes.\n"))
    let missing = try #require(Self.merged(Self.owner("c1", shards: [0, 1, 3], calls: [])))
    #expect(missing.shardsMissing == 1)
    #expect(
      UserText.render(missing, now: 100_000)
        .hasSuffix(
          """

          No calls are known, now or of the last minutes.
          (Nobody answered for 1 shard: calls that the user placed may be missing.)

          """))
  }

  /// Coordinators of versions that know only of the calls to a user.
  @Test func olderNodes() throws {
    var older = UserReport(found: true, node: "c1")
    older.calls = []
    let nothing = try #require(Self.merged(older, Self.edge))
    #expect(nothing.shardsMissing == nil)
    #expect(UserText.render(nothing, now: 0).contains("No calls to the user, now"))
    older.calls = [Self.call("c", nil, nil, at: nil)]
    let report = try #require(Self.merged(older, Self.answer("c2", shards: [2, 3])))
    #expect(report.calls?.first?.direction == "called")
    #expect(report.shardsMissing == 2)
  }

  @Test func theScreen() throws {
    var toSelf = Self.call("s", "toSelf", "ann")
    toSelf.reason = nil
    toSelf.phase = "ringing"
    let report = try #require(
      Self.merged(
        Self.owner(
          "c1", shards: [0, 1], calls: [Self.call("c", "called", "eve\u{1B}", at: 39_000), toSelf]),
        Self.answer("c2", shards: [2, 3], placed: [Self.call("p", "placed", "bob", at: 41_000)])))
    #expect(
      UserText.render(report, now: 101_000)
        == """
        User   ann in app demo
        Shard  0 on c1

        No devices.

        CALL  STATE          DIRECTION     WITH       PLACED
        c     ended, hungUp  is called     eve\\u001b  1m 2s ago
        s     ringing        calls itself  ann        1m 1s ago
        p     ended, hungUp  placed        bob        1m 0s ago

        """)
  }

  @Test(arguments: [Int.min, -1, 0, Int.max])
  func nonsenseFromANodeDoesNoHarm(number: Int) throws {
    var answer = Self.answer(
      "c2", shards: [number, 1], placed: [Self.call("p", "placed", "bob")], leftOut: number)
    answer.placed?.shardCount = number
    let report = try #require(Self.merged(answer, answer))
    let missing = try #require(report.shardsMissing)
    #expect(missing >= 0)
    #expect(!UserText.render(report, now: 100_000).isEmpty)
  }

  @Test func devicesAndCalls() {
    var report = UserReport(found: true, node: "c1")
    report.app = "demo"
    report.user = "ann"
    report.shard = 7
    var phone = Story.device("phone", name: "Ann's\u{1B}[2J", session: "1f-2", attached: 40_000)
    phone.client = "sdk 1"
    report.devices = [phone]
    report.calls = [Story.call("c", reason: "busy")]
    #expect(
      UserText.render(report, now: 100_000)
        == """
        User   ann in app demo
        Shard  7 on c1

        DEVICE  NAME            SESSION  ATTACHED   REGISTERED  PUSH  CLIENT
        phone   Ann's\\u001b[2J  1f-2     1m 0s ago  no          -     sdk 1

        CALL  STATE
        c     ended, busy

        """)
  }
}
