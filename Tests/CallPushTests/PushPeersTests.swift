import CallProcesses
import CallPush
import CallWire
import Crypto
import Foundation
import PushSimulators
import Testing

/// Checks our output with other libraries: a Python with http_ece and google-auth, which PUSH_PEERS_PYTHON names.
@Suite(
  "Push, judged by others' libraries",
  .enabled(if: ProcessInfo.processInfo.environment["PUSH_PEERS_PYTHON"] != nil))
struct PushPeersTests {
  func ask(_ request: [String: [String: String]]) throws -> String {
    let python = try #require(ProcessInfo.processInfo.environment["PUSH_PEERS_PYTHON"])
    let script = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../deploy/dev/push-peers.py").standardizedFileURL
    let output = try CommandOutput.now(
      ChildCommand(name: "python", executable: python, arguments: [script.path()]),
      input: Array(JSONEncoder().encode(request)))
    try #require(output.status == 0, "\(output.errors)")
    return output.text
  }

  @Test func aWebPushIsDecrypted() throws {
    let key = P256.KeyAgreement.PrivateKey()
    let auth = Base64URL.text((0..<16).map { _ in UInt8.random(in: .min ... .max) })
    let text =
      #"{"endpoint":"https://push.example.com/x","keys":{"p256dh":"#
      + #""\#(Base64URL.text(Array(key.publicKey.x963Representation)))","auth":"\#(auth)"}}"#
    let subscription = try #require(PushSubscription(text))
    for payload in ["", #"{"call":"c1","name":"Zoë"}"#, String(repeating: "x", count: 3993)] {
      let body = try WebPushEncryption.seal(Array(payload.utf8), for: subscription)
      let read = try ask([
        "decrypt": [
          "body": Base64URL.text(body), "key": Base64URL.text(Array(key.rawRepresentation)),
          "auth": auth,
        ]
      ])
      #expect(read == payload)
    }
  }

  @Test func anAssertionIsVerified() async throws {
    let simulator = try await FCMSimulator.start(authority: nil) { 0 }
    let account = try ServiceAccount.load(
      path: simulator.serviceAccountFile, sender: "main")
    let file =
      try JSONSerialization.jsonObject(
        with: Data(contentsOf: URL(filePath: simulator.serviceAccountFile))) as? [String: String]
    let now = Int64(Date().timeIntervalSince1970)
    let read = try ask([
      "verify": [
        "token": try account.assertion(nowSeconds: now),
        "pem": try #require(file?["private_key"]), "audience": simulator.audience,
      ]
    ])
    let claims = try #require(
      JSONSerialization.jsonObject(with: Data(read.utf8)) as? [String: Any])
    #expect(claims["iss"] as? String == simulator.email)
    #expect(claims["iat"] as? Int64 == now)
    #expect(claims["exp"] as? Int64 == now + 3600)
    await simulator.stop()
  }
}
