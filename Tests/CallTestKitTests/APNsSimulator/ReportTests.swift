import CallCore
import CallTestKit
import CallWire
import Testing

struct ReportTests {
  private var sample: APNsReport {
    var report = APNsReport()
    report.connectionsTotal = 2
    report.streams = 10
    report.accepted = 7
    report.responses = ["200": 7, "410 Unregistered": 1, "400 BadDeviceToken": 2]
    report.pushesByToken = ["secret": 5, "other": 2]
    report.violations = [.indexedPath: 3, .tooManyStreams: 1]
    var connection = APNsReport.Connection(number: 1, openedAt: noon)
    connection.providerTokenUses = [noon, noon + .seconds(3000), noon + .seconds(4500)]
    report.connections = [connection]
    return report
  }

  @Test func theTextNamesWhatCountsAndNoToken() {
    let text = sample.description
    #expect(text.contains("violations      4"))
    #expect(text.contains("  3  indexedPath"))
    #expect(text.contains("  1  410 Unregistered"))
    #expect(text.contains("at least 1500 s apart"))
    #expect(text.contains("at most 5 each"))
    #expect(!text.contains("secret"))
    let most = text.split(separator: "\n").drop { $0 != "answers" }.dropFirst().first
    #expect(most == "  7  200")
  }

  @Test func theJSONIsJSON() {
    let members = strictJSONObject(Array(sample.json.utf8))
    #expect(members?["violations_total"] == .number(4))
    #expect(members?["accepted"] == .number(7))
    #expect(members?["provider_token_spacing_seconds"] == .number(1500))
    #expect(members?["responses"] != nil)
    #expect(!sample.json.contains("secret"))
    #expect(strictJSONObject(Array(APNsReport().json.utf8)) != nil)
  }

  @Test func spacingIsTheShortestOnAnyConnection() {
    var report = APNsReport()
    #expect(report.providerTokenSpacing == nil)
    var one = APNsReport.Connection(number: 1, openedAt: noon)
    one.providerTokenUses = [noon]
    report.connections = [one]
    #expect(report.providerTokenSpacing == nil)
    #expect(sample.providerTokenSpacing == .seconds(1500))
  }
}
