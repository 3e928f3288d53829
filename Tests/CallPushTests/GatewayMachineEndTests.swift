import CallBus
import CallCore
import CallPush
import Testing

/// Calls that ended: withdrawals, clean-ups, and rings that were dropped unsent.
extension GatewayMachineTests {
  @Test func aRingThatWaitsForAPlaceIsDroppedWhenItsCallEnds() {
    var bench = Bench(Self.job(1), Self.job(2), sends: 1)
    let effects = bench.withdraw(2)
    #expect(effects.reports == [.expired])
    #expect(effects.settled == [.done])
    #expect(bench.machine.counts[.withdrawn] == 1)
    #expect(bench.sent(1, .accepted).sends == [], "nobody waits")
  }

  @Test func theSenderOfARingHearsThatItsCallEnded() {
    var bench = Bench(Self.job(1))
    #expect(bench.withdraw(1) == [.withdraw(job: 1)])
    #expect(bench.withdraw(1) == [], "once")
    #expect(bench.sent(1, .expired).reports == [.expired])
    #expect(bench.withdraw(1) == [])
  }

  @Test func aRingThatComesBehindTheEndIsNotSent() {
    var bench = Bench(sends: 10)
    #expect(bench.withdraw(1) == [])
    // The ring was never sent, so only the missed notice is sent.
    for purpose in [PushPurpose.ring, .missed] {
      let late = bench.take(Self.job(1, purpose: purpose), at: 1)
      #expect(late.sends == [])
      #expect(late.reports == [.expired])
    }
    #expect(bench.take(Self.job(1, purpose: .missedNotice), at: 1).sends.count == 1)
    // The end is remembered for the longest duration of a ring.
    #expect(bench.take(Self.job(2, deadline: 1000), at: 1).sends.count == 1)
    _ = bench.withdraw(3, at: 200)
    let another = Self.job(1, deadline: 1000, device: "tablet")
    #expect(bench.take(another, at: 201).sends.count == 1)
  }

  @Test(arguments: [PushPurpose.missed, .answeredElsewhere, .cancel, .ended])
  func aCleanUpTakesTheRingOfItsDeviceAlong(purpose: PushPurpose) {
    var bench = Bench(Self.job(1), sends: 10)
    let effects = bench.take(Self.job(1, purpose: purpose))
    #expect(effects == [.withdraw(job: 1), .send(job: 2, pool: 0)])
    var again = Self.job(1)
    again.token.fingerprint = "another token"
    #expect(bench.take(again).sends == [], "it comes behind the clean-up")
    // The call may have left this user only: it rings on for others, and for this user with a transfer.
    #expect(bench.take(Self.job(1, device: "tablet")).sends == [3])
    var carols = Self.job(1)
    carols.user = UserKey(app: carols.user.app, user: "carol")
    carols.token.fingerprint = "carol's"
    #expect(bench.take(carols).sends == [4])
    again.round = 1
    #expect(bench.take(again).sends == [5])
    // A missed notice is no end of its own.
    bench = Bench(Self.job(1))
    #expect(bench.take(Self.job(1, purpose: .missedNotice)) == [.send(job: 2, pool: 0)])
  }

  @Test func devicesOfOneNameAtTwoUsersAreTwo() {
    func job(of user: String, _ purpose: PushPurpose = .ring) -> PushJob {
      var job = Self.job(1, purpose: purpose)
      (job.user, job.token.fingerprint) = (UserKey(app: job.user.app, user: user), user)
      return job
    }
    var bench = Bench(job(of: "dave"), job(of: "carol"), sends: 1)
    _ = bench.sent(1, .accepted)
    _ = bench.sent(2, .expired)
    #expect(bench.take(job(of: "carol", .cancel)).reports == [.expired], "it never rang")
    #expect(bench.take(job(of: "dave", .cancel)).sends == [3])
  }

  /// A former gateway may have sent the ring, and so may the current sender.
  @Test func whatMayHaveRungIsTold() {
    var bench = Bench(Self.job(1), sends: 1)
    #expect(bench.take(Self.job(1, purpose: .missed)).reports == [], "it waits for a place")
    _ = bench.withdraw(2)
    #expect(bench.take(Self.job(2), attempt: 2).reports == [.expired])
    let told = bench.take(Self.job(2, purpose: .missed), pool: 1)
    #expect(told.sends.count == 1)
    // A ring that waits here was delivered before.
    _ = bench.take(Self.job(3), attempt: 3)
    #expect(bench.withdraw(3).reports == [.expired])
    #expect(bench.take(Self.job(3, purpose: .missed)).reports == [])
  }

  /// A clean-up with an unknown ring, which may wait at another gateway that drops it.
  static func cleanUp(_ number: UInt64) -> PushJob {
    var job = job(number, purpose: .cancel)
    job.isRingUnknown = true
    return job
  }

