internal import CallCore
internal import CallWire

/// One attempt to hand a side over, by the journal.
struct TransferFacts: Sendable {
  let start: DivertedFacts
  let ofCaller: Bool
  /// True times.
  let startedAt: Timestamp
  var endedAt: Timestamp?
  /// Further users, to whom it went on.
  var diversions: [DivertedFacts] = []
  var end: TransferEnd?
  /// The index of the move by which a device took the side.
  var move: Int?

  var isPending: Bool { end == nil && move == nil }

  var deadline: Timestamp { diversions.last?.deadline ?? start.deadline }

  func rang(_ user: String) -> Bool {
    ([start] + diversions).contains { $0.to.contains { $0.hasBytes(of: user) } }
  }
}

/// Rules for sides of answered calls that are handed over to other users (R26).
extension HistoryChecker.Facts {
  var pendingTransfer: TransferFacts? {
    transfers.last.flatMap { $0.isPending ? $0 : nil }
  }

  /// Whether a transfer rang a user's devices.
  func transferRang(_ user: String) -> Bool { transfers.contains { $0.rang(user) } }

  /// Whether a device that rang for a transfer learns the true reason for the end of that.
  func isEndOfTransfer(_ end: CallEnd<Who>, of who: Who) -> Bool {
    transfers.contains { transfer in
      guard transfer.rang(who.user) else { return false }
      if let truth = transfer.end, truth.reason == end.reason, truth.by.map(Who.init) == end.by {
        return true
      }
      if end.reason == .answeredElsewhere, let move = transfer.move {
        return Who(moves[move].to) == end.by
      }
      return transfer.diversions.contains {
        $0.from.hasBytes(of: who.user) && $0.stop.reason == end.reason
      }
    }
  }
}

extension HistoryChecker {
  /// A device that has a side of the answered call hands it over, to whom it has named.
  mutating func transferring(
    _ start: DivertedFacts, _ facts: inout Facts, _ call: CallID
  ) throws(HistoryViolation) {
    for user in start.to { concerns(call, user, &facts) }
    try require(
      facts.answered != nil && facts.ended == nil && facts.pendingTransfer == nil, .transfersAsked,
      call, "it is transferred while it cannot be")
    let by = start.by.map(Who.init)
    let side = [true, false].first { facts.holder(ofCaller: $0) == by }
    guard let side, let by else {
      return try require(false, .transfersAsked, call, "who transfers it has no side of it")
    }
    let asked = facts.transfersAsked.firstIndex {
      $0.who == by && start.to == [$0.request.to] && start.device == $0.request.device
        && start.consulted == $0.request.consulted
    }
    guard let asked else {
      return try require(
        false, .transfersAsked, call,
        "\(by) has it transferred to \(start.to), and did not ask so, or has had that")
    }
    facts.transfersAsked.remove(at: asked)
    let sides = [true, false].compactMap { facts.holder(ofCaller: $0)?.user }
    try require(
      !start.to.contains { user in sides.contains { $0.hasBytes(of: user) } }, .transfersAsked,
      call, "it is transferred to a user who is in it")
    facts.transfers.append(TransferFacts(start: start, ofCaller: side, startedAt: now))
    facts.deadlines.append(start.deadline)
  }

  /// The transfer goes on to further users.
  mutating func transferDiverted(
    _ diverted: DivertedFacts, _ facts: inout Facts, _ call: CallID
  ) throws(HistoryViolation) {
    for user in diverted.to { concerns(call, user, &facts) }
    try require(
      facts.pendingTransfer?.rang(diverted.from) == true, .divertedOnce, call,
      "a transfer leaves a user whom it does not ring")
    facts.transfers[facts.transfers.count - 1].diversions.append(diverted)
    facts.deadlines.append(diverted.deadline)
  }

  func transferEnded(
    _ end: TransferEnd, _ facts: inout Facts, _ call: CallID
  ) throws(HistoryViolation) {
    guard let transfer = facts.pendingTransfer else {
      return try require(false, .transfersAsked, call, "a transfer ends, and none is under way")
    }
    switch end.reason {
    case .declined:
      let acts = end.by.flatMap { facts.acts[Who($0)] } ?? []
      try require(
        !acts.isDisjoint(with: .decline), .endsHaveCauses, call,
        "a transfer was declined by nobody")
    case .unanswered:
      try require(
        end.at + bounds.skew >= transfer.deadline, .endsHaveCauses, call,
        "a transfer was not answered, and had time")
    default: break
    }
    if let answer = facts.answered {
      facts.connectDeadline = max(
        facts.connectDeadline, end.at + (answer.connectDeadline - answer.at))
    }
    facts.transfers[facts.transfers.count - 1].end = end
    facts.transfers[facts.transfers.count - 1].endedAt = now
  }

  /// A device of a user whom the transfer rings takes the side that is handed over.
  func transferred(_ move: MovedFacts, _ facts: inout Facts, _ call: CallID)
    throws(HistoryViolation)
  {
    guard let transfer = facts.pendingTransfer, transfer.ofCaller == move.ofCaller,
      transfer.rang(move.to.user)
    else {
      return try require(
        false, .movesOnce, call, "\(Who(move.to)) takes a side that is not transferred to it")
    }
    facts.transfers[facts.transfers.count - 1].move = facts.moves.count
    facts.transfers[facts.transfers.count - 1].endedAt = now
  }

