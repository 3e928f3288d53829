import CallBus
import CallCore
import CallPush
import Testing

/// What a gateway does with a job, without a queue, a sender or a clock.
@Suite struct GatewayMachineTests {
  typealias Effect = GatewayMachine.Effect

  /// A machine and what it wants done.
  struct Bench {
    var machine: GatewayMachine
    var effects: [Effect] = []
    var items: UInt64 = 0

    init(pools: Int = 2, sends: Int = 2, waiting: Int = 2, reports: Int = 100) {
      var limits = GatewayMachine.Limits()
      limits.sendsPerPool = sends
      limits.waitingPerPool = waiting
      machine = GatewayMachine(
        pools: pools, limits: limits,
        reports: GatewayReports(
          capacity: reports, repeats: [.milliseconds(500), .seconds(1), .seconds(2)]))
    }

    mutating func take(
      _ job: PushJob, attempt: Int = 1, pool: Int? = 0, service: String = "",
      at seconds: Double = 0
    ) -> [Effect] {
      items += 1
      machine.take(
        item: items, job, attempt: attempt, pool: pool, service: service,
        now: GatewayMachineTests.at(seconds),
        into: &effects)
      return drained()
    }
    mutating func sent(_ number: UInt64, _ outcome: PushOutcome, at seconds: Double = 0)
      -> [Effect]
    {
      machine.sent(number, outcome, now: GatewayMachineTests.at(seconds), into: &effects)
      return drained()
    }
    mutating func answered(_ number: UInt64, at seconds: Double = 0) -> [Effect] {
      machine.answered(number, now: GatewayMachineTests.at(seconds), into: &effects)
      return drained()
    }
    mutating func queried(_ question: UInt64, rings: Bool, at seconds: Double = 0) -> [Effect] {
      machine.queried(question, rings: rings, now: GatewayMachineTests.at(seconds), into: &effects)
      return drained()
    }
    mutating func withdraw(_ calls: UInt64..., at seconds: Double = 0) -> [Effect] {
      machine.withdraw(
        calls.map { CallID(high: 7, low: $0) }, now: GatewayMachineTests.at(seconds),
        into: &effects)
      return drained()
    }
    mutating func neverSent(_ calls: UInt64..., at seconds: Double = 0) -> [Effect] {
      machine.neverSent(
        calls.map { PushLeg(call: CallID(high: 7, low: $0), device: "phone") },
        now: GatewayMachineTests.at(seconds), into: &effects)
      return drained()
    }
    mutating func tick(at seconds: Double) -> [Effect] {
      machine.tick(now: GatewayMachineTests.at(seconds), into: &effects)
      return drained()
    }
    mutating func drained() -> [Effect] {
      defer { effects.removeAll() }
      return effects
    }
  }

  static func at(_ seconds: Double) -> Timestamp {
    Timestamp(microseconds: 1_000_000_000 + Int64(seconds * 1e6))
  }

  /// - Parameter decided: as a rule just now, whenever that is.
  static func job(
    _ number: UInt64 = 1, deadline: Double = 30, device: String = "phone",
    purpose: PushPurpose = .ring, decided: Double = 10_000
  ) -> PushJob {
    PushJob(
      user: UserKey(app: "demo", user: "bob"), device: DeviceID(device),
      call: CallID(high: 7, low: number), purpose: purpose,
      token: PushToken(
        provider: .apns, environment: "production", topic: "org.example.app", token: "c0ffee",
        fingerprint: "f\(number)"),
      dialect: .callmesh, caller: Party(user: "ann", device: "ann-phone"), video: false,
      headers: [], placedAt: at(0), ringDeadline: at(deadline), decidedAt: at(decided),
      deadline: at(deadline))
  }

  static func report(_ effects: [Effect]) -> [PushOutcome] {
    effects.compactMap { if case .report(let pending) = $0 { pending.report.outcome } else { nil } }
  }
  static func settled(_ effects: [Effect]) -> [WorkSettlement] {
    effects.compactMap { if case .settle(_, let settlement) = $0 { settlement } else { nil } }
  }
  static func sends(_ effects: [Effect]) -> [UInt64] {
    effects.compactMap { if case .send(let job, _) = $0 { job } else { nil } }
  }

