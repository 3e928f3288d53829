import CallAuth
import CallCore
import Foundation
import Testing

/// The hooks of apps in the file of keys.
@Suite struct HookSettingsTests {
  private static let secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

  private func read(_ hook: String) throws -> HookSettings? {
    try appKeys(keyFile(keyEntry(), hook)).hooks["demo"]
  }

  private func read(
    url: String = "https://app.example/hook", secrets: [String] = [secret], _ more: String = ""
  ) throws -> HookSettings? {
    let list = secrets.map { "\"\($0)\"" }.joined(separator: ",")
    return try read(#","hook":{"url":"\#(url)","secrets":[\#(list)]\#(more)}"#)
  }

  @Test func mostAppsHaveNone() throws {
    #expect(try read("") == nil)
    #expect(try read(#","hook":null"#) == nil)
  }

  @Test func defaults() throws {
    let plain = try #require(try read())
    #expect(plain.url == "https://app.example/hook")
    #expect(plain.timeout == .milliseconds(500) && plain.whenAway == .allow)
  }

  @Test func choices() throws {
    let chosen = try #require(
      try read(url: "https://app.example", #","timeoutMilliseconds":1200,"whenAway":"refuse""#))
    #expect(chosen.timeout == .milliseconds(1200) && chosen.whenAway == .refuse)
    for milliseconds in [50, 3000] {
      #expect(
        try read(url: "https://app.example", #","timeoutMilliseconds":\#(milliseconds)"#)?.timeout
          == .milliseconds(Int64(milliseconds)))
    }
  }

  @Test(arguments: [
    "https://app.example", "https://app.example:8443/a/b?c=d", "http://127.0.0.1:9000/hook",
    "http://localhost/", "http://[::1]:9000/",
  ]) func addresses(url: String) throws {
    #expect(try read(url: url)?.url == url)
  }

  @Test(arguments: [
    "", "app.example", "/hook", "ftp://app.example", "http://app.example/hook",
    "http://127.0.0.1.evil.example/", "http://127.0.0.2/", "https://", "https:///hook",
    "https://user:secret@app.example/", "https://user@app.example/", "https://app.example/#a",
    "https://app.example/a b", "https://bücher.example/", "file:///etc/passwd",
    "https://app.example/" + String(repeating: "a", count: 512),
  ]) func badAddressesAreRefused(url: String) {
    let error = #expect(throws: AppKeysError.self) { try read(url: url) }
    #expect(error?.what == "the hook's url is not usable" && error?.app == "demo")
    // It may hold a secret.
    if url.count > 20 { #expect(error?.description.contains(url) == false) }
  }

  @Test func secretsWithAndWithoutTheirPrefix() throws {
    let bare = try #require(try read())
    #expect(try read(secrets: ["whsec_" + Self.secret]) == bare)
    #expect(try read(secrets: [Self.secret, Self.secret]) != bare)
  }

  @Test(arguments: [
    [], [secret, secret, secret], ["*"], [""], ["whsec_"], ["whsec_whsec_" + secret],
    [Data(count: 23).base64EncodedString()], [Data(count: 65).base64EncodedString()],
    [secret, "short"],
  ]) func badSecretsAreRefused(secrets: [String]) {
    let error = #expect(throws: AppKeysError.self) { try read(secrets: secrets) }
    for secret in secrets where secret.count > 8 {
      #expect(error?.description.contains(secret) == false)
    }
  }

  @Test(arguments: [
    (#","timeoutMilliseconds":49"#, "from 50 to 3000"),
    (#","timeoutMilliseconds":3001"#, "from 50 to 3000"),
    (#","timeoutMilliseconds":-1"#, "from 50 to 3000"),
    (#","timeoutMilliseconds":"500""#, "not a key file"),
    (#","whenAway":"ring""#, #"use "allow" or "refuse""#),
    (#","whenAway":"""#, #"use "allow" or "refuse""#), (#","whenAway":1"#, "not a key file"),
  ]) func badChoicesAreRefused(more: String, expected: String) {
    let error = #expect(throws: AppKeysError.self) { try read(url: "https://a.example", more) }
    #expect(error?.description.contains(expected) == true, "\(error?.description ?? "")")
  }

  @Test(arguments: [
    #","hook":{}"#, #","hook":[]"#, #","hook":"https://app.example""#,
    #","hook":{"url":"https://app.example"}"#, #","hook":{"secrets":["\#(secret)"]}"#,
    #","hook":{"url":"https://app.example","secrets":"\#(secret)"}"#,
  ]) func badHooksAreRefused(text: String) {
    #expect(throws: AppKeysError.self) { try read(text) }
  }

  /// Two that are the same are not put in force again.
  @Test func equality() throws {
    let one = try #require(try read())
    #expect(try read() == one)
    #expect(try read(url: "https://other.example") != one)
    #expect(try read(url: "https://app.example/hook", #","timeoutMilliseconds":501"#) != one)
    #expect(try read(url: "https://app.example/hook", #","whenAway":"refuse""#) != one)
    #expect(try read(secrets: [Data(count: 32).base64EncodedString()]) != one)
  }
}
