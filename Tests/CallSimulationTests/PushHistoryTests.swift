import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Histories with pushes, made by hand: good ones, and such as no correct cluster makes.
@Suite struct PushHistoryTests {
  private static let call = CallID(high: 1, low: 2)
  private static let alice = Who("alice", "a1")
  private static let bob1 = Who("bob", "b1")
  private static let bob2 = Who("bob", "b2")

  private static func party(_ who: Who) -> Party {
    Party(user: who.user, device: DeviceID(who.device))
  }

  private static func at(_ seconds: Double) -> Timestamp {
    Timestamp(microseconds: Int64(seconds * 1_000_000))
  }

  private static func token(_ name: String) -> PushToken {
    PushToken(
      provider: .apns, environment: "production", topic: "t.voip", token: name,
      fingerprint: "fp-\(name)")
  }

  private static func registration(
    _ who: Who, token: String? = "t1", since: Double = 0,
    can: PushCapabilities = [.missed, .answeredElsewhere, .cancel, .ended, .missedNotice]
  ) -> Registration {
    Registration(
      user: UserKey(app: "demo", user: who.user), device: DeviceID(who.device),
      request: RegistrationRequest(voipToken: token.map(Self.token)), registeredAt: at(since),
      seenAt: at(since), capabilities: can)
  }

  private static func job(
    _ purpose: PushPurpose, _ who: Who = bob1, token: String = "t1"
  ) -> PushJob {
    PushJob(
      user: UserKey(app: "demo", user: who.user), device: DeviceID(who.device), call: call,
      purpose: purpose, token: Self.token(token), dialect: .callmesh, caller: party(alice),
      video: false, headers: [], placedAt: at(1), ringDeadline: at(10), decidedAt: at(1),
      deadline: at(10))
  }

  private struct Bench {
    var checker = HistoryChecker()
    var now = 0.0
    var found: HistoryRule?

    init(registered: [Who: PushCapabilities] = [:]) {
      for (who, can) in registered {
        push(.registration(who, registration(who, can: can)))
        push(.claim(fingerprint: "fp-t1", who))
      }
      now = 1
      journal(
        .placed(
          PlacedFacts(
            callee: UserKey(app: "demo", user: "bob"), caller: party(alice), placedAt: at(1),
            deadline: at(10), video: false, description: "", headers: [],
            legs: [party(bob1), party(bob2)], fingerprint: 0)))
    }

    mutating func note(_ event: HistoryEvent) {
      let violation = checker.note(event, at: at(now))
      if found == nil { found = violation?.rule }
    }
    mutating func push(_ event: PushEvent) { note(.push(event)) }
    mutating func journal(_ changes: JournalEntry.Change...) {
      note(
        .journalled(
          shard: 0,
          JournalRecord(
            epoch: 1, number: 1, writer: "c1", at: at(now),
            entries: changes.map { JournalEntry(call: call, change: $0) })))
    }
    mutating func pushed(_ who: Who, _ purpose: PushPurpose) {
      journal(.pushed(DeviceID(who.device), purpose))
    }
    mutating func answered(_ who: Who) {
      journal(
        .answered(
          AnsweredFacts(
            by: party(who), at: at(now), description: "", connectDeadline: at(now + 15))))
    }
    mutating func ended(_ reason: EndReason, by who: Who? = nil, missed: Bool = true) {
      if let who {
        let address = CallAddress(callee: "bob", call: call)
        let command: ClientCommand =
          switch reason {
          case .cancelled: .call(address, .cancel)
          case .declined: .call(address, .decline(.everywhere))
          default: .call(address, .hangUp)
          }
        push(.asked(who, call, command))
      }
      journal(
        .ended(
          EndedFacts(reason: reason, by: who.map(party), at: at(now), missed: missed)))
    }
  }

  // MARK: When

  @Test func aCallRingsIsMissedAndIsCleanedUp() {
    var bench = Bench(registered: [Self.bob1: [.missed, .missedNotice]])
    bench.pushed(Self.bob1, .ring)
    bench.push(.job(Self.job(.ring), lane: "apns-production", decided: Self.at(1)))
    bench.push(.sent(Self.job(.ring), process: 7, gatewayTime: Self.at(2)))
    bench.now = 5
    bench.ended(.cancelled, by: Self.alice)
    bench.pushed(Self.bob1, .missed)
    bench.pushed(Self.bob1, .missedNotice)
    bench.push(.job(Self.job(.missed), lane: "apns-production", decided: Self.at(5)))
    #expect(bench.found == nil)
    #expect(bench.checker.finish([]).isEmpty)
  }

