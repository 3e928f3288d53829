import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// The recipients of pushes, and the owners of tokens.
extension PushHistoryTests {
  // MARK: To whom

  @Test func noCleanUpToTheWinner() {
    var bench = Bench(registered: [Self.bob1: .cancel])
    bench.pushed(Self.bob1, .ring)
    bench.answered(Self.bob1)
    bench.pushed(Self.bob1, .cancel)
    #expect(bench.found == .cleanUpsWhereWanted)
  }

  @Test("none to who declined, or was busy", arguments: [LegEnd.declinedHere, .busy])
  func noCleanUpToRefusers(_ end: LegEnd) {
    var bench = Bench(registered: [Self.bob1: .cancel])
    bench.pushed(Self.bob1, .ring)
    bench.journal(.legEnded("b1", end, at: nil))
    bench.ended(.cancelled, by: Self.alice, missed: end != .declinedHere)
    bench.pushed(Self.bob1, .cancel)
    #expect(bench.found == .cleanUpsWhereWanted)
  }

  @Test func noCleanUpToWhoTakesNone() {
    var bench = Bench(registered: [Self.bob1: .answeredElsewhere])
    bench.pushed(Self.bob1, .ring)
    bench.answered(Self.bob2)
    var good = bench
    bench.pushed(Self.bob1, .cancel)
    #expect(bench.found == .cleanUpsWhereWanted)
    good.pushed(Self.bob1, .answeredElsewhere)
    #expect(good.found == nil)
    good.pushed(Self.bob1, .ended)
    #expect(good.found == .pushedOnce, "one clean-up is enough")
  }

  /// A shard that rings another user's devices is not notified when one of them registers anew.
  @Test(
    "a guest's clean-up is one that it took when the call was placed", arguments: [true, false])
  func noCleanUpToAGuestThatTakesNone(took: Bool) {
    let carol = Who("carol", "c1")
    var bench = Bench(registered: [carol: took ? .cancel : .missed])
    bench.journal(
      .diverted(
        DivertedFacts(
          from: "bob", to: ["carol"], reason: .hook, at: Self.at(1), deadline: Self.at(40))))
    bench.journal(.pushed(DeviceID("carol\u{1f}c1"), .ring))
    bench.now = 2
    bench.push(.registration(carol, Self.registration(carol, can: [])))
    bench.now = 35
    bench.ended(.cancelled, by: Self.alice)
    bench.journal(.pushed(DeviceID("carol\u{1f}c1"), .cancel))
    #expect(bench.found == (took ? nil : .cleanUpsWhereWanted))
  }

  @Test func noCleanUpWhereNoPushRang() {
    var bench = Bench(registered: [Self.bob1: .cancel])
    bench.answered(Self.bob2)
    bench.pushed(Self.bob1, .cancel)
    #expect(bench.found == .cleanUpsWhereWanted)
  }

  @Test func noCleanUpWhileItRings() {
    var bench = Bench(registered: [Self.bob1: .cancel])
    bench.pushed(Self.bob1, .ring)
    bench.pushed(Self.bob1, .cancel)
    #expect(bench.found == .cleanUpsWhereWanted)
  }

  @Test("a call that somebody answered or declined was not missed", arguments: [0, 1, 2, 3])
  func notMissed(_ kind: Int) {
    var bench = Bench(registered: [Self.bob1: .missedNotice])
    switch kind {
    case 0: bench.ended(.declined, by: Self.bob2)
    case 1:
      bench.answered(Self.bob2)
      bench.ended(.hungUp, by: Self.bob2)
    case 2:
      bench.journal(.legEnded("b2", .declinedHere, at: nil))
      bench.ended(.cancelled, by: Self.alice, missed: false)
    default: break
    }
    bench.pushed(Self.bob1, .missedNotice)
    #expect(bench.found == .noticesOfMissed)
  }

  // MARK: Tokens

  @Test("R13: a token that is another's is pushed no more") func ownersOfTokens() {
    var bench = Bench(registered: [Self.bob1: []])
    bench.pushed(Self.bob1, .ring)
    bench.now = 3
    bench.push(.claim(fingerprint: "fp-t1", Self.alice))
    var late = bench
    bench.push(.job(Self.job(.ring), lane: "apns-production", decided: Self.at(2)))
    #expect(bench.found == nil, "it was on its way")
    late.push(.job(Self.job(.ring), lane: "apns-production", decided: Self.at(4)))
    #expect(late.found == .tokensHaveOneOwner)
  }

