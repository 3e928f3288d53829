import CallCore
import Testing

@Suite struct BackoffTests {
  private let backoff = Backoff(.milliseconds(500), to: .seconds(16))

  @Test func doublesUpToTheLongest() {
    let pauses = (0...7).map { backoff.pause(after: $0).microseconds / 1000 }
    #expect(pauses == [500, 1000, 2000, 4000, 8000, 16_000, 16_000, 16_000])
    #expect(backoff.pause(after: 1000) == .seconds(16))
  }

  @Test func chanceTakesOffAQuarterAtMost() {
    for chance in [0, 1, 77_777, UInt64.max / 3, UInt64.max] as [UInt64] {
      let pause = backoff.pause(after: 2, chance: chance)
      #expect((1_500_000...2_000_000).contains(pause.microseconds))
    }
    #expect(backoff.pause(after: 2, chance: 500_000) == .milliseconds(1500))
  }
}
