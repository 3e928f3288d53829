import CallCore
import Testing

/// Lists of users and calls, as operators see them.
@Suite struct ListingTests {
  private func call(_ number: Int) -> CallID { CallID(high: 1, low: UInt64(number)) }

  private func calls(_ bench: Bench, _ filter: ListFilter, limit: Int = 100)
    -> Shortlist<CallSummary>
  {
    var list = Shortlist<CallSummary>(countMax: limit)
    bench.shard.directory.add(callsMatching: filter, to: &list)
    return list
  }

  private func users(_ bench: Bench, _ filter: ListFilter = ListFilter()) -> [UserSummary] {
    var list = Shortlist<UserSummary>(countMax: 100)
    bench.shard.directory.add(usersMatching: filter, to: &list)
    return list.items
  }

  /// Calls 1 to 3 to bob, a second apart: from alice, answered by b1; from carol; from alice, cancelled.
  private func bench() -> Bench {
    var bench = Bench.attached("b1", "b2")
    for (number, caller) in [(1, "alice"), (2, "carol"), (3, "alice")] {
      bench.place(call(number), user: caller, device: "\(caller)1")
      bench.now = bench.now + .seconds(1)
    }
    bench.say(.call(call(1), .answer(description: "answer")), device: "b1")
    bench.caller(.call(call(3), .cancel))
    bench.acknowledgeAll()
    return bench
  }

  @Test func callsAreListedNewestFirst() {
    let list = calls(bench(), ListFilter())
    #expect(list.items.map(\.state.call) == [call(3), call(2), call(1)])
    #expect(list.items.map(\.state.phase) == [.ended, .placed, .answered])
    #expect(list.items.map(\.caller.user) == ["alice", "carol", "alice"])
    #expect(list.items.map(\.winner?.device) == [nil, nil, DeviceID("b1")])
    #expect(list.items.allSatisfy { $0.app == Bench.app && $0.state.callee == "bob" })
    let newest = calls(bench(), ListFilter(), limit: 1)
    #expect(newest.items.map(\.state.call) == [call(3)] && newest.leftOut == 2)
  }

  @Test func filters() {
    let bench = bench()
    func ids(_ filter: ListFilter) -> [CallID] { calls(bench, filter).items.map(\.state.call) }
    #expect(ids(ListFilter(isLive: true)) == [call(2), call(1)])
    #expect(ids(ListFilter(user: "alice")) == [call(3), call(1)])
    #expect(ids(ListFilter(user: "alice", isLive: true)) == [call(1)])
    #expect(ids(ListFilter(user: "bob")).count == 3)
    #expect(ids(ListFilter(app: "other")).isEmpty)
    #expect(ids(ListFilter(user: "eve")).isEmpty)
  }

  @Test("a call is listed for whomever it rings") func wentOn() {
    var bench = DivertingBench.ringing("carol", "dave")
    bench.say(.answer(description: "sdp"), "dave")
    for user in ["alice", "bob", "carol", "dave"] {
      #expect(calls(bench.owner, ListFilter(user: user)).items.count == 1, "\(user)")
    }
    #expect(calls(bench.owner, ListFilter(user: "eve")).items.isEmpty)
  }

  @Test func theWinnerIsKnownAfterTheEnd() {
    var bench = bench()
    bench.caller(.call(call(1), .hangUp))
    let ended = calls(bench, ListFilter(user: "alice")).items.last
    #expect(ended?.state.phase == .ended && ended?.winner?.device == DeviceID("b1"))
  }

  @Test func usersHaveASessionOrARegistration() {
    var bench = bench()
    #expect(
      users(bench) == [
        UserSummary(
          user: UserKey(app: Bench.app, user: "bob"), attached: 2, registered: 0, liveCallsTo: 2)
      ])
    bench.say(.attach(Attach(deviceName: "Ann")), user: "ann", device: "a1", callee: "ann")
    #expect(users(bench).map(\.user.user) == ["ann", "bob"])
    #expect(users(bench, ListFilter(app: "other")).isEmpty)
    // A user who is only called, and has no device here, is not among them.
    bench.say(
      .place(PlaceRequest(call: call(9))), user: "alice", device: "alice1", callee: "nobody")
    #expect(users(bench).map(\.user.user) == ["ann", "bob"])
  }

  @Test func aShortlistKeepsTheFirstAndCountsTheOthers() {
    var list = Shortlist<Int>(countMax: 3)
    for number in 0..<100 { list.add(number * 37 % 100) }
    #expect(list.items == [0, 1, 2] && list.leftOut == 97)
    var one = Shortlist<Int>(countMax: 0)
    one.add(2)
    one.add(1)
    #expect(one.items == [1] && one.leftOut == 1, "never an empty list")
  }
}
