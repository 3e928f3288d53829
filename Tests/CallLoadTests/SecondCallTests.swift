import CallCore
import CallLoadKit
import CallTestKit
import CallWire
import TestSupport
import Testing

/// Calls while another one is answered, what devices are shown of that, and the app's hook, in the cluster in memory.
@Suite struct SecondCallTests {
  private func run(_ fault: FaultyTwin.Fault? = nil, seed: UInt64 = 7) -> TwinRun {
    var run = TwinRun(fault: fault, devices: 480, rate: 6, durationSeconds: 60, seed: seed)
    run.scenario.parts.removeAll { !$0.kind.hasSecondCall && $0.kind != .answered }
    for index in run.scenario.parts.indices { run.scenario.parts[index].weight = 1 }
    run.readsHistories = true
    run.hasHook = true
    return run
  }

  @Test(arguments: Proof.arguments([1, 2], andInProof: [3, 4]) as [UInt64])
  func aFaultlessClusterIsFoundFaultless(seed: UInt64) throws {
    let result = try #require(try run(seed: seed).outcome()).result
    #expect(result.failures.isEmpty, "\(result.failures) \(result.failureExamples)")
    #expect(result.examples.values.flatMap { $0 } == [String]())
    #expect(result.callsCompleted == result.callsExpected && result.callsExpected > 350)
    #expect(result.callsByPart["secondCall"] ?? 0 > 80, "\(result.callsByPart)")
    #expect(result.callsByPart["consulted"] ?? 0 > 80, "\(result.callsByPart)")
    #expect(result.ongoing?.calls ?? 0 > 100, "\(String(describing: result.ongoing))")
  }

  @Test(
    "what shards without an owner change of second calls is explained by that", arguments: [1, 2])
  func outage(seed: UInt64) throws {
    var run = run(seed: seed)
    run.outage = (from: 8, to: 14, isTold: true)
    let result = try #require(try run.outcome()).result
    #expect(result.failures.isEmpty, "\(result.failures)")
    #expect(result.examples.values.flatMap { $0 } == [String]())
  }

  @Test("second calls are not placed whose first call is not answered; all others are")
  func longOutage() throws {
    var run = run()
    run.outage = (from: 8, to: 45, isTold: true)
    let result = try #require(try run.outcome()).result
    #expect(result.callsExpected < 360)
    #expect(result.callsPlaced == result.callsExpected, "\(result.failures)")
  }

  @Test(
    "who is in no call is busy where all devices said so, and they may do that over HTTP",
    arguments: [true, false])
  func busyOverHTTP(sayBusy: Bool) throws {
    var call = JudgedCall(attached: [0])
    call.accept()
    for device in 3..<6 where sayBusy {
      call.say(device, .call(call.address, .busy), 10.5)
      call.reply(device, .call(call.ended(.busy, by: call.roster.party(device))), 10.5)
    }
    call.tell(0, .stop(Stop(reason: .busy, by: call.roster.party(5))), 10.6)
    #expect(try call.count(.secondCallWrongly) == (sayBusy ? 0 : 1))
  }

  static let expected: [(FaultyTwin.Fault, CorrectnessRule)] = [
    (.hidesSecondCalls, .secondCallWrongly), (.inventsSecondCalls, .secondCallWrongly),
    (.ringsTheBusy, .secondCallWrongly), (.refusesTheFree, .secondCallWrongly),
    (.ringsAllThatWereNotAsked, .transferredWrongly), (.namesNoConsultation, .transferredWrongly),
    (.keepsTheConsultation, .transferredWrongly), (.hidesOngoing, .ongoingWrongly),
    (.keepsOngoing, .ongoingWrongly), (.showsAnotherPeer, .ongoingWrongly),
    (.ignoresTheHook, .hookDisagrees),
  ]

  @Test(arguments: expected)
  func aFaultIsReported(fault: FaultyTwin.Fault, rule: CorrectnessRule) throws {
    let outcome = try #require(try run(fault).outcome())
    #expect(outcome.faultsPlayed > 0)
    let broken = outcome.result.correctness.filter { $0.value > 0 }.map(\.key)
    #expect(broken.contains(rule))
    // Where the hook sends calls on, other devices ring than it has said.
    #expect(broken.count == 1 || rule == .hookDisagrees, "\(outcome.result.examples)")
  }
}
