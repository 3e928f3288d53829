import CallBus
import CallCore
import CallPush
import Testing

@Suite("Retry-After")
struct RetryAfterTests {
  /// Sun, 06 Nov 1994 08:49:37 GMT.
  static let now = Timestamp(microseconds: 784_111_777_000_000)

  @Test(
    "seconds and dates",
    arguments: [
      ("0", 0), ("7", 7), (" 120 ", 120), ("99999999999999999999", 86_400),
      ("Sun, 06 Nov 1994 08:49:47 GMT", 10), ("Sunday, 06-Nov-94 08:50:37 GMT", 60),
      ("Sun Nov  6 08:49:40 1994", 3), ("Sun, 06 Nov 1994 08:49:07 GMT", 0),
      ("Fri, 31 Dec 1999 23:59:59 GMT", 86_400), ("Tue, 29 Feb 2028 00:00:00 GMT", 86_400),
    ] as [(String, Int64)])
  func isRead(_ text: String, _ seconds: Int64) {
    #expect(RetryAfter.span(text, now: Self.now) == .seconds(seconds))
  }

  @Test(
    "anything else is not",
    arguments: [
      "", " ", "-1", "1.5", "soon", "Sun, 06 Nov 1994", "Sun, 06 Nov 1994 25:00:00 GMT",
      "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Foo 1994 08:49:37 GMT",
      "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET", "٣",
    ])
  func isNotRead(_ text: String) {
    #expect(RetryAfter.span(text, now: Self.now) == nil)
  }

  @Test func aDateOfALeapYearIsTheRightDay() {
    let before = Timestamp(microseconds: 1_709_164_800_000_000)  // 2024-02-29 00:00:00
    #expect(RetryAfter.span("Fri, 01 Mar 2024 00:00:00 GMT", now: before) == .seconds(86_400))
    #expect(RetryAfter.span("Thu, 29 Feb 2024 01:00:00 GMT", now: before) == .seconds(3600))
  }
}

@Suite("Between attempts")
struct AttemptContextTests {
  static let now = Timestamp(microseconds: 1_000_000)
  func context(
    attempt: Int = 1, seconds: Int64 = 30, doubts: Int = 0, repeatable: Bool = true,
    chance: UInt64 = 0
  ) -> AttemptContext {
    AttemptContext(
      attempt: attempt, doubts: doubts, repeatable: repeatable, now: Self.now,
      deadline: Self.now + .seconds(seconds), chance: chance)
  }

  @Test func backoffDoublesUpToItsMost() {
    let spans = (1...8).map { AttemptContext.backoff(attempt: $0, chance: 0).microseconds / 1000 }
    #expect(spans == [500, 1000, 2000, 4000, 8000, 16_000, 16_000, 16_000])
    #expect(AttemptContext.backoff(attempt: 1000, chance: 0) == .seconds(16))
  }

  @Test func chanceTakesOffAQuarterAtMost() {
    for chance in [0, 1, 77_777, UInt64.max / 3, UInt64.max] as [UInt64] {
      let span = AttemptContext.backoff(attempt: 3, chance: chance)
      #expect((1_500_000...2_000_000).contains(span.microseconds))
    }
    #expect(AttemptContext.backoff(attempt: 3, chance: 500_000) == .microseconds(1_500_000))
  }

  @Test func aPauseEndsBeforeTheDeadlineOrThereIsNone() {
    #expect(
      context(seconds: 5).again(after: .seconds(4), reason: "r")
        == .again(after: .seconds(4), reason: "r"))
    #expect(
      context(seconds: 5).again(after: .seconds(5), reason: "r") == .done(.failed(reason: "r")))
    #expect(context(seconds: 0).again(reason: "r") == .done(.failed(reason: "r")))
  }

  @Test func attemptsAreLimited() {
    let last = AttemptContext.attemptsMax
    #expect(context(attempt: last, seconds: 600).again(reason: "r") == .done(.failed(reason: "r")))
    #expect(
      context(attempt: last - 1, seconds: 600).again(reason: "r")
        == .again(after: .seconds(8), reason: "r"))
  }

  @Test func whoAsksForNoWaitIsNotAskedInATightLoop() {
    #expect(
      context().again(after: .seconds(0), reason: "r")
        == .again(after: .milliseconds(100), reason: "r"))
  }

  @Test func whatMayHaveArrivedIsRepeatedOnceAndOnlyWhereThatDoesNothing() {
    #expect(context().inDoubt("r") == .again(after: .milliseconds(500), reason: "r", .doubt))
    let failed = AttemptVerdict.done(.failed(reason: "r", mayHaveArrived: true))
    #expect(context(attempt: 2, doubts: 1).inDoubt("r") == failed)
    #expect(context(repeatable: false).inDoubt("r") == failed)
    #expect(context(seconds: 0).inDoubt("r") == failed, "no time for another")
  }
}

