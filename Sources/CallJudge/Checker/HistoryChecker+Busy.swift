internal import CallCore

/// Rules for second calls, where a user in an answered call is busy.
extension HistoryChecker {
  /// A call rings only where its callee is not known to be in another one. Of calls to it its shard knows at once; of
  /// those that it placed it learns from the edge that has notified the caller's device.
  mutating func mayRing(
    _ placed: PlacedFacts, _ call: CallID, _ shard: Int
  ) throws(HistoryViolation) {
    guard busyWhileInCall, !placed.legs.isEmpty else { return }
    for (other, facts) in liveCalls(of: placed.callee.user) where other != call {
      guard let theirs = facts.placed, facts.answered != nil, facts.transfers.isEmpty else {
        continue
      }
      let isTo =
        theirs.callee.user.hasBytes(of: placed.callee.user)
        && facts.answered?.by.user.hasBytes(of: placed.callee.user) ?? false
      let isFrom =
        theirs.caller.user.hasBytes(of: placed.callee.user) && isKnown(facts, to: shard)
      try require(!isTo && !isFrom, .busyInCall, call, "the callee is in call \(other)")
    }
  }

  /// Whether the caller's device got the answer a while ago, on a connection that it still has, and nothing was
  /// wrong between its edge and its user's shard.
  private func isKnown(_ facts: Facts, to shard: Int) -> Bool {
    guard let toldAt = facts.callerToldAt, toldAt + bounds.merge < now, facts.moves.isEmpty,
      let caller = facts.journalCaller
    else { return false }
    return links(of: caller).contains { number in
      guard let link = links[number], let since = link.attachedAt, since <= toldAt else {
        return false
      }
      return isQuiet(link, shard, from: toldAt - bounds.takeover, until: now)
    }
  }

  /// A call that rang nowhere ended as busy: its callee is in a call, or was a moment ago.
  mutating func mayBeBusy(_ end: EndedFacts, _ facts: Facts, _ call: CallID)
    throws(HistoryViolation)
  {
    guard end.reason == .busy, end.by == nil, let placed = facts.placed, placed.legs.isEmpty,
      !isFull(facts), facts.diversions.isEmpty,
      !hadRules(placed.callee.user, { $0.doNotDisturb != nil })
    else { return }
    judged[.busyInCall, default: 0] += 1
    let since = now - resumeGrace - .seconds(10)
    guard calendar.isCalm(from: since, until: now) else { return }
    try require(
      busyWhileInCall && mayBeInCall(placed.callee.user, besides: call, since: since), .busyInCall,
      call, "its callee is busy, and in no call")
  }

  /// Whether a user is in another answered call, or was since a time.
  func mayBeInCall(_ user: String, besides call: CallID, since: Timestamp) -> Bool {
    calls(of: user).contains { id, other in
      guard id != call, other.answered != nil, let theirs = other.placed,
        other.answered?.by.user.hasBytes(of: user) ?? false
          || theirs.callee.user.hasBytes(of: user) || theirs.caller.user.hasBytes(of: user)
          || other.transferRang(user)
      else { return false }
      return other.endedAt.map { since < $0 } ?? true
    }
  }
}

/// Calls that end because their devices refused.
extension HistoryChecker {
  /// Why a call must not end as busy, or as declined by a device for itself; nil: it may.
  ///
  /// Such a call ends once no device is left that may answer. A device that was invited, is attached as before and did not
  /// refuse is left, unless something was wrong on its way: then its session may be lost.
  func refusedThoughOneRings(_ end: EndedFacts, _ facts: Facts) -> String? {
    guard end.reason == .busy || end.reason == .declined, facts.answered == nil,
      facts.diversions.isEmpty, !isFull(facts)
    else { return nil }
    if let by = end.by, facts.acts[Who(by), default: []].contains(.declineEverywhere) { return nil }
    let ringing = witnesses(facts).first { link in
      facts.told[link.who]?.invited ?? false && facts.legEnds[facts.key(link.who)] == nil
        && facts.acts[link.who, default: []].isDisjoint(with: .refusal)
        && isQuiet(link, facts.shard, from: now - bounds.takeover, until: now)
    }
    return ringing.map { "\($0.who) rings at \($0.edge)" }
  }
}
