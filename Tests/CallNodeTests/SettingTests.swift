import CallCore
import CallNodeKit
import Foundation
import Testing

@Suite struct SettingTableTests {
  @Test func everySettingIsThereOnceAndItsDefaultIsAcceptable() {
    #expect(Setting.all.map(\.key).count == SettingKey.allCases.count)
    #expect(Set(Setting.all.map(\.key)) == Set(SettingKey.allCases))
    for setting in Setting.all {
      #expect(!setting.meaning.isEmpty)
      #expect(setting.standard != nil || setting.standardNote != nil)
      if let standard = setting.standard {
        // As the documentation has it is as `callnode config` prints it.
        #expect(setting.kind.read(standard)?.shown == standard, "\(setting.key)")
      }
    }
  }

  /// Every process of the machine reads arguments.
  @Test func aPasswordIsNoArgument() throws {
    let url = "nats://ann:s3cr3t@127.0.0.1:4222"
    do {
      _ = try ResolvedSettings.resolve(flags: [.natsUrl: url], environment: [:], file: nil)
      Issue.record("it is taken")
    } catch {
      #expect("\(error)".contains("natsPasswordFile") && !"\(error)".contains("s3cr3t"))
    }
    let settings = try ResolvedSettings.resolve(
      flags: [:], environment: ["CALLMESH_NATS_URL": url], file: nil)
    #expect(settings[.natsUrl] == .text(url))
  }

  @Test func aJournalHasRoomForItsCheckpoints() throws {
    let settings = try ResolvedSettings.resolve(
      flags: [.journalBytes: "5000000"], environment: [:], file: nil)
    #expect(throws: ConfigurationError.self) {
      try NodeConfiguration(settings, roles: .coordinator, generatedNodeID: "n")
    }
  }

  @Test func namesFollowFromTheKey() {
    #expect(SettingKey.ringTimeoutMinimum.flag == "--ring-timeout-minimum")
    #expect(SettingKey.natsUrl.environment == "CALLMESH_NATS_URL")
    #expect(SettingKey.natsCA.flag == "--nats-ca")
    #expect(SettingKey.natsCA.environment == "CALLMESH_NATS_CA")
  }

  @Test func defaultsAreThoseOfTheCore() throws {
    let settings = try ResolvedSettings.resolve(flags: [:], environment: [:], file: nil)
    let node = try NodeConfiguration(settings, roles: nil, generatedNodeID: "generated")
    #expect(node.limits == CallLimits())
    #expect(node.nodeID == "generated")
    #expect(node.shardCount == nil)
  }

  /// Changes each rule of calls and looks whether the limits notice.
  @Test func everyRuleOfCallsReachesTheLimits() throws {
    for setting in Setting.all where setting.group == .calls {
      let text =
        switch setting.kind {
        case .boolean: "true"
        case .durations: "1s"
        case .integer(let range): "\(range.lowerBound)"
        case .duration(let low, let high): "\(Int(max(low, min(high, 6))))s"
        case .text, .choice, .natsURL, .origins, .addresses: ""
        }
      let file = ConfigurationFile(path: "f", values: [setting.key: text])
      let settings = try ResolvedSettings.resolve(
        flags: setting.key == .ringTimeoutMaximum ? [.ringTimeout: "6s"] : [:], environment: [:],
        file: file)
      var expected = CallLimits()
      if setting.key == .ringTimeoutMaximum { expected.ringTimeout = .seconds(6) }
      let node = try NodeConfiguration(settings, roles: nil, generatedNodeID: "n")
      #expect(node.limits != expected, "\(setting.key)")
    }
  }

  @Test func documentationHasEverySettingWithItsDefaultAndEnvironmentVariable() throws {
    let path = URL(filePath: #filePath).deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
      .appending(path: "docs/configuration.md")
    let text = try String(contentsOf: path, encoding: .utf8)
    for setting in Setting.all {
      let row = text.split(separator: "\n").first { $0.hasPrefix("| `\(setting.key.rawValue)` |") }
      let line = try #require(row.map(String.init), "\(setting.key) has no row")
      #expect(line.contains("`\(setting.key.environment)`"), "\(setting.key)")
      #expect(line.contains("| \(setting.kind.typeName) |"), "\(setting.key)")
      let standard = setting.standard.map { "`\($0)`" } ?? setting.shownStandard
      #expect(line.contains("| \(standard) |"), "\(setting.key)")
    }
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
  ]) func noDurations(text: String) {
    #expect(DurationText.microseconds(text) == nil)
  }

  @Test(arguments: [
    "nats://127.0.0.1:4222", "nats://a", "tls://user:p%40ss@nats.example.com:4222",
    "nats://a:1,nats://b:2", "nats://[::1]:4222", "nats://[::1]", "nats://a:4222/",
  ]) func natsURLs(text: String) {
    #expect(NATSURL.isValidList(text))
  }

  @Test(arguments: [
    "", "127.0.0.1:4222", "http://a", "nats://", "nats://a:0", "nats://a:x", "nats://a:70000",
    "nats://a,", "nats://a b", "nats://:4222",
  ]) func noNATSURLs(text: String) {
    #expect(!NATSURL.isValidList(text))
  }

  @Test(arguments: [
    "*", "https://app.example", "http://localhost:3000,https://a.example", "http://[::1]:80",
  ]) func origins(text: String) {
    #expect(ValueKind.origins.read(text) == .text(text))
  }

  @Test(arguments: [
    "", "app.example", "https://", "https://a/", "https://a.example,", "https://a b", "wss://a",
    "null", "https://a.example/path", "https://u@a.example",
  ]) func noOrigins(text: String) {
    #expect(ValueKind.origins.read(text) == nil)
  }

  @Test func credentialsAreHidden() {
    #expect(
      NATSURL.withoutCredentials("nats://ann:p@ss@a:1,tls://token@b,nats://c")
        == "nats://***@a:1,tls://***@b,nats://c")
    #expect(NATSURL.withoutCredentials("secret@a") == "***@a")
    #expect(NATSURL.withoutCredentials("nats://ann:p,q@a:1,nats://b") == "nats://***@a:1,nats://b")
    #expect(NATSURL.withoutCredentials("nats://a:1,b:2") == "nats://a:1,b:2")
  }

  @Test func rangesAndNames() {
    #expect(ValueKind.integer(1...5).read("5") == .integer(5))
    #expect(ValueKind.integer(1...5).read("6") == nil)
    #expect(ValueKind.integer(1...5).read("0x1") == nil)
    #expect(ValueKind.text(.clusterName).read("a.b") == nil)
    #expect(ValueKind.text(.nodeName).read("edge-1.example") != nil)
    #expect(ValueKind.text(.nodeName).read("edge 1") == nil)
    #expect(ValueKind.durations(0.05, 60).read("500ms,1s,") == nil)
    #expect(ValueKind.boolean.read("yes") == nil)
  }
}
