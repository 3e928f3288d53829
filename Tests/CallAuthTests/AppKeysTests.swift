import CallAuth
import CallCore
import Crypto
import Foundation
import Testing

@Suite struct AppKeysTests {
  private func failure(_ text: String) -> AppKeysError? {
    do {
      _ = try appKeys(text)
      return nil
    } catch {
      return error
    }
  }

  @Test func developmentKeysReadBackTheSame() async throws {
    let (keys, json) = AppKeys.generateDevelopment(app: "demo")
    let read = try AppKeys(json: Array(json.utf8))
    #expect(read.appNames == ["demo"])
    for kid in ["dev-hs256", "dev-es256"] {
      let token = try keys.mintToken(
        kid: kid, app: "demo", user: "ann", lifetimeSeconds: 60, now: 1000)
      #expect(try TokenVerifier(keys: read).verify(token, now: 1000).user == "ann")
    }
  }

  @Test func errorsNameFileAppKeyFaultAndRemedy() throws {
    let short = Data([UInt8](repeating: 1, count: 31)).base64EncodedString()
    let error = try #require(failure(keyFile(#"{"kid":"k1","alg":"HS256","secret":"\#(short)"}"#)))
    #expect(error.file == "keys.json" && error.app == "demo" && error.kid == "k1")
    #expect(
      error.description == """
        keys.json, app "demo", key "k1": the secret has 31 bytes; HS256 is as weak as a short \
        secret; make one of 32 bytes or more with: openssl rand -base64 32
        """)
    // The secret itself is never in an error.
    #expect(!error.description.contains(short))
  }

  @Test(arguments: [
    #"{"kid":"k1","alg":"none"}"#, #"{"kid":"k1","alg":"RS256","publicKey":"x"}"#,
    #"{"kid":"k1","alg":"HS256"}"#, #"{"kid":"k1","alg":"HS256","secret":"*"}"#,
    #"{"kid":"k1","alg":"ES256"}"#, #"{"kid":"k1","alg":"ES256","publicKey":"x"}"#,
    #"{"kid":"k1","alg":"ES256","privateKey":"x"}"#, #"{"kid":"","alg":"HS256"}"#,
    #"{"alg":"HS256"}"#, #"{"kid":1,"alg":"HS256"}"#, "",
  ])
  func badKeysAreRefused(key: String) throws {
    let error = try #require(failure(keyFile(key)))
    #expect(!error.what.isEmpty && !error.remedy.isEmpty && error.file == "keys.json")
  }

  private func terms(_ apps: String...) throws -> [String: AppTerms] {
    let entries = apps.enumerated().map { number, rest in
      #"{"app":"a\#(number)","keys":[\#(keyEntry())]\#(rest)}"#
    }
    let text = #"{"apps":[\#(entries.joined(separator: ","))]}"#
    return try appKeys(text).terms
  }

  @Test func limitsAreRead() throws {
    let read = try terms(#","limits":{"callsPerSecond":7,"callsPerUser":1}"#, "")
    #expect(read["a0"]?.limits[.callsPerSecond] == 7 && read["a0"]?.limits[.callsPerUser] == 1)
    #expect(read["a0"]?.limits[.bytesPerSession] == AppLimits()[.bytesPerSession])
    #expect(read["a1"]?.limits == AppLimits())
    let (_, json) = AppKeys.generateDevelopment(apps: ["b"], limits: ["b": [.callsPerUser: 9]])
    #expect(try AppKeys(json: Array(json.utf8)).terms["b"]?.limits[.callsPerUser] == 9)
  }

  @Test func developmentAppsMayHaveAHistoryAndAWebhook() throws {
    var extras = AppKeys.DevelopmentExtras()
    extras.keepsHistory = true
    extras.webhook = ("http://localhost:1/events", [UInt8](repeating: 7, count: 32))
    let (keys, json) = AppKeys.generateDevelopment(apps: ["a", "b"], extras: ["a": extras])
    let read = try AppKeys(json: Array(json.utf8))
    #expect(read.terms["a"]?.subscriptions == [.history, .webhooks])
    #expect(read.terms.mapValues(\.subscriptions) == keys.terms.mapValues(\.subscriptions))
    #expect(read.webhooks == keys.webhooks)
    #expect(read.webhooks.keys.sorted() == ["a"])
  }

  @Test(arguments: [
    (#","limits":{"callsPerSecnd":7}"#, "did you mean callsPerSecond?"),
    (#","limits":{"speed":7}"#, "limits are "), (#","limits":{"callsPerSecond":0}"#, "from 1 to "),
    (#","limits":{"callsPerSecond":"7"}"#, "it is not a key file"),
    (#","limits":{"callsPerSecond":1.5}"#, "it is not a key file"),
    (#","limits":[]"#, "wrong type"),
    (#","pushTopics":["org.example.app.voip"]"#, "without .voip"),
    (#","pushTopics":["*","a"]"#, "for all"),
    (#","secondCalls":"sometimes""#, #"use "allow" or "busy""#),
    (#","forwardedRing":"long""#, #"use "caller" or "anew""#),
  ])
  func badTermsAreRefused(text: String, expected: String) throws {
    let error = #expect(throws: AppKeysError.self) { try terms(text) }
    #expect(error?.description.contains(expected) == true, "\(error?.description ?? "")")
  }

  /// Where there are several apps, none has a topic that it does not name.
  @Test func pushTopicsAreNamedWhereThereAreSeveralApps() throws {
    #expect(try terms("")["a0"]?.pushTopics == nil)
    #expect(try terms(#","pushTopics":["t"]"#)["a0"]?.pushTopics == ["t"])
    let several = try terms("", #","pushTopics":["t",""]"#, #","pushTopics":["*"]"#)
    #expect(several["a0"]?.pushTopics == [] && several["a1"]?.pushTopics == ["t", ""])
    #expect(several["a2"]?.pushTopics == nil)
  }

  @Test func anAppMayChoose() throws {
    let read = try terms(
      #","secondCalls":"busy","forwardedRing":"anew","ongoingCalls":true,"history":false"#,
      #","secondCalls":"allow","forwardedRing":"caller","ongoingCalls":false,"history":true"#, "")
    let apps = ["a0", "a1", "a2"].map { read[$0] }
    // An app that names nothing has the cluster's setting.
    #expect(apps.map(\.?.secondCalls) == [.busy, .allow, nil])
    #expect(apps.map(\.?.forwardedRing) == [.anew, .caller, .caller])
    #expect(apps.map(\.?.ongoingCalls) == [true, false, false])
    #expect(apps.map(\.?.subscriptions) == [[], .history, []])
  }

  @Test func publicAndPrivateKeyMustBelongTogether() throws {
    let one = P256.Signing.PrivateKey().publicKey.pemRepresentation.replacing("\n", with: "\\n")
    let two = P256.Signing.PrivateKey().pemRepresentation.replacing("\n", with: "\\n")
    let error = try #require(
      failure(keyFile(#"{"kid":"k","alg":"ES256","publicKey":"\#(one)","privateKey":"\#(two)"}"#)))
    #expect(error.what.contains("do not belong together"))
  }

  @Test func doubledNamesAreRefused() throws {
    let key = keyEntry()
    #expect(failure(keyFile(key)) == nil)
    #expect(failure(keyFile("\(key),\(key)"))?.kid == "k1")
    let app = #"{"app":"demo","keys":[\#(key)]}"#
    #expect(failure(#"{"apps":[\#(app),\#(app)]}"#)?.app == "demo")
    #expect(failure(#"{"apps":[{"app":"de mo","keys":[\#(key)]}]}"#)?.app == "de mo")
  }

  @Test(arguments: ["", "{}", "[]", #"{"apps":[]}"#, #"{"apps":[{"app":"demo"}]}"#])
  func otherFilesAreRefused(text: String) { #expect(failure(text) != nil) }

  @Test func missingFileIsNamed() {
    let error = #expect(throws: AppKeysError.self) {
      try AppKeys.load(path: "/nonexistent/keys.json")
    }
    #expect(error?.file == "/nonexistent/keys.json")
  }
}
