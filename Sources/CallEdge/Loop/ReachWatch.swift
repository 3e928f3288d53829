package import CallCore

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
  /// nobody answers.
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
