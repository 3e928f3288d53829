import CallCore
import Testing

/// The calls of a user as operators see them: those to it, and those that it placed.
@Suite struct UserCallsTests {
  private func call(_ number: Int) -> CallID { CallID(high: 1, low: UInt64(number)) }
  private func user(_ name: String, app: String = Bench.app) -> UserKey {
    UserKey(app: app, user: name)
  }

  private func placed(by user: UserKey, _ bench: Bench) -> [UserCalls.Item] {
    var found = UserCalls()
    bench.shard.directory.add(callsPlacedBy: user, to: &found)
    return found.newest
  }

  /// Bob's shard, a second between the calls: 1 and 3 from alice, 2 from carol, 4 from bob's own b2.
  private func bench() -> Bench {
    var bench = Bench()
    bench.attach("b1")
    for (number, caller) in [(1, "alice"), (2, "carol"), (3, "alice")] {
      bench.place(call(number), user: caller, device: "\(caller)1")
      bench.now = bench.now + .seconds(1)
    }
    bench.say(.place(PlaceRequest(call: call(4))), device: "b2")
    return bench
  }

  @Test func callsToAUser() throws {
    let calls = try #require(bench().shard.inspect(user: user("bob"))).calls
    #expect(calls.newest.map(\.state.call) == (1...4).map(call))
    #expect(calls.newest.map(\.caller.user) == ["alice", "carol", "alice", "bob"])
    #expect(calls.leftOut == 0)
  }

  @Test func callsThatAUserPlaced() {
    let bench = bench()
    #expect(placed(by: user("alice"), bench).map(\.state.call) == [call(1), call(3)])
    #expect(placed(by: user("carol"), bench).map(\.state.call) == [call(2)])
    #expect(placed(by: user("carol"), bench).map(\.state.callee) == ["bob"])
    #expect(placed(by: user("alice", app: "other"), bench).isEmpty)
    // Those to the own devices are known as calls to the user.
    #expect(placed(by: user("bob"), bench).isEmpty)
  }

  @Test func endedCallsAreAmongThemUntilTheyAreForgotten() throws {
    var bench = bench()
    bench.caller(.call(call(1), .cancel))
    bench.acknowledgeAll()
    let alices = placed(by: user("alice"), bench)
    #expect(alices.map(\.state.phase) == [.ended, .placed])
    #expect(alices.first?.state.reason == .cancelled)
    // In the order of their placing, whoever has heard of their end.
    let bobs = try #require(bench.shard.inspect(user: user("bob"))).calls
    #expect(bobs.newest.map(\.state.call) == (1...4).map(call))
    bench.pass(.seconds(2000))
    #expect(placed(by: user("alice"), bench).allSatisfy { $0.state.call != call(1) })
  }

  @Test func onlyTheNewestAreShown() {
    var calls = UserCalls()
    // In no order, each once.
    for number in 0..<250 {
      let number = number * 7 % 250
      calls.add(
        UserCalls.Item(
          state: CallState(call: call(number), callee: "bob", phase: .ended),
          caller: Party(user: "alice", device: "alice1"),
          placedAt: Timestamp(microseconds: Int64(number))))
    }
    #expect(UserCalls.countMax == 100)
    #expect(calls.newest.map(\.state.call) == (150..<250).map(call))
    #expect(calls.leftOut == 150)
  }
}
