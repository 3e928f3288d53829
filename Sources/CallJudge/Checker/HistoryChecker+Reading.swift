internal import CallCore

/// Whether what somebody reads is what there is: lists of live calls, and histories.
extension HistoryChecker {
  // MARK: Live calls

  /// The app's server reads live calls: all that were there from its request on, and none that was over before.
  /// - Parameter user: only calls that the user placed, or that are to it; nil: a page of all calls of the app.
  mutating func toldLive(
    _ told: AppCalls, of user: String? = nil, before: AppCallPlace? = nil, since: Timestamp
  ) throws(HistoryViolation) {
    guard knowsJournal else { return }
    for (index, call) in told.calls.enumerated() {
      let id = call.state.call
      guard let facts = calls[id], let placed = facts.placed else {
        return try require(false, .appendThenSpeak, id, "it is listed, and no record says so")
      }
      try require(
        placed.callee.user.hasBytes(of: call.state.callee)
          && placed.placedAt.milliseconds == call.placedAt.milliseconds, .oneStory, id,
        "it is listed with another callee, or another time")
      try require(
        facts.endedAt.map { since <= $0 } ?? true, .listsWhole, id,
        "it is listed as a live one, and was over before somebody asked")
      let former = index == 0 ? before : told.calls[index - 1].place
      try require(
        former.map { $0 < call.place } ?? true, .listsWhole, id, "it stands in the wrong place")
    }
    let listed = Set(told.calls.map(\.state.call))
    for id in live where !listed.contains(id) {
      guard let facts = calls[id], let placed = facts.placed, facts.ended == nil,
        let placedAt = facts.placedAt, placedAt < since
      else { continue }
      let place = AppCallPlace(
        placedAtMs: placed.placedAt.milliseconds, call: id, callee: placed.callee.user)
      guard before.map({ $0 < place }) ?? true, told.next.map({ !($0 < place) }) ?? true,
        user.map({ facts.isOf($0) }) ?? true
      else { continue }
      try require(false, .listsWhole, id, "it is live, and is not listed")
    }
    judged[.listsWhole, default: 0] += 1
  }

  // MARK: Histories

  /// Somebody reads a history, or marks it as read: the answer is what the store had at some moment since.
  mutating func toldHistory(
    _ page: HistoryPage, _ command: HistoryCommand, of user: String, since: Timestamp
  ) throws(HistoryViolation) {
    guard sight.contains(.streams) else { return }
    let key = histories.keys.first { $0.user.hasBytes(of: user) }
    let messages = key.flatMap { histories[$0] } ?? []
    let known = key.map { historyTimes[$0, default: []].count { $0 < since } } ?? 0
    let logs = (known...messages.count).map { count in
      HistoryLog(Array(messages.prefix(count)), entriesMax: 1000)
    }
    let isTrue: Bool
    switch command {
    case .list(let before, let limit):
      let limit = limit == 0 ? HistoryCommand.limitStandard : limit
      isTrue = logs.contains { $0.page(before: before, limit: limit) == page }
    case .markRead(let cursor):
      let least = max(logs[0].readUpTo, logs[0].mark(upTo: cursor) ?? .start)
      isTrue =
        least <= page.readUpTo && page.items.isEmpty
        && logs.contains { $0.readUpTo == page.readUpTo && $0.state == page.state }
    case .changed: isTrue = false
    }
    try require(
      isTrue, .historySeen, nil,
      "\(Who(user, "")) has another history than somebody is answered")
    judged[.historySeen, default: 0] += 1
  }
}

extension HistoryChecker.Facts {
  /// Whether the call is listed as one of a user: it is to the user, or the user placed it, and no other has that side.
  fileprivate func isOf(_ user: String) -> Bool {
    guard let placed else { return false }
    return placed.callee.user.hasBytes(of: user)
      || placed.caller.user.hasBytes(of: user) && moves.isEmpty
  }
}
