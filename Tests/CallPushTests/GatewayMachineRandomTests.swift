import CallBus
import CallCore
import CallPush
import Testing

extension GatewayMachineTests {
  /// For any events in any order: each item is settled or forgotten in the end, at most one push of each identity is
  /// under way at a time, and no place is lost.
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
