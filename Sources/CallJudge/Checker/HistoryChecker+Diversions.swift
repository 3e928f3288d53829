internal import CallCore

/// Rules for calls that go on to other users (R25).
extension HistoryChecker.Facts {
  /// The journal's name of a device, in ASCII: texts that are equal for Unicode are different names.
  func key(_ who: Who) -> String {
    (placed?.key(who.user, DeviceID(who.device)) ?? DeviceID(who.device)).inASCII
  }

  /// The device that the journal means by a name.
  func who(_ key: String) -> Who {
    let parts = key.split(separator: "\u{1f}")
    return parts.count == 2
      ? Who(String(parts[0]), String(parts[1])) : Who(placed?.callee.user ?? "", key)
  }

  /// How the call left a user; nil: it did not.
  func left(_ user: String) -> DivertedFacts? {
    diversions.first { $0.from.hasBytes(of: user) }
  }

  /// How the call came to the group as whose member a user has its turn.
  func queue(of user: String) -> DivertedFacts? { diversions.queue(of: user) }

  /// Whether the call came to a user as to a member of a group.
  func isMember(_ user: String) -> Bool {
    queue(of: user) != nil
      || diversions.contains { $0.reason == .group && $0.to.contains { $0.hasBytes(of: user) } }
  }

  /// Whether a user declined on one device, and so has seen the call.
  func hasDeclined(_ user: String) -> Bool {
    declinedHere.contains { $0.user.hasBytes(of: user) }
  }

  func wentOn(to user: String) -> Bool {
    diversions.contains { $0.to.contains { $0.hasBytes(of: user) } }
  }

  /// Whether it rang at a user who was not called, as the called one's rules, a group or a transfer had it.
  func isGuest(_ user: String) -> Bool { wentOn(to: user) || transferRang(user) }

  /// The users to whom it went on and whom it did not leave, and since when.
  fileprivate var others: [(user: String, since: Timestamp)] {
    zip(diversions, diversionTimes).flatMap { diverted, time in diverted.to.map { ($0, time) } }
      .filter { left($0.user) == nil }
  }
}

extension DeviceID {
  var inASCII: String { KeyText.encode(text) }
}

extension PushEvidence {
  /// The call left the device's user while it rang.
  mutating func leave(_ diverted: DivertedFacts, by who: Who) {
    let isMissed = diverted.reason != .declined
    (isOver, userKnows) = (true, !isMissed)
    endedItsPart = endedItsPart || diverted.by.map(Who.init) == who
  }
}

extension [DivertedFacts] {
  /// How the call came to a user.
  private func way(to user: String) -> DivertedFacts? {
    first { $0.to.contains { $0.hasBytes(of: user) } }
  }

  /// How the call came to the group as whose member a user has its turn. A member may ring for another reason.
  fileprivate func queue(of user: String) -> DivertedFacts? {
    guard let way = way(to: user), way.queue.isEmpty else { return way(to: user) }
    guard way.reason == .ringSlotOver || way.reason == .declined else { return nil }
    return first { $0.queue.contains { $0.hasBytes(of: user) } }
  }

  /// The user from whom the call came to this one; for members of a group, the group.
  func source(of user: String) -> String { (queue(of: user) ?? way(to: user))?.from ?? "" }
}

extension HistoryChecker {
  /// A call goes on only while it rings, from a user whom it rings, to users whom it did not ring.
  mutating func diverted(_ diverted: DivertedFacts, _ facts: inout Facts, _ call: CallID)
    throws(HistoryViolation)
  {
    for user in diverted.to { concerns(call, user, &facts) }
    try require(
      facts.answered == nil && facts.ended == nil, .divertedOnce, call,
      "it goes on to others after it stopped ringing")
    let known = [facts.placed?.callee.user ?? ""] + facts.diversions.flatMap(\.to)
    try require(
      known.contains { $0.hasBytes(of: diverted.from) } && facts.left(diverted.from) == nil,
      .divertedOnce, call, "it leaves a user whom it does not ring")
    let isNew = diverted.to.allSatisfy { user in
      !known.contains { $0.hasBytes(of: user) }
        && !(facts.placed?.caller.user.hasBytes(of: user) ?? false)
    }
    try require(isNew, .divertedOnce, call, "it comes to a user for the second time")
    try require(
      isTurn(diverted, known, facts), .turnsInOrder, call,
      "\(diverted.to) are rung, and it is another member's turn")
    try require(
      !isRingFixed(facts) || diverted.deadline == facts.placed?.deadline, .chosenTimeHolds, call,
      "it goes on, and rings longer than its caller chose")
    facts.diversions.append(diverted)
    facts.diversionTimes.append(now)
    facts.placed?.deadline = diverted.deadline
    facts.deadlines.append(diverted.deadline)
  }

