internal import CallCore
internal import CallWire

/// The check whether the cluster answers.
extension EdgeLoop {
  struct Reach {
    var watch: ReachWatch
    /// The session number under which the questions are asked.
    let session: UInt64
    var questions: UInt64 = 0
    /// Is called when the edge is cut off, and when it is not any more.
    let changed: @Sendable (_ isCutOff: Bool) -> Void
  }

  /// Begins to ask. One loop of an edge does so for all.
  func watchReach(_ changed: @escaping @Sendable (_ isCutOff: Bool) -> Void) {
    reach = Reach(
      watch: ReachWatch(limit: shared.configuration.cutOffAfter, now: now),
      session: makeSessionNumber(), changed: changed)
  }

  /// Asks the next question where it is due.
  func checkReach(now: Timestamp) {
    guard var reach else { return }
    let before = reach.watch.isCutOff
    guard reach.watch.isDue(now: now) else {
      self.reach = reach
      return
    }
    reach.questions += 1
    self.reach = reach
    if reach.watch.isCutOff != before { reach.changed(reach.watch.isCutOff) }
    // Each question goes to another shard.
    let question = Command.reachabilityProbe(
      reach.questions, session: SessionRef(edge: shared.incarnation, number: reach.session))
    let shard = ShardHash.shard(of: question.callee, count: shared.configuration.shardCount)
    shared.publish([shared.message(to: shard, [question])])
  }

  /// Takes the reply to a question of this loop.
  /// - Returns: false where the reply is another's.
  func takesReply(session: UInt64, now: Timestamp) -> Bool {
    // Every reply to any device passes here, so the copy comes after the comparison.
    guard reach?.session == session, let reach else { return false }
    let before = reach.watch.isCutOff
    self.reach?.watch.answered(now: now)
    if before { reach.changed(false) }
    return true
  }
}
