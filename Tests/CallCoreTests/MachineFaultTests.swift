import CallCore
import Testing

/// The shard distinguishes a state that only a bug of ours brings about from errors of a peer, and from commands that
/// come late.
@Suite struct MachineFaultTests {
  private func unbegun() -> Bench {
    var bench = Bench(
      shard: ShardMachine(shard: 0, epoch: 1, limits: CallLimits()),
      now: Timestamp(microseconds: 1_000_000_000_000))
    bench.expectsFaults = true
    return bench
  }

  @Test func aCommandAboutACallBeforeTheShardServes() {
    var bench = unbegun()
    #expect(bench.place()?.error == .internalError)
    let answer = bench.answer("b1", "sdp")
    #expect(answer?.error == .internalError)
    #expect(bench.journal.isEmpty)
    #expect(
      bench.faults == [
        MachineFault(.commandBeforeBegin, call: Bench.callID),
        MachineFault(.commandBeforeBegin, call: Bench.callID),
      ])
  }

  @Test func sessionsAreTakenBeforeTheShardServes() {
    var bench = unbegun()
    bench.announce("b1")
    bench.caller(.resume)
    bench.caller(.callerGone([Bench.callID]))
    bench.close("b1")
    #expect(bench.faults.isEmpty)
  }

  @Test func aResultForAWriteThatNothingWaitsFor() {
    var bench = Bench()
    bench.expectsFaults = true
    bench.run { $0.registrationStored(token: 77, ok: true, now: $1, into: &$2) }
    #expect(bench.faults == [MachineFault(.unexpectedStoreResult)])
    #expect(bench.effects.isEmpty)
  }

  private func claiming() -> (Bench, token: UInt64) {
    var bench = Bench()
    bench.expectsFaults = true
    bench.say(.register(RegistrationRequest(voipToken: Bench.voip("v1"))), device: "b1")
    let token = bench.take().compactMap { effect -> UInt64? in
      if case .token(_, let token) = effect { token } else { nil }
    }
    return (bench, token.first ?? 0)
  }

  @Test func aTokenResultThatDoesNotFitItsStep() {
    for result: TokenStepResult in [.notified, .claimed, .changed] {
      var (bench, token) = claiming()
      bench.run { $0.tokenStepDone(token: token, result, now: $1, into: &$2) }
      #expect(bench.faults == [MachineFault(.unexpectedTokenResult)])
      #expect(bench.effects.isEmpty)
      // The step goes on: its own result still counts.
      bench.run { $0.tokenStepDone(token: token, .read(nil, revision: 3), now: $1, into: &$2) }
      #expect(bench.effects.count == 1)
      bench.run { $0.tokenStepDone(token: token, .read(nil, revision: 3), now: $1, into: &$2) }
      #expect(bench.faults.count == 2, "the claim is being written")
    }
  }

  @Test func aTokenResultAfterTheClaimWasGivenUpIsLate() {
    var (bench, token) = claiming()
    bench.say(.unregister("b1"), device: "b1")
    bench.run { $0.tokenStepDone(token: token, .read(nil, revision: 3), now: $1, into: &$2) }
    #expect(bench.faults.isEmpty)
  }
}
