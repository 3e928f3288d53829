internal import CallCore
internal import CallWire

/// Checks what devices receive about the winner and the end of a call.
extension HistoryChecker {
  mutating func toldWon(_ who: Who, _ call: CallID) throws(HistoryViolation) {
    guard isFollowed(call) else { return }
    if !seesJournal { calls[call]?.ringsNoMore(since: now) }
    let facts = calls[call, default: Facts()]
    // It has the call since it took a side over, and an answer of its own comes late.
    if facts.tookOver(who) { return }
    let winner = facts.winner ?? who
    try require(winner == who, .oneWinner, call, "\(winner) and \(who) are told that they won")
    if let end = facts.told[who]?.end {
      // An older delivery may come later.
      try require(
        end.reason.followsAnswer || end.reason == .moved, .winnerStopped, call,
        "\(who) won after it was told \(end.reason.name)")
    }
    calls[call, default: Facts()].winner = who
    calls[call]?.told[who, default: Told()].won = true
    try toldAnswer(who, call, teller: who)
  }

  mutating func toldAnswered(
    _ by: Who, _ call: CallID, teller: Who
  ) throws(HistoryViolation) {
    if calls[call]?.moves.contains(where: { !$0.ofCaller && Who($0.to) == by }) ?? false { return }
    if by == teller { try toldWon(by, call) } else { try toldAnswer(by, call, teller: teller) }
  }

  private mutating func toldAnswer(
    _ by: Who, _ call: CallID, teller: Who
  ) throws(HistoryViolation) {
    guard isFollowed(call) else { return }
    let facts = calls[call, default: Facts()]
    let what = "\(teller) hears that \(by) answered"
    try require(
      facts.journalWinner == by || !knowsJournal, .appendThenSpeak, call,
      "\(what); the journal does not say so")
    let known = facts.answeredBy ?? by
    try require(known == by, .oneWinner, call, "\(what); others that \(known) did")
    if let end = facts.end {
      try require(
        end.reason.followsAnswer, .oneStory, call,
        "\(what) a call that ended as \(end.reason.name)")
    }
    calls[call, default: Facts()].answeredBy = by
    if !seesJournal { calls[call]?.ringsNoMore(since: now) }
  }

  mutating func toldEnd(
    _ who: Who, _ end: CallEnd<Who>, _ call: CallID, version: UInt64?
  ) throws(HistoryViolation) {
    let facts = calls[call, default: Facts()]
    let told = facts.told[who, default: Told()]
    if facts.isStale(end, of: who) { return }
    if end.reason == .moved { return try toldMovedAway(who, end, call, version: version) }
    if !facts.transfers.isEmpty,
      try toldTransferEnd(who, end, call, facts, version: version)
    {
      return
    }
    if isOwnPart(end, of: who, facts) { return }
    guard isFollowed(call) else { return }
    if try toldLeft(who, end, call, facts) { return }
    try require(
      !told.won || end.reason.followsAnswer, .winnerStopped, call,
      "\(who) won, and is told \(end.reason.name)")
    let before = told.end ?? end
    try require(
      before == end, .oneEnd, call,
      "\(who) was told \(before.reason.name), and now \(end.reason.name)")
    if end.reason == .answeredElsewhere, let truth = facts.ended, truth.reason == .glare {
      try require(
        end.by == truth.by.map(Who.init) && who != end.by && who != facts.journalCaller, .oneStory,
        call, "\(who) is told answered elsewhere of a call that gave way")
    } else if end.reason == .answeredElsewhere {
      let by = end.by ?? who
      try require(by != who, .oneStory, call, "\(who): answered elsewhere by itself, or nobody")
      try toldAnswer(by, call, teller: who)
    } else {
      try toldCallEnd(who, end, call, facts)
    }
    calls[call, default: Facts()].told[who, default: Told()].end = end
    if let version {
      let last = max(calls[call]?.told[who]?.endVersion ?? 0, version)
      calls[call]?.told[who]?.endVersion = last
    }
  }

  /// A stop of a call that gave way names the one that stays.
  mutating func toldSurvivor(
    _ who: Who, _ reason: EndReason?, _ survivor: CallID?, _ call: CallID
  ) throws(HistoryViolation) {
    if let survivor { calls[call]?.survivor = survivor }
    let ended = calls[call]?.ended?.survivor
    let truth = reason == .glare || reason == .transferred ? ended : nil
    // A device that had refused before is notified of its own part, and that the call went on under another id.
    let isOfOwnPart = (reason == .declined || reason == .busy) && survivor == ended
    try require(
      survivor == truth || isOfOwnPart || !knowsJournal, .crossingsMerge, call,
      "\(who) is not told which call goes on")
  }

  private mutating func toldCallEnd(
    _ who: Who, _ end: CallEnd<Who>, _ call: CallID, _ facts: Facts
  ) throws(HistoryViolation) {
    guard isOfCall(end, of: who, facts) else { return }
    let what = "\(who) is told \(end.reason.name)"
    try require(
      facts.ended != nil || !knowsJournal, .appendThenSpeak, call,
      "\(what); no record says that it ended")
    if let truth = facts.ended {
      try require(
        truth.reason == end.reason && truth.by.map(Who.init) == end.by, .oneStory, call,
        "\(what); the journal says \(truth.reason.name)")
    }
    let known = facts.end ?? end
    try require(known == end, .oneStory, call, "\(what), others \(known.reason.name)")
    try require(
      end.reason.followsAnswer || facts.answeredBy == nil, .oneStory, call,
      "\(what) of a call that was answered")
    if let objection = objection(to: end, facts, call) {
      try require(false, .endsHaveCauses, call, "\(what), but \(objection.text)")
    }
    calls[call, default: Facts()].end = end
    if !seesJournal { calls[call]?.isOver(since: now) }
  }

  /// A device that rang, or has the call, and does not learn that it is over, though it was attached before and nothing was
  /// wrong.
  ///
  /// Calls that left the devices which they rang first are judged by what these show at the end of a run.
  mutating func endUntold(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard let endedAt = facts.endedAt ?? facts.endToldAt, endedAt + bounds.ring < now,
      facts.diversions.isEmpty, facts.moves.isEmpty, facts.transfers.isEmpty,
      facts.answered?.merged == nil, !facts.isForServer, isFollowed(call)
    else { return nil }
    let ownEnds: CallActs = [.refusal, .cancel, .hangUp]
    let caller = facts.accepted && !facts.callerForgot ? facts.journalCaller ?? facts.caller : nil
    let rung = facts.told.inOrder.filter { $0.value.invited && $0.key != caller }.map(\.key)
    for who in rung + [caller].compactMap(\.self) {
      let told = facts.told[who, default: Told()]
      guard !told.forgot, !facts.restarted.contains(who), facts.legEnds[facts.key(who)] == nil,
        facts.acts[who, default: []].isDisjoint(with: ownEnds),
        let link = presentLink(of: who, facts, since: endedAt, until: endedAt + bounds.ring)
      else { continue }
      judged[.nobodyRingsOn, default: 0] += 1
      guard told.end == nil else { continue }
      return HistoryViolation(
        .nobodyRingsOn, "\(who) is attached at \(link.edge), and does not hear that it is over",
        call: call)
    }
    return nil
  }
}
