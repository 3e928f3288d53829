package import CallCore

/// Whether an edge still reaches the cluster, judged by the only thing that counts: its questions to
/// shards are answered. A connection to a NATS server tells little, since that server may be cut off
/// with the edge; so do heartbeats, since a coordinator may be.
///
/// Every answer needs an append to a shard's journal, so a side of a partition that can't append
/// can't answer. Questions go to other shards each time: one that has no owner for a while proves
/// nothing.
package struct ReachWatch: Sendable {
  /// Unanswered in a row, over `limit`, before the edge believes it.
  package static let questionsMin = 3

  /// How long without an answer is too long. Longer than a take-over.
  package let limit: Span
  /// Between two questions.
  package var interval: Span { Span(microseconds: limit.microseconds / 4) }
  private var heardAt: Timestamp
  private var nextAt: Timestamp
  private var unanswered = 0
  /// The time began anew with a connection since the last answer.
  private var beganAnew = false
  package private(set) var isCutOff = false

  package init(limit: Span, now: Timestamp) {
    self.limit = limit
    heardAt = now
    nextAt = now
  }

  /// - Returns: whether a question is due; it counts as asked.
  package mutating func isDue(now: Timestamp) -> Bool {
    guard nextAt <= now else { return false }
    // After a pause of this process nobody was silent: it was deaf.
    if now - nextAt > interval {
      heardAt = now
      unanswered = 0
    }
    nextAt = now + interval
    if unanswered >= Self.questionsMin, heardAt + limit <= now { isCutOff = true }
    unanswered += 1
    return true
  }

  /// The edge has its connection to the bus again. What it asked meanwhile is lost, so the next question
  /// is due, and the time counts from now: once, or a connection that breaks again and again would hide
  /// that nobody answers.
  package mutating func reconnected(now: Timestamp) {
    nextAt = now
    guard !isCutOff, !beganAnew else { return }
    beganAnew = true
    heardAt = now
    unanswered = 0
  }

  package mutating func answered(now: Timestamp) {
    heardAt = now
    unanswered = 0
    beganAnew = false
    isCutOff = false
  }
}
