internal import CallCore

/// Rules for the entries that the journal may hold: each fact once, in an order that makes sense.
extension HistoryChecker {
  mutating func journalled(
    _ entry: JournalEntry, _ record: JournalRecord, _ shard: Int
  ) throws(HistoryViolation) {
    let call = entry.call
    var facts = calls[call, default: Facts()]
    defer { calls[call] = facts }
    if case .placed(let placed) = entry.change {
      try require(facts.placed == nil, .oneRecord, call, "placed twice in the journal")
      facts.placed = placed
      facts.deadlines = [placed.deadline]
      facts.placedAt = now
      facts.epoch = record.epoch
      facts.shard = shard
      live.append(call)
      concerns(call, placed.callee.user, &facts)
      concerns(call, placed.caller.user, &facts)
      try mayBePlaced(placed, call)
      try ringsAsChosen(placed, facts, call)
      try mayRing(placed, call, shard)
      try isSecondCall(placed, call)
      try placedByHook(placed, record, facts, call)
      try isNamed(placed, facts, call)
      try ringsByRules(&facts, call)
      try require(
        placed.subscriptions.contains(.history) == keepsHistory, .historyOnBothSides, call,
        "its placing does not say whether the app has histories")
      if !witnesses(facts).isEmpty { judged[.unreachableAttached, default: 0] += 1 }
      return
    }
    try require(
      facts.placed != nil, .nothingLost, call, "the journal speaks of a call that it does not hold")
    if record.epoch != facts.epoch { facts.mayBeLost = true }
    switch entry.change {
    case .placed, .signal, .settled: break
    case .legJoined(let party):
      if !facts.joined.contains(where: { $0.hasBytes(of: party.user) }) {
        facts.joined.append(party.user)
      }
      if facts.answered == nil { facts.rungFirst.insert(Who(party)) }
      concerns(call, party.user, &facts)
      if let placed = facts.placed { try mayRing(party, placed, call) }
      try joinsByRules(party, facts, record, call)
      try rungForTransfer(party, &facts, call)
    case .transferEnded(let end): try transferEnded(end, &facts, call)
    case .recorded where !sight.contains(.streams): break
    case .recorded:
      try require(
        facts.isRecorded, .recordOfEachCall, call, "the journal says it is recorded; it is not")
      try require(
        facts.rememberedBy.isSuperset(of: sidesToRemember(facts))
          && usersToRemember(facts).allSatisfy { user in
            facts.usersWithHistory.contains { $0.hasBytes(of: user) }
          }, .historyOnBothSides, call,
        "the journal says that histories have it; one has not")
      try require(
        facts.unlearned.isEmpty, .learnsOfEachCall, call, "the journal says its events are stored")
    case .pushed(let device, let purpose):
      try mayPush(device.text, purpose, facts, call)
      facts.pushed[device.inASCII, default: []].insert(purpose)
    case .alerting(let device):
      facts.alerting.insert(device.inASCII)
      facts.hasRung = facts.hasRung || facts.answered == nil
    case .diverted(let diverted) where diverted.reason == .transferred:
      if facts.isVacant, diverted.from.isEmpty {
        try callsSecond(diverted, &facts, call)
      } else {
        try transferring(diverted, &facts, call)
      }
    case .diverted(let diverted) where facts.pendingTransfer != nil:
      try divertedByRules(diverted, facts, call)
      try transferDiverted(diverted, &facts, call)
    case .diverted(let diverted):
      try require(
        facts.placed?.onlyDevice == nil, .placedAsAsked, call,
        "it goes on, and the server named a device")
      try divertedByRules(diverted, facts, call)
      try turnEnded(diverted, facts, call)
      try self.diverted(diverted, &facts, call)
      try goesOnAgain(facts, call)
      try divertedByHook(diverted, facts, call)
    case .answered(let answer):
      try require(facts.answered == nil, .oneRecord, call, "answered twice in the journal")
      try require(facts.ended == nil, .oneRecord, call, "answered after its end")
      try mayMerge(answer, call)
      if answer.merged != nil { facts.beginAnew(Who(answer.by)) }
      facts.answered = answer
      facts.answeredAt = now
      facts.connectDeadline = answer.connectDeadline
    case .moved(let move): try moved(move, &facts, call)
    case .legEnded(let device, let end, _):
      facts.legEnds[device.inASCII] = end
      if end == .declinedHere { facts.declinedHere.insert(facts.who(device.text)) }
    case .connected(let caller):
      if caller { facts.connected.caller = true } else { facts.connected.winner = true }
    case .callerLost(let until):
      facts.lostUntil.caller = until
      facts.mayBeLost = true
    case .winnerLost(let until):
      facts.lostUntil.winner = until
      facts.mayBeLost = true
    case .ended(let end):
      try require(facts.ended == nil, .oneRecord, call, "ended twice in the journal")
      try require(
        facts.pendingTransfer == nil, .nobodyRingsOn, call, "it ended, and a transfer goes on")
      if let objection = objection(to: end, facts, call) {
        let rule: HistoryRule =
          if case .contradiction = objection { .oneStory } else { .endsHaveCauses }
        try require(false, rule, call, "\(end.reason.name), but \(objection.text)")
      }
      try mayBeBusy(end, facts, call)
      try endsByRules(end, facts, call)
      try endsByStages(end, facts, call)
      try mayEndAsAsked(end, facts, call)
      let why = unreachableThoughAttached(end, facts, record)
      try require(why == nil, .unreachableAttached, call, why ?? "")
      try missedRightly(end, facts, call)
      let left = refusedThoughOneRings(end, facts)
      try require(left == nil, .endsHaveCauses, call, "\(end.reason.name), but \(left ?? "")")
      facts.ended = end
      facts.endedAt = now
      if end.survivor != nil { gaveWay.append(call) }
    }
  }

