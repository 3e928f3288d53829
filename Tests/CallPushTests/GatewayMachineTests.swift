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

    init(pools: Int = 2, sends: Int = 2, waiting: Int = 2, reports: Int = 100) {
      var limits = GatewayMachine.Limits()
      limits.sendsPerPool = sends
      limits.waitingPerPool = waiting
      var kept = GatewayReports()
      kept.capacity = reports
      kept.repeats = [.milliseconds(500), .seconds(1), .seconds(2)]
      machine = GatewayMachine(pools: pools, limits: limits, reports: kept)
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
    mutating func sent(_ number: UInt64, _ outcome: PushOutcome, at seconds: Double = 0)
      -> [Effect]
    {
      machine.sent(number, outcome, now: GatewayMachineTests.at(seconds))
      return drained()
    }
    mutating func answered(_ number: UInt64, at seconds: Double = 0) -> [Effect] {
      machine.answered(number, now: GatewayMachineTests.at(seconds))
      return drained()
    }
    mutating func queried(_ question: UInt64, rings: Bool, at seconds: Double = 0) -> [Effect] {
      machine.queried(question, rings: rings, now: GatewayMachineTests.at(seconds))
      return drained()
    }
    mutating func withdraw(_ calls: UInt64..., at seconds: Double = 0) -> [Effect] {
      machine.withdraw(
        calls.map { PushRinging(call: CallID(high: 7, low: $0)) },
        now: GatewayMachineTests.at(seconds))
      return drained()
    }
    mutating func neverSent(_ calls: UInt64..., at seconds: Double = 0) -> [Effect] {
      machine.neverSent(
        calls.map { PushLeg(call: CallID(high: 7, low: $0), device: "phone") },
        now: GatewayMachineTests.at(seconds))
      return drained()
    }
    mutating func tick(at seconds: Double) -> [Effect] {
      machine.tick(now: GatewayMachineTests.at(seconds))
      return drained()
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

  @Test(arguments: [false, true]) func aReportSaysWhetherTheAppHasWebhooks(hasWebhooks: Bool) {
    var bench = Bench()
    var job = Self.job(1)
    job.hasWebhooks = hasWebhooks
    _ = bench.take(job)
    let said = bench.sent(1, .tokenGone(at: nil)).compactMap { effect -> Bool? in
      if case .report(let pending) = effect { pending.report.hasWebhooks } else { nil }
    }
    #expect(said == [hasWebhooks])
  }

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

  /// The queue keeps the job until the shard acknowledges: if this gateway dies, another one sends the push again.
  @Test(arguments: [
    PushOutcome.tokenGone(at: nil), .rejected(reason: "BadTopic"), .failed(reason: "no answer"),
  ]) func whatTheShardMustKnowIsKeptUntilItAnswers(outcome: PushOutcome) {
    var bench = Bench()
    _ = bench.take(Self.job())
    let effects = bench.sent(1, outcome)
    #expect(Self.report(effects) == [outcome])
    #expect(Self.settled(effects) == [])
    // It retransmits the report, and extends the item in the queue.
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

  /// Only the time counts, not the number of deliveries. A short ring has less time.
  @Test func aShortJobIsRejectedWhileThereIsTimeToSaySo() {
    var bench = Bench()
    #expect(Self.report(bench.take(Self.job(deadline: 4, decided: 0), pool: nil, at: 1.9)) == [])
    #expect(
      Self.report(bench.take(Self.job(deadline: 4, decided: 0), pool: nil, at: 2))
        == [.rejected(reason: "no sender for this topic")])
  }

  /// One of several services that share a pool does not answer.
  @Test func aServiceTakesNoMorePlacesThanItsShare() {
    var limits = GatewayMachine.Limits()
    limits.placesPerService = 2
    var machine = GatewayMachine(pools: 1, limits: limits)
    func take(_ number: UInt64, _ service: String) {
      machine.receive(item: number, Self.job(number), pool: 0, service: service, now: Self.at(0))
    }
    for number in UInt64(1)...3 { take(number, "https://dead.example") }
    #expect(Self.sends(machine.effects).count == 2)
    #expect(machine.effects.last == .settle(item: 3, .retry(after: .milliseconds(250))))
    machine.effects = []
    take(4, "https://other.example")
    #expect(Self.sends(machine.effects).count == 1)
    machine.effects = []
    machine.sent(1, .accepted, now: Self.at(0))
    machine.effects = []
    take(3, "https://dead.example")
    #expect(Self.sends(machine.effects).count == 1, "its place is free again")
    #expect(machine.counts[.turnedAway] == 1)
  }
}
