internal import CallCore
internal import CallJudge
internal import CallWire

/// A side of a call.
enum HistorySide: Sendable {
  case placed
  case received
}

/// Whether each ended call has an entry in the histories of both users, which agrees with the journal, and whether devices
/// see that.
extension HistoryChecker {
  /// A history got a message. Of a call and side the first entry counts, so a second one may be there.
  mutating func remembered(
    _ user: UserKey, _ number: UInt64, _ message: HistoryMessage
  ) throws(HistoryViolation) {
    histories[user, default: []].append((HistoryCursor(number), message))
    guard case .entry(let entry) = message else { return }
    let facts = calls[entry.call, default: Facts()]
    try require(
      facts.ended != nil, .historyOnBothSides, entry.call,
      "an entry of a call that did not end")
    let difference = Self.difference(entry, of: user, facts)
    try require(
      difference == nil, .historyOnBothSides, entry.call, "an entry has another \(difference ?? "")"
    )
    calls[entry.call]?.rememberedBy.insert(entry.isPlaced ? .placed : .received)
    judged[.historyOnBothSides, default: 0] += 1
  }

  /// What an entry and the journal disagree on. Entries have times in milliseconds.
  private static func difference(
    _ entry: HistoryEntry, of user: UserKey, _ facts: Facts
  ) -> String? {
    guard let placed = facts.placed, let ended = facts.ended else { return "history" }
    let caller = UserKey(app: placed.callee.app, user: placed.caller.user)
    if user != (entry.isPlaced ? caller : placed.callee) { return "user" }
    if !entry.isPlaced, caller == placed.callee { return "side" }
    let peer = entry.isPlaced ? placed.callee.user : placed.caller.user
    if !entry.peer.hasBytes(of: peer) || !entry.callee.hasBytes(of: placed.callee.user) {
      return "party"
    }
    if entry.peerName != (entry.isPlaced ? "" : placed.caller.name) { return "name" }
    let device = entry.isPlaced ? placed.caller.device : facts.answered?.by.device
    if entry.device != device { return "device" }
    if entry.placedAt.milliseconds != placed.placedAt.milliseconds { return "placing" }
    if entry.answeredAt?.milliseconds != facts.answered?.at.milliseconds { return "answer" }
    if entry.endedAt.milliseconds != ended.at.milliseconds || entry.reason != ended.reason {
      return "end"
    }
    if entry.isMissed != (ended.missed && !entry.isPlaced) { return "word on whether it is missed" }
    return entry.video == placed.video ? nil : "kind"
  }

  /// The sides whose histories are to have an ended call. One that gave way leaves that to the one that went on.
  func sidesToRemember(_ facts: Facts) -> Set<HistorySide> {
    guard keepsHistory, let placed = facts.placed, let ended = facts.ended, ended.reason != .glare
    else { return [] }
    return placed.caller.user.hasBytes(of: placed.callee.user) ? [.placed] : [.placed, .received]
  }

  func missingHistory() -> [HistoryViolation] {
    calls.inOrder.compactMap { call, facts in
      let missing = sidesToRemember(facts).subtracting(facts.rememberedBy)
      guard !missing.isEmpty else { return nil }
      return HistoryViolation(
        .historyOnBothSides, "it ended and \(missing.count) of its entries are not there",
        call: call)
    }
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
