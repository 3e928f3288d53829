internal import CallCore
package import CallTelemetry

/// Merges the answers of all nodes about a user. The coordinator of the user's shard has its devices and the calls
/// to it. The calls that it placed are in the callees' shards, at any coordinator.
package enum UserAnswers {
  /// - Returns: one report with all calls, in the order of their placing; nil where no node has the user or a
  ///   call of it.
  package static func merged(_ answers: [UserReport], app: String, user: String) -> UserReport? {
    let placed = answers.compactMap(\.placed)
    let shardCount = ShardCount.of(placed.map(\.shardCount))
    var report: UserReport
    if let owner = answers.first(where: \.found) {
      report = owner
    } else {
      // A user without devices and calls: the coordinator of its shard does not have it.
      guard placed.contains(where: { !$0.calls.isEmpty }) else { return nil }
      let shard =
        shardCount.count > 0
        ? ShardHash.shard(of: UserKey(app: app, user: user), count: shardCount.count) : nil
      let owner = answers.first { $0.placed?.shards.contains { $0 == shard } ?? false }
      report = UserReport(found: true, node: owner?.node ?? "no node that answered")
      (report.app, report.user, report.shard) = (app, user, shard)
    }
    // Nodes that leave the direction out report calls to the user only.
    var calls = report.calls ?? []
    for index in calls.indices { calls[index].direction = calls[index].direction ?? "called" }
    var known = Set(calls.map(\.call))
    // A shard that moves may be searched twice.
    let further = inOrder(placed.flatMap(\.calls).filter { known.insert($0.call).inserted })
    report.calls = inOrder(calls + further.suffix(UserCalls.countMax))
    var leftOut = max(0, further.count - UserCalls.countMax)
    leftOut.add(report.callsLeftOut ?? 0)
    for part in placed { leftOut.add(part.leftOut) }
    report.callsLeftOut = leftOut
    report.placed = nil
    report.shardsMissing =
      placed.isEmpty ? nil : shardCount.missing(from: placed.flatMap(\.shards))
    return report
  }

  private static func inOrder(_ calls: [UserReport.Call]) -> [UserReport.Call] {
    calls.sorted { ($0.placedAtMilliseconds ?? 0) < ($1.placedAtMilliseconds ?? 0) }
  }
}
