import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories with pushes, good ones and impossible ones.
@Suite struct PushHistoryTests {
  static let call = CallID(high: 1, low: 2)
  static let alice = Who("alice", "a1")
  static let bob1 = Who("bob", "b1")
  static let bob2 = Who("bob", "b2")

  static func party(_ who: Who) -> Party {
    Party(
      user: who.user, device: DeviceID(who.device), name: "\(who.user.uppercased()) of sim")
  }

  static func at(_ seconds: Double) -> Timestamp {
    Timestamp(microseconds: Int64(seconds * 1_000_000))
  }

  static func token(_ name: String) -> PushToken {
    PushToken(
      provider: .apns, environment: "production", topic: "t.voip", token: name,
      fingerprint: "fp-\(name)")
  }

  static func registration(
    _ who: Who, token: String? = "t1", since: Double = 0,
    can: PushCapabilities = [.missed, .answeredElsewhere, .cancel, .ended, .missedNotice]
  ) -> Registration {
    Registration(
      user: UserKey(app: "demo", user: who.user), device: DeviceID(who.device),
      request: RegistrationRequest(voipToken: token.map(Self.token)), registeredAt: at(since),
      seenAt: at(since), capabilities: can)
  }

  static func job(
    _ purpose: PushPurpose, _ who: Who = bob1, token: String = "t1"
  ) -> PushJob {
    PushJob(
      user: UserKey(app: "demo", user: who.user), device: DeviceID(who.device), call: call,
      purpose: purpose, token: Self.token(token), dialect: .callmesh, caller: party(alice),
      video: false, headers: [], placedAt: at(1), ringDeadline: at(10), decidedAt: at(1),
      deadline: at(10))
  }

  struct Bench {
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
      note(.journal(of: call, changes, at: at(now)))
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
    mutating func ended(_ reason: EndReason, by who: Who? = nil, missed: Bool? = nil) {
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
          EndedFacts(
            reason: reason, by: who.map(party), at: at(now), missed: missed ?? reason.isMissedCall))
      )
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
    // The gateway's own deadline does not matter.
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
}