  @Test func aDroppedRingIsToldToTheOtherGateways() {
    var bench = Bench()
    _ = bench.withdraw(1, 2)
    let leg = PushLeg(call: CallID(high: 7, low: 1), user: "bob", device: "phone")
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
    let other = [PushLeg(call: CallID(high: 7, low: 1), user: "bob", device: "tablet")]
    bench.machine.neverSent(other, now: Self.at(0.1))
    #expect(bench.drained() == [])
    #expect(bench.neverSent(1, 2, at: 0.2).reports == [.expired, .expired])
    #expect(bench.machine.counts[.withdrawn] == 2)
    // The report of the dropped ring came first.
    _ = bench.neverSent(3, at: 0.2)
    #expect(bench.take(Self.cleanUp(3), at: 0.2).reports == [.expired])
    #expect(bench.tick(at: 10).sends == [])
    #expect(bench.machine.jobs == 0)
    // One that waited for a place has waited for word of the ring long enough.
    bench = Bench(Self.job(1), sends: 1)
    #expect(bench.take(Self.cleanUp(2)) == [])
    #expect(bench.sent(1, .accepted, at: 0.5).sends == [2])
  }

  @Test func withoutWordOfTheRingItsEndIsTold() {
    var bench = Bench(Self.cleanUp(1), sends: 10)
    #expect(bench.tick(at: 0.2).sends == [])
    #expect(bench.tick(at: 0.4).sends == [1])
    #expect(bench.neverSent(1, at: 0.5) == [], "too late")
    // The ring is with a sender here: its outcome decides.
    _ = bench.take(Self.job(2))
    #expect(bench.take(Self.cleanUp(2)).sends == [])
    #expect(bench.sent(2, .accepted).sends == [3])
    var later = Self.cleanUp(2)
    later.purpose = .missed
    _ = bench.sent(1, .accepted)
    #expect(bench.take(later).sends == [4])
    // The report of another gateway does not change that, and neither does another token of the clean-up.
    _ = bench.neverSent(2)
    later.purpose = .ended
    later.token.fingerprint = "alert"
    #expect(bench.take(later).sends == [5])
    // Its shard has recorded that the ring was sent.
    #expect(bench.take(Self.job(5, purpose: .cancel), pool: 1).sends == [6])
  }

  /// A provider answers with errors, the call ends between two attempts, and the ring is given up: the device has never
  /// rung, and a VoIP push that ends a call would make its app report one.
  @Test(arguments: [
    PushOutcome.expired, .failed(reason: "ServiceUnavailable"), .rejected(reason: "BadTopic"),
    .tokenRefused(reason: "BadDeviceToken"), .tokenGone(at: nil),
  ])
  func aRingThatNeverArrivedIsNotCleanedUp(outcome: PushOutcome) {
    var bench = Bench(Self.job(1))
    let taken = bench.take(Self.cleanUp(1))
    #expect(taken.sends == [])
    #expect(taken.contains(.withdraw(job: 1)))
    let ended = bench.sent(1, outcome)
    #expect(ended.reports == [.expired, outcome])
    #expect(
      ended.contains(
        .notifyNeverSent(PushLeg(call: CallID(high: 7, low: 1), user: "bob", device: "phone"))))
    // One that comes later, too.
    var later = Self.cleanUp(1)
    later.purpose = .missed
    #expect(bench.take(later).reports == [.expired])
    #expect(bench.machine.pools[0].sending == 0)
  }

  @Test func aRingThatMayHaveArrivedIsCleanedUp() {
    var bench = Bench(Self.job(1), Self.cleanUp(1), sends: 10)
    let doubtful = PushOutcome.failed(reason: "no answer", mayHaveArrived: true)
    #expect(bench.sent(1, doubtful).sends == [2])
    // Delivered before: another gateway may have sent it.
    _ = bench.take(Self.job(2), attempt: 2)
    _ = bench.take(Self.cleanUp(2))
    #expect(bench.sent(3, .expired).sends == [4])
    // A provider that does not answer holds no clean-up up for long.
    _ = bench.take(Self.job(3))
    _ = bench.take(Self.cleanUp(3))
    #expect(bench.tick(at: 0.9).sends == [])
    #expect(bench.tick(at: 1).sends == [6])
  }

  @Test func whoseRingWasLateIsNotToldThatItIsOver() {
    var bench = Bench()
    #expect(bench.take(Self.job(1, deadline: 5), at: 6).reports == [.expired])
    #expect(bench.take(Self.job(1, purpose: .missed), at: 6).sends == [])
    #expect(
      bench.take(Self.job(1, device: "tablet", purpose: .missed), at: 6).sends.count == 1)
  }

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
              purpose: number % 4 == 0 ? .missedNotice : .ring,
              decided: now - Double(random.below(3))),
            pool: random.below(20) == 0 ? nil : random.below(2),
            at: now))
      case 2:
        guard !sending.isEmpty else { break }
        let number = sending[random.below(sending.count)]
        switch random.below(4) {
        case 0: look(bench.paused(number, until: now + 1, at: now))
        case 1: look(bench.resumed(number))
        default: break
        }
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
      for pool in bench.machine.pools {
        // Notices whose pause is over exceed the limit.
        #expect(pool.sending <= 6 && pool.waiting <= 3 && pool.resting <= 3)
      }
    }
    for job in sending { look(bench.sent(job, .accepted, at: now)) }
    for step in 1...400 { look(bench.tick(at: now + Double(step) / 4)) }
    #expect(bench.machine.isIdle)
    #expect(
      bench.machine.pools.allSatisfy { $0.sending == 0 && $0.waiting == 0 && $0.resting == 0 })
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

