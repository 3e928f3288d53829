internal import CallCore
internal import CallWire

/// A side of a call.
enum HistorySide: Sendable {
  case placed
  case received
  /// That of a user who answered in place of the callee.
  case inPlace
  /// That of a user to whom the call went on, and who did not answer there.
  case inVain

  fileprivate init(_ entry: HistoryEntry) {
    self =
      if entry.isPlaced { .placed } else if entry.divertedBy.isEmpty { .received } else {
        entry.answeredAt == nil ? .inVain : .inPlace
      }
  }
}

/// Whether each ended call has an entry in the histories of its users, which agrees with the journal, and whether devices
/// see that.
extension HistoryChecker {
  /// A history got a message. Of a call and side the first entry counts, so a second one may be there.
  mutating func remembered(
    _ user: UserKey, _ number: UInt64, _ message: HistoryMessage
  ) throws(HistoryViolation) {
    histories[user, default: []].append((HistoryCursor(number), message))
    historyTimes[user, default: []].append(now)
    guard case .entry(let entry) = message else { return }
    let facts = calls[entry.call, default: Facts()]
    try require(
      facts.ended != nil, .historyOnBothSides, entry.call,
      "an entry of a call that did not end")
    calls[entry.call]?.usersWithHistory.append(user.user)
    if !facts.transfers.isEmpty {
      try require(
        facts.tookPart(user.user), .historyOnBothSides, entry.call,
        "an entry of a user who was not in it")
      guard let placed = facts.placed, placed.caller.user.hasBytes(of: user.user) else { return }
      let difference = facts.differenceOfSecond(entry)
      return try require(
        difference == nil, .historyOnBothSides, entry.call,
        "an entry of the second user has another \(difference ?? "")")
    }
    let difference = Self.difference(entry, of: user, facts)
    try require(
      difference == nil, .historyOnBothSides, entry.call, "an entry has another \(difference ?? "")"
    )
    calls[entry.call]?.rememberedBy.insert(HistorySide(entry))
    judged[.historyOnBothSides, default: 0] += 1
  }

  /// The point on which an entry and the journal disagree. Entries have times in milliseconds.
  private static func difference(
    _ entry: HistoryEntry, of user: UserKey, _ facts: Facts
  ) -> String? {
    guard let placed = facts.placed, let ended = facts.ended else { return "history" }
    let side = HistorySide(entry)
    let caller = UserKey(app: placed.callee.app, user: placed.caller.user)
    if side == .inVain {
      if !facts.wasInVain(user.user) { return "user" }
    } else if user != facts.user(side) {
      return "user"
    }
    if side == .received, caller == placed.callee { return "side" }
    let peer = side == .placed ? placed.callee.user : placed.caller.user
    if !entry.peer.hasBytes(of: peer) || !entry.callee.hasBytes(of: placed.callee.user) {
      return "party"
    }
    if entry.peerName != (side == .placed ? "" : placed.caller.name) { return "name" }
    let isOthers = side == .inPlace || side == .inVain
    if !entry.divertedBy.hasBytes(of: isOthers ? facts.source(of: user.user) : "") {
      return "user who sent it there"
    }
    let answerer = facts.answered?.by.user ?? ""
    // For a user whom it left it was over then, unless the user's own call gave way to it since.
    let left =
      (side == .received || side == .inVain) && !answerer.hasBytes(of: user.user)
      ? facts.left(user.user) : nil
    let isOthersAnswer = side != .inPlace && !answerer.hasBytes(of: placed.callee.user)
    if !entry.answeredBy.hasBytes(of: isOthersAnswer ? answerer : "") { return "user who answered" }
    if entry.wentOn != (left?.to.isEmpty == false) { return "word on whether it went on" }
    let ways = (side == .placed ? facts.diversions : left.map { [$0] } ?? []).filter {
      ![.group, .ringSlotOver, .declined].contains($0.reason)
    }
    let targets = Set(ways.flatMap(\.to).map { Array($0.utf8) })
    let named = Set(entry.wentTo.map { Array($0.utf8) })
    if named != targets || entry.wentTo.count != targets.count {
      return "list of users to whom it went on"
    }
    let answered = left == nil && side != .inVain ? facts.answered : nil
    let device = side == .placed ? placed.caller.device : answered?.by.device
    if entry.device != device { return "device" }
    if entry.placedAt.milliseconds != placed.placedAt.milliseconds { return "placing" }
    if entry.answeredAt?.milliseconds != answered?.at.milliseconds { return "answer" }
    var (endedAt, reason) = (left?.at ?? ended.at, left?.stop.reason ?? ended.reason)
    if side == .inVain, left == nil, let answered = facts.answered {
      (endedAt, reason) = (answered.at, .answeredElsewhere)
    }
    if entry.endedAt.milliseconds != endedAt.milliseconds || entry.reason != reason {
      return "end"
    }
    let hasDeclined = left?.reason == .declined
    let isMissed =
      (side == .received || side == .inVain) && !hasDeclined && !facts.hasDeclined(user.user)
      && (left?.stop.missed ?? false || ended.missed)
    if entry.isMissed != isMissed { return "word on whether it is missed" }
    return entry.video == placed.video ? nil : "kind"
  }