  @Test("a push that rings, decided behind the end", arguments: [true, false])
  func afterTheEnd(answered: Bool) {
    var bench = Bench()
    if answered { bench.answered(Self.bob2) } else { bench.ended(.cancelled, by: Self.alice) }
    bench.pushed(Self.bob1, .ring)
    #expect(bench.found == .noPushAfterEnd)
  }

  @Test("decided before the end by its record, and once more behind it by its time")
  func decidedAnew() {
    var bench = Bench()
    bench.pushed(Self.bob1, .ring)
    bench.now = 4
    bench.ended(.cancelled, by: Self.alice)
    bench.now = 5
    var late = bench
    bench.push(.job(Self.job(.ring), lane: "apns-production", decided: Self.at(3.9)))
    #expect(bench.found == nil, "it was on its way")
    late.push(.job(Self.job(.ring), lane: "apns-production", decided: Self.at(4.5)))
    #expect(late.found == .noPushAfterEnd)
  }

  @Test func aDeadlineIsADeadline() {
    var bench = Bench()
    bench.pushed(Self.bob1, .ring)
    bench.push(.job(Self.job(.ring), lane: "apns-production", decided: Self.at(1)))
    // Whatever the gateway believes the deadline to be.
    var job = Self.job(.ring)
    job.deadline = Self.at(60)
    bench.push(.sent(job, process: 7, gatewayTime: Self.at(10)))
    #expect(bench.found == .pushInTime)
  }

  // MARK: How often

  @Test func decidedTwice() {
    var bench = Bench()
    bench.pushed(Self.bob1, .ring)
    bench.pushed(Self.bob1, .ring)
    #expect(bench.found == .pushedOnce)
  }

  @Test func twoJobs() {
    var bench = Bench()
    bench.pushed(Self.bob1, .ring)
    bench.push(.job(Self.job(.ring), lane: "apns-production", decided: Self.at(1)))
    bench.push(.job(Self.job(.ring, token: "t2"), lane: "apns-production", decided: Self.at(1)))
    #expect(bench.found == .pushedOnce)
  }

  @Test("one gateway sends a push once; another may have to send it again") func senders() {
    var bench = Bench()
    bench.pushed(Self.bob1, .ring)
    bench.push(.job(Self.job(.ring), lane: "apns-production", decided: Self.at(1)))
    bench.push(.sent(Self.job(.ring), process: 7, gatewayTime: Self.at(2)))
    bench.push(.sent(Self.job(.ring), process: 8, gatewayTime: Self.at(5)))
    #expect(bench.found == nil)
    bench.push(.sent(Self.job(.ring), process: 7, gatewayTime: Self.at(6)))
    #expect(bench.found == .pushedOnce)
  }

  @Test func nothingIsSentThatNoRecordSpeaksOf() {
    var bench = Bench()
    bench.push(.job(Self.job(.ring), lane: "apns-production", decided: Self.at(1)))
    #expect(bench.found == .appendThenSpeak)
    var other = Bench()
    other.pushed(Self.bob1, .ring)
    other.push(.sent(Self.job(.ring), process: 7, gatewayTime: Self.at(2)))
    #expect(other.found == .appendThenSpeak, "it never was in the work queue")
  }

