import CallBus
import CallCore
import CallPush
import Testing

/// The decisions of a gateway, without a queue, a sender or a clock.
@Suite struct GatewayMachineTests {
  typealias Effect = GatewayMachine.Effect

  /// A machine and its effects.
  struct Bench {
    var machine: GatewayMachine
    var items: UInt64 = 0

    /// - Parameter jobs: come first, and what they cause is dropped.
    init(_ jobs: PushJob..., pools: Int = 2, sends: Int = 2, waiting: Int = 2, reports: Int = 100) {
      var limits = GatewayMachine.Limits()
      limits.sendsPerPool = sends
      limits.waitingPerPool = waiting
      var kept = GatewayReports()
      kept.capacity = reports
      kept.repeats = [.milliseconds(500), .seconds(1), .seconds(2)]
      machine = GatewayMachine(pools: pools, limits: limits, reports: kept)
      for job in jobs { _ = take(job) }
    }

    mutating func take(
      _ job: PushJob, attempt: Int = 1, pool: Int? = 0, service: String = "",
      at seconds: Double = 0
    ) -> [Effect] {
      items += 1
      machine.receive(
        item: items, job, attempt: attempt, pool: pool, service: service,
        now: GatewayMachineTests.at(seconds))
      return drained()
    }
    private mutating func run(
      at seconds: Double, _ event: (inout GatewayMachine, Timestamp) -> Void
    ) -> [Effect] {
      event(&machine, GatewayMachineTests.at(seconds))
      return drained()
    }
    mutating func sent(_ number: UInt64, _ outcome: PushOutcome, at seconds: Double = 0)
      -> [Effect]
    {
      run(at: seconds) { $0.sent(number, outcome, now: $1) }
    }
    mutating func paused(_ number: UInt64, until end: Double, at seconds: Double = 0) -> [Effect] {
      run(at: seconds) { $0.paused(number, until: GatewayMachineTests.at(end), now: $1) }
    }
    mutating func resumed(_ number: UInt64) -> [Effect] {
      run(at: 0) { machine, _ in machine.resumed(number) }
    }
    mutating func answered(_ number: UInt64, at seconds: Double = 0) -> [Effect] {
      run(at: seconds) { $0.answered(number, now: $1) }
    }
    mutating func queried(_ question: UInt64, rings: Bool, at seconds: Double = 0) -> [Effect] {
      run(at: seconds) { $0.queried(question, rings: rings, now: $1) }
    }
    mutating func withdraw(_ calls: UInt64..., at seconds: Double = 0) -> [Effect] {
      let rings = calls.map { PushRinging(call: CallID(high: 7, low: $0)) }
      return run(at: seconds) { $0.withdraw(rings, now: $1) }
    }
    mutating func neverSent(_ calls: UInt64..., at seconds: Double = 0) -> [Effect] {
      let legs = calls.map { PushLeg(call: CallID(high: 7, low: $0), user: "bob", device: "phone") }
      return run(at: seconds) { $0.neverSent(legs, now: $1) }
    }
    mutating func tick(at seconds: Double) -> [Effect] {
      run(at: seconds) { $0.tick(now: $1) }
    }
    mutating func drained() -> [Effect] {
      defer { machine.effects.removeAll() }
      return machine.effects
    }
  }

  static func at(_ seconds: Double) -> Timestamp {
    Timestamp(microseconds: 1_000_000_000 + Int64(seconds * 1e6))
  }

  /// - Parameter decided: by default just now.
  static func job(
    _ number: UInt64 = 1, deadline: Double = 30, device: String = "phone",
    purpose: PushPurpose = .ring, decided: Double = 10_000
  ) -> PushJob {
    var job = pushJob(purpose)
    (job.call, job.device) = (CallID(high: 7, low: number), DeviceID(device))
    job.token.fingerprint = "f\(number)"
    (job.decidedAt, job.deadline) = (at(decided), at(deadline))
    return job
  }

  // MARK: One job

  @Test(arguments: [false, true]) func aReportSaysWhetherTheAppHasWebhooks(hasWebhooks: Bool) {
    var bench = Bench()
    var job = Self.job(1)
    job.hasWebhooks = hasWebhooks
    _ = bench.take(job)
    #expect(bench.sent(1, .tokenGone(at: nil)).pending.map(\.hasWebhooks) == [hasWebhooks])
  }

  @Test func anAcceptedPushIsReportedAndSettledAtOnce() {
    var bench = Bench()
    #expect(bench.take(Self.job()) == [.send(job: 1, pool: 0)])
    let effects = bench.sent(1, .accepted, at: 1)
    #expect(effects.reports == [.accepted])
    #expect(effects.contains(.settle(item: 1, .done)))
    #expect(bench.machine.jobs == 0)
    #expect(bench.machine.reportsWaiting == 1)
    #expect(bench.answered(1) == [])
    #expect(bench.machine.isIdle)
  }