  /// Whether a call, as it was placed, rings as long as its caller chose, for all users together.
  func isRingFixed(_ facts: Facts) -> Bool {
    guard forwardedRing == .caller, let placed = facts.placed else { return false }
    return (facts.deadlines.first ?? placed.deadline) - placed.placedAt != ringTimeout
  }

  /// Whether a call rings the first one of a queue whom it did not ring yet, if it is in a queue.
  private func isTurn(_ diverted: DivertedFacts, _ known: [String], _ facts: Facts) -> Bool {
    let queue =
      diverted.queue.isEmpty ? facts.queue(of: diverted.from)?.queue ?? [] : diverted.queue
    guard !queue.isEmpty, !diverted.to.isEmpty else { return true }
    let next = queue.first { user in !known.contains { $0.hasBytes(of: user) } }
    return diverted.to.count == 1 && next?.hasBytes(of: diverted.to[0]) ?? false
  }

  /// An invite to another user's call names who sent it there.
  func invitedElsewhere(_ who: Who, _ invite: Invite, _ call: CallID) throws(HistoryViolation) {
    guard knowsJournal, let facts = calls[call] else { return }
    let from = facts.source(of: who.user)
    try require(
      invite.divertedBy.hasBytes(of: from), .oneStory, call,
      "\(who) hears that \(invite.divertedBy) sent the call there, in place of \(from)")
  }

  /// A device learns that the call has left its user, and the call rings on.
  /// - Returns: whether that is true.
  func toldLeft(_ who: Who, _ end: CallEnd<Who>, _ call: CallID, _ facts: Facts)
    throws(HistoryViolation) -> Bool
  {
    guard let stop = facts.left(who.user)?.stop, end.reason == stop.reason else { return false }
    return end.by == stop.by.map(Who.init) || end.by == who
  }

  /// An attached device of a user to whom the call went on that got no invite, though there was no fault.
  mutating func notRungElsewhere(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    for (user, since) in facts.others {
      let due = since + bounds.ring + .seconds(1)
      guard due < facts.overAt ?? now, due < now else { continue }
      for link in witnesses(of: user, since, facts)
      where isQuiet(link, user, facts, from: since - bounds.takeover, until: due) {
        if facts.told[link.who]?.invited ?? false {
          judged[.divertedRing, default: 0] += 1
        } else {
          return HistoryViolation(
            .divertedRing, "\(link.who) is attached at \(link.edge), and hears nothing of the call",
            call: call)
        }
      }
    }
    return nil
  }

  /// Why a call that went on must not end as unreachable; nil where it may.
  func unreachableThoughOthersAttached(_ facts: Facts) -> String? {
    for (user, since) in facts.others {
      for link in witnesses(of: user, since, facts)
      where isQuiet(link, user, facts, from: now - bounds.takeover - bounds.ring, until: now) {
        return "\(link.who), to whom it went on, is attached at \(link.edge)"
      }
    }
    return nil
  }

  /// A call ends because no user is left: no device of a user to whom it went on waits for the user's first ones.
  mutating func endsByStages(
    _ end: EndedFacts, _ facts: Facts, _ call: CallID
  ) throws(HistoryViolation) {
    guard [.declined, .busy, .unreachable].contains(end.reason), facts.answered == nil,
      facts.transfers.isEmpty
    else { return }
    // Else a person has declined for all devices.
    if let by = end.by.map(Who.init), facts.legEnds[facts.key(by)] == nil { return }
    for (user, since) in facts.others {
      guard let rules = rules(of: user, since: since), !rules.firstDevices.isEmpty else { continue }
      for link in witnesses(of: user, since, facts, by: rules)
      where isQuiet(link, user, facts, from: since - bounds.takeover, until: now) {
        judged[.firstRingFirst, default: 0] += 1
        try require(
          facts.told[link.who]?.invited ?? false, .firstRingFirst, call,
          "\(end.reason.name), and \(link.who) waits for the first devices")
      }
    }
  }

