import CallCore
import CallJudge
import CallLoadKit
import CallTestKit
import TestSupport
import Testing

/// The judge of the simulation, on what devices received from the cluster in memory. It reads no journal: there is none.
@Suite struct DevicesJudgeTests {
  private func findings(_ run: TwinRun) throws -> JournalFindings {
    let queue = EventQueue()
    var run = run
    run.events = queue
    _ = try #require(try run.outcome())
    var roster = Roster(devices: run.devices, devicesPerUser: 3)
    roster.hasStrictApp = true
    var judge = RunJudge(app: "load", roster: roster, readsJournal: false)
    judge.add(queue.take().events, reached: .distantFuture)
    judge.finish()
    return judge.findings
  }

  @Test(arguments: Proof.arguments([1], andInProof: [2, 3]) as [UInt64])
  func aFaultlessClusterIsFoundFaultless(seed: UInt64) throws {
    let findings = try findings(TwinRun(seed: seed))
    #expect(findings.examples.values.flatMap { $0 } == [String]())
  }

  /// The other faults are of calls that leave the devices which they rang first, or need the journal or the stores to be
  /// seen. The simulation has a sabotage for each of these (docs/simulation.md).
  @Test(
    arguments: Proof.arguments(
      [
        (.tellsTwoWinners, .oneWinner), (.tellsNoWinner, .answersCount),
        (.forgetsALoser, .nobodyRingsOn), (.tellsTwoEnds, .oneEnd),
      ],
      andInProof: [
        (.ignoresAnswers, .answersCount), (.forgetsTheOtherSide, .nobodyRingsOn),
        (.ringsAfterEnd, .noInviteAfterStop), (.tellsWrongReason, .endsHaveCauses),
        (.namesWrongWinner, .oneStory), (.tellsMissed, .missedRightly),
        (.tellsWinnerItLost, .winnerStopped), (.losesCommands, .commandsAnswered),
        (.refusesForNoReason, .noStrangeError), (.forgetsTheDeadline, .timersOnTime),
        (.reordersSignals, .signalsInOrder), (.doublesSignals, .signalsInPlace),
      ]) as [(FaultyTwin.Fault, HistoryRule)])
  func aFaultIsReported(fault: FaultyTwin.Fault, rule: HistoryRule) throws {
    let findings = try findings(TwinRun(fault: fault))
    #expect((findings.violations[rule] ?? 0) > 0)
  }
}
