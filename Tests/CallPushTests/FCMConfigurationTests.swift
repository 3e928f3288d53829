import CallCore
import CallPush
import Foundation
import PushSimulators
import Testing

@Suite("FCM, configuration")
struct FCMConfigurationTests {
  let simulator: FCMSimulator
  let good: [String: String]

  init() async throws {
    simulator = try await FCMSimulator.start(authority: nil) { 0 }
    let data = try Data(contentsOf: URL(filePath: simulator.serviceAccountFile))
    good = try #require(JSONSerialization.jsonObject(with: data) as? [String: String])
  }

  func account(_ change: [String: String?]) throws -> ServiceAccount {
    var file = good
    for (key, value) in change { file[key] = value }
    return try ServiceAccount(
      json: Array(JSONSerialization.data(withJSONObject: file)), file: "account.json",
      sender: "main")
  }

  @Test func aGoodFileIsRead() throws {
    let account = try account([:])
    #expect(account.email == simulator.email)
    #expect(account.project == simulator.project)
    #expect(account.tokenURI == simulator.audience)
    #expect(account.keyID == simulator.keyID)
  }

  @Test(
    "every fault is named, and no error shows the key",
    arguments: [
      ("type", nil, "type"), ("type", "authorized_user", "type"),
      ("client_email", nil, "client_email"), ("client_email", "nobody", "client_email"),
      ("project_id", nil, "project_id"), ("project_id", "a/../b", "project_id"),
      ("project_id", "", "project_id"), ("token_uri", nil, "token_uri"),
      ("token_uri", "http://oauth2.googleapis.com/token", "token_uri"),
      ("token_uri", "https://x y", "token_uri"), ("private_key", nil, "private_key"),
      ("private_key", "", "private_key"), ("private_key", "MIIEvQIBADAN", "private_key"),
    ] as [(String, String?, String)])
  func faults(_ field: String, _ value: String?, _ named: String) throws {
    let error = #expect(throws: SenderConfigurationError.self) { try account([field: value]) }
    let text = try #require(error).description
    #expect(text.contains(named))
    #expect(text.contains("account.json"))
    #expect(text.contains("main"))
    #expect(!text.contains("MII"))
  }

