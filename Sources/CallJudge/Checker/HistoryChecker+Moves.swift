internal import CallCore
internal import CallWire

/// Rules for answered calls that another device of the same user takes over.
extension HistoryChecker.Facts {
  /// The device that has a side of the answered call; nil: the call is unanswered.
  func holder(ofCaller: Bool) -> Who? {
    moves.last { $0.ofCaller == ofCaller }.map { Who($0.to) }
      ?? (ofCaller ? journalCaller : journalWinner)
  }

  /// Whether a device has, or had, a side.
  func hadSide(_ who: Who, ofCaller: Bool) -> Bool {
    (ofCaller ? journalCaller : journalWinner) == who
      || moves.contains { $0.ofCaller == ofCaller && Who($0.to) == who }
  }

  func tookOver(_ who: Who) -> Bool { moves.contains { Who($0.to) == who } }

  /// Whether an end was of a device's part in the call before it took the call over.
  func isStale(_ end: CallEnd<Who>, of who: Who) -> Bool {
    // A former owner's stop of an earlier part arrives after the record that lets the device ring again.
    if legEnds[key(who)] == nil, endsBefore[who]?.contains(end) ?? false { return true }
    guard let taken = moves.lastIndex(where: { Who($0.to) == who }) else { return false }
    if end.reason == .answeredElsewhere { return true }
    return (end.reason == .moved || end.reason == .transferred)
      && !moves[taken...].contains { Who($0.from) == who && Who($0.to) == end.by }
  }
}

extension HistoryChecker {
  /// A side moves from the device that has it, while the call is answered.
  func moved(_ move: MovedFacts, _ facts: inout Facts, _ call: CallID) throws(HistoryViolation) {
    try require(
      facts.answered != nil && facts.ended == nil, .movesOnce, call,
      "\(Who(move.to)) takes over what is not answered")
    let holder = facts.holder(ofCaller: move.ofCaller)
    try require(
      holder == Who(move.from), .movesOnce, call,
      "\(Who(move.to)) takes it over from \(Who(move.from)), which does not have it")
    let isOfVacancy = move.ofCaller && facts.isVacant
    if isOfVacancy || !move.to.user.hasBytes(of: move.from.user) {
      try transferred(move, &facts, call)
    }
    facts.moves.append(move)
    facts.moveTimes.append(now)
    facts.connectDeadline = max(facts.connectDeadline, move.connectDeadline)
    if move.ofCaller {
      (facts.connected.caller, facts.lostUntil.caller) = (false, nil)
    } else {
      (facts.connected.winner, facts.lostUntil.winner) = (false, nil)
    }
    // The end of the device's former part in the call no longer counts.
    facts.told[Who(move.to)]?.end = nil
    facts.told[Who(move.to)]?.endVersion = nil
  }

  /// A device learns that it has the call: it has, from the device that it named. Of two that pull at once one has.
  func toldPulled(_ who: Who, _ request: PullRequest, _ call: CallID) throws(HistoryViolation) {
    let isTrue = calls[call, default: Facts()].moves.contains {
      Who($0.to) == who && $0.from.device == request.from
    }
    try require(
      isTrue || !knowsJournal, .movesOnce, call,
      "\(who) is told that it took it over from \(request.from); no record says so")
  }

  /// A device learns that another one has the call now.
  mutating func toldMovedAway(
    _ who: Who, _ end: CallEnd<Who>, _ call: CallID, version: UInt64?
  ) throws(HistoryViolation) {
    let isTrue = calls[call, default: Facts()].moves.contains {
      Who($0.from) == who && Who($0.to) == end.by
    }
    try require(
      isTrue || !knowsJournal, .appendThenSpeak, call,
      "\(who) is told that another device took it over; no record says so")
    calls[call, default: Facts()].told[who, default: Told()].end = end
    if let version { calls[call]?.told[who]?.endVersion = version }
  }

  /// A device learns that the other side goes on with another one.
  mutating func toldMove(_ who: Who, _ moved: Moved, _ call: CallID) throws(HistoryViolation) {
    let moves = calls[call, default: Facts()].moves
    let index = Int(moved.number) - 1
    try require(
      !knowsJournal || moves.indices.contains(index) && Who(moves[index].to) == Who(moved.to),
      .appendThenSpeak, call, "\(who) is told of a move that is in no record")
    calls[call, default: Facts()].told[who, default: Told()].moves.insert(index)
  }

  /// The other side's device, or the one that had the call, did not get the newest move, though it is attached and
  /// nothing was wrong.
  mutating func notToldOfMove(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard let move = facts.moves.last, let movedAt = facts.moveTimes.last,
      let other = facts.holder(ofCaller: !move.ofCaller)
    else { return nil }
    let former = Who(move.from)
    let otherIsTold = facts.told[other]?.moves.contains(facts.moves.count - 1) ?? false
    let reason = facts.told[former]?.end?.reason
    // A later transfer may ring it once more, which begins its part anew.
    let ringsAgain =
      facts.transfers.last.map { $0.startedAt > movedAt && $0.rang(former.user) } ?? false
    let formerIsTold = reason == .moved || reason == .transferred || ringsAgain
    return untold(other, otherIsTold, of: move, movedAt, call, facts)
      ?? untold(former, formerIsTold, of: move, movedAt, call, facts)
  }

  private mutating func untold(
    _ other: Who, _ isTold: Bool, of move: MovedFacts, _ movedAt: Timestamp, _ call: CallID,
    _ facts: Facts
  ) -> HistoryViolation? {
    let due = movedAt + bounds.ring
    guard due < facts.endedAt ?? now, due < now, facts.told[other]?.forgot != true else {
      return nil
    }
    if isTold {
      judged[.movesTold, default: 0] += 1
      return nil
    }
    let present: [Link] = links(of: other).compactMap { links[$0] }
    for link in present where unansweredAttaches[other]?.isEmpty ?? true {
      guard let since = link.attachedAt, since + bounds.takeover < movedAt,
        isQuiet(link, facts.shard, from: movedAt - bounds.takeover, until: due)
      else { continue }
      return HistoryViolation(
        .movesTold, "\(other) does not hear that \(Who(move.to)) took it over", call: call)
    }
    return nil
  }
}
