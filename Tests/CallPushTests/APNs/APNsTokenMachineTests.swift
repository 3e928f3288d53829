import CallCore
import CallPush
import Testing

@Suite("APNs: one provider token per connection")
struct APNsTokenMachineTests {
  private let start = Timestamp(microseconds: 1_700_000_000_000_000)
  private func minutes(_ count: Int64) -> Span { .seconds(60 * count) }

  @Test("made at the first push, kept for 40 to 50 minutes by chance", arguments: 0..<50)
  func rotation(seed: Int) throws {
    var random = SplitMix64(seed: UInt64(seed))
    var tokens = APNsTokenMachine()
    #expect(tokens.current == nil)
    var serials: [UInt32] = []
    var changes: [Timestamp] = []
    for minute in 0..<600 {
      let now = start + minutes(Int64(minute))
      let token = try #require(tokens.token(now: now, random: &random))
      #expect(now - token.mintedAt <= minutes(50), "older than it may be")
      if serials.last != token.serial {
        #expect(token.mintedAt == now)
        if let last = changes.last {
          #expect(now - last >= minutes(40))
          #expect(now - last <= minutes(51))
        }
        serials.append(token.serial)
        changes.append(now)
      }
    }
    #expect(serials == Array(1...UInt32(serials.count)))
  }

  @Test("chance makes connections differ")
  func jitter() throws {
    var times: Set<Int> = []
    for seed in 0..<20 {
      var random = SplitMix64(seed: UInt64(seed))
      var tokens = APNsTokenMachine()
      for second in stride(from: 0, through: 3000, by: 10) {
        let now = start + .seconds(Int64(second))
        if tokens.token(now: now, random: &random)?.serial == 2 {
          times.insert(second)
          break
        }
      }
    }
    #expect(times.count > 10)
  }

  @Test("after a long rest the next push makes a new one")
  func rest() throws {
    var random = SplitMix64(seed: 1)
    var tokens = APNsTokenMachine()
    _ = tokens.token(now: start, random: &random)
    let token = try #require(tokens.token(now: start + minutes(600), random: &random))
    #expect(token.serial == 2)
    #expect(token.issuedAtSeconds == 1_700_036_000)
  }

  @Test("refused as too soon: back to the former token, and at its end a new connection")
  func wentBack() throws {
    var random = SplitMix64(seed: 1)
    var tokens = APNsTokenMachine()
    let first = try #require(tokens.token(now: start, random: &random))
    let second = try #require(tokens.token(now: start + minutes(50), random: &random))
    #expect(second.serial == first.serial + 1)
    #expect(tokens.refusedAsTooSoon(serial: second.serial, now: start + minutes(50)) == .wentBack)
    #expect(tokens.token(now: start + minutes(51), random: &random) == first)
    // Answers to others that left with the new one.
    #expect(tokens.refusedAsTooSoon(serial: second.serial, now: start + minutes(51)) == .ignore)
    #expect(tokens.token(now: start + minutes(54), random: &random) == first)
    #expect(tokens.token(now: start + minutes(55), random: &random) == nil)
  }

  @Test("refused once more, or with nothing to go back to: a new connection")
  func nothingToGoBackTo() throws {
    var random = SplitMix64(seed: 1)
    var tokens = APNsTokenMachine()
    let first = try #require(tokens.token(now: start, random: &random))
    #expect(tokens.refusedAsTooSoon(serial: first.serial, now: start) == .replaceConnection)

    _ = tokens.token(now: start + minutes(50), random: &random)
    _ = tokens.refusedAsTooSoon(serial: 2, now: start + minutes(50))
    #expect(tokens.refusedAsTooSoon(serial: 1, now: start + minutes(50)) == .replaceConnection)

    var rested = APNsTokenMachine()
    _ = rested.token(now: start, random: &random)
    let late = try #require(rested.token(now: start + minutes(70), random: &random))
    #expect(
      rested.refusedAsTooSoon(serial: late.serial, now: start + minutes(70)) == .replaceConnection)
  }
}