  /// A user's devices that were attached before the call came to the user, and that it has to ring.
  /// - Parameter rules: those that the user has had since then; nil: any that there have been.
  func witnesses(
    of user: String, _ since: Timestamp, _ facts: Facts, by rules: UserRules? = nil
  ) -> [Link] {
    let rings =
      rules.map { $0.doNotDisturb == nil && $0.always == nil }
      ?? !hadRules(user) {
        $0.doNotDisturb != nil || $0.always != nil || !$0.firstDevices.isEmpty
      }
    // Whether the user's shard takes the user for busy is judged by no rule.
    guard !busyWhileInCall, !isBusy(user, facts), !(facts.isMember(user) && hasCall(user, facts)),
      rings
    else { return [] }
    return links(ofUser: user).filter { link in
      guard let attachedAt = link.attachedAt, attachedAt + bounds.ring <= since,
        !app.onlyPlaces(link.who),
        facts.legEnds[facts.key(link.who)] == nil
      else { return false }
      return unansweredAttaches[link.who]?.isEmpty ?? true
    }
  }

  /// Whether other calls may leave no device free.
  private func isBusy(_ user: String, _ facts: Facts) -> Bool {
    let own = liveCalls(of: user).count {
      $0.facts.placed?.callee.user.hasBytes(of: user) ?? false
    }
    return own >= liveCallsPerDevice
  }

  /// Whether a member of a group may be in another call, for all that its shard knows.
  private func hasCall(_ user: String, _ facts: Facts) -> Bool {
    calls(of: user).contains { _, other in
      guard let placed = other.placed, placed.fingerprint != facts.placed?.fingerprint,
        other.endedAt.map({ now < $0 + resumeGrace + bounds.takeover }) ?? true
      else { return false }
      return placed.caller.user.hasBytes(of: user) || placed.callee.user.hasBytes(of: user)
        || other.wentOn(to: user)
    }
  }

  /// Whether neither the way between the device and the call's shard nor that shard's way to the user's had a fault.
  func isQuiet(
    _ link: Link, _ user: String, _ facts: Facts, from start: Timestamp, until end: Timestamp
  ) -> Bool {
    let shard = ShardHash.shard(of: userKey(user), count: shardCount)
    return isQuiet(link, facts.shard, from: start, until: end)
      && isQuiet(link, shard, from: start, until: end)
  }
}

/// The time of a group's members who ring one after the other.
extension HistoryChecker {
  /// A member's turn is over: it had its time, if a device of it rang and could be reached.
  ///
  /// The shard ends a turn before its time only where no device of the member is left that may answer. Both times are by
  /// owners' clocks.
  mutating func turnEnded(
    _ diverted: DivertedFacts, _ facts: Facts, _ call: CallID
  ) throws(HistoryViolation) {
    let user = diverted.from
    guard diverted.reason == .ringSlotOver, let slot = facts.queue(of: user)?.ringSlot,
      let (began, since) = facts.turn(of: user)
    else { return }
    let rang = witnesses(of: user, since, facts).contains { link in
      facts.told[link.who]?.invited ?? false
        && facts.acts[link.who, default: []].isDisjoint(with: .refusal)
        && isQuiet(link, user, facts, from: since - bounds.takeover, until: now)
    }
    guard rang else { return }
    judged[.turnsInOrder, default: 0] += 1
    try require(
      diverted.at + bounds.skew >= began + slot, .turnsInOrder, call,
      "the turn of \(user) is over before its time")
  }

  /// A member's turn is over, and the next one's does not begin, though nothing was wrong.
  func turnOverdue(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard facts.answered == nil, facts.ended == nil, let placed = facts.placed,
      let user = facts.diversions.last?.to.first, facts.left(user) == nil,
      let queue = facts.queue(of: user), let (began, _) = facts.turn(of: user)
    else { return nil }
    let known = [placed.callee.user, placed.caller.user] + facts.diversions.flatMap(\.to)
    let due = began + queue.ringSlot + bounds.skew
    let late = due + bounds.timerLateness
    guard late < now, late < placed.deadline,
      queue.queue.contains(where: { next in !known.contains { $0.hasBytes(of: next) } }),
      calendar.isCalm(from: due - bounds.calmBefore, until: late)
    else { return nil }
    return HistoryViolation(
      .turnsInOrder, "the turn of \(user) is over, and the next one's does not begin", call: call)
  }
}

extension HistoryChecker.Facts {
  /// When the call came to a member of a group: by its owner's clock, and the true time.
  fileprivate func turn(of user: String) -> (Timestamp, Timestamp)? {
    zip(diversions, diversionTimes).first { diverted, _ in
      diverted.to.contains { $0.hasBytes(of: user) }
    }.map { ($0.at, $1) }
  }
}