  @Test("R14: a push is with its provider soon, whatever is wrong with another") func delays() {
    var bench = Bench()
    bench.now = 3
    bench.pushed(Self.bob1, .ring)
    bench.push(.job(Self.job(.ring), lane: "fcm", decided: Self.at(3)))
    bench.push(.trouble(lane: "apns-production", until: Self.at(60)))
    #expect(bench.checker.lateness(at: Self.at(4)) == nil)
    #expect(bench.checker.lateness(at: Self.at(5.5))?.rule == .nobodyIsDelayed)
    var sent = bench
    sent.push(.sent(Self.job(.ring), process: 1, gatewayTime: Self.at(2)))
    #expect(sent.checker.lateness(at: Self.at(5.5)) == nil)
    var done = bench
    done.push(.done(Self.job(.ring)))
    #expect(done.checker.lateness(at: Self.at(5.5)) == nil)
    var other = bench
    other.push(.trouble(lane: "fcm", until: Self.at(5)))
    #expect(other.checker.lateness(at: Self.at(5.5)) == nil)
    bench.push(.trouble(lane: nil, until: Self.at(5)))
    #expect(bench.checker.lateness(at: Self.at(5.5)) == nil)
    #expect(bench.found == nil)
  }

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
    bench.ended(.cancelled, by: Self.alice)
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
      bench.ended(.cancelled, by: Self.alice)
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
    // The store took two claims for one: nobody can tell then.
    bench.push(.raced(fingerprint: "fp-t1"))
    #expect(bench.checker.finish([]).isEmpty)
  }

  @Test("a registration that its shard may not count on is not judged by its tokens")
  func unheardRegistrations() {
    var bench = Bench(registered: [Self.bob1: []])
    bench.ended(.cancelled, by: Self.alice)
    bench.push(.registration(Self.bob1, Self.registration(Self.bob1, since: 2)))
    bench.push(.unheard(Self.bob1))
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
    bench.push(.unheard(Self.bob2))
    #expect(bench.checker.finish([]).map(\.rule) == [.tokensHaveOneOwner])
    bench.push(.unheard(Self.bob1))
    #expect(bench.checker.finish([]).isEmpty)
    bench.push(.registration(Self.bob1, Self.registration(Self.bob1, since: 3)))
    #expect(bench.checker.finish([]).map(\.rule) == [.tokensHaveOneOwner])
  }

  @Test("a later owner that writes such a registration again does not know whose its tokens are")
  func unheardAndWrittenAgain() {
    var bench = Bench(registered: [Self.bob1: []])
    bench.ended(.cancelled, by: Self.alice)
    bench.push(.registration(Self.bob1, Self.registration(Self.bob1, since: 2)))
    bench.push(.unheard(Self.bob1))
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

  // MARK: Who is woken

  @Test func whoIsWokenIsTold() {
    var bench = Bench()
    bench.note(.opened(Self.bob1, link: 1))
    bench.push(.woken(Self.bob1, Self.call))
    bench.now = 2
    #expect(bench.checker.lateness(at: Self.at(2)) == nil)
    #expect(bench.checker.lateness(at: Self.at(9.5))?.rule == .wokenAreTold)
    #expect(bench.checker.finish([]).contains { $0.rule == .wokenAreTold })
    bench.note(.told(Self.bob1, .call(Self.call, .stopped(Stop(reason: .cancelled)))))
    #expect(!bench.checker.finish([]).contains { $0.rule == .wokenAreTold })
  }

  @Test("without a connection nobody can be told") func whoIsWokenWithoutANetwork() {
    var bench = Bench()
    bench.push(.woken(Self.bob1, Self.call))
    #expect(bench.checker.lateness(at: Self.at(9.5)) == nil)
  }

  private func attach(_ state: CallState?, after prepare: (inout Bench) -> Void) -> HistoryRule? {
    var bench = Bench()
    prepare(&bench)
    bench.now = 6
    bench.note(.opened(Self.bob1, link: 1))
    let request = AttachRequest(
      token: "", device: "b1", forCall: Self.call, deviceName: "", client: "")
    bench.note(.sent(Self.bob1, link: 1, ClientFrame(id: 1, command: .attach(request))))
    let info = AttachedInfo(
      session: "s", user: "bob", device: "b1", pingSeconds: 25, serverTime: Self.at(6),
      forCall: state)
    bench.note(.received(Self.bob1, link: 1, .reply(id: 1, .attached(info))))
    return bench.found
  }

  private func state(_ phase: CallPhase, _ reason: EndReason? = nil, by: Who? = nil) -> CallState {
    CallState(
      call: Self.call, callee: "bob", phase: phase, version: 9, reason: reason,
      by: by.map(Self.party))
  }

  @Test func whoAttachesIsAnswered() {
    #expect(attach(nil) { _ in } == .attachAnswered)
    #expect(attach(state(.ringing)) { _ in } == nil)
    #expect(attach(state(.ringing)) { $0.ended(.cancelled, by: Self.alice) } == .attachAnswered)
    #expect(attach(state(.ringing)) { $0.answered(Self.bob2) } == .attachAnswered)
    #expect(attach(state(.answered, by: Self.bob2)) { $0.answered(Self.bob2) } == .attachAnswered)
    #expect(
      attach(state(.ended, .answeredElsewhere, by: Self.bob2)) { $0.answered(Self.bob2) } == nil)
    #expect(
      attach(state(.ended, .cancelled, by: Self.alice)) { $0.ended(.cancelled, by: Self.alice) }
        == nil)
    #expect(
      attach(state(.ended, .unanswered)) { $0.ended(.cancelled, by: Self.alice) } == .oneStory)
    #expect(attach(state(.unknown)) { _ in } == .nothingLost)
  }

  @Test("what is said without a session counts as said, and is answered like the rest")
  func withoutASession() {
    var bench = Bench()
    let decline = ClientCommand.call(
      CallAddress(callee: "bob", call: Self.call), .decline(.everywhere))
    bench.ended(.declined, by: Self.bob1)
    bench.push(
      .answered(
        Self.bob1, decline, .call(state(.ended, .declined, by: Self.bob1)), since: Self.at(1)))
    #expect(bench.found == nil)
    bench.push(.answered(Self.bob1, decline, .error(CallError(.notAccepted)), since: Self.at(1)))
    #expect(bench.found == .noStrangeError)
  }
}
