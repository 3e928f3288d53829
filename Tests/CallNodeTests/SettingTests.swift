import CallCore
import CallNodeKit
import Foundation
import NATSBus
import Testing

@Suite struct SettingTableTests {
  @Test func everySettingIsThereOnceAndItsDefaultIsAcceptable() {
    #expect(Set(Setting.all.map(\.key)).count == Setting.all.count)
    for setting in Setting.all {
      #expect(!setting.meaning.isEmpty && !setting.defaultText.isEmpty)
      guard setting.hasDefault else { continue }
      var node = NodeConfiguration()
      #expect(setting.write(setting.defaultText, to: &node), "\(setting.key)")
      #expect(setting.text(node) == setting.defaultText, "\(setting.key)")
    }
  }

  /// Two rows with one property would show in each other's values.
  @Test func everySettingChangesItsOwnValueAlone() throws {
    let candidates = [
      "true", "30ms", "7s", "100s", "2h", "3", "9", "99", "5000", "9000000", "offered", "json",
      "trace",
      "nats://b:1", "https://a.example", "wss://a.example", "192.0.2.0/24",
      "turn:a.example", "other",
    ]
    for setting in Setting.all {
      let standard = NodeConfiguration()
      var node = standard
      let text = candidates.first {
        setting.text(standard) != $0 && setting.write($0, to: &node) && setting.text(node) == $0
      }
      try #require(text != nil, "\(setting.key) takes no candidate")
      for other in Setting.all where other.key != setting.key {
        #expect(other.text(node) == other.text(standard), "\(setting.key) changes \(other.key)")
      }
      #expect((node.limits != standard.limits) == (setting.group == .calls), "\(setting.key)")
    }
  }

