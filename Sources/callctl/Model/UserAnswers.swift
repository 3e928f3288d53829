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
    let shards = shardCount(placed)
    let searched = Set(placed.flatMap(\.shards)).count { (0..<shards).contains($0) }
    report.shardsMissing = placed.isEmpty ? nil : shards - searched
    return report
  }

  /// Of a user without devices, whom nobody calls: the coordinator of its shard knows nothing of it.
  private static func absent(_ answers: [UserReport], app: String, user: String) -> UserReport? {
    let placed = answers.compactMap(\.placed)
    guard placed.contains(where: { !$0.calls.isEmpty }) else { return nil }
    let shards = shardCount(placed)
    let shard: Int? =
      shards > 0 ? ShardHash.shard(of: UserKey(app: app, user: user), count: shards) : nil
    let owner = answers.first { answer in
      guard let shard, let placed = answer.placed else { return false }
      return placed.shards.contains(shard)
    }
    var report = UserReport(found: true, node: owner?.node ?? "no node that answered")
    report.app = app
    report.user = user
    report.shard = shard
    return report
  }

  /// Whatever nodes say: shards are numbered from 0 to 4095.
  private static func shardCount(_ placed: [UserReport.Placed]) -> Int {
    min(max(0, placed.map(\.shardCount).max() ?? 0), 4096)
  }

  private static func inOrder(_ calls: [UserReport.Call]) -> [UserReport.Call] {
    calls.sorted { ($0.placedAtMilliseconds ?? 0) < ($1.placedAtMilliseconds ?? 0) }
  }
}