  /// It rings for as long as its caller's device chose.
  private mutating func ringsAsChosen(
    _ placed: PlacedFacts, _ facts: Facts, _ call: CallID
  ) throws(HistoryViolation) {
    guard !facts.ringsChosen.isEmpty, !facts.ringsChosen.contains(0) else { return }
    judged[.chosenTimeHolds, default: 0] += 1
    let rings = placed.deadline - placed.placedAt
    try require(
      facts.ringsChosen.contains { rings == .seconds(Int64($0)) }, .chosenTimeHolds, call,
      "it rings for \(rings.microseconds / 1_000_000) s, and its caller chose otherwise")
  }

  /// Whether a device that has attached since the call was placed may have said nothing of it in its time to come back.
  private func mayBeSilent(_ who: Who, _ facts: Facts, until end: Timestamp) -> Bool {
    guard let placedAt = facts.placedAt else { return false }
    let isOpen = !(unansweredAttaches[who]?.isEmpty ?? true)
    return attachTimes[who, default: []].contains {
      (isOpen || $0 >= placedAt) && $0 + resumeGrace <= end + bounds.skew
    }
  }

  private func objection(to end: EndedFacts, _ facts: Facts, _ call: CallID) -> EndObjection? {
    if let isExplained = serversCause(end, facts, call) {
      return isExplained ? nil : .noCause("the app's server did not cause that")
    }
    // A session may break, or be presumed to have, without a record.
    var evidence = EndEvidence(
      caller: facts.holder(ofCaller: true), winner: facts.holder(ofCaller: false),
      acts: { facts.acts[$0] ?? [] },
      mayBeLost: { facts.mayBeLost || mayBeSilent($0, facts, until: end.at) })
    evidence.knowsEveryAnswer = true
    evidence.crossed = gaveWayRightly(end, facts, call)
    evidence.isBeforeTimeout = facts.placed.map { end.at + bounds.skew < $0.deadline } ?? false
    evidence.mayHaveFailed =
      facts.mayBeLost || !facts.isConnected
    return evidence.objection(to: CallEnd(reason: end.reason, by: end.by.map(Who.init)))
  }
}
