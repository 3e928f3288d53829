internal import CallCore

/// Rules for calls that cross (R8): of two users who call each other, one call goes on.
extension HistoryChecker {
  /// A device that placed one call was invited to the other one.
  struct CrossingPair: Sendable {
    var who: Who
    var placed: CallID
    var rung: CallID
    var since: Timestamp
  }

  // MARK: The journal

  /// Whether a call gave way to one that its callee had placed to its caller. That one may have given way as well, to
  /// another call of this caller: as each survivor has a lower id, one of all goes on.
  func gaveWayRightly(_ end: EndedFacts, _ facts: Facts, _ call: CallID) -> Bool {
    if let survivor = end.survivor, forgotten[survivor] != nil { return true }
    guard let survivor = end.survivor, let other = calls[survivor], let placed = facts.placed,
      let otherPlaced = other.placed, end.by.map(Who.init) == other.journalCaller
    else { return false }
    let isDue = Crossing.survives(
      survivor, caller: otherPlaced.caller.user, over: call, caller: placed.caller.user)
    return otherPlaced.callee.user.hasBytes(of: placed.caller.user)
      && otherPlaced.caller.user.hasBytes(of: placed.callee.user)
      && (isDue || other.answered != nil)
  }

  /// A device takes a call that it did not answer only after its own call gave way to that one.
  func mayMerge(_ answer: AnsweredFacts, _ call: CallID) throws(HistoryViolation) {
    guard let merged = answer.merged, forgotten[merged] == nil else { return }
    let other = calls[merged, default: Facts()]
    try require(
      other.ended?.survivor == call && other.journalCaller == Who(answer.by), .crossingsMerge, call,
      "\(Who(answer.by)) took it, but its own call did not give way")
  }

  /// Whether a call that this device had placed gave way to this one.
  func hasGivenWay(_ who: Who, to call: CallID) -> Bool {
    calls(of: who.user).contains {
      ($0.facts.ended?.survivor ?? $0.facts.survivor) == call
        && ($0.facts.journalCaller ?? $0.facts.caller) == who
    }
  }

  // MARK: Devices

  /// A device was invited to a call, or learned that its own one is placed: looks for pairs.
  mutating func noteCrossings(_ who: Who) {
    let all = liveCalls(of: who.user)
    for (placed, own) in all where own.caller == who && own.accepted {
      for (rung, other) in all where other.told[who]?.invited ?? false {
        guard let caller = other.placed?.caller.user, let callee = own.placed?.callee.user,
          caller.hasBytes(of: callee), other.placed?.callee.user.hasBytes(of: who.user) ?? false,
          !crossings.contains(where: { $0.placed == placed && $0.rung == rung }),
          // Where it rings here no longer, only the edge of its caller can notice the pair.
          !other.isForServer, other.left(who.user) == nil, other.legEnds[other.key(who)] == nil
        else { continue }
        crossings.append(CrossingPair(who: who, placed: placed, rung: rung, since: now))
      }
    }
  }

  /// A pair of which both still ring although nothing was wrong, or a call that gave way for one that still rings.
  mutating func unmergedCrossing() -> HistoryViolation? {
    for pair in crossings where pair.since + bounds.merge < now {
      guard let placed = calls[pair.placed], let rung = calls[pair.rung] else { continue }
      let (start, end) = (pair.since - bounds.calmBefore, pair.since + bounds.merge)
      guard calendar.isCalm(from: start, until: end) else { continue }
      judged[.crossingsMerge, default: 0] += 1
      let acts = rung.acts[pair.who, default: []].union(placed.acts[pair.who] ?? [])
      guard acts.isEmpty, rings(placed, at: end), rings(rung, at: end) else { continue }
      return HistoryViolation(
        .crossingsMerge, "\(pair.who) placed it while \(pair.rung) rang there, and both ring",
        call: pair.placed)
    }
    crossings.removeAll { $0.since + bounds.merge < now }
    for call in gaveWay {
      if let facts = calls[call], let violation = unconnected(call, facts) { return violation }
    }
    let judgedUntil = now - bounds.merge
    gaveWay.removeAll { (calls[$0]?.endedAt ?? judgedUntil) < judgedUntil }
    return nil
  }

  /// The survivor of a call that gave way still rings, although nothing was wrong.
  private func unconnected(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard let endedAt = facts.endedAt, let survivor = facts.ended?.survivor,
      let other = calls[survivor]
    else { return nil }
    let end = endedAt + bounds.merge
    guard end < now, rings(other, at: end),
      calendar.isCalm(from: endedAt - bounds.calmBefore, until: end)
    else { return nil }
    return HistoryViolation(
      .crossingsMerge, "it gave way to \(survivor), which nobody has", call: call)
  }

  private func rings(_ facts: Facts, at time: Timestamp) -> Bool {
    (facts.overAt ?? .distantFuture) > time
  }
}
