internal import CallCore

/// Rules for users whose devices see the calls that the user is in (R21).
extension HistoryChecker {
  /// The state that a device is sent is true by the journal, and never older than the state that it has.
  mutating func toldOngoing(
    _ who: Who, _ ongoing: OngoingCalls, on link: Int
  ) throws(HistoryViolation) {
    if let before = links[link]?.ongoing {
      try require(
        ongoing.version > before.version || ongoing == before, .ongoingSeen, nil,
        "\(who) sees its calls as of version \(ongoing.version), after \(before.version)")
    }
    links[link]?.ongoing = ongoing
    for entry in ongoing.calls where knowsJournal && forgotten[entry.call] == nil {
      let facts = calls[entry.call, default: Facts()]
      // Who is at the other side then is not followed here.
      guard facts.transfers.isEmpty else { continue }
      try require(
        facts.ongoing(entry.isPlaced, of: who.user, entry.device) == entry.inMilliseconds,
        .ongoingSeen, entry.call,
        "\(who) sees a call that the journal does not have like that")
      let user = entry.isPlaced ? facts.placed?.caller.user : facts.answered?.by.user
      try require(
        user?.hasBytes(of: who.user) ?? false, .ongoingSeen, entry.call,
        "\(who) sees another user's call")
    }
  }

  /// An app that shows a call that has been over for a while, or that lacks one that goes on, though nothing was wrong on
  /// the way to its device.
  mutating func wrongOngoing() -> HistoryViolation? {
    guard sight.contains(.apps) else { return nil }
    for number in links.keys.sorted() {
      guard let link = links[number], link.ongoing != nil, let since = link.attachedAt,
        since <= now - bounds.ring, unansweredAttaches[link.who]?.isEmpty ?? true
      else { continue }
      let shard = ShardHash.shard(of: userKey(link.who.user), count: shardCount)
      guard isQuiet(link, shard, from: now - bounds.takeover, until: now) else { continue }
      if let violation = overThere(link, shard) ?? lacking(link, shard) { return violation }
    }
    return nil
  }

  private func overThere(_ link: Link, _ shard: Int) -> HistoryViolation? {
    for entry in shown[link.who] ?? [] {
      guard let facts = calls[entry.call], facts.transfers.isEmpty, let endedAt = facts.endedAt,
        endedAt + bounds.ring < now
      else { continue }
      // The user's shard learns from the caller's edge, or by waiting for the caller in vain, that a placed call is over.
      let waited = bounds.takeover + bounds.takeover + resumeGrace
      guard !entry.isPlaced || endedAt + waited < now || learned(of: facts, endedAt, shard) else {
        continue
      }
      // As does that of a user to whom it went on, from the call's shard.
      guard
        facts.placed?.callee.user.hasBytes(of: link.who.user) ?? false || entry.isPlaced
          || isQuiet(link, facts.shard, from: endedAt - bounds.takeover, until: now)
      else { continue }
      return HistoryViolation(
        .ongoingSeen, "\(link.who) still shows it, on \(entry.device)", call: entry.call)
    }
    return nil
  }

  private mutating func lacking(_ link: Link, _ shard: Int) -> HistoryViolation? {
    for (id, facts) in liveCalls(of: link.who.user) {
      guard facts.transfers.isEmpty, let answeredAt = facts.answeredAt, let placed = facts.placed
      else { continue }
      let isTo =
        answeredAt + bounds.ring < now
        && facts.answered?.by.user.hasBytes(of: link.who.user) ?? false
        && (placed.callee.user.hasBytes(of: link.who.user)
          || isQuiet(link, facts.shard, from: now - bounds.takeover, until: now))
      let isFrom =
        placed.caller.user.hasBytes(of: link.who.user)
        && facts.callerToldAt.map { $0 + bounds.ring < now && learned(of: facts, $0, shard) }
          ?? false
      for (isDue, isPlaced) in [(isTo, false), (isFrom, true)] where isDue {
        judged[.ongoingSeen, default: 0] += 1
        let isShown = (shown[link.who] ?? []).contains {
          $0.call == id && $0.isPlaced == isPlaced
            && (isPlaced || isSteady(facts)
              || $0.device.text == facts.holder(ofCaller: false)?.device)
        }
        if !isShown {
          return HistoryViolation(
            .ongoingSeen, "\(link.who) does not show it, and the user is in it", call: id)
        }
      }
    }
    return nil
  }

  /// The call did not move, or did a moment ago.
  private func isSteady(_ facts: Facts) -> Bool {
    facts.moveTimes.last.map { now <= $0 + bounds.ring } ?? true
  }

  /// Whether the caller's device has been on its connection since before, and nothing was wrong between its edge and
  /// the two shards. The connection of an app that was started anew does not know the call: its caller stays lost.
  private func learned(of facts: Facts, _ time: Timestamp, _ shard: Int) -> Bool {
    guard let caller = facts.journalCaller, facts.lostUntil.caller == nil,
      !facts.moves.contains(where: \.ofCaller)
    else { return false }
    return links(of: caller).contains { number in
      guard let link = links[number], let since = link.attachedAt, since <= time else {
        return false
      }
      return [shard, facts.shard].allSatisfy {
        isQuiet(link, $0, from: time - bounds.takeover, until: now)
      }
    }
  }
}

extension HistoryChecker.Facts {
  /// A side of the answered call as devices are to see it, but for the device's name; nil: it was never answered.
  fileprivate func ongoing(
    _ isPlaced: Bool, of user: String, _ device: DeviceID
  ) -> OngoingCall? {
    guard let placed, let answered, hadSide(Who(user, device.text), ofCaller: isPlaced) else {
      return nil
    }
    return OngoingCall(
      call: CallID(high: 0, low: 0), callee: placed.callee.user, isPlaced: isPlaced,
      device: device,
      peer: isPlaced ? answered.by.user : placed.caller.user,
      peerName: isPlaced ? "" : placed.caller.name,
      since: Timestamp(microseconds: answered.at.milliseconds * 1000))
  }
}

extension OngoingCall {
  /// Without its call and its device's name, which may be of the registration; and as devices' messages have it.
  fileprivate var inMilliseconds: OngoingCall {
    var copy = self
    copy.call = CallID(high: 0, low: 0)
    copy.deviceName = ""
    copy.since = Timestamp(microseconds: since.milliseconds * 1000)
    return copy
  }
}
