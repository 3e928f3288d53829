package import CallCore

/// Rules of users (R27): what is decided about calls to a user holds once it was confirmed to somebody. Judged are
/// calls that came to the user after that, as long as nothing else is decided.
extension HistoryChecker {
  // MARK: Calls

  /// A call is placed: a user whose rules send it on, or keep it away, is not rung, and the first devices ring first.
  mutating func ringsByRules(_ facts: inout Facts, _ call: CallID) throws(HistoryViolation) {
    guard let placed = facts.placed, let rules = rulesOfCallee(facts) else { return }
    if let always = rules.always, !fresh(always, facts).isEmpty {
      return try require(
        placed.legs.isEmpty, .rulesFollowed, call, "it rings, and its callee has all calls sent on")
    }
    if rules.silences(placed.caller.user) {
      judged[.silenceKept, default: 0] += 1
      return try require(
        placed.legs.isEmpty, .silenceKept, call, "it rings, and its callee is not to be disturbed")
    }
    // Where all calls are sent on to users who are in this one, all devices ring.
    guard rules.always == nil else { return }
    let first = placed.legs.filter { rules.firstDevices.contains($0.device) }
    guard !first.isEmpty else { return }
    judged[.firstRingFirst, default: 0] += 1
    try require(
      first.count == placed.legs.count, .firstRingFirst, call, "others ring with the first devices")
    // Else all that were there are first ones, and who comes later rings at once.
    facts.othersWait = witnesses(facts).contains {
      !rules.firstDevices.contains(DeviceID($0.who.device))
        && isQuiet($0, facts.shard, from: now - bounds.takeover, until: now)
    }
  }

  /// A device rings later: its user's rules are not against it.
  mutating func joinsByRules(
    _ party: Party, _ facts: Facts, _ record: JournalRecord, _ call: CallID
  ) throws(HistoryViolation) {
    guard let placed = facts.placed else { return }
    if facts.pendingTransfer == nil, party.user.hasBytes(of: placed.callee.user) {
      guard facts.othersWait, let rules = rulesOfCallee(facts),
        !rules.firstDevices.contains(party.device),
        placed.legs.contains(where: { facts.legEnds[facts.key(Who($0))] == nil })
      else { return }
      let until = placed.placedAt + .seconds(Int64(rules.firstSeconds))
      return try require(
        record.at + bounds.skew >= until, .firstRingFirst, call,
        "\(Who(party)) rings, and it is the first devices' time")
    }
    guard let cameAt = facts.cameAt(party.user), facts.pendingTransfer?.start.consulted == nil,
      let rules = rules(of: party.user, since: cameAt)
    else { return }
    try require(
      !rules.silences(facts.ringer), .silenceKept, call,
      "\(Who(party)) rings, and its user is not to be disturbed")
    guard let always = rules.always, !facts.isMember(party.user), facts.hops < Self.hopsMost,
      facts.pendingTransfer == nil
    else { return }
    try require(
      fresh(always, facts).isEmpty, .rulesFollowed, call,
      "\(Who(party)) rings, and its user has all calls sent on")
  }

  /// A call goes on: as the rules of the user say whom it leaves.
  mutating func divertedByRules(
    _ diverted: DivertedFacts, _ facts: Facts, _ call: CallID
  ) throws(HistoryViolation) {
    guard let placed = facts.placed, let cameAt = facts.cameAt(diverted.from),
      let rules = rules(of: diverted.from, since: cameAt)
    else { return }
    let forward: UserRules.Forward?
    switch diverted.reason {
    case .always: forward = rules.always
    case .busy: forward = rules.onBusy
    case .noAnswer: forward = rules.onNoAnswer
    case .unreachable: forward = rules.onUnreachable
    case .doNotDisturb: forward = rules.silences(facts.ringer) ? rules.onBusy : nil
    case .hook, .declined, .group, .ringSlotOver, .transferred: return
    }
    let expected = forward.map { fresh($0, facts) } ?? []
    try require(
      diverted.to == expected, .rulesFollowed, call,
      "it goes from \(diverted.from) to \(diverted.to); the rules say \(expected)")
    judged[.rulesFollowed, default: 0] += 1
    guard diverted.reason == .noAnswer, facts.pendingTransfer == nil else { return }
    let came = facts.route.first { $0.to.contains { $0.hasBytes(of: diverted.from) } }?.at
    let start = came ?? placed.placedAt
    var due = start + .seconds(Int64(rules.noAnswerSeconds))
    if isRingFixed(facts) {
      let ring = placed.deadline - start
      due = min(due, placed.deadline - min(.seconds(10), Span(microseconds: ring.microseconds / 2)))
    }
    try require(
      min(due, placed.deadline) <= diverted.at + bounds.skew, .rulesFollowed, call,
      "it goes on before there was time to answer")
  }

