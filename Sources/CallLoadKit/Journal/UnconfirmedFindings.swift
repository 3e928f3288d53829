import CallCore
import CallJudge

/// Broken rules of calls whose shards have no later record yet.
///
/// A record may be missing without a trace: it was purged before it was read, and nothing came behind it. Or a server that
/// was cut off for long gives it late. The shard's next record tells: it names the record that it follows.
struct UnconfirmedFindings: Sendable {
  struct Finding: Sendable {
    var violation: HistoryViolation
    /// The lines of the call's story.
    var story: [String]
  }

  private var waiting: [(finding: Finding, shard: Int, at: Timestamp)] = []

  /// - Parameter at: the time of the event that broke the rule.
  mutating func add(_ finding: Finding, shard: Int, at: Timestamp) {
    waiting.append((finding, shard, at))
  }

  /// - Parameter read: the next record of a shard. One that was decided before a rule was broken was read too late.
  /// - Returns: the findings that it confirms.
  mutating func settle(by read: ReadRecord) -> [Finding] {
    let own = waiting.filter { $0.shard == read.shard }
    guard !own.isEmpty else { return [] }
    waiting.removeAll { $0.shard == read.shard }
    guard read.missingSince == nil else { return [] }
    return own.filter { $0.at < read.record.at }.map(\.finding)
  }

  /// Nothing more is to come.
  mutating func takeAll() -> [Finding] {
    defer { waiting = [] }
    return waiting.map(\.finding)
  }
}
