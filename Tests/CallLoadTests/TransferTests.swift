import CallLoadKit
import CallTestKit
import TestSupport
import Testing

/// Calls that one side hands over to a third user, in the cluster in memory.
@Suite struct TransferTests {
  private func run(_ fault: FaultyTwin.Fault? = nil, seed: UInt64 = 7) -> TwinRun {
    var run = TwinRun(fault: fault, devices: 240, rate: 6, durationSeconds: 40, seed: seed)
    run.scenario.parts.removeAll { $0.kind != .transferred && $0.kind != .answered }
    for index in run.scenario.parts.indices { run.scenario.parts[index].weight = 1 }
    run.readsHistories = true
    return run
  }

  @Test(arguments: Proof.arguments([1, 2], andInProof: [3, 4]) as [UInt64])
  func aFaultlessClusterIsFoundFaultless(seed: UInt64) throws {
    let result = try #require(try run(seed: seed).outcome()).result
    #expect(result.callsCompleted == 240, "\(result.failures)")
    #expect(result.failures.isEmpty, "\(result.failures)")
    #expect(result.examples.values.flatMap { $0 } == [String]())
    #expect(result.callsByPart["transferred"] ?? 0 > 80, "\(result.callsByPart)")
  }

  @Test(
    "what shards without an owner change of transfers is explained by that", arguments: [1, 2, 3])
  func outage(seed: UInt64) throws {
    var run = run(seed: seed)
    run.outage = (from: 8, to: 14, isTold: true)
    let result = try #require(try run.outcome()).result
    #expect(result.failures.isEmpty, "\(result.failures)")
    #expect(result.examples.values.flatMap { $0 } == [String]())
  }

  @Test("a cluster whose coordinators may be of an earlier version transfers nothing")
  func withoutTransfers() throws {
    var run = run()
    run.isOneVersion = false
    let result = try #require(try run.outcome()).result
    #expect(result.callsByPart["transferred"] == nil)
    #expect(result.callsCompleted == 240)
  }

  static let expected: [(FaultyTwin.Fault, CorrectnessRule)] = [
    (.forgetsTheTransferor, .transferredWrongly), (.forgetsWhoStays, .transferredWrongly),
    (.namesNoTransferor, .transferredWrongly), (.ringsOnAfterATransfer, .transferredWrongly),
    (.keepsADeclineToItself, .transferredWrongly), (.informsTheTransferor, .transferredWrongly),
    (.keepsATransferFromHistory, .historyDisagrees),
  ]

  @Test(arguments: expected)
  func aFaultIsReported(fault: FaultyTwin.Fault, rule: CorrectnessRule) throws {
    let outcome = try #require(try run(fault).outcome())
    #expect(outcome.faultsPlayed > 0)
    let broken = outcome.result.correctness.filter { $0.value > 0 }.map(\.key)
    #expect(broken == [rule], "\(outcome.result.examples)")
  }

  /// Mistakes of other kinds are found after a transfer, too, and not taken for mistakes of it.
  @Test(arguments: [
    (FaultyTwin.Fault.forgetsTheOtherSide, CorrectnessRule.ringingAfterEnd),
    (.losesSignals, .signalsLost), (.doublesSignals, .signalsDoubled),
    (.losesCommands, .commandLost), (.refusesForNoReason, .unexplainedError),
  ])
  func anotherFaultIsReported(fault: FaultyTwin.Fault, rule: CorrectnessRule) throws {
    let outcome = try #require(try run(fault).outcome())
    #expect(outcome.result.correctness[rule] ?? 0 > 0)
    #expect(outcome.result.correctness[.transferredWrongly] == 0, "\(outcome.result.examples)")
  }
}
