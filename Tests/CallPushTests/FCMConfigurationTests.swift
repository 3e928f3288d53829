import CallBus
import CallCore
import CallPush
import CallTestKit
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
    let hand = HandClock()
    let second = try await FCMSimulator.start(authority: nil) { hand.nowSeconds }
    let first = try await FCMSimulator.start(authority: nil) { hand.nowSeconds }
    let sender = try FCMSender(
      FCMConfiguration(for: first), environment: hand.environment())
    func message() -> PushMessage {
      .test(.fcm, token: "d", deadline: hand.clock.now() + .seconds(30))
    }
    #expect(await sender.send(message()) == .accepted)
    // An invalid configuration changes nothing.
    #expect(throws: SenderConfigurationError.self) {
      try sender.update(FCMConfiguration(name: "main", serviceAccountFile: "/nowhere"))
    }
    var otherTrust = FCMConfiguration(for: second)
    otherTrust.caFile = "/other.pem"
    #expect(throws: SenderConfigurationError.self) { try sender.update(otherTrust) }
    #expect(await sender.send(message()) == .accepted)
    #expect(first.accepted.count == 2)
    try sender.update(FCMConfiguration(for: second))
    #expect(await sender.send(message()) == .accepted)
    #expect(first.accepted.count == 2)
    #expect(second.accepted.count == 1)
    #expect(second.exchanges == 1)
    #expect(first.violations + second.violations == [])
    await sender.close()
    await first.stop()
    await second.stop()
  }
}