  /// The queue keeps the job until the shard acknowledges: if this gateway dies, another one sends the push again.
  @Test(arguments: [
    PushOutcome.tokenGone(at: nil), .rejected(reason: "BadTopic"), .failed(reason: "no answer"),
  ]) func whatTheShardMustKnowIsKeptUntilItAnswers(outcome: PushOutcome) {
    var bench = Bench(Self.job())
    let effects = bench.sent(1, outcome)
    #expect(effects.reports == [outcome])
    #expect(effects.settled == [])
    // It retransmits the report, and extends the item in the queue.
    #expect(bench.tick(at: 0.5).reports == [outcome])
    #expect(bench.tick(at: 0.6).reports == [])
    #expect(bench.tick(at: 1.5).reports == [outcome])
    #expect(bench.tick(at: 2).settled == [.inProgress])
    #expect(bench.answered(1, at: 2.1) == [.settle(item: 1, .done)])
    #expect(bench.answered(1, at: 2.1) == [])
    #expect(bench.machine.isIdle)
    #expect(bench.tick(at: 20) == [])
  }

  @Test func aReportThatNobodyAnswersIsGivenUpAndCounted() {
    var bench = Bench(Self.job())
    _ = bench.sent(1, .tokenGone(at: nil))
    var said = 0
    var settled: [WorkSettlement] = []
    for step in 1...60 {
      let effects = bench.tick(at: Double(step) * 0.25)
      said += effects.reports.count
      settled += effects.settled
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
    #expect(effects.reports == [.expired])
    #expect(effects.settled == [.done])
    #expect(effects.sends == [])
    #expect(bench.machine.counts[.late] == 1)
  }

  /// Only the time counts, not the number of deliveries. A short ring has less time.
  @Test func whatNoSenderServesIsLeftToOthersThenRejected() {
    var bench = Bench()
    for time in [0, 0.25, 4.9] {
      let effects = bench.take(Self.job(decided: 0), pool: nil, at: time)
      #expect(effects == [.settle(item: bench.items, .retry(after: .milliseconds(250)))])
    }
    let rejected = PushOutcome.rejected(reason: "no sender for this topic")
    #expect(bench.take(Self.job(decided: 0), pool: nil, at: 5).reports == [rejected])
    #expect(bench.machine.counts[.unserved] == 4)
    #expect(bench.machine.unserved.all.map(\.jobs) == [1])
    let short = Self.job(2, deadline: 4, decided: 0)
    #expect(bench.take(short, pool: nil, at: 1.9).reports == [])
    #expect(bench.take(short, pool: nil, at: 2).reports == [rejected])
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

  /// One of several services that share a pool does not answer.
  @Test func aServiceTakesNoMorePlacesThanItsShare() {
    var limits = GatewayMachine.Limits()
    limits.placesPerService = 2
    var bench = Bench()
    bench.machine = GatewayMachine(pools: 1, limits: limits)
    func take(_ number: UInt64, _ service: String) -> [Effect] {
      bench.take(Self.job(number), service: service)
    }
    for number in UInt64(1)...2 { #expect(take(number, "https://dead.example").sends == [number]) }
    #expect(
      take(3, "https://dead.example") == [.settle(item: 3, .retry(after: .milliseconds(250)))])
    #expect(take(4, "https://other.example").sends.count == 1)
    _ = bench.sent(1, .accepted)
    #expect(take(3, "https://dead.example").sends.count == 1, "its place is free again")
    #expect(bench.machine.counts[.turnedAway] == 1)
  }

  @Test func theIdIsAUUIDThatFollowsFromThePush() {
    let job = Self.job()
    let id = PushIdentity(job).uuid
    #expect(id == PushIdentity(job).uuid)
    let characters = Array(id)
    #expect(characters.count == 36)
    for index in [8, 13, 18, 23] { #expect(characters[index] == "-") }
    #expect(characters[14] == "8")
    #expect("89ab".contains(characters[19]))
    #expect(id == id.lowercased())
    #expect(!id.contains(job.token.token))
    // New times do not change the id; another push has another id.
    var later = job
    later.decidedAt = Self.at(9)
    later.deadline = Self.at(99)
    #expect(PushIdentity(later).uuid == id)
    var again = job
    again.round = 1
    let others = [
      again, Self.job(2), Self.job(device: "tablet"),
      Self.job(purpose: .cancel),
    ]
    #expect(Set(others.map { PushIdentity($0).uuid } + [id]).count == 5)
  }

  // MARK: The same again

  @Test func aJobThatComesAgainIsNotSentAgain() {
    var bench = Bench(Self.job())
    // Under way: the newer item will be settled, and the older one is forgotten.
    #expect(bench.take(Self.job()) == [.forget(item: 1)])
    let effects = bench.sent(1, .accepted)
    #expect(effects.contains(.settle(item: 2, .done)))
    // Done.
    #expect(bench.take(Self.job()) == [.settle(item: 3, .done)])
    #expect(bench.machine.counts[.repeated] == 2)
    // Another purpose, or another token, is another push.
    #expect(bench.take(Self.job(purpose: .missed)).sends.count == 1)
    #expect(bench.take(Self.job(2)).sends.count == 1)
  }

  @Test func aJobWhoseReportIsHeldIsNotSentAgain() {
    var bench = Bench(Self.job())
    _ = bench.sent(1, .failed(reason: "x"))
    #expect(bench.take(Self.job()) == [.forget(item: 1)])
    #expect(bench.take(Self.job()) == [.forget(item: 2)])
    #expect(bench.answered(1) == [.settle(item: 3, .done)])
  }

  @Test func aFateIsForgottenInTheEnd() {
    var bench = Bench(Self.job(deadline: 1000))
    _ = bench.sent(1, .accepted)
    // Expired elements are removed at an insertion.
    _ = bench.take(Self.job(9, deadline: 1000), at: 121)
    _ = bench.sent(2, .accepted, at: 121)
    #expect(bench.take(Self.job(deadline: 1000), at: 121).sends.count == 1)
  }

  // MARK: Pools

  @Test func aFullPoolDelaysNoOther() {
    var bench = Bench(sends: 2, waiting: 2)
    for number in UInt64(1)...4 { _ = bench.take(Self.job(number)) }
    #expect(bench.machine.pools[0].sending == 2)
    #expect(bench.machine.pools[0].waiting == 2)
    #expect(bench.take(Self.job(5)) == [.settle(item: 5, .retry(after: .milliseconds(250)))])
    #expect(bench.machine.counts[.turnedAway] == 1)
    #expect(bench.take(Self.job(6), pool: 1) == [.send(job: 5, pool: 1)])
    // A free place goes to the job that waited longest.
    #expect(bench.sent(1, .accepted).sends == [3])
    #expect(bench.sent(2, .accepted).sends == [4])
    #expect(bench.machine.pools[0].waiting == 0)
  }

  private static func notice(_ number: UInt64) -> PushJob {
    job(number, deadline: 86_400, purpose: .missedNotice)
  }

  /// A provider makes a notice wait for an hour.
  @Test func aNoticeThatPausesLeavesItsPlaceToARing() {
    var bench = Bench(Self.notice(1), Self.job(2), sends: 1, waiting: 1)
    #expect(bench.paused(1, until: 3600).sends == [2])
    #expect(bench.machine.pools[0].sending == 1 && bench.machine.pools[0].resting == 1)
    #expect(bench.tick(at: 2).settled == [.inProgress, .inProgress])
    _ = bench.sent(2, .accepted, at: 3)
    #expect(bench.resumed(1) == [])
    #expect(bench.machine.pools[0].sending == 1 && bench.machine.pools[0].resting == 0)
    // Two reports of the pause and its end are one each.
    #expect(bench.resumed(1) == [])
    _ = bench.paused(1, until: 7200, at: 3600)
    #expect(bench.paused(1, until: 7200, at: 3600) == [])
    #expect(bench.sent(1, .failed(reason: "closed"), at: 3601).reports.count == 1)
    #expect(bench.machine.pools[0].sending == 0 && bench.machine.pools[0].resting == 0)
    // A ring keeps its place.
    _ = bench.take(Self.job(3))
    #expect(bench.paused(3, until: 20) == [])
    #expect(bench.machine.pools[0].sending == 1)
  }

  @Test func aNoticeThatPausesLeavesThePlaceOfItsServiceToo() {
    var limits = GatewayMachine.Limits()
    limits.placesPerService = 1
    var bench = Bench()
    bench.machine = GatewayMachine(pools: 1, limits: limits)
    let service = "https://slow.example"
    _ = bench.take(Self.notice(1), service: service)
    #expect(bench.take(Self.job(2), service: service).sends == [])
    _ = bench.paused(1, until: 3600)
    #expect(bench.take(Self.job(2), service: service).sends == [2])
    _ = bench.sent(2, .accepted)
    // The pause is over: the notice has the place.
    _ = bench.resumed(1)
    #expect(bench.take(Self.job(3), service: service).sends == [])
    _ = bench.sent(1, .accepted)
    #expect(bench.take(Self.job(3), service: service).sends == [3])
  }

  @Test(arguments: [(0.5, 16), (60, 60), (3600, 300)] as [(Double, Int)])
  func noticesBeyondThoseThatMayPauseReturnToTheQueue(pause: Double, redelivery: Int) {
    var bench = Bench(Self.notice(1), Self.notice(2), Self.job(3), sends: 2, waiting: 1)
    #expect(bench.paused(1, until: 3600).sends == [3])
    let effects = bench.paused(2, until: pause)
    #expect(
      effects == [.withdraw(job: 2), .settle(item: 2, .retry(after: .seconds(redelivery)))])
    #expect(bench.sent(2, .expired) == [], "its sender makes no further attempt")
    #expect(bench.machine.pools[0].sending == 1)
    #expect(bench.take(Self.notice(2), attempt: 2, at: 16).sends.count == 1)
  }

  @Test func aDrainLeavesANoticeThatPausesToItsSender() {
    var bench = Bench(Self.notice(1))
    _ = bench.paused(1, until: 3)
    bench.machine.drain()
    #expect(bench.drained() == [])
    #expect(bench.sent(1, .accepted, at: 4).settled == [.done])
  }

  @Test func whoWaitsTooLongIsDropped() {
    var bench = Bench(Self.job(1), Self.job(2, deadline: 3), Self.job(3), sends: 1, waiting: 5)
    let effects = bench.tick(at: 3)
    #expect(effects.reports == [.expired])
    #expect(effects.contains(.settle(item: 2, .done)))
    #expect(bench.sent(1, .accepted, at: 4).sends == [3])
  }

  @Test func aSenderThatNeverAnswersGivesItsPlaceBack() {
    var bench = Bench(Self.job(1, deadline: 2), Self.job(2), sends: 1)
    #expect(bench.tick(at: 6.9).sends == [])
    let effects = bench.tick(at: 7)
    #expect(
      effects.reports == [.failed(reason: "the sender did not answer", mayHaveArrived: true)])
    #expect(effects.sends == [2])
    #expect(bench.machine.counts[.overdue] == 1)
    // Its late answer is ignored.
    #expect(bench.sent(1, .accepted, at: 8) == [])
    #expect(bench.machine.pools[0].sending == 1)
  }

  @Test func theQueueHearsThatAJobIsWorkedOn() {
    var bench = Bench(Self.job())
    var told = 0
    for step in 1...50 {
      let settled = bench.tick(at: Double(step) * 0.2).settled
      #expect(settled.allSatisfy { $0 == .inProgress })
      told += settled.count
    }
    #expect(told == 5)
  }

  @Test func reportsAreBounded() {
    var bench = Bench(Self.job(1), Self.job(2), sends: 10, reports: 1)
    _ = bench.sent(1, .tokenGone(at: nil))
    // Sent once, without waiting for the acknowledgement.
    let effects = bench.sent(2, .tokenGone(at: nil))
    #expect(effects.reports.count == 1)
    #expect(effects.contains(.settle(item: 2, .done)))
    #expect(bench.machine.counts[.reportsGivenUp] == 1)
    #expect(bench.machine.reportsWaiting == 1)
  }

  // MARK: Going

  @Test func aDrainGivesBackWhatNoSenderHas() {
    var bench = Bench(Self.job(1), Self.job(2), sends: 1, waiting: 5)
    bench.machine.drain()
    #expect(bench.drained() == [.settle(item: 2, .retry(after: .zero))])
    #expect(bench.take(Self.job(3)) == [.settle(item: 3, .retry(after: .zero))])
    let effects = bench.sent(1, .accepted)
    #expect(effects.contains(.settle(item: 1, .done)))
    _ = bench.answered(1)
    #expect(bench.machine.isIdle)
    bench.machine.resume()
    #expect(bench.take(Self.job(3)).sends.count == 1)
  }

  @Test func whatIsLeftAtTheEndGoesToAnother() {
    var bench = Bench(Self.job(1), Self.job(2), sends: 5)
    _ = bench.sent(2, .tokenGone(at: nil))
    bench.machine.releaseAll()
    #expect(
      bench.drained() == [
        .settle(item: 1, .retry(after: .zero)), .settle(item: 2, .retry(after: .zero)),
      ])
    #expect(bench.machine.counts[.released] == 2)
  }
}

extension [GatewayMachine.Effect] {
  var pending: [PushReport] {
    compactMap { if case .report(let pending) = $0 { pending.report } else { nil } }
  }
  var reports: [PushOutcome] { pending.map(\.outcome) }
  var settled: [WorkSettlement] {
    compactMap { if case .settle(_, let settlement) = $0 { settlement } else { nil } }
  }
  var sends: [UInt64] {
    compactMap { if case .send(let job, _) = $0 { job } else { nil } }
  }
}
