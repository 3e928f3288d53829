import NATSBus
import Testing

/// How many jobs a taker asks for.
@Suite struct PullCreditTests {
  private let start = ContinuousClock.now
  private func at(_ seconds: Int) -> ContinuousClock.Instant { start + .seconds(seconds) }
  private func credit(_ inFlight: Int) -> PullCredit {
    PullCredit(inFlight: inFlight, silence: .seconds(12), settleWithin: .seconds(6))
  }

  @Test func asksForAllThereIsRoomForOnce() {
    var credit = credit(3)
    let first = credit.pull(now: at(0), lasts: .seconds(30))
    #expect(first?.batch == 3)
    let next1 = credit.pull(now: at(0), lasts: .seconds(30))
    #expect(next1 == nil)
    let items = (0..<3).map { _ in credit.arrived(now: at(1)) }
    let next2 = credit.pull(now: at(1), lasts: .seconds(30))
    #expect(next2 == nil, "no room")
    let next12 = credit.settled(items[1])
    #expect(next12)
    let next13 = credit.settled(items[1])
    #expect(!next13)
    let second = credit.pull(now: at(1), lasts: .seconds(30))
    #expect(second?.batch == 1)
    #expect(second?.number != first?.number)
  }

  @Test func whatIsWithUsAndWhatIsAskedForNeverExceedsTheLimit() {
    var credit = credit(4)
    _ = credit.pull(now: at(0), lasts: .seconds(30))
    let one = credit.arrived(now: at(0))
    _ = credit.settled(one)
    // Three may still come for the question that stands.
    let next3 = credit.pull(now: at(0), lasts: .seconds(30))
    #expect(next3 == nil)
    for _ in 0..<3 { _ = credit.arrived(now: at(0)) }
    let next4 = credit.pull(now: at(0), lasts: .seconds(30))
    #expect(next4?.batch == 1)
  }

  @Test func aQuestionOfWhichNothingIsHeardIsAskedAgain() {
    var credit = credit(4)
    let first = credit.pull(now: at(0), lasts: .seconds(30))!.number
    credit.extended(first, now: at(5))
    credit.expire(now: at(16))
    let next5 = credit.pull(now: at(16), lasts: .seconds(30))
    #expect(next5 == nil)
    #expect(credit.deadline == at(17))
    credit.expire(now: at(17))
    let next6 = credit.pull(now: at(17), lasts: .seconds(30))
    #expect(next6?.batch == 4)
    // The end of the former question does not end the new one.
    credit.ended(first)
    credit.extended(first, now: at(17))
    let next7 = credit.pull(now: at(17), lasts: .seconds(30))
    #expect(next7 == nil)
  }

  @Test func aQuestionDoesNotOutliveItsEndByMuch() {
    var credit = credit(4)
    let number = credit.pull(now: at(0), lasts: .seconds(30))!.number
    for second in 1...41 {
      credit.extended(number, now: at(second))
      credit.expire(now: at(second))
    }
    let next8 = credit.pull(now: at(41), lasts: .seconds(30))
    #expect(next8 == nil)
    credit.expire(now: at(42))
    let next9 = credit.pull(now: at(42), lasts: .seconds(30))
    #expect(next9 != nil)
  }

  @Test func whatWasNeverSettledIsSomebodyElsesInTheEnd() {
    var credit = credit(2)
    _ = credit.pull(now: at(0), lasts: .seconds(30))
    let (first, second) = (credit.arrived(now: at(0)), credit.arrived(now: at(0)))
    let next14 = credit.inProgress(first, now: at(5))
    #expect(next14)
    credit.expire(now: at(6))
    let next15 = credit.settled(second)
    #expect(!next15, "handed out to another")
    let next16 = credit.inProgress(second, now: at(6))
    #expect(!next16)
    let next10 = credit.pull(now: at(6), lasts: .seconds(30))
    #expect(next10?.batch == 1)
    let next17 = credit.settled(first)
    #expect(next17)
  }

  @Test func aBrokenConnectionEndsTheQuestionAndKeepsTheJobs() {
    var credit = credit(3)
    _ = credit.pull(now: at(0), lasts: .seconds(30))
    let item = credit.arrived(now: at(0))
    credit.forgetPull()
    let next11 = credit.pull(now: at(1), lasts: .seconds(30))
    #expect(next11?.batch == 2)
    let next18 = credit.settled(item)
    #expect(next18)
  }
}
