import CallCore
import Testing

/// The work that one user can give a shard grows with the user's activity, not with its square.
@Suite struct UserWorkTests {
  private func call(_ number: Int) -> CallID { CallID(high: 5, low: UInt64(number)) }

  @Test func callersOfOneUser() {
    var rates = PairRates()
    var now = Timestamp(microseconds: 1_000_000_000)
    let callers = 20_000
    for number in 0..<callers {
      let caller = UserKey(app: "demo", user: "u\(number)")
      let isAdmitted = rates.admits(caller, now: now, perMinute: 10)
      #expect(isAdmitted)
      now = now + .milliseconds(1)
    }
    #expect(rates.count == callers, "all of them called within the minute")
    #expect(rates.visits < 3 * callers)
    // A minute later nothing of it is remembered, once the table has doubled.
    now = now + .seconds(61)
    for number in 0..<(2 * callers) {
      _ = rates.admits(UserKey(app: "demo", user: "v\(number)"), now: now, perMinute: 10)
    }
    #expect(rates.count <= 2 * callers + 64)
    #expect(rates.visits < 10 * callers)
  }

  @Test func pastCallsAreForgottenAtTheFront() {
    var past = SettledCalls()
    let count = 20_000
    for number in 0..<count { past.append(call(number)) }
    // In pairs that change places, as calls do whose ends were confirmed in another order.
    for number in stride(from: 0, to: count, by: 2) {
      past.remove(call(number + 1))
      past.remove(call(number))
    }
    #expect(past.isEmpty)
    #expect(past.visits <= 2 * count)
  }

  @Test func pastCallsKeepTheirOrder() {
    var past = SettledCalls()
    for number in 0..<200 { past.append(call(number)) }
    for number in 0..<150 where number % 3 != 0 { past.remove(call(number)) }
    past.remove(call(999))
    for number in 200..<210 { past.append(call(number)) }
    #expect(past.all.map(\.low) == (0..<210).filter { $0 >= 150 || $0 % 3 == 0 }.map(UInt64.init))
  }

  /// Many call one user whose devices confirm nothing: each attach of these looks at all such calls.
  @Test func callsOfWhoseEndNobodyConfirms() {
    var bench = Bench()
    bench.attach("b1")
    let limit = CallLimits().callsToUser
    for number in 0..<limit {
      let (id, caller) = (call(number), "u\(number)")
      #expect(bench.place(id, user: caller, device: "d")?.error == nil)
      bench.say(.call(id, .cancel), user: caller, device: "d")
    }
    let error = CallError(
      .tooManyCalls, "The callee's devices do not confirm the ends of 1000 calls.",
      retryAfterMilliseconds: 60_000)
    #expect(bench.place(call(limit), user: "last", device: "d") == .error(error))
    #expect(bench.place(call(3), user: "u3", device: "d")?.error == nil, "a repeat is no new call")
    // One that is confirmed makes room.
    bench.acknowledgeAll()
    #expect(bench.place(call(limit), user: "last", device: "d")?.error == nil)
  }
}
