internal import CallCore
internal import CallWire

/// Asks shards questions that only a working cluster can answer.
extension EdgeLoop {
  struct Reach {
    var watch: ReachWatch
    /// Where the answers go.
    let session: UInt64
    var questions: UInt64 = 0
    /// Told when the edge is cut off, and when it is not any more.
    let changed: @Sendable (_ isCutOff: Bool) -> Void
  }

  /// Begins to ask. One loop of an edge does it for all.
  func watchReach(_ changed: @escaping @Sendable (_ isCutOff: Bool) -> Void) {
    reach = Reach(
      watch: ReachWatch(limit: shared.configuration.cutOffAfter, now: now),
      session: makeSessionNumber(), changed: changed)
  }

  /// Asks what is due to be asked.
  func tendReach(now: Timestamp) {
    guard var reach else { return }
    let before = reach.watch.isCutOff
    guard reach.watch.isDue(now: now) else {
      self.reach = reach
      return
    }
    reach.questions += 1
    self.reach = reach
    if reach.watch.isCutOff != before { reach.changed(reach.watch.isCutOff) }
    // To another shard each time.
    let question = Command.reachabilityProbe(
      reach.questions, session: SessionRef(edge: shared.incarnation, number: reach.session))
    let shard = ShardHash.shard(of: question.callee, count: shared.configuration.shardCount)
    shared.publish([shared.message(to: shard, [question])])
  }

  /// - Returns: whether the reply answers a question of this loop's own.
  func takesReply(session: UInt64, now: Timestamp) -> Bool {
    // Every reply of every device passes here.
    guard reach?.session == session, let reach else { return false }
    let before = reach.watch.isCutOff
    self.reach?.watch.answered(now: now)
    if before { reach.changed(false) }
    return true
  }
}
