package import CallCore
internal import CallWire

/// The check whether the cluster answers.
extension EdgeLoop {
  struct Reach {
    var watch: ReachWatch
    /// The session number under which the questions are asked.
    let session: UInt64
    var questions: UInt64 = 0
    /// Called when the edge is cut off, and when it no longer is.
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
    if let message = shared.handOver([question], to: shard) { shared.publish([message]) }
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

/// Decides whether an edge still reaches the cluster: it does as long as shards answer its questions. A
/// connection to a NATS server proves little, since that server may be cut off together with the edge. Nor do
/// heartbeats, since a coordinator may be cut off as well.
///
/// Every answer needs an append to a shard's journal, so the side of a partition that cannot append cannot
/// answer. Each question goes to another shard, since one shard may have no owner for a while.
package struct ReachWatch: Sendable {
  /// How many questions in a row must be unanswered, besides `limit`.
  package static let questionsMin = 3

  /// How long no question may be answered. Longer than a take-over.
  package let limit: Span
  /// The time between two questions.
  package var interval: Span { Span(microseconds: limit.microseconds / 4) }
  /// When the last answer came, or silence began to count.
  private var answeredAt: Timestamp
  private var nextAt: Timestamp
  private var unanswered = 0
  /// Since the last answer silence has begun to count anew, because the bus was connected again.
  private var hasRestarted = false
  package private(set) var isCutOff = false

  package init(limit: Span, now: Timestamp) {
    self.limit = limit
    answeredAt = now
    nextAt = now
  }

  /// - Returns: whether a question is due; it counts as asked.
  package mutating func isDue(now: Timestamp) -> Bool {
    guard nextAt <= now else { return false }
    // This process was paused: it could not receive answers.
    if now - nextAt > interval {
      answeredAt = now
      unanswered = 0
    }
    nextAt = now + interval
    if unanswered >= Self.questionsMin, answeredAt + limit <= now { isCutOff = true }
    unanswered += 1
    return true
  }

  /// The bus is connected again. What was asked meanwhile is lost, so the next question is due, and silence
  /// counts from now. It does so only once, or a connection that breaks again and again would hide that
  /// no shard answers.
  package mutating func reconnected(now: Timestamp) {
    nextAt = now
    guard !isCutOff, !hasRestarted else { return }
    hasRestarted = true
    answeredAt = now
    unanswered = 0
  }

  package mutating func answered(now: Timestamp) {
    answeredAt = now
    unanswered = 0
    hasRestarted = false
    isCutOff = false
  }
}
