import CallLoadKit
import CallTestKit
import TestSupport
import Testing

/// Calls to groups, in the cluster in memory: what their members do, and mistakes that only groups allow.
@Suite struct GroupTests {
  /// Twenty groups among 320 users, whose members are called by nothing else.
  private func run(
    _ fault: FaultyTwin.Fault? = nil, seed: UInt64 = 7
  ) -> TwinRun {
    var run = TwinRun(fault: fault, devices: 960, rate: 4, durationSeconds: 120, seed: seed)
    var group = Scenario.Part(kind: .group, weight: 1)
    group.answered = 0.4
    run.scenario.parts = [group]
    // While all groups have a call, or rest after it, other calls are placed.
    run.scenario.parts.append(Scenario.Part(kind: .answered, weight: 3))
    run.readsHistories = true
    return run
  }

  @Test(arguments: Proof.arguments([1, 2], andInProof: [3, 4]) as [UInt64])
  func aFaultlessClusterIsFoundFaultless(seed: UInt64) throws {
    let result = try #require(try run(seed: seed).outcome()).result
    #expect(result.callsCompleted == 480, "\(result.failures)")
    #expect(result.failures.isEmpty, "\(result.failures)")
    #expect(result.examples.values.flatMap { $0 } == [String]())
    // Each of the twenty groups is called again when its members have rested.
    #expect(result.callsByPart["group"] ?? 0 > 40, "\(result.callsByPart)")
  }

  static let expected: [(FaultyTwin.Fault, CorrectnessRule)] = [
    (.ringsOutOfOrder, .forwardedWrongly), (.cutsATurnShort, .forwardedWrongly),
    (.forgetsTheNextMember, .forwardedWrongly), (.tellsAMemberThatItMissed, .wrongReason),
  ]

  @Test(arguments: expected)
  func aFaultIsReported(fault: FaultyTwin.Fault, rule: CorrectnessRule) throws {
    let outcome = try #require(try run(fault).outcome())
    #expect(outcome.faultsPlayed > 0)
    let broken = outcome.result.correctness.filter { $0.value > 0 }.map(\.key)
    // A member that missed a call which others answered does not agree with the caller either.
    #expect(broken.contains(rule))
    #expect(broken.count == 1 || rule == .wrongReason, "\(outcome.result.examples)")
  }
}
