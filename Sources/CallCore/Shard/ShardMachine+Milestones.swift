/// A step in the life of a call, for metrics.
public enum CallMilestone: Sendable, Equatable {
  /// `receivedAt`: when an edge received the place; nil: not known.
  case placed(receivedAt: Timestamp?)
  /// `ringing`: since it was placed; nil: not known.
  case answered(ringing: Span?)
  /// `talking`: since the answer; nil: there was none, or it is not known.
  /// `ringing`: since it was placed, if it ended unanswered; nil: it was answered, or it is not known.
  case ended(EndReason, ringing: Span?, talking: Span?)
}

extension ShardMachine {
  /// Returns the milestones among entries that this machine decided and the journal does not have yet.
  ///
  /// A driver that counts each milestone when the journal acknowledges its entry counts it once in the whole
  /// cluster: replayed entries do not pass through here.
  ///
  /// It changes nothing: its callers would copy the whole machine to look at it.
  public mutating func milestones(in entries: [JournalEntry]) -> [(call: CallID, CallMilestone)] {
    entries.compactMap { entry in milestone(entry).map { (entry.call, $0) } }
  }

  private func milestone(_ entry: JournalEntry) -> CallMilestone? {
    func call() -> Call? { calls.slot(of: entry.call).map { calls[$0] } }
    switch entry.change {
    case .placed: return .placed(receivedAt: call()?.receivedAt)
    case .answered(let answer):
      return .answered(ringing: call().map { answer.at - $0.facts.placedAt })
    case .ended(let end):
      guard let call = call() else { return .ended(end.reason, ringing: nil, talking: nil) }
      if let answer = call.answer {
        return .ended(end.reason, ringing: nil, talking: end.at - answer.at)
      }
      return .ended(end.reason, ringing: end.at - call.facts.placedAt, talking: nil)
    case .legJoined, .alerting, .moved, .diverted, .transferEnded, .legEnded, .connected, .signal,
      .callerLost,
      .winnerLost,
      .settled, .pushed, .recorded:
      return nil
    }
  }
}