  @Test func aKeyThatIsCutOffIsNotShown() throws {
    let key = try #require(good["private_key"])
    let broken = String(key.prefix(800)) + "\n-----END PRIVATE KEY-----\n"
    let error = #expect(throws: SenderConfigurationError.self) {
      try account(["private_key": broken])
    }
    #expect(!(try #require(error).description.contains(key.dropFirst(100).prefix(20))))
  }

  @Test(arguments: ["", "[]", "{", "{\"type\":7}", String(repeating: "{\"a\":", count: 2000)])
  func whatIsNoKeyFileIsRefused(_ text: String) {
    #expect(throws: SenderConfigurationError.self) {
      try ServiceAccount(json: Array(text.utf8), file: "f", sender: "main")
    }
  }

  @Test func aMissingFileIsNamed() throws {
    let error = #expect(throws: SenderConfigurationError.self) {
      try ServiceAccount.load(path: "/nowhere/account.json", sender: "main")
    }
    #expect(
      try #require(error).description.contains(
        "/nowhere/account.json: the file cannot be read (there is no such file)"))
  }

  func sender(
    project: String = "", endpoint: String? = nil, tokenEndpoint: String? = nil
  ) throws -> FCMSender {
    var configuration = FCMConfiguration(
      name: "main", serviceAccountFile: simulator.serviceAccountFile)
    configuration.project = project
    if let endpoint { configuration.endpoint = endpoint }
    configuration.tokenEndpoint = tokenEndpoint
    return try FCMSender(configuration, environment: HandClock().environment())
  }

  @Test(arguments: [
    "http://fcm.googleapis.com", "ftp://x", "fcm.googleapis.com", "https://", "https://a b",
    "http://localhost.example.com", "http://127.0.0.1@example.com", "http://127.0.0.1:1@x",
  ])
  func addressesInClearTextAreOfTheLoopback(_ address: String) throws {
    let one = #expect(throws: SenderConfigurationError.self) { try sender(endpoint: address) }
    #expect(one?.place == "endpoint")
    let two = #expect(throws: SenderConfigurationError.self) {
      try sender(tokenEndpoint: address)
    }
    #expect(two?.place == "tokenEndpoint")
  }

  @Test(arguments: [
    "https://fcm.example.com", "https://fcm.example.com:8443/", "http://127.0.0.1:1",
    "http://localhost:8080/", "http://[::1]:80",
  ])
  func goodAddressesAreTaken(_ address: String) async throws {
    let sender = try sender(endpoint: address, tokenEndpoint: address)
    await sender.close()
  }

  @Test func aProjectIsAnId() throws {
    let error = #expect(throws: SenderConfigurationError.self) { try sender(project: "My App") }
    #expect(error?.place == "project")
  }

  @Test func anotherKeyIsTakenWithoutARestart() async throws {
    let stage = try await FCMStage(secure: false)
    let hand = stage.hand
    let second = try await FCMSimulator.start(authority: nil) { hand.nowSeconds }
    #expect(await stage.send() == .accepted)
    // An invalid configuration changes nothing.
    #expect(throws: SenderConfigurationError.self) {
      try stage.sender.update(FCMConfiguration(name: "main", serviceAccountFile: "/nowhere"))
    }
    var otherTrust = FCMConfiguration(for: second)
    otherTrust.caFile = "/other.pem"
    #expect(throws: SenderConfigurationError.self) { try stage.sender.update(otherTrust) }
    #expect(await stage.send() == .accepted)
    #expect(stage.fcm.accepted.count == 2)
    try stage.sender.update(FCMConfiguration(for: second))
    #expect(await stage.send() == .accepted)
    #expect(stage.fcm.accepted.count == 2)
    #expect(second.accepted.count == 1)
    #expect(second.exchanges == 1)
    #expect(second.violations == [])
    await stage.end()
    await second.stop()
  }
}

@Suite("Access tokens, decided")
struct AccessTokenMachineTests {
  static let start = Timestamp(microseconds: 1_000_000_000)
  static func at(_ seconds: Double) -> Timestamp {
    start + Span(microseconds: Int64((seconds * 1_000_000).rounded()))
  }

  /// A machine that received a token at 0.
  func machine(lifetime: Span = .seconds(3600), chance: UInt64 = 0) -> AccessTokenMachine {
    var machine = AccessTokenMachine()
    #expect(machine.want(0) == .exchange)
    machine.took("one", 0, lifetime: lifetime, chance: chance)
    return machine
  }

