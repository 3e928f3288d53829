internal import CallCore
package import CallTelemetry

/// Merges the answers of all nodes about a user. The coordinator of the user's shard knows its devices and
/// the calls to it; the calls that it placed are in the callees' shards, at any coordinator.
package enum UserAnswers {
  /// - Returns: one report with all calls, in the order of their placing; nil where no node knows anything
  ///   of the user.
  package static func merged(_ answers: [UserReport], app: String, user: String) -> UserReport? {
    let placed = answers.compactMap(\.placed)
    guard var report = answers.first(where: \.found) ?? absent(answers, app: app, user: user) else {
      return nil
    }
    // Nodes that leave the direction out report calls to the user only.
    var calls = (report.calls ?? []).map { call in
      var call = call
      call.direction = call.direction ?? "called"
      return call
    }
    var known = Set(calls.map(\.call))
    // A shard that moves may be searched twice.
    let further = inOrder(placed.flatMap(\.calls).filter { known.insert($0.call).inserted })
    calls += further.suffix(UserCalls.countMax)
    report.calls = inOrder(calls)
    var leftOut = max(0, further.count - UserCalls.countMax)
    leftOut.add(report.callsLeftOut ?? 0)
    for part in placed { leftOut.add(part.leftOut) }
    report.callsLeftOut = leftOut
    report.placed = nil
    let missing = ShardCount.of(placed.map(\.shardCount)).missing(from: placed.flatMap(\.shards))
    report.shardsMissing = placed.isEmpty ? nil : missing
    return report
  }

  /// Of a user without devices, whom nobody calls: the coordinator of its shard knows nothing of it.
  private static func absent(_ answers: [UserReport], app: String, user: String) -> UserReport? {
    let placed = answers.compactMap(\.placed)
    guard placed.contains(where: { !$0.calls.isEmpty }) else { return nil }
    let shards = ShardCount.of(placed.map(\.shardCount)).count
    let shard: Int? =
      shards > 0 ? ShardHash.shard(of: UserKey(app: app, user: user), count: shards) : nil
    let owner = answers.first { $0.placed?.shards.contains { $0 == shard } ?? false }
    var report = UserReport(found: true, node: owner?.node ?? "no node that answered")
    report.app = app
    report.user = user
    report.shard = shard
    return report
  }

  private static func inOrder(_ calls: [UserReport.Call]) -> [UserReport.Call] {
    calls.sorted { ($0.placedAtMilliseconds ?? 0) < ($1.placedAtMilliseconds ?? 0) }
  }
}
