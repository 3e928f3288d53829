import CallNodeKit
import Foundation
import Testing

@Suite struct PushProvidersTests {
  private func read(_ text: String) throws -> PushProviders {
    let path = FileManager.default.temporaryDirectory.path + "/\(UUID().uuidString).json"
    try text.write(toFile: path, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(atPath: path) }
    return try PushProviders.read(path: path, origin: nil)
  }

  private static let apns =
    #"{"name":"a","team":"ABCDE12345","key":"KEY1234567","keyFile":"a.p8","environment":"sandbox","#
    + #""topics":["org.example.app"]}"#
  private static let webPush = #"{"name":"w","keyFile":"w.pem","subject":"mailto:a@example.org"}"#

  @Test func pathsCountFromTheFilesFolder() throws {
    let providers = try read(#"{"apns":[\#(Self.apns)],"webPush":[\#(Self.webPush)]}"#)
    #expect(providers.apns[0].keyFile.hasSuffix("/a.p8"))
    #expect(providers.apns[0].keyFile.hasPrefix("/"))
    #expect(providers.files.count == 2)
  }

  private static let noApps = apns.replacing("}", with: #","apps":[]}"#)
  private static let oddApps = apns.replacing("}", with: #","apps":["a b"]}"#)

  @Test func anEntryMayServeSomeAppsAlone() throws {
    let limited = Self.apns.replacing("}", with: #","apps":["demo","other"]}"#)
    let providers = try read(#"{"apns":[\#(limited)],"webPush":[\#(Self.webPush)]}"#)
    #expect(providers.apps(ofEntry: "a") == ["demo", "other"])
    #expect(providers.apps(ofEntry: "w") == nil)
  }

  @Test(arguments: [
    (#"{"apns":[\#(noApps)]}"#, "must be names of apps"),
    (#"{"apns":[\#(oddApps)]}"#, "must be names of apps"),
    ("{}", "no provider"), ("[", "not JSON"),
    (#"{"apns":[\#(apns),\#(apns)]}"#, "two providers have it"),
    (#"{"apns":[\#(apns)],"fmc":[]}"#, "fmc"),
    (
      #"{"webPush":[\#(webPush),\#(webPush.replacing("\"w\"", with: "\"x\""))]}"#,
      "there can be one"
    ),
    (#"{"apns":[\#(apns.replacing("sandbox", with: "test"))]}"#, "production or sandbox"),
    (#"{"apns":[\#(apns.replacing("\"org.example.app\"", with: ""))]}"#, "there is none"),
  ])
  func whatIsWrongIsSaid(text: String, expected: String) {
    let error = #expect(throws: ConfigurationError.self) { try read(text) }
    #expect(error.map { "\($0)".contains(expected) } == true, "\(String(describing: error))")
  }
}