  // MARK: One job

  @Test func anAcceptedPushIsReportedAndSettledAtOnce() {
    var bench = Bench()
    #expect(bench.take(Self.job()) == [.send(job: 1, pool: 0)])
    let effects = bench.sent(1, .accepted, at: 1)
    #expect(Self.report(effects) == [.accepted])
    #expect(effects.contains(.settle(item: 1, .done)))
    #expect(bench.machine.jobs == 0)
    #expect(bench.machine.reportsWaiting == 1)
    #expect(bench.answered(1) == [])
    #expect(bench.machine.isIdle)
  }

  /// The queue keeps the job until the shard knows: if this gateway dies, another finds it out again.
  @Test(arguments: [
    PushOutcome.tokenGone(at: nil), .rejected(reason: "BadTopic"), .failed(reason: "no answer"),
  ]) func whatTheShardMustKnowIsKeptUntilItAnswers(outcome: PushOutcome) {
    var bench = Bench()
    _ = bench.take(Self.job())
    let effects = bench.sent(1, outcome)
    #expect(Self.report(effects) == [outcome])
    #expect(Self.settled(effects) == [])
    // It retransmits what it said, and to the queue that it is at it.
    #expect(Self.report(bench.tick(at: 0.5)) == [outcome])
    #expect(Self.report(bench.tick(at: 0.6)) == [])
    #expect(Self.report(bench.tick(at: 1.5)) == [outcome])
    #expect(Self.settled(bench.tick(at: 2)) == [.inProgress])
    #expect(bench.answered(1, at: 2.1) == [.settle(item: 1, .done)])
    #expect(bench.answered(1, at: 2.1) == [])
    #expect(bench.machine.isIdle)
    #expect(bench.tick(at: 20) == [])
  }

  @Test func aReportThatNobodyAnswersIsGivenUpAndCounted() {
    var bench = Bench()
    _ = bench.take(Self.job())
    _ = bench.sent(1, .tokenGone(at: nil))
    var said = 0
    var settled: [WorkSettlement] = []
    for step in 1...60 {
      let effects = bench.tick(at: Double(step) * 0.25)
      said += Self.report(effects).count
      settled += Self.settled(effects)
    }
    #expect(said == 2)
    #expect(settled.last == .done)
    #expect(bench.machine.counts[.reportsGivenUp] == 1)
    #expect(bench.machine.counts[.reportsRepeated] == 2)
    #expect(bench.machine.isIdle)
  }

  @Test func aLateJobIsDroppedCountedAndReported() {
    var bench = Bench()
    let effects = bench.take(Self.job(deadline: 5), at: 5)
    #expect(Self.report(effects) == [.expired])
    #expect(Self.settled(effects) == [.done])
    #expect(Self.sends(effects) == [])
    #expect(bench.machine.counts[.late] == 1)
  }

  @Test func whatNoSenderServesIsLeftToOthersThenRejected() {
    var bench = Bench()
    for time in [0, 0.25, 4.9] {
      let effects = bench.take(Self.job(decided: 0), pool: nil, at: time)
      #expect(Self.settled(effects) == [.retry(after: .milliseconds(250))])
      #expect(Self.report(effects) == [])
    }
    let last = bench.take(Self.job(decided: 0), pool: nil, at: 5)
    #expect(Self.report(last) == [.rejected(reason: "no sender for this topic")])
    #expect(bench.machine.counts[.unserved] == 4)
    #expect(bench.machine.unserved.all.map(\.jobs) == [1])
  }

