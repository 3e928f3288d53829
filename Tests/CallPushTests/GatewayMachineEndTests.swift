import CallBus
import CallCore
import CallPush
import Testing

/// Calls that ended: withdrawals, clean-ups, and rings that were dropped unsent.
extension GatewayMachineTests {
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
    // The ring was never sent, so only the missed notice is sent.
    let cleanUp = bench.take(Self.job(1, purpose: .missed), at: 1)
    #expect(Self.sends(cleanUp) == [])
    #expect(Self.report(cleanUp) == [.expired])
    #expect(Self.sends(bench.take(Self.job(1, purpose: .missedNotice), at: 1)).count == 1)
    // The end is remembered for the longest duration of a ring.
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

  /// A former gateway may have sent the ring, and so may the current sender.
  @Test func whatMayHaveRungIsTold() {
    var bench = Bench(sends: 1)
    _ = bench.take(Self.job(1))
    #expect(Self.report(bench.take(Self.job(1, purpose: .missed))) == [], "it waits for a place")
    _ = bench.withdraw(2)
    #expect(Self.report(bench.take(Self.job(2), attempt: 2)) == [.expired])
    let told = bench.take(Self.job(2, purpose: .missed), pool: 1)
    #expect(Self.sends(told).count == 1)
    // A ring that waits here was delivered before.
    _ = bench.take(Self.job(3), attempt: 3)
    #expect(Self.report(bench.withdraw(3)) == [.expired])
    #expect(Self.report(bench.take(Self.job(3, purpose: .missed))) == [])
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
    bench.machine.neverSent(other, now: Self.at(0.1))
    #expect(bench.drained() == [])
    #expect(Self.report(bench.neverSent(1, 2, at: 0.2)) == [.expired, .expired])
    #expect(bench.machine.counts[.withdrawn] == 2)
    // The report of the dropped ring came first.
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
    // The ring is with a sender here: its outcome decides.
    _ = bench.take(Self.job(2))
    #expect(Self.sends(bench.take(Self.cleanUp(2))) == [])
    #expect(Self.sends(bench.sent(2, .accepted)) == [3])
    var later = Self.cleanUp(2)
    later.purpose = .missed
    _ = bench.sent(1, .accepted)
    #expect(Self.sends(bench.take(later)) == [4])
    // The report of another gateway does not change that, and neither does another token of the clean-up.
    _ = bench.neverSent(2)
    later.purpose = .ended
    later.token.fingerprint = "alert"
    #expect(Self.sends(bench.take(later)) == [5])
    // Its shard has recorded that the ring was sent.
    #expect(Self.sends(bench.take(Self.job(5, purpose: .cancel), pool: 1)) == [6])
  }

  /// A provider answers with errors, the call ends between two attempts, and the ring is given up: the device has never
  /// rung, and a VoIP push that ends a call would make its app report one.
  @Test(arguments: [
    PushOutcome.expired, .failed(reason: "ServiceUnavailable"), .rejected(reason: "BadTopic"),
    .tokenRefused(reason: "BadDeviceToken"), .tokenGone(at: nil),
  ])
  func aRingThatNeverArrivedIsNotCleanedUp(outcome: PushOutcome) {
    var bench = Bench()
    _ = bench.take(Self.job(1))
    let taken = bench.take(Self.cleanUp(1))
    #expect(Self.sends(taken) == [])
    #expect(taken.contains(.withdraw(job: 1)))
    let ended = bench.sent(1, outcome)
    #expect(Self.report(ended) == [.expired, outcome])
    #expect(
      ended.contains(.notifyNeverSent(PushLeg(call: CallID(high: 7, low: 1), device: "phone"))))
    // One that comes later, too.
    var later = Self.cleanUp(1)
    later.purpose = .missed
    #expect(Self.report(bench.take(later)) == [.expired])
    #expect(bench.machine.pools[0].sending == 0)
  }

  @Test func aRingThatMayHaveArrivedIsCleanedUp() {
    var bench = Bench(sends: 10)
    _ = bench.take(Self.job(1))
    _ = bench.take(Self.cleanUp(1))
    let doubtful = PushOutcome.failed(reason: "no answer", mayHaveArrived: true)
    #expect(Self.sends(bench.sent(1, doubtful)) == [2])
    // Delivered before: another gateway may have sent it.
    _ = bench.take(Self.job(2), attempt: 2)
    _ = bench.take(Self.cleanUp(2))
    #expect(Self.sends(bench.sent(3, .expired)) == [4])
    // A provider that does not answer holds no clean-up up for long.
    _ = bench.take(Self.job(3))
    _ = bench.take(Self.cleanUp(3))
    #expect(Self.sends(bench.tick(at: 0.9)) == [])
    #expect(Self.sends(bench.tick(at: 1)) == [6])
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
}
