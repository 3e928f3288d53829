internal import CallCore
internal import CallWire

/// Rules for calls that the app's server places between two users (R28), and for what it is answered.
extension HistoryChecker {
  mutating func server(_ event: AppServerEvent) throws(HistoryViolation) {
    switch event {
    case .asked(.place(let body)):
      guard let call = body.call else { return }
      serverPlaces[call] = body
      calls[call, default: Facts()].placeSentAt = now
      calls[call]?.leftItsDevices = true
    case .asked(.end(let address)): serverEnds[address.call] = now
    case .asked, .gaveUp: break
    case .hook(let call, let reply): hookSaid(reply, of: call)
    case .answered(.rules(let asked, let user), .rules(let told), _):
      try toldRules(told, asked: asked, of: user)
    case .answered(.name(let asked, let user), .name(let told), _):
      try toldName(told, asked: asked, of: user)
    case .answered(let errand, .call(let call), _): try toldServer(errand, call)
    case .answered(.live(let before), .calls(let list), let since):
      try toldLive(list, before: before, since: since)
    case .answered(.calls(let user), .calls(let list), let since):
      try toldLive(list, of: user, since: since)
    case .answered(.history(let before, let user), .history(let page), let since):
      let query = HistoryCommand.list(before: before, limit: UInt32(AppErrand.pageSize))
      try toldHistory(page, query, of: user, since: since)
    case .answered(.markRead(let cursor, let user), .history(let page), let since):
      try toldHistory(page, .markRead(upTo: cursor), of: user, since: since)
    case .answered(let errand, .error(let error), let since):
      try require(
        isExplained(error, errand, since: since), .noStrangeError, errand.call,
        "the app's server hears \(error)")
    case .answered(let errand, _, _):
      try require(false, .noStrangeError, errand.call, "the app's server hears of something else")
    }
  }

  private mutating func toldServer(
    _ errand: AppErrand, _ told: AppCall
  ) throws(HistoryViolation) {
    let call = told.state.call
    guard call == errand.call, let facts = calls[call], let placed = facts.placed else {
      return try require(
        !knowsJournal, .appendThenSpeak, errand.call, "the app's server hears of no record")
    }
    if case .place = errand { accepted(call) }
    try require(
      facts.hadSide(Who(told.caller), ofCaller: true) || Who(told.caller) == Who(placed.caller),
      .oneStory, call, "the app's server hears of another caller")
    if case .end = errand {
      try require(
        told.state.phase == .ended, .oneStory, call, "it was ended by the app's server, and goes on"
      )
    }
    guard told.state.phase == .ended else { return }
    try require(
      facts.ended.map { $0.reason == told.state.reason && $0.byApp == told.endedByApp } ?? false,
      .oneStory, call, "the app's server hears of another end")
  }

  private func isExplained(
    _ error: CallError, _ errand: AppErrand, since: Timestamp
  ) -> Bool {
    switch (errand, error.code) {
    case (.place, .tooManyCalls), (.place, .tooManyLiveCalls): true
    // It was asked before the call was placed, or that was refused.
    case (.end(let address), .unknownCall):
      calls[address.call]?.placedAt.map { serverEnds[address.call] ?? now <= $0 } ?? true
    case (.look(let address), .unknownCall):
      calls[address.call]?.placedAt.map { since <= $0 } ?? true
    default: false
    }
  }

  // MARK: The journal

  /// A call whose caller's side is vacant is one between the users that the app's server named.
  func mayBePlaced(_ placed: PlacedFacts, _ call: CallID) throws(HistoryViolation) {
    let asked = serverPlaces[call]
    try require(
      (asked != nil) == (placed.callerRings != nil), .placedAsAsked, call,
      "it is placed for the app's server, or by a device, and was not asked for so")
    guard let asked else { return }
    try require(
      asked.from.hasBytes(of: placed.callee.user) && asked.to.hasBytes(of: placed.caller.user)
        && placed.caller.device.text.isEmpty && placed.caller.name == asked.callerName
        && placed.onlyDevice == asked.device,
      .placedAsAsked, call,
      "it is from \(Who(placed.caller)) to \(placed.callee.user); the server said otherwise")
    for party in placed.legs { try mayRing(party, placed, call) }
  }

  /// If the app's server chose a device of the first user, no other one of that user rings.
  func mayRing(_ party: Party, _ placed: PlacedFacts, _ call: CallID) throws(HistoryViolation) {
    guard let only = placed.onlyDevice, party.user.hasBytes(of: placed.callee.user),
      calls[call]?.transfers.isEmpty ?? true
    else { return }
    try require(
      party.device == only, .placedAsAsked, call,
      "\(Who(party)) rings, and the server said \(only.text)")
  }

