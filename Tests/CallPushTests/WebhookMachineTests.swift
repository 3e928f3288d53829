import CallCore
import CallPush
import CallWire
import Testing

/// Delivery to one webhook: order, retries, dead letters, and what is stored of it.
@Suite struct WebhookMachineTests {
  // MARK: Order

  @Test func theEventsOfACallFollowEachOther() {
    var bench = WebhookBench((1, .placed), (1, .ringing))
    bench.store((1, .ended))
    #expect(bench.posting == ["1 placed"])
    bench.answer("1 placed")
    #expect(bench.posting == ["1 ringing"])
    bench.answer("1 ringing")
    bench.answer("1 ended")
    #expect(bench.delivered == ["1 placed", "1 ringing", "1 ended"])
    #expect(bench.posting.isEmpty && bench.machine.openCount == 0)
    #expect(bench.machine.progress.delivered == 3)
  }

  private func gone(_ device: DeviceID, _ fingerprint: String, after: Span = .seconds(0))
    -> AppEvent
  {
    AppEvent(
      GoneRegistration(
        device: device, provider: .apns, isVoIP: true, fingerprint: fingerprint,
        registeredAt: WebhookBench.start + after), of: UserKey(app: "demo", user: "bob"),
      at: WebhookBench.start)
  }

  @Test func theEventsOfADeviceFollowEachOtherAndWaitForNothingElse() {
    var bench = WebhookBench()
    bench.store([
      gone("b1", "v"), gone("b1", "a"), gone("b2", "x"), WebhookBench.event(1, .placed),
    ])
    #expect(bench.posts.map { $0.event.gone?.fingerprint } == ["v", "x", nil])
    bench.answer("0 gone")
    #expect(bench.posts.map { $0.event.gone?.fingerprint } == ["x", nil, "a"])
    // Stored again after a crash, and registered and gone once more.
    bench.store([gone("b2", "x"), gone("b2", "x", after: .seconds(60))])
    #expect(bench.machine.counts.repeated == 1 && bench.posts.count == 3)
    bench.answer("0 gone")
    #expect(bench.posts.map { $0.event.gone?.fingerprint } == [nil, "a", "x"])
  }

  @Test func soManyAreUnderWayAtATime() {
    var bench = WebhookBench(calls: 0..<20)
    #expect(bench.posting == (0..<16).map { "\($0) placed" })
    bench.answer("3 placed")
    #expect(bench.posting.last == "16 placed" && bench.posts.count == 16)
    #expect(bench.machine.posting == 16)
  }

  // MARK: What is read

  @Test func repetitionsAreDropped() {
    var bench = WebhookBench((1, .placed), (1, .ringing))
    bench.answer("1 placed")
    bench.answer("1 ringing")
    // A new owner of the shard stores all of it again.
    bench.store((1, .placed), (1, .ringing), (1, .answered))
    #expect(bench.posting == ["1 answered"])
    #expect(bench.machine.counts.repeated == 2)
  }

  /// Devices choose the ids of calls: another user's call may have the same one.
  @Test func anotherCallOfTheSameIDIsAnotherCall() {
    var bench = WebhookBench()
    var other = WebhookBench.event(1, .placed)
    other.placedAt = other.placedAt + .milliseconds(1)
    bench.store([WebhookBench.event(1, .placed), WebhookBench.event(1, .ended), other])
    #expect(bench.posting == ["1 placed", "1 placed"], "neither waits for the other one")
    other.kind = .ended
    bench.store([other])
    for name in ["1 placed", "1 placed", "1 ended", "1 ended"] { bench.answer(name) }
    #expect(bench.machine.counts.repeated == 0 && bench.machine.openCount == 0)
  }

  @Test func onlyTheEventsThatItIsFor() {
    var bench = WebhookBench()
    bench.kinds = [.ended]
    bench.store((1, .placed), (1, .ringing), (1, .ended))
    #expect(bench.posting == ["1 ended"])
  }

  @Test func whatWasStoredBeforeItsTimeIsNotForIt() {
    var bench = WebhookBench(since: WebhookBench.start + .seconds(10))
    bench.store((1, .placed))
    #expect(bench.posting.isEmpty && bench.machine.progress.next == 2)
    bench.now = bench.now + .seconds(10)
    bench.store((2, .placed))
    #expect(bench.posting == ["2 placed"])
  }

