import CallLoadKit
import CallTestKit
import TestSupport
import Testing

@Suite struct FaultyTwinTests {
  @Test(arguments: Proof.arguments([1, 2], andInProof: [3, 4, 5]) as [UInt64])
  func aFaultlessClusterIsFoundFaultless(seed: UInt64) throws {
    let outcome = try #require(try TwinRun(seed: seed).outcome())
    let result = outcome.result
    #expect(result.devicesConnected == 120)
    #expect(result.devicesRegistered == 120)
    #expect(result.callsExpected == 600)
    #expect(result.callsPlaced == 600)
    #expect(result.callsCompleted == 600)
    #expect(result.failures.isEmpty, "\(result.failures)")
    #expect(result.examples.values.flatMap { $0 } == [String]())
    #expect(Set(result.callsByPart.keys) == Set(Scenario.Kind.allCases.map(\.rawValue)))
    for phase in LatencyPhase.allCases {
      #expect(result.latency[phase].map { $0.totalCount > 0 } == true, "\(phase)")
    }
  }

  @Test("streams both ways in every call arrive once and in order")
  func streams() throws {
    var run = TwinRun(devices: 300, seed: 4, signals: 25)
    // The twin takes a command that a client sends again after a break for another one.
    run.scenario.parts.removeAll { $0.kind == .callerReturns }
    let result = try #require(try run.outcome()).result
    #expect(result.callsCompleted == 600, "\(result.failures)")
    #expect(result.examples.values.flatMap { $0 } == [String]())
  }

  /// Who sends a call on does not call its caller at that moment: the two would cross.
  @Test func forwardersDoNotCross() throws {
    var run = TwinRun(devices: 96, rate: 10, durationSeconds: 60)
    run.scenario.parts = [
      Scenario.Part(kind: .forwarded, weight: 1), Scenario.Part(kind: .answered, weight: 1),
    ]
    let result = try #require(try run.outcome()).result
    #expect(result.callsByPart["forwarded"] ?? 0 > 50)
    #expect(result.examples.values.flatMap { $0 } == [String]())
  }

  /// A client does not take what comes before the reply to a pull, so no end tells the puller that another has answered.
  @Test func aDeviceThatPullsBeforeItIsStoppedHangsUp() throws {
    var run = TwinRun()
    var part = Scenario.Part(kind: .pulled, weight: 1)
    part.thenMs = 0...0
    run.scenario.parts = [part]
    let result = try #require(try run.outcome()).result
    #expect(result.callsCompleted == 600, "\(result.failures)")
    #expect(result.examples.values.flatMap { $0 } == [String]())
  }

  /// The rule that each fault must be reported as breaking. It may break other rules on the way.
  static let expected: [(FaultyTwin.Fault, CorrectnessRule)] = [
    (.tellsTwoWinners, .twoWinners), (.tellsNoWinner, .noWinner), (.ignoresAnswers, .noWinner),
    (.forgetsALoser, .ringingAfterEnd), (.forgetsTheOtherSide, .ringingAfterEnd),
    (.ringsAfterEnd, .toldToRingAfterEnd), (.tellsWrongReason, .wrongReason),
    (.namesWrongWinner, .wrongReason), (.tellsMissed, .wrongReason),
    (.tellsWinnerItLost, .winnerToldItLost), (.tellsTwoEnds, .duplicateEnd),
    (.losesCommands, .commandLost), (.refusesForNoReason, .unexplainedError),
    (.forgetsAccepted, .acceptedThenForgotten), (.forgetsTheDeadline, .acceptedThenForgotten),
    (.tellsSidesDifferently, .acceptedThenForgotten), (.endsLate, .timeoutLate),
    (.losesRegistrations, .registrationLost), (.findsNobody, .unreachableThoughAttached),
    (.leavesADeviceOut, .attachedNotRung), (.reordersSignals, .signalsOutOfOrder),
    (.losesSignals, .signalsLost), (.doublesSignals, .signalsDoubled),
    (.connectsBothThatCross, .twoCallsOfGlare), (.tellsNobodyOfMoves, .movedWrongly),
    (.forgetsTheForwarder, .forwardedWrongly),
  ]

  @Test func everyFaultAndEveryRuleIsCovered() {
    let expected =
      Self.expected + SleepingTests.expected + HistoryTests.expected + GroupTests.expected
      + TransferTests.expected + SecondCallTests.expected
    #expect(Set(expected.map(\.0)) == Set(FaultyTwin.Fault.allCases))
    // The provider and the app's server find the rest: see LocalPushProviderTests and WebhookJudgeTests.
    let others = CorrectnessRule.allCases.filter { $0 == .pushContract || $0.isOfWebhooks }
    #expect(Set(expected.map(\.1)) == Set(CorrectnessRule.allCases).subtracting(others))
  }

  @Test(arguments: expected)
  func aFaultIsReported(fault: FaultyTwin.Fault, rule: CorrectnessRule) throws {
    let outcome = try #require(try TwinRun(fault: fault).outcome())
    let result = outcome.result
    #expect(outcome.faultsPlayed > 0)
    #expect((result.correctness[rule] ?? 0) > 0)
    #expect(!result.isCorrect)
    // It is about devices, not calls.
    if rule == .registrationLost { return }
    #expect(result.callsCompleted < result.callsPlaced)
    let example = try #require(result.examples[rule]?.first)
    #expect(example.contains("seed 7"))
    #expect(example.contains("← "))
  }

  /// A fault that concerns one device in one way breaks one rule and no other.
  @Test(arguments: [
    (FaultyTwin.Fault.forgetsALoser, CorrectnessRule.ringingAfterEnd),
    (.forgetsTheOtherSide, .ringingAfterEnd), (.ringsAfterEnd, .toldToRingAfterEnd),
    (.tellsWrongReason, .wrongReason), (.namesWrongWinner, .wrongReason),
    (.tellsMissed, .wrongReason), (.tellsTwoEnds, .duplicateEnd), (.endsLate, .timeoutLate),
    (.losesRegistrations, .registrationLost), (.findsNobody, .unreachableThoughAttached),
    (.reordersSignals, .signalsOutOfOrder),
    (.losesSignals, .signalsLost), (.doublesSignals, .signalsDoubled),
    (.connectsBothThatCross, .twoCallsOfGlare), (.tellsNobodyOfMoves, .movedWrongly),
    (.forgetsTheForwarder, .forwardedWrongly),
  ])
  func aFaultIsNotMistakenForAnother(fault: FaultyTwin.Fault, rule: CorrectnessRule) throws {
    var run = TwinRun(fault: fault)
    // A device that takes the call over takes its second end for that of this call, and one that a call left for other
    // users has an end of its own.
    if fault == .tellsTwoEnds || fault == .forgetsALoser {
      run.scenario.parts.removeAll { [.pulled, .forwarded, .group].contains($0.kind) }
    }
    let result = try #require(try run.outcome()).result
    let broken = result.correctness.filter { $0.value > 0 }.map(\.key)
    #expect(broken == [rule])
  }
}