  /// Somebody has answered: the devices of the second user ring, once.
  mutating func callsSecond(
    _ start: DivertedFacts, _ facts: inout Facts, _ call: CallID
  ) throws(HistoryViolation) {
    for user in start.to { concerns(call, user, &facts) }
    let second = facts.placed?.caller
    try require(
      facts.transfers.isEmpty && facts.answered != nil && facts.ended == nil
        && start.to == [second?.user] && start.by == second && start.device == nil,
      .placedAsAsked, call, "\(start.to) are rung for its vacant side")
    facts.transfers.append(TransferFacts(start: start, ofCaller: true, startedAt: now))
    facts.deadlines.append(start.deadline)
  }

  /// How the app's server, or a vacant side, explains an end; nil: neither does.
  func serversCause(_ end: EndedFacts, _ facts: Facts, _ call: CallID) -> Bool? {
    if end.byApp {
      let reason: EndReason = facts.answered == nil ? .cancelled : .hungUp
      return serverEnds[call] != nil && end.by == nil && end.reason == reason
    }
    guard facts.isVacant, end.reason == .hungUp, let failed = facts.transfers.last?.end,
      failed.reason != .cancelled
    else { return nil }
    return end.by == (failed.by ?? facts.placed?.caller)
  }

  // MARK: Devices

  /// The invite of a device that rings for the vacant side: it shows who waits.
  func invitedToSecondSide(
    _ who: Who, _ invite: Invite, _ call: CallID, _ facts: Facts
  ) throws(HistoryViolation) {
    guard knowsJournal else { return }
    let transfer = facts.transfers.first { $0.rang(who.user) }
    try require(
      facts.isForServer && transfer != nil && facts.hadSide(Who(invite.caller), ofCaller: false),
      .appendThenSpeak, call,
      "\(who) hears that \(Who(invite.caller)) waits; no record says so")
    let from = transfer?.diversions.source(of: who.user) ?? ""
    try require(
      invite.divertedBy.hasBytes(of: from), .oneStory, call,
      "\(who) hears that \(invite.divertedBy) sent the call there")
  }

  /// An attached device of the second user that is not rung, though somebody waits and nothing is wrong.
  mutating func secondNotRung(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard facts.isForServer, let transfer = facts.transfers.first, transfer.start.from.isEmpty,
      let user = transfer.start.to.first, transfer.diversions.isEmpty
    else { return nil }
    let since = transfer.startedAt
    let due = since + bounds.ring + .seconds(1)
    guard due < transfer.endedAt ?? now, due < now else { return nil }
    for link in witnesses(of: user, since, facts)
    where isQuiet(link, user, facts, from: since - bounds.takeover, until: due) {
      if facts.told[link.who]?.invited ?? false {
        judged[.secondRings, default: 0] += 1
      } else {
        return HistoryViolation(
          .secondRings, "\(link.who) is attached at \(link.edge), and hears nothing of the call",
          call: call)
      }
    }
    return nil
  }
}

extension HistoryChecker.Facts {
  /// Whether the app's server placed it.
  var isForServer: Bool { placed?.callerRings != nil }

  /// Whether the caller's side is vacant.
  var isVacant: Bool { isForServer && holder(ofCaller: true)?.device.isEmpty ?? false }

  /// The point on which the entry of the second user and the journal disagree. A user who was not rung has no entry.
  func differenceOfSecond(_ entry: HistoryEntry) -> String? {
    guard let transfer = transfers.first, transfer.start.from.isEmpty,
      let user = transfer.start.to.first
    else { return nil }
    // A later transfer rang the user once more, perhaps for somebody else.
    if transfers.dropFirst().contains(where: { $0.rang(user) }) { return nil }
    if entry.isPlaced || !entry.peer.hasBytes(of: answered?.by.user ?? "") { return "party" }
    let taken = transfer.move.map { moves[$0] }
    // Somebody answered in the user's place: the call goes on without the user.
    if let taken, !taken.to.user.hasBytes(of: user) { return nil }
    // It may have come back to the user since.
    if taken == nil, moves.contains(where: { $0.to.user.hasBytes(of: user) }) { return nil }
    if entry.answeredAt?.milliseconds != taken?.at.milliseconds { return "answer" }
    let isMissed = transfer.end.map { $0.reason.isMissedCall } ?? false
    let hasLeft = transfer.diversions.contains { $0.from.hasBytes(of: user) }
    return hasLeft || entry.isMissed == (isMissed && !hasDeclined(user))
      ? nil : "word on whether it is missed"
  }
}
