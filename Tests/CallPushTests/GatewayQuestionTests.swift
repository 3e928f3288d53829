import CallBus
import CallCore
import CallPush
import Testing

/// The call of a ring that waited may have ended, so the gateway queries the shard before it sends.
@Suite struct GatewayQuestionTests {
  typealias Effect = GatewayMachine.Effect
  typealias Bench = GatewayMachineTests.Bench

  private static func old(
    _ number: UInt64 = 1, deadline: Double = 30, purpose: PushPurpose = .ring
  ) -> PushJob {
    GatewayMachineTests.job(number, deadline: deadline, purpose: purpose, decided: 0)
  }

  @Test func aRingThatWaitedIsSentWhenItsCallStillRings() {
    var bench = Bench()
    #expect(bench.take(Self.old(), at: 0.6) == [.ask(question: 1, job: 1)])
    #expect(bench.queried(1, rings: true, at: 0.7) == [.send(job: 1, pool: 0)])
    // A repeated answer has no effect.
    #expect(bench.queried(1, rings: true, at: 0.7) == [])
    #expect(bench.queried(1, rings: false, at: 0.7) == [])
    #expect(bench.sent(1, .accepted, at: 0.8).contains(.settle(item: 1, .done)))
    #expect(bench.machine.counts[.overtaken] == nil)
  }

  @Test func oneWhoseCallIsOverIsDroppedCountedAndReported() {
    var bench = Bench(sends: 1)
    _ = bench.take(Self.old(1), at: 5)
    // The queried job occupies a place, which the next job gets.
    #expect(bench.take(Self.old(2), at: 5) == [])
    let effects = bench.queried(1, rings: false, at: 5.1)
    #expect(GatewayMachineTests.report(effects) == [.expired])
    #expect(effects.contains(.settle(item: 1, .done)))
    #expect(effects.contains(.ask(question: 2, job: 2)))
    #expect(GatewayMachineTests.sends(effects) == [])
    #expect(bench.machine.counts[.overtaken] == 1)
    #expect(bench.machine.pools[0].sending == 1)
    // Its job is redelivered: the outcome is known.
    #expect(bench.take(Self.old(1), at: 6) == [.settle(item: 3, .done)])
  }

  @Test func whatIsFreshIsNotAskedAboutNorWhatTellsOfTheEnd() {
    var bench = Bench(sends: 10)
    #expect(bench.take(Self.old(1), at: 0.5) == [.send(job: 1, pool: 0)])
    for (number, purpose) in PushPurpose.allCases.enumerated() where purpose != .ring {
      let effects = bench.take(Self.old(UInt64(10 + number), purpose: purpose), at: 20)
      #expect(GatewayMachineTests.sends(effects).count == 1, "\(purpose)")
    }
  }

  /// A push is a hint, so a call that may still ring gets one.
  @Test func withoutAnAnswerItIsSent() {
    var bench = Bench()
    _ = bench.take(Self.old(), at: 3)
    #expect(GatewayMachineTests.sends(bench.tick(at: 3.9)) == [])
    #expect(GatewayMachineTests.sends(bench.tick(at: 4)) == [1])
    #expect(bench.queried(1, rings: false, at: 4.1) == [])
    #expect(bench.sent(1, .accepted, at: 4.2).contains(.settle(item: 1, .done)))
  }

  @Test func itsDeadlineDoesNotWaitForTheAnswer() {
    var bench = Bench(sends: 1)
    _ = bench.take(Self.old(1, deadline: 5), at: 4.8)
    _ = bench.take(Self.old(2), at: 4.8)
    let effects = bench.tick(at: 5)
    #expect(GatewayMachineTests.report(effects) == [.expired])
    #expect(effects.contains(.ask(question: 2, job: 2)))
    #expect(bench.machine.counts[.late] == 1)
    #expect(bench.queried(1, rings: true, at: 5.1) == [])
    #expect(bench.queried(2, rings: true, at: 5.1) == [.send(job: 2, pool: 0)])
  }

  @Test func aJobThatComesAgainMeanwhileIsAskedAboutOnce() {
    var bench = Bench()
    _ = bench.take(Self.old(), at: 1)
    #expect(bench.take(Self.old(), at: 1.5) == [.forget(item: 1)])
    #expect(bench.queried(1, rings: true, at: 1.6) == [.send(job: 1, pool: 0)])
    // The newer item is the one to settle.
    #expect(bench.sent(1, .accepted, at: 1.7).contains(.settle(item: 2, .done)))
  }

  @Test func aDrainGivesItBack() {
    var bench = Bench()
    _ = bench.take(Self.old(), at: 1)
    bench.machine.drain()
    #expect(bench.drained() == [.settle(item: 1, .retry(after: .zero))])
    #expect(bench.machine.pools[0].sending == 0)
    #expect(bench.queried(1, rings: true, at: 1.1) == [])
    #expect(bench.machine.isIdle)
  }
}