  @Test func oneExchangeForAllWhoWait() {
    var machine = AccessTokenMachine()
    #expect(machine.want(0) == .exchange)
    for _ in 0..<100 { #expect(machine.want(1) == .wait) }
    machine.took("one", 2)
    for _ in 0..<100 { #expect(machine.want(3) == .use("one")) }
  }

  @Test func aTokenIsRenewedWhileItIsStillGood() {
    var machine = machine()
    #expect(machine.want(2699) == .use("one"))
    #expect(machine.want(2700) == .useAndExchange("one"))
    // The others go on with it.
    #expect(machine.want(2701) == .use("one"))
    machine.took("two", 2702)
    #expect(machine.want(2703) == .use("two"))
  }

  @Test(
    "chance spreads the renewal over a tenth",
    arguments: [(0, 2700), (360_000_000, 3060), (360_000_001, 2700)] as [(UInt64, Double)])
  func spread(chance: UInt64, seconds: Double) {
    var machine = machine(chance: chance)
    #expect(machine.want(seconds - 1) == .use("one"))
    #expect(machine.want(seconds) == .useAndExchange("one"))
  }

  @Test func aTokenIsNotUsedInItsLastMinute() {
    var machine = machine()
    #expect(machine.want(3539) == .useAndExchange("one"))
    #expect(machine.want(3540) == .wait)
    machine = self.machine()
    #expect(machine.want(3540) == .exchange, "long after the latest push")
    // A short one loses a tenth at most.
    machine = self.machine(lifetime: .seconds(10))
    #expect(machine.want(7) == .use("one"))
    #expect(machine.want(8) == .useAndExchange("one"))
    #expect(machine.want(9) == .wait)
  }

  @Test func aFailureIsSharedAndFollowedByAPauseThatGrows() {
    var machine = AccessTokenMachine()
    var now = 0.0
    for pause in [0.5, 1, 2, 4, 4] {
      #expect(machine.want(now) == .exchange)
      machine.failed(now)
      let pausing = AccessTokenMachine.Answer.pausing(reason: "down", until: Self.at(now + pause))
      for _ in 0..<10 { #expect(machine.want(now) == pausing) }
      #expect(machine.want(now + pause - 0.000_001) == pausing)
      now += pause
    }
    #expect(machine.want(now) == .exchange)
    machine.took("one", now)
    #expect(machine.want(now) == .use("one"))
  }

  @Test func aRenewalThatFailsCostsNothingWhileTheTokenIsGood() {
    var machine = machine()
    #expect(machine.want(2700) == .useAndExchange("one"))
    machine.failed(2700)
    #expect(machine.want(2700) == .use("one"))
    #expect(machine.want(2701) == .useAndExchange("one"))
    // The second failure, within the token's last second.
    machine.failed(3539.5)
    #expect(machine.want(3540) == .pausing(reason: "down", until: Self.at(3540.5)))
  }

  @Test func aRefusedTokenIsUsedNoMore() {
    var machine = machine()
    machine.refused("another")
    #expect(machine.want(1) == .use("one"))
    machine.refused("one")
    #expect(machine.want(1) == .exchange)
    machine.refused("one")
    #expect(machine.want(1) == .wait)
  }

  @Test func newCredentialsForgetTokenPauseAndTheExchangeUnderWay() {
    var machine = machine()
    #expect(machine.want(2700) == .useAndExchange("one"))
    machine.credentialsChanged()
    #expect(machine.generation == 1)
    #expect(machine.want(2701) == .exchange)
    // The former one's answer comes late.
    machine.took("old", 2702, generation: 0)
    #expect(machine.want(2702) == .wait)
    machine.failed(2703)
    machine.credentialsChanged()
    #expect(machine.want(2703) == .exchange)
  }
}

/// Times are in seconds from the start.
extension AccessTokenMachine {
  fileprivate mutating func want(_ seconds: Double) -> Answer {
    want(now: AccessTokenMachineTests.at(seconds))
  }

  fileprivate mutating func took(
    _ token: String, _ seconds: Double, lifetime: Span = .seconds(3600), generation: UInt64? = nil,
    chance: UInt64 = 0
  ) {
    exchanged(
      .token(token, lifetime: lifetime), generation: generation ?? self.generation,
      now: AccessTokenMachineTests.at(seconds), chance: chance)
  }

  fileprivate mutating func failed(_ seconds: Double) {
    exchanged(
      .failed(reason: "down"), generation: generation, now: AccessTokenMachineTests.at(seconds),
      chance: 0)
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

  @Test(
    "why is said in the endpoint's word",
    arguments: [
      (400, #"{"error":"invalid_grant","error_description":"Invalid JWT: eyJ…"}"#, "invalid_grant"),
      (401, #"{"error":"invalid_client"}"#, "invalid_client"),
      (400, #"{"error":"no such key eyJhbGciOi.x"}"#, "HTTP 400"), (503, "", "HTTP 503"),
      (302, "", "HTTP 302"),
    ])
  func failures(status: Int, body: String, reason: String) {
    #expect(judge(status, body) == .failed(reason: "access token: \(reason)"))
    for reply in [ProviderReply.notSent(reason), .unknown(reason)] {
      #expect(TokenExchange.judge(reply) == .failed(reason: "access token: \(reason)"))
    }
  }
}