/// The call of a ring that waited may have ended, so the gateway queries the shard before it sends.
extension GatewayMachineTests {
  private static func old(
    _ number: UInt64 = 1, deadline: Double = 30, purpose: PushPurpose = .ring
  ) -> PushJob {
    job(number, deadline: deadline, purpose: purpose, decided: 0)
  }

  @Test func aRingThatWaitedIsSentWhenItsCallStillRings() {
    var bench = Bench()
    #expect(bench.take(Self.old(), at: 0.6) == [.ask(question: 1, job: 1)])
    #expect(bench.queried(1, rings: true, at: 0.7) == [.send(job: 1, pool: 0)])
    // A repeated answer has no effect.
    #expect(bench.queried(1, rings: true, at: 0.7) == [])
    #expect(bench.queried(1, rings: false, at: 0.7) == [])
    #expect(bench.sent(1, .accepted, at: 0.8).contains(.settle(item: 1, .done)))
    #expect(bench.machine.counts[.overtaken] == nil)
  }

  @Test func oneWhoseCallIsOverIsDroppedCountedAndReported() {
    var bench = Bench(sends: 1)
    _ = bench.take(Self.old(1), at: 5)
    // The queried job occupies a place, which the next job gets.
    #expect(bench.take(Self.old(2), at: 5) == [])
    let effects = bench.queried(1, rings: false, at: 5.1)
    #expect(effects.reports == [.expired])
    #expect(effects.contains(.settle(item: 1, .done)))
    #expect(effects.contains(.ask(question: 2, job: 2)))
    #expect(effects.sends == [])
    #expect(bench.machine.counts[.overtaken] == 1)
    #expect(bench.machine.pools[0].sending == 1)
    // Its job is redelivered: the outcome is known.
    #expect(bench.take(Self.old(1), at: 6) == [.settle(item: 3, .done)])
  }

  @Test func whatIsFreshIsNotAskedAboutNorWhatTellsOfTheEnd() {
    var bench = Bench(sends: 10)
    #expect(bench.take(Self.old(1), at: 0.5) == [.send(job: 1, pool: 0)])
    for (number, purpose) in PushPurpose.allCases.enumerated() where purpose != .ring {
      let effects = bench.take(Self.old(UInt64(10 + number), purpose: purpose), at: 20)
      #expect(effects.sends.count == 1, "\(purpose)")
    }
  }

  /// A push is a hint, so a call that may still ring gets one.
  @Test func withoutAnAnswerItIsSent() {
    var bench = Bench()
    _ = bench.take(Self.old(), at: 3)
    #expect(bench.tick(at: 3.9).sends == [])
    #expect(bench.tick(at: 4).sends == [1])
    #expect(bench.queried(1, rings: false, at: 4.1) == [])
    #expect(bench.sent(1, .accepted, at: 4.2).contains(.settle(item: 1, .done)))
  }

  @Test func itsDeadlineDoesNotWaitForTheAnswer() {
    var bench = Bench(sends: 1)
    _ = bench.take(Self.old(1, deadline: 5), at: 4.8)
    _ = bench.take(Self.old(2), at: 4.8)
    let effects = bench.tick(at: 5)
    #expect(effects.reports == [.expired])
    #expect(effects.contains(.ask(question: 2, job: 2)))
    #expect(bench.machine.counts[.late] == 1)
    #expect(bench.queried(1, rings: true, at: 5.1) == [])
    #expect(bench.queried(2, rings: true, at: 5.1) == [.send(job: 2, pool: 0)])
  }

  @Test func aJobThatComesAgainMeanwhileIsAskedAboutOnce() {
    var bench = Bench()
    _ = bench.take(Self.old(), at: 1)
    #expect(bench.take(Self.old(), at: 1.5) == [.forget(item: 1)])
    #expect(bench.queried(1, rings: true, at: 1.6) == [.send(job: 1, pool: 0)])
    // The newer item is the one to settle.
    #expect(bench.sent(1, .accepted, at: 1.7).contains(.settle(item: 2, .done)))
  }

  @Test func aDrainGivesItBack() {
    var bench = Bench()
    _ = bench.take(Self.old(), at: 1)
    bench.machine.drain()
    #expect(bench.drained() == [.settle(item: 1, .retry(after: .zero))])
    #expect(bench.machine.pools[0].sending == 0)
    #expect(bench.queried(1, rings: true, at: 1.1) == [])
    #expect(bench.machine.isIdle)
  }
}