  /// A device rings for a transfer.
  func rungForTransfer(_ party: Party, _ facts: inout Facts, _ call: CallID)
    throws(HistoryViolation)
  {
    guard let transfer = facts.pendingTransfer else { return }
    try require(
      transfer.start.device.map { $0 == party.device } ?? true, .transfersAsked, call,
      "\(Who(party)) rings, and the transfer is to one other device")
    let key = facts.key(Who(party))
    facts.beginAnew(Who(party))
    facts.pushedBefore[key, default: []].formUnion(facts.pushed.removeValue(forKey: key) ?? [])
  }

  // MARK: Devices' messages

  func invitedToTransfer(_ who: Who, _ invite: Invite, _ by: Party, _ call: CallID)
    throws(HistoryViolation)
  {
    guard knowsJournal, let facts = calls[call] else { return }
    let isTrue = facts.transfers.contains {
      $0.rang(who.user) && facts.hadSide(Who(by), ofCaller: $0.ofCaller)
        && facts.hadSide(Who(invite.caller), ofCaller: !$0.ofCaller)
    }
    try require(
      isTrue, .appendThenSpeak, call,
      "\(who) hears that \(Who(by)) transfers \(Who(invite.caller)); no record says so")
  }

  /// A device learns that the transfer for which it rang is over, or that it has handed the call over.
  /// - Returns: whether that is so.
  mutating func toldTransferEnd(
    _ who: Who, _ end: CallEnd<Who>, _ call: CallID, _ facts: Facts, version: UInt64?
  ) throws(HistoryViolation) -> Bool {
    if end.reason == .transferred {
      try toldMovedAway(who, end, call, version: version)
      return true
    }
    guard facts.isEndOfTransfer(end, of: who) else { return false }
    calls[call, default: Facts()].told[who, default: Told()].end = end
    if let version { calls[call]?.told[who]?.endVersion = version }
    return true
  }

  mutating func toldOfTransfer(_ who: Who, _ news: TransferNews, _ call: CallID)
    throws(HistoryViolation)
  {
    let transfers = calls[call, default: Facts()].transfers
    let index = Int(news.number) - 1
    let isTrue =
      transfers.indices.contains(index)
      && transfers[index].start.to.contains { $0.hasBytes(of: news.to) }
      && (news.reason == nil || transfers[index].end?.reason == news.reason)
    try require(
      isTrue || !knowsJournal, .appendThenSpeak, call,
      "\(who) is told of a transfer what no record says")
    if news.reason != nil {
      calls[call, default: Facts()].told[who, default: Told()].transfers.insert(index)
    }
  }

  /// The side that transferred the call does not know that it was not taken, though it is attached and all was well.
  mutating func notToldOfTransfer(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard let transfer = facts.transfers.last, let end = transfer.end, end.reason != .cancelled,
      let endedAt = transfer.endedAt, let who = facts.holder(ofCaller: transfer.ofCaller),
      !facts.moveTimes.contains(where: { transfer.startedAt < $0 })
    else { return nil }
    let due = endedAt + bounds.ring
    guard due < facts.endedAt ?? now, due < now, facts.told[who]?.forgot != true else { return nil }
    if facts.told[who]?.transfers.contains(facts.transfers.count - 1) ?? false {
      judged[.transfersTold, default: 0] += 1
      return nil
    }
    let present: [Link] = links(of: who).compactMap { links[$0] }
    for link in present where unansweredAttaches[who]?.isEmpty ?? true {
      guard let since = link.attachedAt, since + bounds.takeover < endedAt,
        isQuiet(link, facts.shard, from: endedAt - bounds.takeover, until: due)
      else { continue }
      return HistoryViolation(
        .transfersTold, "\(who) does not hear that nobody took it", call: call)
    }
    return nil
  }

  /// An attached device of the user to whom a side is handed over that does not ring, though nothing was wrong.
  ///
  /// The user's shard is asked for the devices when the transfer begins. A device that was asked in another call takes the
  /// side without ringing, and a transfer that goes on rings others.
  mutating func notRungForTransfer(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard let transfer = facts.transfers.last, !transfer.start.from.isEmpty,
      transfer.start.consulted == nil, transfer.diversions.isEmpty,
      let user = transfer.start.to.first
    else { return nil }
    let since = transfer.startedAt
    let due = since + bounds.ring + .seconds(1)
    guard due < transfer.endedAt ?? now, due < now else { return nil }
    for link in witnesses(of: user, since, facts)
    where transfer.start.device.map({ $0.text == link.who.device }) ?? true
      && isQuiet(link, user, facts, from: since - bounds.takeover, until: due)
    {
      if let invitedAt = facts.told[link.who]?.invitedAt, since <= invitedAt {
        judged[.attachedRing, default: 0] += 1
      } else {
        return HistoryViolation(
          .attachedRing, "\(link.who) is attached at \(link.edge), and hears nothing of a transfer",
          call: call)
      }
    }
    return nil
  }
}

extension HistoryChecker.Facts {
  /// A device begins another part in the call: it rings for a transfer, or its own call gave way. Its earlier part is over.
  mutating func beginAnew(_ who: Who) {
    if let end = told[who]?.end { endsBefore[who, default: []].append(end) }
    if let own = legEnds[key(who)] {
      let end = CallEnd(reason: own == .busy ? .busy : .declined, by: who)
      endsBefore[who, default: []].append(end)
    }
    // The stop of that one may still be on its way.
    if rungFirst.contains(who), told[who]?.end == nil, let winner = journalWinner {
      endsBefore[who, default: []].append(CallEnd(reason: .answeredElsewhere, by: winner))
    }
    told[who]?.end = nil
    told[who]?.endVersion = nil
    if let left = left(who.user)?.stop {
      let end = CallEnd(reason: left.reason, by: left.by.map(Who.init))
      endsBefore[who, default: []].append(end)
    }
    legEnds[key(who)] = nil
    declinedHere.remove(who)
  }
}
