internal import CallCore

/// Rules for calls in which a device asks somebody, before it hands another call over to that one (R26).
extension HistoryChecker {
  /// A call ends as transferred only where another one was handed over to who was asked in it.
  func mayEndAsAsked(_ end: EndedFacts, _ facts: Facts, _ call: CallID) throws(HistoryViolation) {
    guard end.reason == .transferred, end.survivor.map({ forgotten[$0] == nil }) ?? true else {
      return
    }
    let survivor = end.survivor.flatMap { calls[$0] }
    let transfer = survivor?.transfers.first {
      $0.start.consulted?.call == call && $0.move != nil
    }
    let by = transfer?.start.by.map(Who.init)
    try require(
      by != nil && by == end.by.map(Who.init), .consultedEnd, call,
      "it ends as transferred, and nobody was handed another call who was asked in it")
  }

  /// A call in which a device asked somebody goes on, though that one has the other call and nothing was wrong.
  mutating func consultedGoesOn(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    for transfer in facts.transfers {
      guard let movedAt = transfer.endedAt, transfer.move != nil,
        let asking = transfer.start.consulted?.call, let asked = calls[asking],
        let answeredAt = asked.answeredAt, answeredAt < movedAt,
        [true, false].contains(where: {
          asked.holder(ofCaller: $0) == transfer.start.by.map(Who.init)
        })
      else { continue }
      let due = movedAt + bounds.merge
      guard due < now, calendar.isCalm(from: movedAt - bounds.calmBefore, until: due) else {
        continue
      }
      guard let endedAt = asked.endedAt, endedAt <= due else {
        return HistoryViolation(
          .consultedEnd, "who was asked in it has \(call) now, and it goes on", call: asking)
      }
      judged[.consultedEnd, default: 0] += 1
    }
    return nil
  }
}
