import CallCore
import Foundation
import Testing

/// The table of what apps may take.
@Suite struct AppLimitTests {
  @Test func standardsAreWithinWhatIsAccepted() {
    for limit in AppLimit.allCases {
      #expect(limit.facts.range.contains(limit.facts.standard), "\(limit)")
      #expect(AppLimits()[limit] == limit.facts.standard)
    }
    // A description of any size gets through.
    let bytes = AppLimit.signalBytesPerUser.facts
    #expect(bytes.range.lowerBound * bytes.seconds >= CallLimits().descriptionBytes + 4096)
  }

  /// docs/configuration.md has each with its numbers.
  @Test func allAreDocumented() throws {
    let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    let text = try String(
      contentsOf: folder.deletingLastPathComponent().appending(path: "docs/configuration.md"),
      encoding: .utf8)
    for limit in AppLimit.allCases {
      let (facts, range) = (limit.facts, limit.facts.range)
      let atOnce = facts.seconds > 0 ? "\(facts.seconds) times" : ""
      let row =
        "| `\(limit.rawValue)` | \(facts.standard) | \(range.lowerBound) to \(range.upperBound) "
        + "| \(atOnce)\(atOnce.isEmpty ? "" : " ")| \(facts.what) |"
      #expect(text.contains(row), "\(row)")
    }
  }

  @Test func refusalsNameTheLimit() {
    var limits = AppLimits()
    limits[.callsPerSecond] = 7
    #expect(
      limits.refusal(.callsPerSecond, retryAfterMilliseconds: 5)
        == CallError(
          .rateLimited,
          "callsPerSecond: at most 7 calls and transfers a second of one app, 14 at once.",
          retryAfterMilliseconds: 5))
  }
}