  @Test func whatCannotBeReadHoldsNothingUp() {
    var bench = WebhookBench()
    bench.store([nil, WebhookBench.event(1, .placed)])
    #expect(bench.posting == ["1 placed"])
    #expect(bench.machine.counts.unreadable == 1)
    #expect(bench.posts.first?.place == .init(sequence: 1, index: 1))
  }

  /// News may come while an empty read is under way.
  @Test func newsDuringAReadIsReadAtOnce() {
    var bench = WebhookBench()
    #expect(bench.machine.advance(now: bench.now) == [.read(from: 1)])
    bench.machine.woke(now: bench.now)
    bench.machine.took(nil, kinds: bench.kinds, now: bench.now)
    #expect(bench.machine.advance(now: bench.now) == [.read(from: 1)])
    bench.machine.took(nil, kinds: bench.kinds, now: bench.now)
    #expect(bench.machine.nextDeadline == bench.now + WebhookMachine.pollInterval)
  }

  /// The stream was lost, or removed, and counts from 1 once more.
  @Test func aStreamThatWasCreatedAgainIsReadFromItsFirstMessage() {
    var bench = WebhookBench((1, .placed))
    bench.store((2, .placed))
    bench.store((3, .placed))
    bench.answer("1 placed")
    bench.answer("2 placed")
    bench.stream = []
    bench.pass(.seconds(60))
    #expect(bench.machine.counts.restarts == 0, "an empty stream may have dropped everything")
    bench.store((4, .placed))
    bench.pass(.seconds(60))
    #expect(bench.posting == ["3 placed", "4 placed"])
    #expect(bench.machine.counts.restarts == 1 && bench.machine.progress.next == 2)
    // The third event has the place of the one that is open, and waits for it.
    bench.store((5, .placed))
    bench.store((6, .placed))
    #expect(bench.posting == ["3 placed", "4 placed", "5 placed"])
    bench.answer("3 placed")
    bench.pass(.seconds(10))
    #expect(bench.posting == ["4 placed", "5 placed", "6 placed"])
    bench.answerAll()
    #expect(bench.machine.counts.restarts == 1 && bench.machine.openCount == 0)
  }

  /// An event that is open in the former stream cannot be read again.
  @Test func theNextGatewayTakesNoOtherEventForOneOfAFormerStream() {
    var bench = WebhookBench((1, .placed))
    bench.store((2, .placed))
    bench.answer("1 placed")
    bench.stream = []
    bench.store((3, .placed))
    bench.pass(.seconds(60))
    bench.store((4, .placed))
    #expect(bench.posting == ["2 placed", "3 placed"])
    bench.takeOver()
    #expect(bench.posting == ["3 placed", "4 placed"])
    #expect(bench.machine.counts.lost == 1)
  }

  /// As a leader shows it that was just elected.
  @Test func aStreamThatLooksShorterForAMomentIsNotReadAgain() {
    var bench = WebhookBench((1, .placed))
    bench.store((2, .placed))
    bench.answerAll()
    let last = bench.stream.removeLast()
    bench.pass(.seconds(10))
    bench.stream.append(last)
    bench.pass(.seconds(60))
    #expect(bench.machine.counts.restarts == 0 && bench.machine.counts.repeated == 0)
    #expect(bench.posting.isEmpty && bench.machine.progress.next == 3)
  }