  /// A call went on at most so often.
  func goesOnAgain(_ facts: Facts, _ call: CallID) throws(HistoryViolation) {
    try require(
      facts.hops <= Self.hopsMost, .rulesFollowed, call, "it goes on for the \(facts.hops). time")
  }

  private static let hopsMost = CallLimits().diversionsPerCall

  /// A call ends where its callee's rules would have sent it on.
  func endsByRules(_ end: EndedFacts, _ facts: Facts, _ call: CallID) throws(HistoryViolation) {
    guard facts.answered == nil, facts.diversions.isEmpty, end.reason != .glare,
      let placed = facts.placed, let rules = rulesOfCallee(facts)
    else { return }
    let forward: UserRules.Forward?
    if let always = rules.always, !fresh(always, facts).isEmpty {
      forward = always
    } else if rules.silences(placed.caller.user) {
      try require(
        end.reason == .busy, .silenceKept, call,
        "\(end.reason.name), and its callee is not to be disturbed")
      forward = rules.onBusy
    } else {
      switch end.reason {
      case .unanswered: forward = rules.onNoAnswer
      case .unreachable: forward = rules.onUnreachable
      case .busy: forward = rules.onBusy
      default: return
      }
    }
    // Its whole time passed while no owner could decide, so it did not go on.
    if isRingFixed(facts), end.at + bounds.skew >= placed.deadline,
      !calendar.isCalm(from: placed.placedAt - bounds.calmBefore, until: now)
    {
      return
    }
    try require(
      forward.map { fresh($0, facts) }?.isEmpty ?? true, .rulesFollowed, call,
      "it ends as \(end.reason.name), and its callee's rules send it on")
  }

  /// The callee's rules. The app's hook, which overrules them, is not asked about the calls that the app's server places.
  /// A call that is for a device only does not go on.
  private func rulesOfCallee(_ facts: Facts) -> UserRules? {
    guard let placed = facts.placed, !hasHook || facts.isForServer,
      var rules = rules(of: placed.callee.user, since: placed.placedAt - bounds.skew)
    else { return nil }
    guard placed.onlyDevice != nil else { return rules }
    (rules.always, rules.onBusy, rules.onNoAnswer, rules.onUnreachable) = (nil, nil, nil, nil)
    rules.firstDevices = []
    return rules
  }

  /// Those to whom a call may go on: no user for a second time.
  private func fresh(_ forward: UserRules.Forward, _ facts: Facts) -> [String] {
    forward.users.filter { user in !facts.taken.contains { $0.hasBytes(of: user) } }
  }
}

extension UserRules {
  /// Whether calls to a user do not ring. No simulated user gives a time until when.
  package func silences(_ caller: String) -> Bool {
    doNotDisturb.map { !$0.except.contains { $0.hasBytes(of: caller) } } ?? false
  }
}

extension HistoryChecker.Facts {
  /// How the call went from user to user in the ringing that goes on.
  fileprivate var route: [DivertedFacts] {
    pendingTransfer.map { [$0.start] + $0.diversions } ?? diversions
  }

  /// When it came to a user in that ringing; nil: it did not.
  fileprivate func cameAt(_ user: String) -> Timestamp? {
    if let pendingTransfer { return pendingTransfer.rang(user) ? pendingTransfer.startedAt : nil }
    let index = diversions.firstIndex { $0.to.contains { $0.hasBytes(of: user) } }
    if let index { return diversionTimes[index] }
    guard let placed, placed.callee.user.hasBytes(of: user) else { return nil }
    return placedAt.map { min($0, placed.placedAt) }
  }

  /// The users to whom it cannot go on.
  fileprivate var taken: [String] {
    let rung = route.flatMap(\.to)
    guard pendingTransfer == nil else {
      return rung + [true, false].compactMap { holder(ofCaller: $0)?.user }
    }
    return rung + [placed?.callee.user, placed?.caller.user].compactMap(\.self)
  }

  /// On whose behalf it rings.
  fileprivate var ringer: String {
    guard let pendingTransfer else { return placed?.caller.user ?? "" }
    return holder(ofCaller: pendingTransfer.ofCaller && !isVacant)?.user ?? ""
  }

  /// How often it went on in its first ringing. The turns of a group's members are one time.
  fileprivate var hops: Int {
    diversions.count { !$0.to.isEmpty && queue(of: $0.from) == nil }
  }
}
