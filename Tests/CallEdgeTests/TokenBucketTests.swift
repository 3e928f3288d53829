import CallCore
import Testing

private let start = Timestamp(microseconds: 1_000_000_000)

@Suite struct TokenBucketTests {
  @Test func burstThenSteadyRate() {
    var bucket = TokenBucket(burst: 3, now: start)
    for _ in 0..<3 { #expect(bucket.take(perSecond: 10, burst: 3, now: start) == nil) }
    #expect(bucket.take(perSecond: 10, burst: 3, now: start) == 100)
    var taken = 0
    for step in 1...1000 {
      let now = start + .milliseconds(Int64(step) * 10)
      if bucket.take(perSecond: 10, burst: 3, now: now) == nil { taken += 1 }
    }
    #expect(taken == 100)
  }

  @Test func neverHoldsMoreThanTheBurst() {
    var bucket = TokenBucket(burst: 3, now: start)
    let later = start + .seconds(1_000_000)
    for _ in 0..<3 { #expect(bucket.take(perSecond: 10, burst: 3, now: later) == nil) }
    #expect(bucket.take(perSecond: 10, burst: 3, now: later) != nil)
  }

  @Test func clockThatStandsStillGivesNothing() {
    var bucket = TokenBucket(burst: 1, now: start)
    #expect(bucket.take(perSecond: 10, burst: 1, now: start) == nil)
    #expect(bucket.take(perSecond: 10, burst: 1, now: start + Span(microseconds: -5)) != nil)
  }
}
