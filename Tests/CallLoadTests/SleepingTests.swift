import CallCore
import CallLoadKit
import CallTestKit
import TestSupport
import Testing

/// Devices that sleep, against the cluster in memory.
@Suite struct SleepingTests {
  static func options() -> SleepOptions {
    var options = SleepOptions(share: 0.4)
    options.neverShare = 0.05
    options.lateShare = 0.1
    return options
  }

  @Test(arguments: Proof.arguments([1, 2], andInProof: [3, 4]) as [UInt64])
  func aFaultlessClusterIsFoundFaultless(seed: UInt64) throws {
    let outcome = try #require(try TwinRun(seed: seed, sleep: Self.options()).outcome())
    let result = outcome.result
    let pushes = try #require(result.pushes)
    #expect(result.devicesConnected == 120)
    #expect(result.callsCompleted == 600)
    #expect(result.failures.isEmpty, "\(result.failures)")
    #expect(result.examples.values.flatMap { $0 } == [String]())
    #expect(result.isCorrect)
    #expect((27...69).contains(pushes.sleeping))
    #expect(pushes.pushes[.ring] ?? 0 > 150)
    #expect(pushes.unreadable == 0)
    #expect(pushes.woken > 100)
    #expect(pushes.neverWoken > 0 && pushes.wokenLate > 0 && pushes.actedByPush > 0)
    #expect(pushes.toProvider.totalCount > 100 && pushes.toAttached.totalCount > 100)
    #expect(pushes.cleanUpsSent["none"] == nil)
    #expect(pushes.cleanUpsSent == pushes.cleanUpsRead)
  }

  @Test func everyKindOfPushOccurs() throws {
    var seen: Set<PushPurpose> = []
    for seed in 1...4 as ClosedRange<UInt64> {
      let outcome = try #require(try TwinRun(seed: seed, sleep: Self.options()).outcome())
      seen.formUnion(outcome.result.pushes?.pushes.keys.map { $0 } ?? [])
    }
    #expect(seen == Set(PushPurpose.allCases))
  }

  @Test func nobodyIsPushedWhereNobodySleeps() throws {
    let outcome = try #require(try TwinRun().outcome())
    #expect(outcome.result.pushes == nil)
  }

  /// The rule that each fault must be reported as breaking.
  static let expected: [(FaultyTwin.Fault, CorrectnessRule)] = [
    (.pushesAfterEnd, .pushedAfterEnd), (.pushesTwice, .pushedTwice),
    (.cleansUpTheWinner, .cleanUpToWinner), (.cleansUpUnasked, .cleanUpUnasked),
    (.ringsTheWokenAfterEnd, .wokenRangAfterEnd),
  ]

  @Test(arguments: expected)
  func aFaultIsReported(fault: FaultyTwin.Fault, rule: CorrectnessRule) throws {
    // So many that there are devices of all dialects.
    let run = TwinRun(fault: fault, devices: 240, sleep: Self.options())
    let outcome = try #require(try run.outcome())
    let result = outcome.result
    #expect(outcome.faultsPlayed > 0)
    #expect((result.correctness[rule] ?? 0) > 0, "\(result.correctness)")
    #expect(!result.isCorrect)
    let example = try #require(result.examples[rule]?.first)
    #expect(example.contains("seed 7"))
    for other in CorrectnessRule.allCases where other.isOfPushes && other != rule {
      #expect(result.correctness[other] == 0, "\(other)")
    }
  }

  @Test func whoSleepsAndHowIsTheSeeds() {
    let roster = Roster(devices: 3000, devicesPerUser: 3)
    let plan = SleepPlan(Self.options(), roster: roster, seed: 1)
    let again = SleepPlan(Self.options(), roster: roster, seed: 1)
    let other = SleepPlan(Self.options(), roster: roster, seed: 2)
    #expect(plan.sleepers == again.sleepers && plan.sleepers != other.sleepers)
    #expect((1100...1300).contains(plan.sleepers.count))
    var tokens: Set<String> = []
    for device in plan.sleepers {
      let voip = plan.voipToken(device)
      #expect(voip?.token.utf8.count == 64)
      #expect(voip?.topic == SleepPlan.bundle + ".voip")
      #expect(voip.flatMap { plan.device(token: $0.token) } == device)
      for token in [voip, plan.alertToken(device)] {
        if let token { #expect(tokens.insert(token.token).inserted) }
      }
      #expect((plan.alertToken(device) != nil) == (plan.profile(device)?.hasAlertToken == true))
    }
    // All apps are among them.
    let profiles = plan.sleepers.compactMap { plan.profile($0) }
    for profile in PushProfile.all { #expect(profiles.contains(profile)) }
    #expect(plan.voipToken((0..<3000).first { !plan.sleeps($0) }!) == nil)
  }
}
