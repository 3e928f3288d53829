import CallBus
import CallCore
import CallPush
import CallTelemetry
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
    attempt: Int = 1, seconds: Int64 = 30, doubts: Int = 0, isUrgent: Bool = true,
    chance: UInt64 = 0
  ) -> AttemptContext {
    var context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(seconds))
    context.attempt = attempt
    context.doubts = doubts
    context.isUrgent = isUrgent
    context.chance = chance
    return context
  }

  @Test(
    "a pause ends before the deadline, or there is none; a notice has six attempts",
    arguments: [
      (1, 5, false, .seconds(4), .seconds(4)), (1, 5, false, .seconds(5), nil),
      (1, 0, false, nil, nil), (1, 0, true, nil, nil),
      (AttemptContext.attemptsMax, 600, false, nil, nil),
      (AttemptContext.attemptsMax - 1, 600, false, nil, .seconds(8)),
      // Who asks for no wait is not asked in a tight loop.
      (1, 30, true, .seconds(0), .milliseconds(100)),
    ] as [(Int, Int64, Bool, Span?, Span?)])
  func retries(attempt: Int, seconds: Int64, isUrgent: Bool, wait: Span?, pause: Span?) {
    let context = context(attempt: attempt, seconds: seconds, isUrgent: isUrgent)
    let wanted = pause.map { AttemptVerdict.retry(after: $0, reason: "r") }
    #expect(context.retry(after: wait, reason: "r") == wanted ?? .done(.failed(reason: "r")))
  }

  /// - Parameter wait: what each answer demands.
  @Test(
    "a ring is tried until its deadline, whatever wait a provider demands",
    arguments: [nil, .seconds(0), .seconds(3), .seconds(3600)] as [Span?])
  func ringsAreTriedOn(wait: Span?) {
    var ring = context(seconds: 30)
    var attempts = 1
    while case .retry(let pause, _, _) = ring.retry(after: wait, reason: "r"), attempts < 1000 {
      ring.now = ring.now + pause
      ring.attempt += 1
      attempts += 1
      #expect(ring.now < ring.deadline)
    }
    #expect(ring.deadline - ring.now <= .milliseconds(500), "the last attempt is close to the end")
    #expect((10...20).contains(attempts))
  }

  @Test func whatMayHaveArrivedIsRepeatedOnlyWhereThatDoesNothing() {
    #expect(context().inDoubt("r") == .retry(after: .milliseconds(500), reason: "r", .doubt))
    let failed = AttemptVerdict.done(.failed(reason: "r", mayHaveArrived: true))
    #expect(
      context(attempt: 2, doubts: 1).inDoubt("r") == .retry(after: .seconds(1), reason: "r", .doubt)
    )
    #expect(context(isUrgent: false).inDoubt("r") == failed)
    #expect(context(seconds: 0).inDoubt("r") == failed, "no time for another")
  }
}

@Suite("The bulkhead", .timeLimit(.minutes(1)))
struct KeyedBulkheadTests {
  let hand = HandClock()
  var later: Timestamp { hand.clock.now() + .seconds(30) }

  func bulkhead(inside: Int, waiting: Int = 10) -> KeyedBulkhead {
    KeyedBulkhead(insideMax: inside, waitingMax: waiting, clock: hand.clock)
  }

  @Test func eachKeyHasItsOwnLimit() async {
    let bulkhead = bulkhead(inside: 1, waiting: 0)
    #expect(await bulkhead.acquire("a", until: later) == .admitted)
    #expect(await bulkhead.acquire("a", until: later) == .full)
    #expect(await bulkhead.acquire("b", until: later) == .admitted)
    #expect(bulkhead.inside == 2)
    bulkhead.release("a")
    bulkhead.release("b")
    #expect(bulkhead.inside == 0)
  }

  @Test func whoWaitsPastTheDeadlineLeaves() async {
    let bulkhead = bulkhead(inside: 1)
    #expect(await bulkhead.acquire("a", until: later) == .admitted)
    #expect(await bulkhead.acquire("a", until: hand.clock.now()) == .late)
    async let second = bulkhead.acquire("a", until: hand.clock.now() + .seconds(5))
    while bulkhead.waiting == 0 { await Task.yield() }
    // The wait may not have begun yet, so the clock advances until it is over.
    while bulkhead.waiting > 0 {
      hand.advance(seconds: 6)
      await Task.yield()
    }
    #expect(await second == .late)
    bulkhead.release("a")
    #expect(bulkhead.inside == 0)
  }