extension Span {
  fileprivate static func microseconds(_ count: Int64) -> Span { Span(microseconds: count) }
}

@Suite("The gate", .timeLimit(.minutes(1)))
struct KeyedGateTests {
  let hand = HandClock()
  var later: Timestamp { hand.clock.now() + .seconds(30) }

  func gate(inside: Int, waiting: Int = 10) -> KeyedGate {
    KeyedGate(insideMax: inside, waitingMax: waiting, clock: hand.clock)
  }

  @Test func eachKeyHasItsOwnLimit() async {
    let gate = gate(inside: 1, waiting: 0)
    #expect(await gate.enter("a", until: later) == .entered)
    #expect(await gate.enter("a", until: later) == .full)
    #expect(await gate.enter("b", until: later) == .entered)
    #expect(gate.inside == 2)
    gate.leave("a")
    gate.leave("b")
    #expect(gate.inside == 0)
  }

  @Test func whoWaitsGetsThePlaceOfWhoLeaves() async {
    let gate = gate(inside: 1)
    #expect(await gate.enter("a", until: later) == .entered)
    async let second = gate.enter("a", until: later)
    while gate.waiting(for: "a") == 0 { await Task.yield() }
    gate.leave("a")
    #expect(await second == .entered)
    #expect(gate.inside == 1)
    #expect(gate.waiting == 0)
  }

  @Test func whoWaitsPastTheDeadlineLeaves() async {
    let gate = gate(inside: 1)
    #expect(await gate.enter("a", until: later) == .entered)
    #expect(await gate.enter("a", until: hand.clock.now()) == .late)
    async let second = gate.enter("a", until: hand.clock.now() + .seconds(5))
    while gate.waiting == 0 { await Task.yield() }
    // The wait may not have begun: time goes on until it is over.
    while gate.waiting > 0 {
      hand.advance(seconds: 6)
      await Task.yield()
    }
    #expect(await second == .late)
    gate.leave("a")
    #expect(gate.inside == 0)
  }

  @Test func moreThanMayWaitAreRefusedInAll() async {
    let gate = gate(inside: 1, waiting: 2)
    _ = await gate.enter("a", until: later)
    _ = await gate.enter("b", until: later)
    async let first = gate.enter("a", until: later)
    async let second = gate.enter("b", until: later)
    while gate.waiting < 2 { await Task.yield() }
    #expect(await gate.enter("a", until: later) == .full)
    gate.leave("a")
    gate.leave("b")
    #expect(await first == .entered)
    #expect(await second == .entered)
  }

  @Test func closingSendsAwayWhoWaitsAndWaitsForWhoIsInside() async {
    let gate = gate(inside: 1)
    _ = await gate.enter("a", until: later)
    async let waiting = gate.enter("a", until: later)
    while gate.waiting == 0 { await Task.yield() }
    async let closed: Void = gate.close(until: later)
    #expect(await waiting == .late)
    #expect(await gate.enter("b", until: later) == .late)
    gate.leave("a")
    await closed
    #expect(gate.inside == 0)
  }

  @Test func aPlaceIsNeverLostOrGivenTwice() async {
    let gate = gate(inside: 3, waiting: 1000)
    let deadline = later
    let most = await withTaskGroup(of: Int.self) { group in
      for number in 0..<300 {
        group.addTask {
          let key = number % 2 == 0 ? "a" : "b"
          guard await gate.enter(key, until: deadline) == .entered else { return 1000 }
          let inside = gate.inside
          await Task.yield()
          gate.leave(key)
          return inside
        }
      }
      return await group.reduce(0) { max($0, $1) }
    }
    #expect(most <= 6)
    #expect(gate.inside == 0)
    #expect(gate.waiting == 0)
  }
}

@Suite("Pauses that end", .timeLimit(.minutes(1)))
struct EndableWaitsTests {
  @Test func withTheirTimeOrWithTheirOwner() async {
    let hand = HandClock()
    let waits = EndableWaits(clock: hand.clock)
    async let first: Void = waits.pause(.seconds(5))
    while waits.count == 0 { await Task.yield() }
    while waits.count > 0 {
      hand.advance(seconds: 5)
      await Task.yield()
    }
    await first
    async let second: Void = waits.pause(.seconds(5))
    while waits.count == 0 { await Task.yield() }
    waits.close()
    await second
    #expect(waits.count == 0)
    await waits.pause(.seconds(5))
  }
}
