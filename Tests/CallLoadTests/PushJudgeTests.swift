import CallCore
import CallJudge
import CallLoadKit
import Testing

/// The judge of pushes, fed by hand.
@Suite struct PushJudgeTests {
  static let call = CallID(high: 1, low: 2)

  static func at(_ milliseconds: Int64) -> Timestamp {
    Timestamp(microseconds: milliseconds * 1000)
  }

  /// A judge of one call, whose devices accept the pushes of `takes`.
  static func judge(takes: PushCapabilities = []) -> PushJudge {
    var judge = PushJudge { _ in takes }
    judge.planned(call, at: at(0))
    return judge
  }

  static func push(
    _ purpose: PushPurpose = .ring, to device: Int = 1, id: String = "a", at time: Int64 = 10,
    sent: Int64? = nil
  ) -> PushJudge.Arrival {
    PushJudge.Arrival(
      device: device, purpose: purpose, id: id, at: at(time), sentAt: at(sent ?? time))
  }

  func rules(_ judge: PushJudge) -> [CorrectnessRule] {
    var judge = judge
    return judge.judge(Self.call) { "d\($0)" }.violations.map(\.rule)
  }

  @Test func aRingIsFine() {
    var judge = Self.judge()
    judge.arrived(Self.push(), for: Self.call)
    judge.arrived(Self.push(to: 2, id: "b"), for: Self.call)
    judge.over(Self.call, decidedAt: Self.at(500), learnedAt: Self.at(501))
    #expect(rules(judge) == [])
  }

  @Test func aRetryIsThePushAgain() {
    var judge = Self.judge()
    judge.arrived(Self.push(id: "a"), for: Self.call)
    judge.arrived(Self.push(id: "a", at: 900), for: Self.call)
    #expect(rules(judge) == [])
    judge.arrived(Self.push(id: "b"), for: Self.call)
    #expect(rules(judge) == [.pushedTwice])
  }

  @Test func decidedAfterTheEnd() {
    var judge = Self.judge()
    judge.over(Self.call, decidedAt: Self.at(100), learnedAt: Self.at(101))
    judge.arrived(Self.push(at: 105, sent: 100), for: Self.call)
    #expect(rules(judge) == [])
    judge.arrived(Self.push(to: 2, at: 105, sent: 101), for: Self.call)
    #expect(rules(judge) == [.pushedAfterEnd])
  }

  @Test func keptForTooLong() {
    var judge = Self.judge()
    judge.over(Self.call, decidedAt: nil, learnedAt: Self.at(100))
    judge.arrived(Self.push(at: 1100, sent: 90), for: Self.call)
    var judged = judge
    let finding = judged.judge(Self.call) { "d\($0)" }
    // Late, but on its way already.
    #expect(finding.violations == [] && finding.late == [.ring: 1])
    judge.arrived(Self.push(to: 2, at: 1101, sent: 90), for: Self.call)
    for (died, broken) in [(95, 0), (1102, 1)] {
      var faults = PushJudge.Faults()
      faults.ringUncertain = { $0 <= Self.at(Int64(died)) && Self.at(Int64(died)) <= $1 }
      var judged = judge
      let finding = judged.judge(Self.call, faults: faults) { "d\($0)" }
      #expect(finding.violations.count == broken, "a gateway died at \(died)")
    }
    #expect(rules(judge) == [.pushedAfterEnd])
  }