  @Test func aPushThatIsCancelledLeavesWithoutAPlace() async {
    let bulkhead = bulkhead(inside: 1)
    _ = await bulkhead.acquire("a", until: later)
    let cancellation = PushCancellation()
    async let waiting = bulkhead.acquire("a", until: later, unless: cancellation)
    await until { bulkhead.waiting == 1 }
    cancellation.cancel()
    #expect(await waiting == .late)
    #expect(await bulkhead.acquire("a", until: later, unless: cancellation) == .late)
    #expect(bulkhead.waiting == 0)
    bulkhead.release("a")
    #expect(bulkhead.inside == 0)
  }

  /// Who waits gets the place of who leaves.
  @Test func moreThanMayWaitAreRefusedInAll() async {
    let bulkhead = bulkhead(inside: 1, waiting: 2)
    _ = await bulkhead.acquire("a", until: later)
    _ = await bulkhead.acquire("b", until: later)
    async let first = bulkhead.acquire("a", until: later)
    async let second = bulkhead.acquire("b", until: later)
    while bulkhead.waiting < 2 { await Task.yield() }
    #expect(await bulkhead.acquire("a", until: later) == .full)
    bulkhead.release("a")
    bulkhead.release("b")
    #expect(await first == .admitted)
    #expect(await second == .admitted)
    #expect(bulkhead.inside == 2 && bulkhead.waiting == 0)
  }

  @Test func closingSendsAwayWhoWaitsAndWaitsForWhoIsInside() async {
    let bulkhead = bulkhead(inside: 1)
    _ = await bulkhead.acquire("a", until: later)
    async let waiting = bulkhead.acquire("a", until: later)
    while bulkhead.waiting == 0 { await Task.yield() }
    async let closed: Void = bulkhead.close(until: later)
    #expect(await waiting == .late)
    #expect(await bulkhead.acquire("b", until: later) == .late)
    bulkhead.release("a")
    await closed
    #expect(bulkhead.inside == 0)
  }

  @Test func aPlaceIsNeverLostOrGivenTwice() async {
    let bulkhead = bulkhead(inside: 3, waiting: 1000)
    let deadline = later
    let most = await withTaskGroup(of: Int.self) { group in
      for number in 0..<300 {
        group.addTask {
          let key = number % 2 == 0 ? "a" : "b"
          guard await bulkhead.acquire(key, until: deadline) == .admitted else { return 1000 }
          let inside = bulkhead.inside
          await Task.yield()
          bulkhead.release(key)
          return inside
        }
      }
      return await group.reduce(0) { max($0, $1) }
    }
    #expect(most <= 6)
    #expect(bulkhead.inside == 0)
    #expect(bulkhead.waiting == 0)
  }
}

@Suite("Cancellable sleeps", .timeLimit(.minutes(1)))
struct CancellableSleepsTests {
  @Test func aPushThatIsCancelledEndsItsSleep() async {
    let sleeps = CancellableSleeps(clock: HandClock().clock)
    let cancellation = PushCancellation()
    async let sleep: Void = sleeps.sleep(for: .seconds(100), unless: cancellation)
    await until { sleeps.count == 1 }
    cancellation.cancel()
    await sleep
    #expect(sleeps.count == 0)
    await sleeps.sleep(for: .seconds(100), unless: cancellation)
  }

  @Test func withTheirTimeOrWithTheirOwner() async {
    let hand = HandClock()
    let sleeps = CancellableSleeps(clock: hand.clock)
    async let first: Void = sleeps.sleep(for: .seconds(5))
    while sleeps.count == 0 { await Task.yield() }
    while sleeps.count > 0 {
      hand.advance(seconds: 5)
      await Task.yield()
    }
    await first
    async let second: Void = sleeps.sleep(for: .seconds(5))
    while sleeps.count == 0 { await Task.yield() }
    sleeps.close()
    await second
    #expect(sleeps.count == 0)
    await sleeps.sleep(for: .seconds(5))
  }
}

@Suite struct TokenWaveTests {
  private let start = Timestamp(microseconds: 1_800_000_000_000_000)

  private func wave(_ answers: [(String, Bool)]) -> TokenWave {
    var wave = TokenWave()
    for (token, isRefused) in answers { wave.note(token, isRefused: isRefused, now: start) }
    return wave
  }

  private func refused(_ count: Int) -> [(String, Bool)] { (0..<count).map { ("bad\($0)", true) } }
  private func accepted(_ count: Int) -> [(String, Bool)] {
    (0..<count).map { ("good\($0)", false) }
  }