  @Test("a topic without a sender is told of once in a window, and the table of topics is bounded")
  func unservedTopics() {
    var limits = GatewayMachine.Limits()
    limits.unservedTopicsMax = 3
    var bench = Bench()
    bench.machine = GatewayMachine(pools: 2, limits: limits)
    func job(_ number: UInt64, _ topic: String) -> PushJob {
      var job = Self.job(number, decided: 0)
      job.token.topic = topic
      return job
    }
    for number in UInt64(1)...3 { _ = bench.take(job(number, "a"), pool: nil, at: 6) }
    var lines = bench.machine.takeUnservedLines()
    #expect(lines.map(\.topic.topic) == ["a"] && lines.map(\.jobs) == [1])
    _ = bench.take(job(4, "a"), pool: nil, at: 16.5)
    lines = bench.machine.takeUnservedLines()
    #expect(lines.map(\.jobs) == [3])
    for number in UInt64(5)...9 { _ = bench.take(job(number, "t\(number)"), pool: nil, at: 17) }
    #expect(bench.machine.unserved.all.count == 3)
    #expect(bench.machine.takeUnservedLines().count == 5)
  }

  /// However often it was handed out: only time counts, and a short ring has less of it.
  @Test func aShortJobIsRejectedWhileThereIsTimeToSaySo() {
    var bench = Bench()
    #expect(Self.report(bench.take(Self.job(deadline: 4, decided: 0), pool: nil, at: 1.9)) == [])
    #expect(
      Self.report(bench.take(Self.job(deadline: 4, decided: 0), pool: nil, at: 2))
        == [.rejected(reason: "no sender for this topic")])
  }

  /// One service of several that share a pool answers nobody.
  @Test func aServiceTakesNoMorePlacesThanItsShare() {
    var limits = GatewayMachine.Limits()
    limits.placesPerService = 2
    var machine = GatewayMachine(pools: 1, limits: limits)
    var effects: [Effect] = []
    func take(_ number: UInt64, _ service: String) {
      machine.take(
        item: number, Self.job(number), pool: 0, service: service, now: Self.at(0), into: &effects)
    }
    for number in UInt64(1)...3 { take(number, "https://dead.example") }
    #expect(Self.sends(effects).count == 2)
    #expect(effects.last == .settle(item: 3, .retry(after: .milliseconds(250))))
    effects = []
    take(4, "https://other.example")
    #expect(Self.sends(effects).count == 1)
    effects = []
    machine.sent(1, .accepted, now: Self.at(0), into: &effects)
    effects = []
    take(3, "https://dead.example")
    #expect(Self.sends(effects).count == 1, "its place is free again")
    #expect(machine.counts[.turnedAway] == 1)
  }

  // MARK: Calls that ended

  @Test func aRingThatWaitsForAPlaceIsDroppedWhenItsCallEnds() {
    var bench = Bench(sends: 1)
    _ = bench.take(Self.job(1))
    _ = bench.take(Self.job(2))
    let effects = bench.withdraw(2)
    #expect(Self.report(effects) == [.expired])
    #expect(Self.settled(effects) == [.done])
    #expect(bench.machine.counts[.withdrawn] == 1)
    #expect(Self.sends(bench.sent(1, .accepted)) == [], "nobody waits")
  }

  @Test func theSenderOfARingHearsThatItsCallEnded() {
    var bench = Bench()
    _ = bench.take(Self.job(1))
    #expect(bench.withdraw(1) == [.withdraw(job: 1)])
    #expect(bench.withdraw(1) == [], "once")
    #expect(Self.report(bench.sent(1, .expired)) == [.expired])
    #expect(bench.withdraw(1) == [])
  }

  @Test func aRingThatComesBehindTheEndIsNotSent() {
    var bench = Bench(sends: 10)
    #expect(bench.withdraw(1) == [])
    let late = bench.take(Self.job(1), at: 1)
    #expect(Self.sends(late) == [])
    #expect(Self.report(late) == [.expired])
    // The ring was never sent: there is nothing to tell of, but that a call was missed.
    let cleanUp = bench.take(Self.job(1, purpose: .missed), at: 1)
    #expect(Self.sends(cleanUp) == [])
    #expect(Self.report(cleanUp) == [.expired])
    #expect(Self.sends(bench.take(Self.job(1, purpose: .missedNotice), at: 1)).count == 1)
    // Remembered for as long as a ring may last, and no longer.
    #expect(Self.sends(bench.take(Self.job(2, deadline: 1000), at: 1)).count == 1)
    _ = bench.withdraw(3, at: 200)
    let another = Self.job(1, deadline: 1000, device: "tablet")
    #expect(Self.sends(bench.take(another, at: 201)).count == 1)
  }

  @Test(arguments: [PushPurpose.missed, .answeredElsewhere, .cancel, .ended])
  func aCleanUpTakesTheRingsOfItsCallAlong(purpose: PushPurpose) {
    var bench = Bench()
    _ = bench.take(Self.job(1))
    let effects = bench.take(Self.job(1, purpose: purpose))
    #expect(effects == [.withdraw(job: 1), .send(job: 2, pool: 0)])
    #expect(Self.sends(bench.take(Self.job(1, device: "tablet"))) == [])
  }

  /// Who had the ring before may have sent it, as may the sender that has it now.
  @Test func whatMayHaveRungIsTold() {
    var bench = Bench(sends: 1)
    _ = bench.take(Self.job(1))
    #expect(Self.report(bench.take(Self.job(1, purpose: .missed))) == [], "it waits for a place")
    _ = bench.withdraw(2)
    #expect(Self.report(bench.take(Self.job(2), attempt: 2)) == [.expired])
    let told = bench.take(Self.job(2, purpose: .missed), pool: 1)
    #expect(Self.sends(told).count == 1)
    // One that waits here, and was handed out before.
    _ = bench.take(Self.job(3), attempt: 3)
    #expect(Self.report(bench.withdraw(3)) == [.expired])
    #expect(Self.report(bench.take(Self.job(3, purpose: .missed))) == [])
  }

  /// A clean-up whose ring nobody knows of: it may be waiting at another gateway, which drops it.
  static func cleanUp(_ number: UInt64) -> PushJob {
    var job = job(number, purpose: .cancel)
    job.isRingUnknown = true
    return job
  }

  @Test func aDroppedRingIsToldToTheOtherGateways() {
    var bench = Bench()
    _ = bench.withdraw(1, 2)
    let leg = PushLeg(call: CallID(high: 7, low: 1), device: "phone")
    #expect(bench.take(Self.job(1)).contains(.notifyNeverSent(leg)))
    // Another may have sent it before.
    #expect(
      !bench.take(Self.job(2), attempt: 2).contains {
        if case .notifyNeverSent = $0 { true } else { false }
      })
  }

  @Test func whatAnotherDroppedIsNotCleanedUp() {
    var bench = Bench(sends: 1)
    #expect(bench.take(Self.cleanUp(1)) == [], "it waits for word of the ring")
    #expect(bench.take(Self.cleanUp(2)) == [], "for a place")
    // The ring was another device's.
    let other = [PushLeg(call: CallID(high: 7, low: 1), device: "tablet")]
    bench.machine.neverSent(other, now: Self.at(0.1), into: &bench.effects)
    #expect(bench.drained() == [])
    #expect(Self.report(bench.neverSent(1, 2, at: 0.2)) == [.expired, .expired])
    #expect(bench.machine.counts[.withdrawn] == 2)
    // Word of it came first.
    _ = bench.neverSent(3, at: 0.2)
    #expect(Self.report(bench.take(Self.cleanUp(3), at: 0.2)) == [.expired])
    #expect(Self.sends(bench.tick(at: 10)) == [])
    #expect(bench.machine.jobs == 0)
  }

  @Test func withoutWordOfTheRingItsEndIsTold() {
    var bench = Bench(sends: 10)
    _ = bench.take(Self.cleanUp(1))
    #expect(Self.sends(bench.tick(at: 0.2)) == [])
    #expect(Self.sends(bench.tick(at: 0.4)) == [1])
    #expect(bench.neverSent(1, at: 0.5) == [], "too late")
    // The ring left here, or is about to: there is nothing to wait for.
    _ = bench.take(Self.job(2))
    #expect(Self.sends(bench.take(Self.cleanUp(2))) == [3])
    _ = bench.sent(2, .accepted)
    var later = Self.cleanUp(2)
    later.purpose = .missed
    _ = bench.sent(1, .accepted)
    #expect(Self.sends(bench.take(later)) == [4])
    // Another, that had a copy of the ring, cannot take that back; nor is the token of the clean-up the ring's.
    _ = bench.neverSent(2)
    later.purpose = .ended
    later.token.fingerprint = "alert"
    #expect(Self.sends(bench.take(later)) == [5])
    // Its shard knows that the ring had left.
    #expect(Self.sends(bench.take(Self.job(5, purpose: .cancel), pool: 1)) == [6])
  }

  @Test func whoWaitedForAPlaceHasHeardEnough() {
    var bench = Bench(sends: 1)
    _ = bench.take(Self.job(1))
    #expect(bench.take(Self.cleanUp(2)) == [])
    #expect(Self.sends(bench.sent(1, .accepted, at: 0.5)) == [2])
  }

  @Test func whoseRingWasLateIsNotToldThatItIsOver() {
    var bench = Bench()
    #expect(Self.report(bench.take(Self.job(1, deadline: 5), at: 6)) == [.expired])
    #expect(Self.sends(bench.take(Self.job(1, purpose: .missed), at: 6)) == [])
    #expect(
      Self.sends(bench.take(Self.job(1, device: "tablet", purpose: .missed), at: 6)).count == 1)
  }

  @Test func aMissedNoticeIsNoEndOfItsOwn() {
    var bench = Bench()
    _ = bench.take(Self.job(1))
    #expect(bench.take(Self.job(1, purpose: .missedNotice)) == [.send(job: 2, pool: 0)])
  }

  // MARK: The same again

  @Test func aJobThatComesAgainIsNotSentAgain() {
    var bench = Bench()
    _ = bench.take(Self.job())
    // Under way: the newer item is the one to settle, and the older one is kept no longer.
    #expect(bench.take(Self.job()) == [.forget(item: 1)])
    let effects = bench.sent(1, .accepted)
    #expect(effects.contains(.settle(item: 2, .done)))
    // Done.
    #expect(bench.take(Self.job()) == [.settle(item: 3, .done)])
    #expect(bench.machine.counts[.repeated] == 2)
    // Another purpose, or another token, is another push.
    #expect(Self.sends(bench.take(Self.job(purpose: .missed))).count == 1)
    #expect(Self.sends(bench.take(Self.job(2))).count == 1)
  }

  @Test func aJobWhoseReportIsHeldIsNotSentAgain() {
    var bench = Bench()
    _ = bench.take(Self.job())
    _ = bench.sent(1, .failed(reason: "x"))
    #expect(bench.take(Self.job()) == [.forget(item: 1)])
    #expect(bench.take(Self.job()) == [.forget(item: 2)])
    #expect(bench.answered(1) == [.settle(item: 3, .done)])
  }

  @Test func aFateIsForgottenInTheEnd() {
    var bench = Bench()
    _ = bench.take(Self.job(deadline: 1000))
    _ = bench.sent(1, .accepted)
    // What is remembered is looked through when something is added.
    _ = bench.take(Self.job(9, deadline: 1000), at: 121)
    _ = bench.sent(2, .accepted, at: 121)
    #expect(Self.sends(bench.take(Self.job(deadline: 1000), at: 121)).count == 1)
  }

  // MARK: Pools

  @Test func aFullPoolDelaysNoOther() {
    var bench = Bench(sends: 2, waiting: 2)
    for number in UInt64(1)...4 { _ = bench.take(Self.job(number)) }
    #expect(bench.machine.pools[0].sending == 2)
    #expect(bench.machine.pools[0].waiting == 2)
    #expect(
      bench.take(Self.job(5)) == [.settle(item: 5, .retry(after: .milliseconds(250)))])
    #expect(bench.machine.counts[.turnedAway] == 1)
    #expect(bench.take(Self.job(6), pool: 1) == [.send(job: 5, pool: 1)])
    // A free place goes to who waited longest.
    #expect(Self.sends(bench.sent(1, .accepted)) == [3])
    #expect(Self.sends(bench.sent(2, .accepted)) == [4])
    #expect(bench.machine.pools[0].waiting == 0)
  }

  @Test func whoWaitsTooLongIsDropped() {
    var bench = Bench(sends: 1, waiting: 5)
    _ = bench.take(Self.job(1))
    _ = bench.take(Self.job(2, deadline: 3))
    _ = bench.take(Self.job(3))
    let effects = bench.tick(at: 3)
    #expect(Self.report(effects) == [.expired])
    #expect(effects.contains(.settle(item: 2, .done)))
    #expect(Self.sends(bench.sent(1, .accepted, at: 4)) == [3])
  }

  @Test func aSenderThatNeverAnswersGivesItsPlaceBack() {
    var bench = Bench(sends: 1)
    _ = bench.take(Self.job(1, deadline: 2))
    _ = bench.take(Self.job(2))
    #expect(Self.sends(bench.tick(at: 6.9)) == [])
    let effects = bench.tick(at: 7)
    #expect(
      Self.report(effects) == [.failed(reason: "the sender did not answer", mayHaveArrived: true)])
    #expect(Self.sends(effects) == [2])
    #expect(bench.machine.counts[.overdue] == 1)
    // What it says in the end does not count.
    #expect(bench.sent(1, .accepted, at: 8) == [])
    #expect(bench.machine.pools[0].sending == 1)
  }

  @Test func theQueueHearsThatAJobIsWorkedOn() {
    var bench = Bench()
    _ = bench.take(Self.job())
    var told = 0
    for step in 1...50 {
      let settled = Self.settled(bench.tick(at: Double(step) * 0.2))
      #expect(settled.allSatisfy { $0 == .inProgress })
      told += settled.count
    }
    #expect(told == 5)
  }

  @Test func reportsAreBounded() {
    var bench = Bench(sends: 10, reports: 1)
    _ = bench.take(Self.job(1))
    _ = bench.take(Self.job(2))
    _ = bench.sent(1, .tokenGone(at: nil))
    // Said once; nobody waits for its answer.
    let effects = bench.sent(2, .tokenGone(at: nil))
    #expect(Self.report(effects).count == 1)
    #expect(effects.contains(.settle(item: 2, .done)))
    #expect(bench.machine.counts[.reportsGivenUp] == 1)
    #expect(bench.machine.reportsWaiting == 1)
  }

  // MARK: Going

  @Test func aDrainGivesBackWhatNoSenderHas() {
    var bench = Bench(sends: 1, waiting: 5)
    _ = bench.take(Self.job(1))
    _ = bench.take(Self.job(2))
    bench.machine.drain(into: &bench.effects)
    #expect(bench.drained() == [.settle(item: 2, .retry(after: .zero))])
    #expect(bench.take(Self.job(3)) == [.settle(item: 3, .retry(after: .zero))])
    let effects = bench.sent(1, .accepted)
    #expect(effects.contains(.settle(item: 1, .done)))
    _ = bench.answered(1)
    #expect(bench.machine.isIdle)
    bench.machine.resume()
    #expect(Self.sends(bench.take(Self.job(3))).count == 1)
  }

  @Test func whatIsLeftAtTheEndGoesToAnother() {
    var bench = Bench(sends: 5)
    _ = bench.take(Self.job(1))
    _ = bench.take(Self.job(2))
    _ = bench.sent(2, .tokenGone(at: nil))
    bench.machine.releaseAll(into: &bench.effects)
    #expect(
      bench.drained() == [
        .settle(item: 1, .retry(after: .zero)), .settle(item: 2, .retry(after: .zero)),
      ])
    #expect(bench.machine.counts[.released] == 2)
  }

  // MARK: All of it

  /// Whatever comes in whatever order: an item that came is settled or forgotten in the end, exactly
  /// one push of each identity is under way at a time, and no place is lost.
  @Test(arguments: 0..<30) func everyItemIsSettled(seed: UInt64) {
    var random = Steps(state: seed &* 0x9e37_79b9_7f4a_7c15 &+ 1)
    var bench = Bench(sends: 3, waiting: 3)
    var open = Set<UInt64>()
    var sending: [UInt64] = []
    var reports = Set<UInt64>()
    var asked: [UInt64] = []
    var now = 0.0
    func look(_ effects: [Effect]) {
      for effect in effects {
        switch effect {
        case .settle(_, .inProgress): break
        case .settle(let item, _), .forget(let item):
          #expect(open.remove(item) != nil, "\(item) settled twice")
        case .send(let job, _): sending.append(job)
        case .ask(let question, _): asked.append(question)
        case .report(let pending): reports.insert(pending.number)
        case .withdraw(let job): #expect(sending.contains(job), "\(job) is with no sender")
        case .notifyNeverSent: break
        }
      }
    }
    let outcomes: [PushOutcome] = [
      .accepted, .tokenGone(at: nil), .rejected(reason: "r"), .expired, .failed(reason: "f"),
    ]
    for _ in 0..<1500 {
      now += Double(random.below(40)) / 100
      if random.below(10) == 0 { look(bench.withdraw(UInt64(random.below(200)), at: now)) }
      if random.below(10) == 0 { look(bench.neverSent(UInt64(random.below(200)), at: now)) }
      switch random.below(4) {
      case 0, 1:
        let number = UInt64(random.below(200))
        let known = bench.items + 1
        open.insert(known)
        look(
          bench.take(
            Self.job(
              number, deadline: now + Double(random.below(8)) - 1,
              decided: now - Double(random.below(3))),
            pool: random.below(20) == 0 ? nil : random.below(2),
            at: now))
      case 2:
        guard !sending.isEmpty else { break }
        let job = sending.remove(at: random.below(sending.count))
        look(bench.sent(job, outcomes[random.below(outcomes.count)], at: now))
      default:
        if random.below(2) == 0, let number = reports.randomElement() {
          reports.remove(number)
          look(bench.answered(number, at: now))
        }
        // Some are never answered.
        if random.below(3) > 0, !asked.isEmpty {
          let question = asked.remove(at: random.below(asked.count))
          look(bench.queried(question, rings: random.below(3) > 0, at: now))
        }
        look(bench.tick(at: now))
      }
      for pool in bench.machine.pools { #expect(pool.sending <= 3 && pool.waiting <= 3) }
    }
    for job in sending { look(bench.sent(job, .accepted, at: now)) }
    for step in 1...400 { look(bench.tick(at: now + Double(step) / 4)) }
    #expect(bench.machine.isIdle)
    #expect(bench.machine.pools.allSatisfy { $0.sending == 0 && $0.waiting == 0 })
    #expect(open.isEmpty)
  }

  private struct Steps {
    var state: UInt64
    mutating func below(_ bound: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((state >> 33) % UInt64(bound))
    }
  }
}

@Suite struct PushIdentityTests {
  @Test func theIdIsAUUIDThatFollowsFromThePush() {
    let job = GatewayMachineTests.job()
    let id = PushIdentity(job).uuid
    #expect(id == PushIdentity(job).uuid)
    let characters = Array(id)
    #expect(characters.count == 36)
    for index in [8, 13, 18, 23] { #expect(characters[index] == "-") }
    #expect(characters[14] == "8")
    #expect("89ab".contains(characters[19]))
    #expect(id == id.lowercased())
    #expect(!id.contains(job.token.token))
    // What is decided anew does not change it; what makes another push does.
    var later = job
    later.decidedAt = GatewayMachineTests.at(9)
    later.deadline = GatewayMachineTests.at(99)
    #expect(PushIdentity(later).uuid == id)
    let others = [
      GatewayMachineTests.job(2), GatewayMachineTests.job(device: "tablet"),
      GatewayMachineTests.job(purpose: .cancel),
    ]
    #expect(Set(others.map { PushIdentity($0).uuid } + [id]).count == 4)
  }
}