  /// Every process of the machine reads arguments.
  @Test func aPasswordIsNoArgument() throws {
    let url = "nats://ann:s3cr3t@127.0.0.1:4222"
    let error = #expect(throws: ConfigurationError.self) {
      try ResolvedSettings.resolve(flags: ["natsUrl": url], environment: [:], file: nil)
    }
    let text = "\(String(describing: error))"
    #expect(text.contains("natsPasswordFile") && !text.contains("s3cr3t"))
    let settings = try ResolvedSettings.resolve(
      flags: [:], environment: ["CALLMESH_NATS_URL": url], file: nil)
    #expect(settings.values.natsURL == url)
    #expect(settings.text("natsUrl") == "nats://***@127.0.0.1:4222")
  }

  @Test func namesFollowFromTheKey() {
    #expect(SettingKey("ringTimeoutMinimum").flag == "--ring-timeout-minimum")
    #expect(SettingKey("natsUrl").environment == "CALLMESH_NATS_URL")
    #expect(SettingKey("natsCA").flag == "--nats-ca")
    #expect(SettingKey("natsCA").environment == "CALLMESH_NATS_CA")
  }

  @Test func defaultsAreThoseOfTheCore() throws {
    let settings = try ResolvedSettings.resolve(flags: [:], environment: [:], file: nil)
    let node = try settings.node(for: nil, generatedNodeID: "generated")
    #expect(node.limits == CallLimits())
    #expect(node.nodeID == "generated")
    #expect(node.shardCount == nil)
  }

  /// The tables of docs/configuration.md are the table of settings. A row that differs is reported as it
  /// should be.
  @Test func documentationHasTheTable() throws {
    let path = URL(filePath: #filePath).deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
      .appending(path: "docs/configuration.md")
    let lines = try String(contentsOf: path, encoding: .utf8).split(separator: "\n")
    // Code is marked in the documentation only, and names in quotes in help only.
    func plain(_ row: some StringProtocol) -> String {
      String(row).filter { $0 != "`" && $0 != "'" }
    }
    let documented = lines.filter { $0.contains(" | `CALLMESH_") }
    let expected = Setting.all.map { setting in
      let cells = [
        setting.key.rawValue, setting.typeName, setting.accepts, setting.defaultText,
        setting.key.environment, setting.meaning,
      ]
      return "| " + cells.joined(separator: " | ") + " |"
    }
    for (line, row) in zip(documented, expected) { #expect(plain(line) == plain(row)) }
    #expect(documented.count == expected.count)
  }
}

@Suite struct ValueTests {
  @Test(arguments: [
    ("30", 30_000_000, "30s"), ("500ms", 500_000, "500ms"), ("1.5s", 1_500_000, "1500ms"),
    ("2m", 120_000_000, "120s"), ("10m", 600_000_000, "10m"), ("1h", 3_600_000_000, "1h"),
    ("90d", 7_776_000_000_000, "90d"), ("0", 0, "0s"), ("250us", 250, "250us"),
  ]) func durations(text: String, microseconds: Int64, shown: String) {
    #expect(DurationText.microseconds(text) == microseconds)
    #expect(DurationText.text(microseconds: microseconds) == shown)
  }

  @Test(arguments: [
    "", "s", "-1s", "1 s", "1w", "1.s", ".5s", "1e3", "0x10", "nan", "inf", "٣s",
    "99999999999999999999", "9999999999d",
  ]) func noDurations(text: String) { #expect(DurationText.microseconds(text) == nil) }

  @Test(arguments: [
    "nats://127.0.0.1:4222", "nats://a", "tls://user:p%40ss@nats.example.com:4222",
    "nats://a:1,nats://b:2", "nats://[::1]:4222", "nats://[::1]", "nats://a:4222/",
  ]) func natsURLs(text: String) { #expect(NATSURL.isValidList(text)) }

  @Test(arguments: [
    "", "127.0.0.1:4222", "http://a", "nats://", "nats://a:0", "nats://a:x", "nats://a:70000",
    "nats://a,", "nats://a b", "nats://:4222",
  ]) func noNATSURLs(text: String) { #expect(!NATSURL.isValidList(text)) }

  @Test(arguments: [
    "*", "https://app.example", "http://localhost:3000,https://a.example", "http://[::1]:8080",
    "capacitor://localhost,https://a.example",
  ]) func origins(text: String) {
    #expect(ValueKind.origins.read(text)?.joined(separator: ",") == text)
    // They are read as browsers write them.
    #expect(ValueKind.origins.read("HTTPS://A.Example:443") == ["https://a.example"])
  }

  @Test(arguments: [
    "", "app.example", "https://", "https://a/", "https://a.example,", "https://a b", "wss://a",
    "null", "https://a.example/path", "https://u@a.example",
  ]) func noOrigins(text: String) { #expect(ValueKind.origins.read(text) == nil) }

  @Test func credentialsAreHidden() {
    #expect(
      NATSURL.withoutCredentials("nats://ann:p@ss@a:1,tls://token@b,nats://c")
        == "nats://***@a:1,tls://***@b,nats://c")
    #expect(NATSURL.withoutCredentials("secret@a") == "***@a")
    #expect(NATSURL.withoutCredentials("nats://ann:p,q@a:1,nats://b") == "nats://***@a:1,nats://b")
    #expect(NATSURL.withoutCredentials("nats://a:1,b:2") == "nats://a:1,b:2")
  }

  @Test func rangesAndNames() throws {
    #expect(ValueKind<Int>.integer(1...5).read("5") == 5)
    for text in ["6", "0x1"] { #expect(ValueKind<Int>.integer(1...5).read(text) == nil) }
    #expect(ValueKind.clusterName.read("a.b") == nil)
    #expect(ValueKind.nodeName.read("edge-1.example") != nil)
    #expect(ValueKind.nodeName.read("edge 1") == nil)
    #expect(ValueKind.boolean.read("yes") == nil)
    var node = NodeConfiguration()
    #expect(try #require(Setting.of("deliveryRepeats")).write("500ms,1s,", to: &node) == false)
    #expect(node.limits == CallLimits())
  }
}
