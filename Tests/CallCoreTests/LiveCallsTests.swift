import CallCore
import Testing

/// The live calls that a device may ask for: those that it placed, and those to its user.
@Suite struct LiveCallsTests {
  private func call(_ number: Int) -> CallID { CallID(high: 1, low: UInt64(number)) }

  private func ask(_ bench: inout Bench, user: String = "alice", device: String = "alice1")
    -> LiveCalls
  {
    let reply = bench.say(.calls(shard: 0), user: user, device: device, callee: user)
    guard case .calls(let live)? = reply else {
      Issue.record("\(String(describing: reply))")
      return LiveCalls()
    }
    return live
  }

  /// Alice's phone called Bob twice, her tablet once, and Carol once.
  private func bench() -> Bench {
    var bench = Bench.attached("b1", "b2")
    for (number, user, device) in [
      (1, "alice", "alice1"), (2, "alice", "alice2"), (3, "carol", "carol1"),
      (4, "alice", "alice1"),
    ] {
      bench.place(call(number), user: user, device: device)
    }
    return bench
  }

  @Test func whatTheDevicePlaced() {
    var bench = bench()
    let live = ask(&bench)
    #expect(live.placed.map(\.call) == [call(1), call(4)])
    #expect(live.placed.map(\.phase) == [.placed, .placed])
    #expect(live.placed.map(\.callee) == ["bob", "bob"])
    #expect(live.received.isEmpty)
    #expect(ask(&bench, device: "alice2").placed.map(\.call) == [call(2)])
    #expect(ask(&bench, user: "mallory", device: "alice1") == LiveCalls())
  }

  @Test func whatEndedIsNotAmongThem() {
    var bench = bench()
    bench.caller(.call(call(1), .cancel))
    #expect(ask(&bench).placed.map(\.call) == [call(4)])
    #expect(bench.say(.call(call(4), .answer()), device: "b1")?.won == true)
    #expect(ask(&bench).placed.map(\.phase) == [.answered])
    bench.caller(.call(call(4), .hangUp))
    #expect(ask(&bench).placed.isEmpty)
  }

  @Test func callsToTheUserAsTheDeviceSeesThem() {
    var bench = bench()
    bench.say(.call(call(1), .decline(.here)), device: "b1")
    bench.say(.call(call(2), .answer()), device: "b1")
    bench.caller(.call(call(4), .cancel))
    let one = ask(&bench, user: "bob", device: "b1")
    #expect(one.received.map(\.call) == [call(2), call(3)])
    #expect(one.received.map(\.phase) == [.answered, .placed])
    // Another device has the call that was answered; the one that was declined rings on.
    let two = ask(&bench, user: "bob", device: "b2")
    #expect(two.received.map(\.call) == [call(1), call(3)])
    #expect(two.placed.isEmpty)
  }

  @Test func aCallToOneselfStandsOnce() {
    var bench = Bench.attached("b1", "b2")
    bench.say(.place(PlaceRequest(call: call(1))), device: "b2")
    let placer = ask(&bench, user: "bob", device: "b2")
    #expect(placer.placed.map(\.call) == [call(1)] && placer.received.isEmpty)
    let other = ask(&bench, user: "bob", device: "b1")
    #expect(other.placed.isEmpty && other.received.map(\.call) == [call(1)])
  }

  @Test func aNewOwnerKnowsThem() {
    var bench = bench()
    bench.caller(.call(call(1), .cancel))
    for var next in [bench.takenOver().begun(), bench.restoredFromCheckpoint().begun()] {
      #expect(ask(&next).placed.map(\.call) == [call(4)])
    }
  }

  @Test func nothingIsKeptOfCallsThatEnded() {
    var bench = bench()
    bench.acknowledgeAll()
    bench.pass(.seconds(2000))
    #expect(bench.shard.counts.callsPlacedTotal == 4)
    #expect(ask(&bench) == LiveCalls())
  }

  @Test func anAnswerIsBounded() {
    var bench = Bench(
      limits: .with {
        $0.callsPerPairPerMinute = 1000
        $0.liveCallsPerDevice = 1000
      })
    bench.attach("b1")
    for number in 1...100 { bench.place(call(number), user: "alice", device: "alice1") }
    #expect(ask(&bench).placed.count == LiveCalls.countMaximum)
  }
}
