import CallAuth
import CallCoordinator
import CallCore
import Testing

/// How many pushes an app may have.
@Suite struct PushRatesTests {
  private let start = Timestamp(microseconds: 1_800_000_000_000_000)

  private func job(_ app: String, _ purpose: PushPurpose = .ring) -> PushJob {
    PushJob(
      user: UserKey(app: app, user: "bob"), device: "b1", call: CallID(high: 1, low: 1),
      purpose: purpose,
      token: PushToken(provider: .apns, environment: "sandbox", topic: "t.voip", token: "t"),
      dialect: .callmesh, caller: Party(user: "ann", device: "a"), video: false, headers: [],
      placedAt: start, ringDeadline: start, decidedAt: start, deadline: start)
  }

  private func keys(_ pushesPerSecond: Int) -> AppKeys {
    AppKeys.generateDevelopment(
      apps: ["demo", "other"], limits: ["demo": [.pushesPerSecond: pushesPerSecond]]
    ).0
  }

  @Test func eachAppHasARateOfItsOwn() {
    var rates = PushRates(TokenAuthority(keys: keys(2)))
    for _ in 0..<4 { #expect(rates.refusal(of: job("demo"), now: start) == nil) }
    #expect(
      rates.refusal(of: job("demo"), now: start)
        == "pushesPerSecond: at most 2 pushes a second of one app, 4 at once.")
    #expect(rates.refusal(of: job("demo", .missedNotice), now: start) != nil)
    #expect(rates.refusal(of: job("other"), now: start) == nil)
    // A phone that rings is told of the end.
    #expect(rates.refusal(of: job("demo", .cancel), now: start) == nil)
    #expect(rates.refusal(of: job("demo"), now: start + .milliseconds(500)) == nil)
  }

  @Test func keysThatAreReadAgainCount() {
    let tokens = TokenAuthority(keys: keys(1))
    var rates = PushRates(tokens)
    for _ in 0..<2 { #expect(rates.refusal(of: job("demo"), now: start) == nil) }
    #expect(rates.refusal(of: job("demo"), now: start) != nil)
    tokens.replace(keys: keys(50))
    for _ in 0..<100 { #expect(rates.refusal(of: job("demo"), now: start) == nil) }
  }

  @Test func withoutAFileOfKeysTheStandardHolds() {
    var rates = PushRates(nil)
    let standard = AppLimits().burst(.pushesPerSecond)
    for _ in 0..<standard { #expect(rates.refusal(of: job("demo"), now: start) == nil) }
    #expect(rates.refusal(of: job("demo"), now: start) != nil)
  }
}
