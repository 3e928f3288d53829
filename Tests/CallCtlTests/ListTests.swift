import CallTelemetry
import Testing
import callctl

/// `callctl users` and `callctl calls`: one list from the answers of all coordinators.
@Suite struct ListTests {
  private static func call(
    _ name: String, at milliseconds: Int64, phase: String = "ringing", reason: String? = nil,
    winner: String? = nil
  ) -> ListedCall {
    ListedCall(
      call: name, phase: phase, reason: reason, app: "demo", caller: party("ann", "phone"),
      callee: "bob", winner: winner.map { party("bob", $0) }, placedAtMilliseconds: milliseconds,
      shard: 49, owner: "c1")
  }

  private static func party(_ user: String, _ device: String) -> CallReport.Party {
    CallReport.Party(user: user, device: device, deviceName: "")
  }

  private static func answer<Entry>(
    _ node: String, _ shards: [Int], _ entries: [Entry], leftOut: Int = 0
  ) -> ListReport<Entry> {
    ListReport(node: node, entries: entries, leftOut: leftOut, shards: shards, shardCount: 4)
  }

  private static func user(_ name: String, app: String = "demo", attached: Int = 1) -> ListedUser {
    ListedUser(app: app, user: name, attached: attached, registered: 2, liveCallsTo: 3)
  }

  @Test func answersAreMergedInOrder() {
    let list = ListView(
      [
        Self.answer("c1", [0, 1], [Self.call("b", at: 9), Self.call("a", at: 5)], leftOut: 4),
        Self.answer("c2", [2, 3], [Self.call("d", at: 7), Self.call("c", at: 5)]),
      ], limit: 3)
    #expect(list.entries.map(\.call) == ["b", "d", "a"])
    #expect(list.leftOut == 5 && list.shardsMissing == 0)
  }

  /// Its shard is searched at the old owner, then at the new one.
  @Test func anEntryStandsOnceWhileItsShardMoves() {
    let users = ListView(
      [
        Self.answer("c1", [0, 1], [Self.user("ann"), Self.user("ann", app: "other")]),
        Self.answer("c2", [1, 2], [Self.user("ann", attached: 2), Self.user("bob")]),
      ], limit: 10)
    #expect(users.entries.map(\.user) == ["ann", "bob", "ann"])
    #expect(users.shardsMissing == 1)
  }

  @Test func whateverNodesSay() {
    var hostile = Self.answer("c1", [-1, 99, 0, 0], [Self.call("a", at: .min)], leftOut: .max)
    hostile.shardCount = .max
    let list = ListView(
      [hostile, Self.answer("c2", [], [Self.call("\u{1B}[2J", at: .max)], leftOut: -5)], limit: 9,
      now: 0)
    #expect(list.leftOut == .max && list.shardsMissing == 4094)
    let text = ListText.calls(list, isLive: true)
    #expect(!text.contains("\u{1B}"))
  }

  @Test func calls() {
    let list = ListView(
      [
        Self.answer(
          "c1", [0, 1, 2],
          [
            Self.call("c-1", at: 91_000),
            Self.call("c-2", at: 30_000, phase: "answered", winner: "pad"),
            Self.call("c-3", at: 10_000, phase: "ended", reason: "hungUp", winner: "pad"),
          ], leftOut: 1)
      ], limit: 50, now: 95_500)
    #expect(
      ListText.calls(list, isLive: false) == """
        CALL  STATE             AGE  CALLER       CALLEE  ANSWERED BY  APP   SHARD  OWNER
        c-1   ringing            4s  ann (phone)  bob     -            demo     49  c1
        c-2   answered        1m 5s  ann (phone)  bob     bob (pad)    demo     49  c1
        c-3   ended, hungUp  1m 25s  ann (phone)  bob     bob (pad)    demo     49  c1
        (1 older call not shown: --limit N shows more, at most 1000; --app and --user narrow the list.)
        (No coordinator answered for 1 shard: their calls are missing here. callctl status says why.)

        """)
  }

  @Test func users() {
    let list = ListView(
      [Self.answer("c1", [0, 1, 2, 3], [Self.user("ann"), Self.user("bob")])], limit: 50)
    #expect(
      ListText.users(list) == """
        USER  APP   ATTACHED  REGISTERED  LIVE CALLS TO IT
        ann   demo         1           2                 3
        bob   demo         1           2                 3

        """)
  }

  @Test func nothingIsAnAnswer() {
    let users = ListView<ListedUser>([Self.answer("c1", [0, 1, 2, 3], [])], limit: 50)
    #expect(ListText.users(users) == "No user has a session or a registration.\n")
    let calls = ListView<ListedCall>([Self.answer("c1", [0, 1, 2, 3], [])], limit: 50)
    #expect(ListText.calls(calls, isLive: true) == "No live calls.\n")
  }

  /// Scripts rely on these names.
  @Test func json() throws {
    let calls = ListView(
      [Self.answer("c1", [0, 1, 2, 3], [Self.call("c-1", at: 1_000, winner: "pad")])], limit: 50,
      now: 3_999)
    #expect(
      try calls.sortedJSON()
        == #"{"calls":[{"ageSeconds":2,"app":"demo","call":"c-1","callee":"bob","#
        + #""caller":{"device":"phone","deviceName":"","user":"ann"},"owner":"c1","phase":"ringing","#
        + #""placedAtMilliseconds":1000,"shard":49,"#
        + #""winner":{"device":"pad","deviceName":"","user":"bob"}}],"leftOut":0,"shardsMissing":0}"#
    )
    let users = ListView([Self.answer("c1", [0], [Self.user("ann")], leftOut: 2)], limit: 50)
    #expect(
      try users.sortedJSON()
        == #"{"leftOut":2,"shardsMissing":3,"users":[{"app":"demo","attached":1,"liveCallsTo":3,"#
        + #""registered":2,"user":"ann"}]}"#)
  }
}

@Suite struct LifetimeTests {
  @Test(arguments: [("30", 30), ("30s", 30), ("10m", 600), ("1h", 3600), ("7d", 604_800)])
  func read(text: String, seconds: Int64) {
    #expect(Lifetime.seconds(text) == seconds)
  }
  @Test(arguments: ["", "0", "-1", "h", "1w", "99999999999", "1.5h"])
  func refused(text: String) {
    #expect(Lifetime.seconds(text) == nil)
  }
}
