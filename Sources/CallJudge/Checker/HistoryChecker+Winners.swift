internal import CallCore

/// The rule for winners: the device that has the call knows.
extension HistoryChecker {
  /// The device that answered by the journal does not know that it has the call, though it was attached before and nothing
  /// was wrong.
  ///
  /// It learns that by the reply to its answer, or by `answered` where a crossing call gave way to this one. If the reply is
  /// lost with the connection, `answered` follows on the next one: that takes an attach, after which this is not judged.
  mutating func winnerUntold(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    let known = seesJournal ? facts.journalWinner : facts.answeredBy
    guard let who = known, let answeredAt = seesJournal ? facts.answeredAt : facts.toldOverAt,
      facts.moves.isEmpty, isFollowed(call)
    else { return nil }
    let due = answeredAt + bounds.ring
    let end = facts.endedAt ?? facts.endToldAt ?? now
    guard due < end, due < now, facts.told[who]?.forgot != true else { return nil }
    if facts.told[who]?.won ?? false {
      judged[.winnersTold, default: 0] += 1
      return nil
    }
    guard let link = presentLink(of: who, facts, since: answeredAt, until: due) else { return nil }
    return HistoryViolation(
      .winnersTold, "\(who) is attached at \(link.edge), and does not hear that it won", call: call)
  }

  /// The device that took a side over last does not know that it has it. It learns that by the reply to its `pull`, or to its
  /// answer to a transfer.
  mutating func takerUntold(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard let move = facts.moves.last, let movedAt = facts.moveTimes.last else { return nil }
    let who = Who(move.to)
    let due = movedAt + bounds.ring
    guard due < facts.endedAt ?? now, due < now, facts.told[who]?.forgot != true else { return nil }
    if facts.told[who]?.tookOver ?? false {
      judged[.winnersTold, default: 0] += 1
      return nil
    }
    guard let link = presentLink(of: who, facts, since: movedAt, until: due) else { return nil }
    return HistoryViolation(
      .winnersTold,
      "\(who) is attached at \(link.edge), and does not hear that it took the call over",
      call: call)
  }

  /// The connection of a device that had been attached for a while before something that it is to learn; nil: it has none,
  /// or something was wrong on the way to it. Where the call is not to its user, that one's shard knows its sessions first.
  func presentLink(
    of who: Who, _ facts: Facts, since: Timestamp, until due: Timestamp
  ) -> Link? {
    guard unansweredAttaches[who]?.isEmpty ?? true else { return nil }
    return links(of: who).compactMap { links[$0] }.first { link in
      guard let attachedAt = link.attachedAt, attachedAt + bounds.takeover < since else {
        return false
      }
      return isQuiet(link, who.user, facts, from: since - bounds.takeover, until: due)
    }
  }
}