  /// The sides whose histories are to have an ended call. One that gave way leaves that to the one that went on.
  func sidesToRemember(_ facts: Facts) -> Set<HistorySide> {
    guard facts.transfers.isEmpty else { return [] }
    guard keepsHistory, let placed = facts.placed, let ended = facts.ended, ended.reason != .glare
    else { return [] }
    // The user for whom the app's server places a call has an entry once it rings there.
    var sides: Set<HistorySide> = facts.isForServer ? [] : [.placed]
    if !placed.caller.user.hasBytes(of: placed.callee.user) { sides.insert(.received) }
    if let answered = facts.answered, !answered.by.user.hasBytes(of: placed.callee.user) {
      sides.insert(.inPlace)
    }
    return sides
  }

  /// Further users whose histories are to have it: those to whom it went on in vain. Of a call that was transferred all who
  /// had a side, and those who missed it.
  func usersToRemember(_ facts: Facts) -> [String] {
    guard keepsHistory, let placed = facts.placed, let ended = facts.ended else { return [] }
    if facts.transfers.isEmpty {
      return ended.reason == .glare ? [] : facts.joined.filter(facts.wasInVain)
    }
    // The second user of a call that the app's server placed is one whom a transfer rings.
    let placers = facts.isForServer ? [] : [placed.caller.user]
    return placers + [placed.callee.user] + facts.moves.map(\.to.user)
      + facts.joined.filter(facts.wasInVain)
      + facts.transfers.filter { $0.end != nil }.flatMap(\.start.to)
  }

  func missingHistory(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    let users = usersToRemember(facts).filter { user in
      !facts.usersWithHistory.contains { $0.hasBytes(of: user) }
    }
    let missing = sidesToRemember(facts).subtracting(facts.rememberedBy)
    guard !missing.isEmpty || !users.isEmpty else { return nil }
    return HistoryViolation(
      .historyOnBothSides,
      "it ended and \(missing.count + users.count) of its entries are not there",
      call: call)
  }

  // MARK: What devices see

  /// An edge writes no older state behind a newer one.
  mutating func toldHistory(
    _ who: Who, _ state: HistoryState, on link: Int
  ) throws(HistoryViolation) {
    let known = links[link]?.history
    try require(
      known.map { $0.cursor < state.cursor } ?? true, .historySeen, nil,
      "\(who) is sent a state of its history that is no later one")
    let newest = history(of: who.user)?.newest ?? .start
    try require(
      state.cursor <= newest, .historySeen, nil,
      "\(who) is sent a state of its history that the store does not have")
    links[link]?.history = state
    judged[.historySeen, default: 0] += 1
  }

  private func history(of user: String) -> HistoryLog? {
    let key = histories.keys.first { $0.user.hasBytes(of: user) }
    return key.flatMap { histories[$0] }.map { HistoryLog($0, entriesMax: 1000) }
  }

  /// When everything has settled, each attached device has the newest state.
  func staleHistories() -> [HistoryViolation] {
    links.sorted { $0.key < $1.key }.compactMap { _, link in
      guard link.attachedAt != nil else { return nil }
      let wanted = history(of: link.who.user)?.state ?? HistoryState()
      guard link.history != wanted else { return nil }
      return HistoryViolation(.historySeen, "\(link.who) does not have the state of its history")
    }
  }
}

extension HistoryChecker.Facts {
  /// The user whose history has the call for this side.
  fileprivate func user(_ side: HistorySide) -> UserKey? {
    guard let placed else { return nil }
    switch side {
    case .placed: return UserKey(app: placed.callee.app, user: placed.caller.user)
    case .received: return placed.callee
    case .inPlace: return answered.map { UserKey(app: placed.callee.app, user: $0.by.user) }
    case .inVain: return nil
    }
  }

  /// Whether the call went on to a user who missed or declined it, or for whom another one answered.
  fileprivate func wasInVain(_ user: String) -> Bool {
    guard let ended, wentOn(to: user), !(answered?.by.user.hasBytes(of: user) ?? false) else {
      return false
    }
    let left = left(user)
    return answered != nil || hasDeclined(user) || left?.reason == .declined
      || ended.reason == .declined && ended.by?.user.hasBytes(of: user) == true
      || ended.missed || left?.stop.missed ?? false
  }

  fileprivate func tookPart(_ user: String) -> Bool {
    let users =
      [placed?.caller.user, placed?.callee.user, answered?.by.user].compactMap(\.self)
      + moves.map(\.to.user) + diversions.flatMap(\.to)
      + transfers.flatMap { [$0.start] + $0.diversions }.flatMap(\.to)
    return users.contains { $0.hasBytes(of: user) }
  }

  /// The user from whom the call came to this one; empty: it was placed to this one.
  func source(of user: String) -> String { diversions.source(of: user) }
}