  @Test func aFailedReadIsRepeatedLater() {
    var bench = WebhookBench()
    _ = bench.machine.advance(now: bench.now)
    bench.machine.readFailed(now: bench.now)
    #expect(bench.machine.advance(now: bench.now).isEmpty)
    #expect(
      bench.machine.advance(now: bench.now + WebhookMachine.pollInterval) == [.read(from: 1)])
  }

  // MARK: Retries

  @Test func aFailedEventIsRetriedWithGrowingPauses() {
    var bench = WebhookBench((1, .placed))
    var pauses: [Span] = []
    for _ in 0..<14 {
      bench.answer("1 placed", failure: "status 500")
      pauses.append(bench.untilPost())
    }
    #expect(pauses.prefix(5) == [.seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(16)])
    #expect(pauses.max() == .seconds(3600))
    #expect(bench.machine.progress.failures == 14)
    #expect(bench.machine.progress.lastFailure == "status 500")
    bench.answer("1 placed")
    #expect(bench.machine.progress.lastFailure == "")
  }

  @Test func oneThatIsRefusedForEverHoldsNoOtherCall() {
    var bench = WebhookBench((1, .placed), (1, .ended))
    bench.answer("1 placed", failure: "status 400")
    for call in 2..<40 {
      bench.store((UInt64(call), .placed))
      if bench.posting.contains("1 placed") { bench.answer("1 placed", failure: "status 400") }
      #expect(bench.posting == ["\(call) placed"])
      bench.answer("\(call) placed")
      bench.pass(.seconds(30))
      if bench.posting.contains("1 placed") { bench.answer("1 placed", failure: "status 400") }
    }
    #expect(bench.delivered.count == 38 && !bench.machine.isAway)
  }

  @Test func afterADayItIsADeadLetterAndItsCallGoesOn() {
    var bench = WebhookBench((1, .placed), (1, .ended))
    bench.answer("1 placed", failure: "status 400")
    while bench.buries.isEmpty {
      bench.pass(.seconds(60))
      if bench.posting == ["1 placed"] { bench.answer("1 placed", failure: "status 400") }
    }
    #expect(bench.now >= WebhookBench.start + WebhookMachine.lifetime)
    #expect(bench.now <= WebhookBench.start + WebhookMachine.lifetime + .seconds(60))
    let letter = bench.buries[0]
    #expect(letter.reason == "status 400" && letter.attempts > 20)
    #expect(bench.posting.isEmpty, "its call waits until the dead letter is stored")
    bench.buryAll(isStored: false)
    #expect(bench.buries.isEmpty)
    bench.pass(WebhookMachine.buryAgain)
    bench.buryAll()
    #expect(bench.dead == ["1 placed"] && bench.machine.progress.deadLetters == 1)
    // It has an attempt of its own, however late.
    #expect(bench.posting == ["1 ended"])
    bench.answer("1 ended")
    #expect(bench.machine.openCount == 0)
  }

  /// No gateway ran for more than a day.
  @Test func eachEventHasAnAttempt() {
    var bench = WebhookBench()
    bench.stream = [
      .init(sequence: 1, storedAt: bench.now, events: [WebhookBench.event(1, .placed)])
    ]
    bench.now = bench.now + WebhookMachine.lifetime + .seconds(3600)
    bench.advance()
    #expect(bench.posting == ["1 placed"])
    bench.answer("1 placed", failure: "no connection")
    #expect(bench.buries.map(\.attempts) == [1])
  }

  // MARK: Away

  /// Each of five calls fails once.
  private func away() -> WebhookBench {
    var bench = WebhookBench(calls: 0..<5)
    for call in 0..<5 {
      #expect(!bench.machine.isAway)
      bench.answer("\(call) placed", failure: "no connection")
    }
    #expect(bench.machine.isAway && bench.posts.isEmpty)
    return bench
  }

  @Test func aWebhookThatIsAwayIsTriedByOneEventAtATime() {
    var bench = away()
    bench.store((10, .placed))
    #expect(bench.posting.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.posting == ["10 placed"], "the one with the fewest attempts")
    bench.pass(.seconds(3600))
    #expect(bench.posts.count == 1)
    bench.answer("10 placed", failure: "no connection")
    #expect(bench.posts.isEmpty)
    bench.pass(.seconds(2))
    #expect(bench.posting == ["0 placed"])
  }

  /// The pause of an outage that was short does not depend on how many attempts were under way.
  @Test func attemptsThatFailTogetherAreOneFailure() {
    var bench = WebhookBench(calls: 0..<16)
    for call in 0..<16 { bench.answer("\(call) placed", failure: "status 503") }
    #expect(bench.machine.isAway && bench.posts.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.posting == ["0 placed"])
    bench.answer("0 placed")
    #expect(!bench.machine.isAway)
    #expect(bench.posting == (1..<16).map { "\($0) placed" }, "all at once when it is back")
  }

  /// Attempts that were under way when the webhook began to count as away may fail after the time of the first probe.
  @Test func slowAttemptsThatFailAreNoProbes() {
    var bench = WebhookBench(calls: 0..<16)
    for call in 0..<5 { bench.answer("\(call) placed", failure: "no answer in time") }
    bench.pass(.seconds(10))
    #expect(bench.machine.isAway)
    #expect(bench.posts.count == 11, "none tries while others are under way")
    for call in 5..<16 { bench.answer("\(call) placed", failure: "no answer in time") }
    #expect(bench.posting == ["0 placed"])
    bench.answer("0 placed", failure: "no answer in time")
    bench.pass(.seconds(1))
    #expect(bench.posts.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.posting == ["1 placed"], "the second failure's pause")
  }

  @Test func probesComeAtLeastEveryFiveMinutes() {
    var bench = away()
    var longest = Span.seconds(0)
    for _ in 0..<20 {
      longest = max(longest, bench.untilPost())
      bench.answer(bench.posting[0], failure: "no connection")
    }
    #expect(longest == WebhookHealth.pauseMax)
  }

  /// Time passes for all alike, and no attempt is needed to give up.
  @Test func whatIsTooOldIsGivenUpWhileItIsAway() {
    var bench = away()
    bench.now = bench.now + .seconds(3600)
    bench.store((7, .placed))
    for _ in 0..<(23 * 60 + 1) {
      bench.pass(.seconds(60))
      if let post = bench.posting.first { bench.answer(post, failure: "no connection") }
      bench.buryAll()
    }
    #expect(Set(bench.dead) == Set((0..<5).map { "\($0) placed" }))
    #expect(bench.machine.openCount == 1)
  }

  // MARK: Limits

  /// Four of five events are refused for ever, many more than there is room for: the others are delivered all the same.
  @Test func aCrowdOfRefusedEventsMakesRoom() {
    var bench = WebhookBench(calls: 0..<4000, messages: 20)
    let end = bench.now + .seconds(6 * 3600)
    while bench.now < end, bench.delivered.count < 800 {
      while let post = bench.posts.first {
        let isGood = post.event.call.low % 5 == 0
        bench.answer(
          WebhookBench.name(post.event), failure: isGood ? nil : "status 422", isRefusal: !isGood)
      }
      bench.buryAll()
      bench.pass(.seconds(1))
    }
    #expect(bench.delivered.count == 800)
    #expect(Set(bench.delivered).isDisjoint(with: bench.dead))
    #expect(bench.machine.openCount <= WebhookMachine.openMax + 200)
  }

  /// It may come back: nothing is given up before its time, and no more is read than there is room for.
  @Test func aWebhookThatIsAwayLosesNothingEarly() {
    var bench = WebhookBench(calls: 0..<1600, messages: 8)
    #expect(bench.machine.openCount == WebhookMachine.openMax)
    #expect(bench.machine.progress.next == 6)
    for _ in 0..<(10 * 60) {
      bench.answerAll(failure: "no connection")
      bench.pass(.seconds(60))
    }
    #expect(bench.buries.isEmpty && bench.machine.openCount == WebhookMachine.openMax)
    bench.answerAll()
    for _ in 0..<10 {
      bench.pass(.seconds(60))
      bench.answerAll()
    }
    #expect(Set(bench.delivered).count == 1600 && bench.delivered.count == 1600)
    #expect(bench.dead.isEmpty && bench.machine.openCount == 0)
  }

  // MARK: Another gateway

  @Test func nothingIsPostedWhileTheClaimIsNotCertain() {
    var bench = WebhookBench()
    bench.machine.woke(now: bench.now)
    bench.stream = [
      .init(sequence: 1, storedAt: bench.now, events: [WebhookBench.event(1, .placed)])
    ]
    bench.advance(mayPost: false)
    #expect(bench.posting.isEmpty)
    bench.advance()
    #expect(bench.posting == ["1 placed"])
  }

  @Test func theNextGatewayRepeatsWhatIsOpenAndNoMore() {
    var bench = WebhookBench((1, .placed), (2, .placed), (1, .ended))
    bench.store((3, .placed))
    bench.answer("2 placed")
    let progress = bench.machine.progress
    #expect(progress.next == 3)
    #expect(
      progress.open == [
        .init(sequence: 1, index: 0), .init(sequence: 1, index: 2), .init(sequence: 2, index: 0),
      ])
    bench.takeOver()
    #expect(bench.posting == ["1 placed", "3 placed"])
    bench.answer("1 placed")
    bench.answer("1 ended")
    bench.answer("3 placed")
    #expect(bench.machine.openCount == 0 && bench.machine.counts.lost == 0)
  }

  @Test func whatTheStreamHasDroppedIsCounted() {
    var bench = WebhookBench((1, .placed), (1, .ended))
    bench.store((2, .placed))
    bench.stream.removeFirst()
    bench.takeOver()
    #expect(bench.posting == ["2 placed"])
    #expect(bench.machine.counts.lost == 2)
    #expect(bench.machine.progress.open == [.init(sequence: 2, index: 0)])
  }

  @Test func changesAreMarkedUntilTheyAreSaved() {
    var bench = WebhookBench()
    bench.advance()
    #expect(!bench.machine.isChanged)
    bench.store((1, .placed))
    #expect(bench.machine.isChanged)
    bench.machine.saved()
    #expect(!bench.machine.isChanged)
    bench.answer("1 placed")
    #expect(bench.machine.isChanged)
  }

  @Test func lateAnswersChangeNothing() {
    var bench = WebhookBench((1, .placed))
    let place = bench.posts[0].place
    bench.answer("1 placed")
    bench.machine.answered(place, failure: nil, now: bench.now, chance: 0)
    bench.machine.buried(place, isStored: true, now: bench.now)
    #expect(bench.machine.progress.delivered == 1 && bench.machine.progress.deadLetters == 0)
  }

  // MARK: What an answer demands

  @Test(
    "Retry-After of 429 and 503: nothing is posted before, then one event tries",
    arguments: [429, 503])
  func pauses(status: Int) {
    var bench = WebhookBench((1, .placed), (2, .placed), (3, .placed))
    bench.answer("1 placed", status: status, retryAfter: .seconds(120))
    bench.answer("2 placed")
    #expect(bench.machine.isAway, "an attempt from before says nothing of the pause")
    bench.pass(.seconds(10))
    bench.answer("3 placed", status: status, retryAfter: .seconds(30))
    bench.store((4, .placed))
    #expect(bench.machine.isAway && !bench.machine.isGone)
    bench.pass(.seconds(109))
    #expect(bench.posting.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.posting == ["4 placed"])
    bench.answer("4 placed")
    #expect(Set(bench.posting) == ["1 placed", "3 placed"])
  }

  @Test("Retry-After of 0, again and again: not in a tight loop") func pausesOfNothing() {
    var bench = WebhookBench((1, .placed), (2, .placed))
    for name in ["1 placed", "2 placed"] {
      bench.answer(name, status: 429, retryAfter: .seconds(0))
    }
    var attempts = 0
    let end = bench.now + .seconds(60)
    while bench.now < end {
      while let name = bench.posting.first, attempts < 1000 {
        attempts += 1
        bench.answer(name, status: 429, retryAfter: .seconds(0))
      }
      bench.pass(.milliseconds(500))
    }
    #expect((3...8).contains(attempts))
    #expect(bench.machine.progress.lastFailure == "status 429")
  }

  @Test("Retry-After of other answers holds up its own event") func pauseOfOneEvent() {
    var bench = WebhookBench((1, .placed), (2, .placed))
    bench.answer("1 placed", status: 500, retryAfter: .seconds(40))
    bench.answer("2 placed", status: 500)
    bench.pass(.seconds(1))
    #expect(bench.posting == ["2 placed"])
    bench.answer("2 placed", status: 500, retryAfter: .seconds(1))
    bench.pass(.seconds(1))
    #expect(bench.posting.isEmpty, "its own pause is longer")
    bench.pass(.seconds(38))
    #expect(bench.posting == ["2 placed", "1 placed"])
  }

  @Test("a demanded pause counts for an hour at most") func longestPause() {
    var bench = WebhookBench((1, .placed))
    bench.answer("1 placed", status: 503, retryAfter: .seconds(86_400))
    bench.pass(.seconds(3599))
    #expect(bench.posting.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.posting == ["1 placed"])
  }

  @Test("410: the URL is paused, asked once an hour, and back with its first success") func gone() {
    var bench = WebhookBench((1, .placed), (2, .placed), (2, .ringing))
    bench.answer("1 placed", status: 410)
    bench.answer("2 placed", status: 410)
    #expect(bench.machine.isGone && bench.machine.progress.isGone)
    #expect(bench.machine.progress.lastFailure == "status 410: the webhook is gone")
    bench.pass(.seconds(3599))
    #expect(bench.posting.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.posts.count == 1)
    bench.answer(bench.posting[0], status: 410)
    bench.pass(.seconds(3600))
    #expect(bench.posts.count == 1)
    bench.answer(bench.posting[0])
    #expect(!bench.machine.isAway && !bench.machine.progress.isGone)
    #expect(bench.posts.count >= 1, "all others follow at once")
  }

  @Test("410: a new owner asks with one event, and what is given up says why")
  func goneForANewOwner() {
    var bench = WebhookBench((1, .placed), (2, .placed), (3, .placed))
    bench.answer("1 placed", status: 410)
    bench.takeOver()
    bench.pass(.seconds(5))
    #expect(bench.posts.count == 1 && bench.machine.isGone)
    bench.answer(bench.posting[0], status: 410)
    bench.pass(.seconds(90_000))
    #expect(!bench.buries.isEmpty && bench.buries.allSatisfy { $0.reason.hasPrefix("status 410") })
  }
}
