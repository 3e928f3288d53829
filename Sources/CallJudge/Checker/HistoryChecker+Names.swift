internal import CallCore

/// Display names that the app's server sets, for users whose tokens have none.
extension HistoryChecker {
  struct StoredName: Sendable {
    var name: String
    /// When it was confirmed to somebody; nil: it was not.
    var toldAt: Timestamp?
  }

  mutating func noteName(_ name: String, of user: String) {
    let known = names[userKey(user)] ?? [StoredName(name: "")]
    if name != known.last?.name { names[userKey(user)] = known + [StoredName(name: name)] }
  }

  mutating func toldName(
    _ told: String, asked: String, of user: String
  ) throws(HistoryViolation) {
    try require(
      told.hasBytes(of: asked), .namesShown, nil, "the app's server hears of the name \(told)")
    guard sight.contains(.rules) else { return }
    let known = names[userKey(user), default: [StoredName(name: "")]]
    try require(
      known.contains { $0.name.hasBytes(of: told) }, .namesShown, nil,
      "the app's server hears that \(Who(user, "")) is \(told); the store does not have it")
    guard let last = known.last, last.name.hasBytes(of: told), last.toldAt == nil,
      let index = names[userKey(user)]?.indices.last
    else { return }
    names[userKey(user)]?[index].toldAt = now
  }

  /// Sessions learn a name soon after it is stored, or when they begin. They keep it, but for what a former owner of
  /// their shard may say late.
  mutating func learnNames() {
    for (number, link) in links where !names.isEmpty {
      let key = userKey(link.who.user)
      guard let attachedAt = link.attachedAt, let known = names[key],
        let toldAt = known.last?.toldAt, link.named?.names != known.count
      else { continue }
      let since = max(attachedAt, toldAt)
      let due = since + bounds.ring
      let shard = ShardHash.shard(of: key, count: shardCount)
      guard due < now, isQuiet(link, shard, from: since - bounds.takeover, until: due) else {
        continue
      }
      links[number]?.named = (known.count, due, owners[shard]?.epoch ?? 0)
    }
  }

  /// A call has the name that its caller's token gives, or else the one that the store has.
  mutating func isNamed(
    _ placed: PlacedFacts, _ facts: Facts, _ call: CallID
  ) throws(HistoryViolation) {
    guard placed.callerRings == nil, !isNamedByHook(placed.caller.name, facts) else { return }
    let (name, who) = (placed.caller.name, Who(placed.caller))
    if let ofToken = app.nameInToken(who.user) {
      return try require(
        name.hasBytes(of: ofToken), .oneStory, call, "\(who) is named \"\(name)\"")
    }
    guard sight.contains(.rules), !hasHook || sight.contains(.hook) else { return }
    let known = names[userKey(who.user)] ?? []
    try require(
      name.isEmpty || known.contains { $0.name.hasBytes(of: name) }, .namesShown, call,
      "\(who) is named \"\(name)\", as nobody said")
    let shard = ShardHash.shard(of: userKey(who.user), count: shardCount)
    guard let last = known.last, let asked = facts.placeSentAt,
      unansweredAttaches[who]?.isEmpty ?? true,
      links(of: who).contains(where: { number in
        guard let link = links[number], link.attachedAt != nil, let named = link.named else {
          return false
        }
        return named.names == known.count && named.since <= asked
          && named.epoch == owners[shard]?.epoch
      })
    else { return }
    judged[.namesShown, default: 0] += 1
    try require(
      name.hasBytes(of: last.name), .namesShown, call,
      "\(who) is named \"\(name)\"; the store has \"\(last.name)\"")
  }
}

/// Second calls: an invite says that its user is in a call.
extension HistoryChecker {
  /// A call is placed. Of answered calls to the same user its shard knows at once.
  mutating func isSecondCall(_ placed: PlacedFacts, _ call: CallID) throws(HistoryViolation) {
    let user = placed.callee.user
    let other = liveCalls(of: user).first { id, facts in
      id != call && facts.answered != nil && facts.placed?.callee == placed.callee
        && facts.holder(ofCaller: false)?.user.hasBytes(of: user) ?? false
    }
    if let other = other?.id {
      judged[.secondCallTold, default: 0] += 1
      try require(
        placed.isCalleeInCall, .secondCallTold, call,
        "its callee is in call \(other), and it does not say so")
    } else if placed.isCalleeInCall {
      try mayBeSecondCall(user, call)
    }
  }

  /// A device learns whether its user was in a call.
  func toldSecondCall(
    _ who: Who, _ isSecond: Bool, _ facts: Facts, _ call: CallID
  ) throws(HistoryViolation) {
    guard knowsJournal, let placed = facts.placed else { return }
    if who.user.hasBytes(of: placed.callee.user) {
      try require(
        isSecond == placed.isCalleeInCall, .secondCallTold, call,
        "\(who) hears that its user is\(isSecond ? "" : " not") in a call")
    } else if isSecond {
      try mayBeSecondCall(who.user, call)
    }
  }

  private func mayBeSecondCall(_ user: String, _ call: CallID) throws(HistoryViolation) {
    let since = now - resumeGrace - .seconds(10)
    guard calendar.isCalm(from: since, until: now) else { return }
    try require(
      mayBeInCall(user, besides: call, since: since), .secondCallTold, call,
      "it says that \(Who(user, "")) is in a call, and that is in none")
  }
}
