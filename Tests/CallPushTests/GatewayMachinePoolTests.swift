import CallBus
import CallCore
import CallPush
import Testing

/// Repeated jobs, full pools, and the end of a gateway.
extension GatewayMachineTests {
  // MARK: The same again

  @Test func aJobThatComesAgainIsNotSentAgain() {
    var bench = Bench()
    _ = bench.take(Self.job())
    // Under way: the newer item will be settled, and the older one is forgotten.
    #expect(bench.take(Self.job()) == [.forget(item: 1)])
    let effects = bench.sent(1, .accepted)
    #expect(effects.contains(.settle(item: 2, .done)))
    // Done.
    #expect(bench.take(Self.job()) == [.settle(item: 3, .done)])
    #expect(bench.machine.counts[.repeated] == 2)
    // Another purpose, or another token, is another push.
    #expect(Self.sends(bench.take(Self.job(purpose: .missed))).count == 1)
    #expect(Self.sends(bench.take(Self.job(2))).count == 1)
  }

  @Test func aJobWhoseReportIsHeldIsNotSentAgain() {
    var bench = Bench()
    _ = bench.take(Self.job())
    _ = bench.sent(1, .failed(reason: "x"))
    #expect(bench.take(Self.job()) == [.forget(item: 1)])
    #expect(bench.take(Self.job()) == [.forget(item: 2)])
    #expect(bench.answered(1) == [.settle(item: 3, .done)])
  }

  @Test func aFateIsForgottenInTheEnd() {
    var bench = Bench()
    _ = bench.take(Self.job(deadline: 1000))
    _ = bench.sent(1, .accepted)
    // Expired elements are removed at an insertion.
    _ = bench.take(Self.job(9, deadline: 1000), at: 121)
    _ = bench.sent(2, .accepted, at: 121)
    #expect(Self.sends(bench.take(Self.job(deadline: 1000), at: 121)).count == 1)
  }

  // MARK: Pools

  @Test func aFullPoolDelaysNoOther() {
    var bench = Bench(sends: 2, waiting: 2)
    for number in UInt64(1)...4 { _ = bench.take(Self.job(number)) }
    #expect(bench.machine.pools[0].sending == 2)
    #expect(bench.machine.pools[0].waiting == 2)
    #expect(bench.take(Self.job(5)) == [.settle(item: 5, .retry(after: .milliseconds(250)))])
    #expect(bench.machine.counts[.turnedAway] == 1)
    #expect(bench.take(Self.job(6), pool: 1) == [.send(job: 5, pool: 1)])
    // A free place goes to the job that waited longest.
    #expect(Self.sends(bench.sent(1, .accepted)) == [3])
    #expect(Self.sends(bench.sent(2, .accepted)) == [4])
    #expect(bench.machine.pools[0].waiting == 0)
  }

  @Test func whoWaitsTooLongIsDropped() {
    var bench = Bench(sends: 1, waiting: 5)
    _ = bench.take(Self.job(1))
    _ = bench.take(Self.job(2, deadline: 3))
    _ = bench.take(Self.job(3))
    let effects = bench.tick(at: 3)
    #expect(Self.report(effects) == [.expired])
    #expect(effects.contains(.settle(item: 2, .done)))
    #expect(Self.sends(bench.sent(1, .accepted, at: 4)) == [3])
  }

  @Test func aSenderThatNeverAnswersGivesItsPlaceBack() {
    var bench = Bench(sends: 1)
    _ = bench.take(Self.job(1, deadline: 2))
    _ = bench.take(Self.job(2))
    #expect(Self.sends(bench.tick(at: 6.9)) == [])
    let effects = bench.tick(at: 7)
    #expect(
      Self.report(effects) == [.failed(reason: "the sender did not answer", mayHaveArrived: true)])
    #expect(Self.sends(effects) == [2])
    #expect(bench.machine.counts[.overdue] == 1)
    // Its late answer is ignored.
    #expect(bench.sent(1, .accepted, at: 8) == [])
    #expect(bench.machine.pools[0].sending == 1)
  }

  @Test func theQueueHearsThatAJobIsWorkedOn() {
    var bench = Bench()
    _ = bench.take(Self.job())
    var told = 0
    for step in 1...50 {
      let settled = Self.settled(bench.tick(at: Double(step) * 0.2))
      #expect(settled.allSatisfy { $0 == .inProgress })
      told += settled.count
    }
    #expect(told == 5)
  }

  @Test func reportsAreBounded() {
    var bench = Bench(sends: 10, reports: 1)
    _ = bench.take(Self.job(1))
    _ = bench.take(Self.job(2))
    _ = bench.sent(1, .tokenGone(at: nil))
    // Sent once, without waiting for the acknowledgement.
    let effects = bench.sent(2, .tokenGone(at: nil))
    #expect(Self.report(effects).count == 1)
    #expect(effects.contains(.settle(item: 2, .done)))
    #expect(bench.machine.counts[.reportsGivenUp] == 1)
    #expect(bench.machine.reportsWaiting == 1)
  }

  // MARK: Going

  @Test func aDrainGivesBackWhatNoSenderHas() {
    var bench = Bench(sends: 1, waiting: 5)
    _ = bench.take(Self.job(1))
    _ = bench.take(Self.job(2))
    bench.machine.drain()
    #expect(bench.drained() == [.settle(item: 2, .retry(after: .zero))])
    #expect(bench.take(Self.job(3)) == [.settle(item: 3, .retry(after: .zero))])
    let effects = bench.sent(1, .accepted)
    #expect(effects.contains(.settle(item: 1, .done)))
    _ = bench.answered(1)
    #expect(bench.machine.isIdle)
    bench.machine.resume()
    #expect(Self.sends(bench.take(Self.job(3))).count == 1)
  }

  @Test func whatIsLeftAtTheEndGoesToAnother() {
    var bench = Bench(sends: 5)
    _ = bench.take(Self.job(1))
    _ = bench.take(Self.job(2))
    _ = bench.sent(2, .tokenGone(at: nil))
    bench.machine.releaseAll()
    #expect(
      bench.drained() == [
        .settle(item: 1, .retry(after: .zero)), .settle(item: 2, .retry(after: .zero)),
      ])
    #expect(bench.machine.counts[.released] == 2)
  }
}
