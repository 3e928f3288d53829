import CallCore
import Testing

/// A snapshot tells what was, whatever the shard does meanwhile.
@Suite struct SnapshotTests {
  private func call(_ number: Int) -> CallID { CallID(high: 7, low: UInt64(number)) }

  /// More calls than fit into a few pieces of the table, each from another caller.
  private func bench(calls: Int) -> Bench {
    var bench = Bench(limits: .with { $0.liveCallsPerDevice = calls })
    bench.attach("b1")
    for number in 0..<calls {
      bench.place(call(number), seconds: 180, user: "alice\(number)")
    }
    return bench
  }

  @Test(arguments: [1, 31, 32, 33, 100]) func whatComesLaterIsNotInIt(calls: Int) {
    var bench = bench(calls: calls)
    let snapshot = bench.shard.snapshot
    let before = bench.shard.checkpointEntries()
    for number in stride(from: 0, to: calls, by: 3) {
      bench.say(.call(call(number), .decline(.everywhere)), device: "b1")
    }
    bench.place(call(1000), user: "eve")
    #expect(snapshot.entries() == before)
    #expect(bench.shard.checkpointEntries() != before)
  }

  /// Calls go in any order, and the others stay where they can be found.
  @Test func callsThatGoLeaveTheOthers() {
    var bench = bench(calls: 100)
    let snapshot = bench.shard.snapshot
    for number in stride(from: 0, to: 100, by: 2) {
      bench.say(.call(call(number), .decline(.everywhere)), device: "b1")
    }
    bench.acknowledgeAll()
    bench.pass(.seconds(170))
    for number in stride(from: 1, to: 100, by: 2) {
      bench.say(.call(call(number), .answer(description: "")), device: "b1")
      bench.say(.call(call(number), .connected), device: "b1")
      bench.say(
        .call(call(number), .connected), user: "alice\(number)", device: "alice1", callee: "bob")
    }
    bench.pass(.seconds(600))
    for number in 0..<100 {
      let phase = bench.say(.call(call(number), .query), device: "b1")?.state?.phase
      #expect(phase == (number % 2 == 0 ? .unknown : .answered), "call \(number)")
    }
    #expect(Set(snapshot.entries().map(\.call)).count == 100)
    #expect(Set(bench.shard.checkpointEntries().map(\.call)).count == 50)
  }
}