  @Test("at the end whoever is registered with a token has its claim", arguments: [true, false])
  func ownersAtTheEnd(isAnothers: Bool) {
    var bench = Bench(registered: [Self.bob1: []])
    #expect(bench.checker.finish([]).isEmpty == false, "the call never ended")
    bench.ended(.cancelled, by: Self.alice)
    #expect(bench.checker.finish([]).isEmpty)
    bench.push(.claim(fingerprint: "fp-t1", isAnothers ? Self.alice : nil))
    #expect(bench.checker.finish([]).map(\.rule) == [.tokensHaveOneOwner])
    // The store took two racing claims: either may be valid.
    bench.push(.raced(fingerprint: "fp-t1"))
    #expect(bench.checker.finish([]).isEmpty)
  }

  @Test("a registration that its shard may not count on is not judged by its tokens")
  func unheardRegistrations() {
    var bench = Bench(registered: [Self.bob1: []])
    bench.ended(.cancelled, by: Self.alice)
    bench.push(.registration(Self.bob1, Self.registration(Self.bob1, since: 2)))
    bench.push(.unconfirmed(Self.bob1))
    bench.push(.claim(fingerprint: "fp-t1", Self.alice))
    #expect(bench.checker.finish([]).isEmpty)
    bench.push(.claim(fingerprint: "fp-t1", nil))
    #expect(bench.checker.finish([]).isEmpty)
    #expect(bench.found == nil)
  }

  @Test("the next one is judged again, and another device's always was")
  func heardRegistrations() {
    var bench = Bench(registered: [Self.bob1: []])
    bench.ended(.cancelled, by: Self.alice)
    bench.push(.claim(fingerprint: "fp-t1", Self.alice))
    bench.push(.unconfirmed(Self.bob2))
    #expect(bench.checker.finish([]).map(\.rule) == [.tokensHaveOneOwner])
    bench.push(.unconfirmed(Self.bob1))
    #expect(bench.checker.finish([]).isEmpty)
    bench.push(.registration(Self.bob1, Self.registration(Self.bob1, since: 3)))
    #expect(bench.checker.finish([]).map(\.rule) == [.tokensHaveOneOwner])
  }

  @Test("a later owner that writes such a registration again does not know whose its tokens are")
  func unheardAndWrittenAgain() {
    var bench = Bench(registered: [Self.bob1: []])
    bench.ended(.cancelled, by: Self.alice)
    bench.push(.registration(Self.bob1, Self.registration(Self.bob1, since: 2)))
    bench.push(.unconfirmed(Self.bob1))
    bench.push(.claim(fingerprint: "fp-t1", Self.alice))
    bench.push(.registration(Self.bob1, Self.registration(Self.bob1, since: 2)))
    #expect(bench.checker.finish([]).isEmpty)
    bench.push(.registration(Self.bob1, nil))
    bench.push(.registration(Self.bob1, Self.registration(Self.bob1, since: 2)))
    #expect(bench.checker.finish([]).map(\.rule) == [.tokensHaveOneOwner])
  }

  @Test("R12: a token goes for a reason that is younger than its registration") func lostTokens() {
    func lost(_ before: (inout Bench) -> Void) -> HistoryRule? {
      var bench = Bench()
      bench.push(.registration(Self.bob1, Self.registration(Self.bob1, since: 5)))
      before(&bench)
      bench.push(.registration(Self.bob1, Self.registration(Self.bob1, token: nil, since: 5)))
      return bench.found
    }
    func gone(_ since: Timestamp?, at time: Double) -> PushEvent {
      .report(
        Self.bob1,
        PushReport(
          call: Self.call, device: "b1", purpose: .ring, fingerprint: "fp-t1",
          outcome: .tokenGone(at: since), at: Self.at(time)))
    }
    #expect(lost { _ in } == .tokensKept)
    #expect(lost { $0.push(gone(Self.at(4), at: 8)) } == .tokensKept)
    #expect(lost { $0.push(gone(Self.at(6), at: 8)) } == nil)
    #expect(lost { $0.push(gone(nil, at: 8)) } == nil)
    let request = RegistrationRequest(voipToken: Self.token("t1"))
    #expect(lost { $0.push(.wants(Self.alice, request)) } == nil)
    #expect(lost { $0.push(.wants(Self.bob1, request)) } == .tokensKept)
  }

  @Test func aNewRegistrationMayHaveOtherTokens() {
    var bench = Bench()
    bench.push(.registration(Self.bob1, Self.registration(Self.bob1, since: 5)))
    bench.push(.registration(Self.bob1, Self.registration(Self.bob1, token: "t2", since: 6)))
    #expect(bench.found == nil)
  }
}
