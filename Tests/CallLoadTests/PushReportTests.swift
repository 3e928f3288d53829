import ArgumentParser
import CallCore
import CallLoadKit
import Testing

/// The command line of sleeping devices, and what the report says of pushes.
@Suite struct PushReportTests {
  @Test(arguments: [("40%", 0.4), ("0.4", 0.4), ("0%", 0), ("100%", 1), ("2.5%", 0.025)])
  func shares(text: String, value: Double) throws {
    #expect(try Share.parse(text).value == value)
  }

  @Test(arguments: ["", "%", "40", "-1%", "101%", "nan", "inf%", "a%", "4 0%"])
  func noShares(text: String) {
    #expect(throws: ValidationError.self) { try Share.parse(text) }
  }

  static func report() -> RunReport {
    var result = RunResult()
    result.callsPlaced = 10
    var pushes = PushResult()
    pushes.sleeping = 4
    pushes.pushes = [.ring: 12, .cancel: 3]
    pushes.late = [.ring: 1]
    pushes.answers = ["200": 15]
    pushes.cleanUpsSent = ["cancel": 3]
    pushes.cleanUpsRead = ["cancel": 2]
    (pushes.woken, pushes.goodTokensRefused) = (9, 5)
    result.pushes = pushes
    var settings = RunSettings()
    settings.pushGateways = 1
    settings.sleepingShare = 0.4
    return RunReport(settings: settings, machine: MachineFacts(), result: result)
  }

  @Test func text() {
    let lines = Self.report().text(.plain)
    func has(_ words: String...) -> Bool {
      lines.contains { line in words.allSatisfy { line.contains($0) } }
    }
    #expect(has("pushes", "15", "1.50 per call"))
    #expect(has("ring", "12", "1 late"))
    #expect(has("clean-ups for cancel", "3", "2 read"))
    #expect(has("answered 200", "15"))
    #expect(has("good tokens refused", "5"))
    #expect(has("1 push gateway"))
    #expect(has("pushed after the end", "0"))
    var without = Self.report()
    without.result.pushes = nil
    #expect(!without.text(.plain).contains { $0.contains("pushed after the end") })
  }

  @Test func json() throws {
    let json = try fields(Self.report())
    #expect(json["pushes.per_call"] == .number(1.5))
    #expect(json["pushes.by_purpose.ring"] == .number(12))
    #expect(json["pushes.by_purpose.cancel"] == .number(3))
    #expect(json["pushes.clean_ups_read.cancel"] == .number(2))
    #expect(json["pushes.woken"] == .number(9) && json["pushes.never_woken"] == .number(0))
    #expect(json["pushes.good_tokens_refused"] == .number(5))
    #expect(json["pushes.place_to_provider_us.count"] == nil)
    #expect(json["settings.sleeping_share"] == .number(0.4))
    #expect(json["settings.push_gateways"] == .number(1))
    #expect(json["correctness.pushedTwice"] == .number(0))
    var without = Self.report()
    without.result.pushes = nil
    without.settings.sleepingShare = 0
    let missing = try fields(without)
    #expect(missing["pushes.sleeping"] == nil && missing["settings.push_gateways"] == nil)
  }
}