  @Test(arguments: [
    (PushPurpose.missed, PushCapabilities.missed), (.answeredElsewhere, .answeredElsewhere),
    (.cancel, .cancel), (.ended, .ended),
  ])
  func cleanUps(purpose: PushPurpose, capability: PushCapabilities) {
    var judge = Self.judge(takes: capability)
    judge.arrived(Self.push(), for: Self.call)
    judge.over(Self.call, decidedAt: Self.at(500), learnedAt: Self.at(501))
    judge.arrived(Self.push(purpose, id: "b", at: 505), for: Self.call)
    #expect(rules(judge) == [])

    var others = Self.judge(
      takes: PushCapabilities([.missed, .answeredElsewhere, .cancel, .ended, .missedNotice])
        .subtracting(capability))
    others.arrived(Self.push(), for: Self.call)
    others.arrived(Self.push(purpose, id: "b", at: 505), for: Self.call)
    #expect(rules(others) == [.cleanUpUnasked])

    var winner = judge
    winner.won(Self.call, 1)
    #expect(rules(winner) == [.cleanUpToWinner])

    var unrung = Self.judge(takes: capability)
    unrung.arrived(Self.push(purpose, id: "b", at: 505), for: Self.call)
    #expect(rules(unrung) == [.cleanUpUnasked])
    // A gateway that died may have sent the ring.
    for (died, broken) in [(504, 0), (506, 1)] {
      var faults = PushJudge.Faults()
      faults.ringUncertain = { $0 <= Self.at(Int64(died)) && Self.at(Int64(died)) <= $1 }
      var judged = unrung
      let finding = judged.judge(Self.call, faults: faults) { "d\($0)" }
      #expect(finding.violations.count == broken, "died at \(died)")
    }

    var attached = judge
    attached.attached(Self.call, 1, at: Self.at(254))
    #expect(rules(attached) == [.cleanUpUnasked])
    // A new owner may lack the session.
    var faults = PushJudge.Faults()
    faults.disturbed = { device, begin, end in
      device == 1 && begin == Self.at(254) && begin < end
    }
    let excused = attached.judge(Self.call, faults: faults) { "d\($0)" }
    #expect(excused.violations.isEmpty)
    var justNow = judge
    justNow.attached(Self.call, 1, at: Self.at(255))
    #expect(rules(justNow) == [])

    var acted = judge
    acted.acted(Self.call, 1)
    #expect(rules(acted) == [.cleanUpUnasked])
  }

  @Test func noticesAreForMissedCalls() {
    var judge = Self.judge(takes: .missedNotice)
    // Also to a device that no push made ring.
    judge.arrived(Self.push(.missedNotice), for: Self.call)
    #expect(rules(judge) == [])
    judge.answered(Self.call)
    #expect(rules(judge) == [.cleanUpUnasked])
    judge.won(Self.call, 1)
    #expect(rules(judge) == [.cleanUpToWinner])
    var unasked = Self.judge(takes: .missed)
    unasked.arrived(Self.push(.missedNotice), for: Self.call)
    #expect(rules(unasked) == [.cleanUpUnasked])
  }

  @Test func toldToRingAfterTheEnd() {
    var judge = Self.judge()
    judge.invited(Self.call, 1, decidedAt: Self.at(100))
    judge.over(Self.call, decidedAt: Self.at(100), learnedAt: Self.at(101))
    #expect(rules(judge) == [])
    judge.invited(Self.call, 2, decidedAt: Self.at(101))
    #expect(rules(judge) == [.wokenRangAfterEnd])

    // After an end by a reply alone, an invite on its way is excused.
    var cancelled = Self.judge()
    cancelled.over(Self.call, decidedAt: nil, learnedAt: Self.at(100))
    cancelled.invited(Self.call, 1, decidedAt: Self.at(350))
    #expect(rules(cancelled) == [])
    cancelled.invited(Self.call, 1, decidedAt: Self.at(351))
    #expect(rules(cancelled) == [.wokenRangAfterEnd])
  }

  @Test func aCallIsJudgedOnce() {
    var judge = Self.judge()
    judge.arrived(Self.push(id: "a"), for: Self.call)
    judge.arrived(Self.push(id: "b"), for: Self.call)
    #expect(judge.judge(Self.call) { "d\($0)" }.violations.count == 1)
    #expect(judge.judge(Self.call) { "d\($0)" } == PushJudge.Finding())
    // A push that comes later is of no call.
    judge.arrived(Self.push(id: "c"), for: Self.call)
    #expect(judge.judge(Self.call) { "d\($0)" } == PushJudge.Finding())
  }
}
