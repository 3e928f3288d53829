import CallCore
import CallEdge
import Testing

private let start = Timestamp(microseconds: 1_800_000_000_000_000)

private func key(_ user: String, _ device: String = "", app: String = "demo") -> RateKey {
  RateKey(user: UserKey(app: app, user: user), device: DeviceID(device))
}

@Suite struct RateTableTests {
  private func table(perSecond: Int = 1, burst: Int = 2, entriesMax: Int = 100) -> RateTable<
    RateKey
  > {
    RateTable(perSecond: perSecond, burst: burst, entriesMax: entriesMax, now: start)
  }

  @Test func everybodyHasItsOwn() {
    var table = table()
    let all = [key("ann"), key("ann", "phone"), key("bob"), key("ann", app: "other")]
    for each in all {
      #expect(table.charge(each, now: start) == nil)
      #expect(table.charge(each, now: start) == nil)
      #expect(table.charge(each, now: start) == 1000)
    }
    #expect(table.count == all.count)
    #expect(table.forgottenEarly == 0)
  }

  @Test func itFillsWithTime() {
    var table = table()
    for _ in 0..<2 { _ = table.charge(key("ann"), now: start) }
    #expect(table.charge(key("ann"), now: start + .milliseconds(400)) == 600)
    #expect(table.charge(key("ann"), now: start + .seconds(1)) == nil)
    #expect(table.charge(key("ann"), now: start + .seconds(1)) == 1000)
  }

  /// A peer that goes on speaking is never forgotten, through any number of turns.
  @Test func theTurnOfTheTablesForgivesNobody() {
    var table = table()
    var taken = 0
    for tenth in 0..<1000 {
      if table.charge(key("ann"), now: start + .milliseconds(Int64(tenth) * 100)) == nil {
        taken += 1
      }
    }
    // Two at once, and one in each of 99.9 seconds.
    #expect((100...102).contains(taken))
    #expect(table.forgottenEarly == 0)
  }

  @Test func whoIsSilentIsForgotten() {
    var table = table()
    for index in 0..<50 { _ = table.charge(key("user\(index)"), now: start) }
    #expect(table.count == 50)
    _ = table.charge(key("ann"), now: start + .seconds(3))
    #expect(table.count == 51)
    _ = table.charge(key("ann"), now: start + .seconds(6))
    #expect(table.count == 1)
    for index in 0..<50 { _ = table.charge(key("user\(index)"), now: start + .seconds(7)) }
    // After a long silence nothing of it is left.
    _ = table.charge(key("ann"), now: start + .seconds(3600))
    #expect(table.count == 1)
    #expect(table.forgottenEarly == 0)
  }

  @Test func itIsBoundedAndTheSilentGiveWay() {
    var table = table(entriesMax: 10)
    for index in 0..<1000 {
      _ = table.charge(key("user\(index)"), now: start)
      // Somebody goes on speaking meanwhile: it does not escape by the others' number.
      let answer = table.charge(key("ann"), now: start)
      #expect((answer == nil) == (index < 2), "\(index)")
      #expect(table.count <= 20)
    }
    #expect(table.forgottenEarly >= 900)
  }
}

@Suite struct TokenBucketTests {
  @Test func burstThenSteadyRate() {
    var bucket = TokenBucket(burst: 3, now: start)
    for _ in 0..<3 { #expect(bucket.consume(perSecond: 10, burst: 3, now: start) == nil) }
    #expect(bucket.consume(perSecond: 10, burst: 3, now: start) == 100)
    var taken = 0
    for step in 1...1000 {
      let now = start + .milliseconds(Int64(step) * 10)
      if bucket.consume(perSecond: 10, burst: 3, now: now) == nil { taken += 1 }
    }
    #expect(taken == 100)
  }

  @Test func neverHoldsMoreThanTheBurst() {
    var bucket = TokenBucket(burst: 3, now: start)
    let later = start + .seconds(1_000_000)
    for _ in 0..<3 { #expect(bucket.consume(perSecond: 10, burst: 3, now: later) == nil) }
    #expect(bucket.consume(perSecond: 10, burst: 3, now: later) != nil)
  }

  @Test func whatMustNotWaitOverdrawsItOnce() {
    var bucket = TokenBucket(burst: 3, now: start)
    for _ in 0..<3 { #expect(bucket.consume(perSecond: 10, burst: 3, now: start) == nil) }
    for wait: UInt32 in [100, 200, 300] {
      #expect(bucket.consume(perSecond: 10, burst: 3, now: start) == wait)
      #expect(bucket.consume(mayOverdraw: true, perSecond: 10, burst: 3, now: start) == nil)
    }
    #expect(bucket.consume(mayOverdraw: true, perSecond: 10, burst: 3, now: start) == 100)
    #expect(bucket.consume(perSecond: 10, burst: 3, now: start) == 400, "the debt comes first")
  }

  @Test func clockThatStandsStillGivesNothing() {
    var bucket = TokenBucket(burst: 1, now: start)
    #expect(bucket.consume(perSecond: 10, burst: 1, now: start) == nil)
    #expect(bucket.consume(perSecond: 10, burst: 1, now: start + Span(microseconds: -5)) != nil)
  }
}