  @Test func aWaveIsFiveTokensAndMoreThanHalf() {
    #expect(!wave(refused(4)).isOn)
    #expect(wave(refused(5)).isOn)
    #expect(wave(accepted(4) + refused(5)).isOn)
    #expect(!wave(accepted(5) + refused(5)).isOn)
    #expect(wave(accepted(100) + refused(11)).isOn, "the latest twenty count")
    #expect(!wave(accepted(100) + refused(10)).isOn)
  }

  @Test func oneTokenCountsOnce() {
    #expect(!wave(Array(repeating: ("bad", true), count: 50)).isOn)
    let recovered = refused(5) + [("bad0", false)]
    #expect(!wave(recovered).isOn)
    #expect(wave(recovered).refused == 4)
  }

  @Test func anHourLaterItIsForgotten() {
    var wave = wave(refused(9))
    wave.note("next", isRefused: true, now: start + .seconds(3599))
    #expect(wave.isOn)
    wave.note("next", isRefused: true, now: start + .seconds(3600))
    #expect(!wave.isOn)
    #expect(wave.refused == 1)
  }
}

@Suite("What a sender counts")
struct SenderStatisticsTests {
  @Test func anUnusedSenderHasCountedNothing() {
    let now = SenderStatistics(name: "main", provider: .fcm).status
    #expect(now.name == "main" && now.provider == "fcm" && now.lastError == nil)
    #expect(now.inFlight == 0 && now.connected == 0 && now.retriesTotal == 0 && now.p50 == 0)
    let none = PushOutcomeKind.allCases.map { ($0.rawValue, UInt64(0)) }
    #expect(now.outcomes == Dictionary(uniqueKeysWithValues: none))
  }

  @Test func everyKindOfOutcomeIsCountedByItself() {
    let statistics = SenderStatistics(name: "main", provider: .apns)
    let outcomes: [PushOutcome] = [
      .accepted, .accepted, .tokenGone(at: nil), .rejected(reason: "x"), .expired,
      .failed(reason: "y"),
    ]
    for _ in outcomes { statistics.began() }
    #expect(statistics.status.inFlight == 6)
    for outcome in outcomes { statistics.ended(outcome) }
    let now = statistics.status
    #expect(now.inFlight == 0)
    #expect(
      now.outcomes == ["accepted": 2, "tokenGone": 1, "rejected": 1, "expired": 1, "failed": 1])
  }

  @Test func latencyAndTheNewestTroubleAreKept() {
    let statistics = SenderStatistics(name: "main", provider: .webPush)
    statistics.answered(after: 1000)
    statistics.answered(after: 64_000)
    statistics.retried()
    statistics.failed("first", at: Timestamp(microseconds: 1))
    statistics.failed(String(repeating: "é", count: 500), at: Timestamp(microseconds: 2000))
    let now = statistics.status
    #expect((1000...1250).contains(now.p50))
    #expect((64_000...80_000).contains(now.p99))
    #expect(now.retriesTotal == 1)
    #expect(now.lastError == String(repeating: "é", count: 100))
    #expect(now.lastErrorAtMilliseconds == 2)
  }

  @Test func connectionsAreCountedOrKnownToBeThere() {
    let statistics = SenderStatistics(name: "main", provider: .apns)
    statistics.connectionsChanged(by: 1)
    statistics.connectionsChanged(by: 1)
    statistics.connectionsChanged(by: -1)
    #expect(statistics.status.connected == 1)
    let other = SenderStatistics(name: "main", provider: .fcm)
    other.reachable(true)
    other.reachable(true)
    #expect(other.status.connected == 1)
    other.reachable(false)
    #expect(other.status.connected == 0)
  }

  @Test func theFiguresStandForPrometheusUnderProviderAndSender() {
    let metrics = MetricsRegistry()
    let statistics = SenderStatistics(name: "main", provider: .fcm, metrics: metrics)
    statistics.began()
    statistics.ended(.accepted)
    statistics.answered(after: 1000)
    let text = metrics.render()
    for line in [
      #"outcomes_total{provider="fcm",sender="main",outcome="accepted"} 1"#,
      #"in_flight{provider="fcm",sender="main"} 0"#,
      #"provider_seconds_count{provider="fcm",sender="main"} 1"#,
    ] { #expect(text.contains("callmesh_push_" + line), "\(line)") }
  }
}
