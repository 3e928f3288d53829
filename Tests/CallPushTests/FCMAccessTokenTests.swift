import CallCore
import CallPush
import Testing

@Suite("Access tokens, decided")
struct AccessTokenMachineTests {
  static let start = Timestamp(microseconds: 1_000_000_000)
  static let hour = Span.seconds(3600)
  func at(_ seconds: Int64) -> Timestamp { Self.start + .seconds(seconds) }

  func machine(lifetime: Span = hour, chance: UInt64 = 0) -> AccessTokenMachine {
    var machine = AccessTokenMachine()
    #expect(machine.want(now: Self.start) == .exchange)
    machine.exchanged(
      .token("one", lifetime: lifetime), generation: 0, now: Self.start, chance: chance)
    return machine
  }

  @Test func oneExchangeForAllWhoWait() {
    var machine = AccessTokenMachine()
    #expect(machine.want(now: at(0)) == .exchange)
    for _ in 0..<100 { #expect(machine.want(now: at(1)) == .wait) }
    machine.exchanged(.token("one", lifetime: Self.hour), generation: 0, now: at(2), chance: 0)
    for _ in 0..<100 { #expect(machine.want(now: at(3)) == .use("one")) }
  }

  @Test func aTokenIsRenewedWhileItIsStillGood() {
    var machine = machine()
    #expect(machine.want(now: at(2699)) == .use("one"))
    #expect(machine.want(now: at(2700)) == .useAndExchange("one"))
    // The others go on with it.
    #expect(machine.want(now: at(2701)) == .use("one"))
    machine.exchanged(
      .token("two", lifetime: Self.hour), generation: 0, now: at(2702), chance: 0)
    #expect(machine.want(now: at(2703)) == .use("two"))
  }

  @Test func chanceSpreadsTheRenewalOverATenth() {
    for (chance, seconds) in [(0, 2700), (360_000_000, 3060), (360_000_001, 2700)]
      as [(UInt64, Int64)]
    {
      var machine = machine(chance: chance)
      #expect(machine.want(now: at(seconds - 1)) == .use("one"))
      #expect(machine.want(now: at(seconds)) == .useAndExchange("one"))
    }
  }

  @Test func aTokenIsNotUsedInItsLastMinute() {
    var machine = machine()
    #expect(machine.want(now: at(3539)) == .useAndExchange("one"))
    #expect(machine.want(now: at(3540)) == .wait)
  }

  @Test func aShortTokenLosesATenthAtMost() {
    var machine = machine(lifetime: .seconds(10))
    #expect(machine.want(now: at(7)) == .use("one"))
    #expect(machine.want(now: at(8)) == .useAndExchange("one"))
    #expect(machine.want(now: at(9)) == .wait)
  }

  @Test func aFailureIsSharedAndFollowedByAPauseThatGrows() {
    var machine = AccessTokenMachine()
    var now = Self.start
    for milliseconds in [500, 1000, 2000, 4000, 4000] as [Int64] {
      #expect(machine.want(now: now) == .exchange)
      machine.exchanged(
        .failed(reason: "down"), generation: 0, now: now, chance: 0)
      let until = now + .milliseconds(milliseconds)
      for _ in 0..<10 {
        #expect(machine.want(now: now) == .pausing(reason: "down", until: until))
      }
      #expect(
        machine.want(now: Timestamp(microseconds: until.microseconds - 1))
          == .pausing(reason: "down", until: until))
      now = until
    }
    #expect(machine.want(now: now) == .exchange)
    machine.exchanged(.token("one", lifetime: Self.hour), generation: 0, now: now, chance: 0)
    #expect(machine.want(now: now) == .use("one"))
  }

  @Test func aRenewalThatFailsCostsNothingWhileTheTokenIsGood() {
    var machine = machine()
    #expect(machine.want(now: at(2700)) == .useAndExchange("one"))
    machine.exchanged(
      .failed(reason: "down"), generation: 0, now: at(2700), chance: 0)
    #expect(machine.want(now: at(2700)) == .use("one"))
    #expect(machine.want(now: at(2701)) == .useAndExchange("one"))
    // The second failure, within the token's last second.
    machine.exchanged(
      .failed(reason: "down"), generation: 0, now: at(3539) + .milliseconds(500), chance: 0)
    #expect(
      machine.want(now: at(3540))
        == .pausing(reason: "down", until: at(3540) + .milliseconds(500)))
  }

  @Test func aRefusedTokenIsUsedNoMore() {
    var machine = machine()
    machine.refused("another")
    #expect(machine.want(now: at(1)) == .use("one"))
    machine.refused("one")
    #expect(machine.want(now: at(1)) == .exchange)
    machine.refused("one")
    #expect(machine.want(now: at(1)) == .wait)
  }

  @Test func newCredentialsForgetTokenPauseAndTheExchangeUnderWay() {
    var machine = machine()
    #expect(machine.want(now: at(2700)) == .useAndExchange("one"))
    machine.credentialsChanged()
    #expect(machine.generation == 1)
    #expect(machine.want(now: at(2701)) == .exchange)
    // The former one's answer comes late.
    machine.exchanged(
      .token("old", lifetime: Self.hour), generation: 0, now: at(2702), chance: 0)
    #expect(machine.want(now: at(2702)) == .wait)
    machine.exchanged(
      .failed(reason: "down"), generation: 1, now: at(2703), chance: 0)
    machine.credentialsChanged()
    #expect(machine.want(now: at(2703)) == .exchange)
  }
}

@Suite("What the token endpoint's answers mean")
struct TokenExchangeTests {
  func judge(_ status: Int, _ body: String) -> AccessTokenMachine.Exchanged {
    TokenExchange.judge(.answer(ProviderAnswer(status: status, body: Array(body.utf8))))
  }

  @Test func aTokenIsTaken() {
    #expect(
      judge(200, #"{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}"#)
        == .token("ya29.x", lifetime: .seconds(3599)))
    #expect(
      judge(200, #"{"access_token":"x","expires_in":9999999}"#)
        == .token("x", lifetime: .seconds(86_400)))
  }

  @Test(arguments: [
    "", "{", "[]", #"{"access_token":"x"}"#, #"{"access_token":"","expires_in":1}"#,
    #"{"access_token":"x","expires_in":0}"#, #"{"access_token":"x","expires_in":-1}"#,
    #"{"access_token":"x\r\ny: z","expires_in":1}"#,
    #"{"access_token":"x","expires_in":1,"token_type":"mac"}"#,
    String(repeating: "[", count: 5000),
  ])
  func whatIsNoTokenIsAFailure(_ body: String) {
    #expect(
      judge(200, body) == .failed(reason: "access token: the answer is malformed"))
  }

  @Test func whyIsSaidInTheEndpointsWord() {
    #expect(
      judge(400, #"{"error":"invalid_grant","error_description":"Invalid JWT: eyJ…"}"#)
        == .failed(reason: "access token: invalid_grant"))
    #expect(
      judge(401, #"{"error":"invalid_client"}"#)
        == .failed(reason: "access token: invalid_client"))
    #expect(
      judge(400, #"{"error":"no such key eyJhbGciOi.x"}"#)
        == .failed(reason: "access token: HTTP 400"))
    #expect(judge(503, "") == .failed(reason: "access token: HTTP 503"))
    #expect(judge(302, "") == .failed(reason: "access token: HTTP 302"))
    #expect(
      TokenExchange.judge(.notSent("no connection"))
        == .failed(reason: "access token: no connection"))
    #expect(
      TokenExchange.judge(.unknown("no answer in time"))
        == .failed(reason: "access token: no answer in time"))
  }
}
