import CallCore
import CallWire

/// The histories of the twin's users, made of its calls. Times are those that no device knows of.
extension FaultyTwin {
  func history(of user: String) -> HistoryPage {
    var items: [HistoryPage.Item] = []
    for call in calls.values.sorted(by: { $0.number > $1.number }) {
      guard let entry = refine(entry(of: call, for: user), call, user) else { continue }
      let isReceived = !entry.isPlaced
      if isReceived, playsInHistory(.losesHistory, call) { continue }
      items.append(HistoryPage.Item(cursor: .start, entry: entry))
      if isReceived, playsInHistory(.doublesHistory, call) { items.append(items[items.count - 1]) }
    }
    return HistoryPage(items: items)
  }

  private func entry(of call: Call, for user: String) -> HistoryEntry? {
    guard case .ended(let reason, _) = call.stage, reason != .glare else { return nil }
    let answerer = call.answerer
    let isAnswered = answerer != nil
    let endedAt = call.deadline
    var entry = HistoryEntry(
      call: call.id, callee: call.callee, isPlaced: user == call.caller.user, peer: call.callee,
      device: call.caller.device, placedAt: call.placedAt,
      answeredAt: isAnswered ? call.placedAt : nil, endedAt: endedAt, reason: reason)
    if let answerer, answerer.user != user, answerer.user != call.callee {
      entry.answeredBy = answerer.user
    }
    if entry.isPlaced {
      if playsInHistory(.changesHistory, call) { entry.reason = .failed }
      return entry
    }
    entry.peer = call.caller.user
    entry.device = answerer?.device
    if user == call.callee {
      entry.wentOn = call.target != call.callee
      entry.isMissed = !isAnswered && isMissed(call, reason)
      return entry
    }
    entry.divertedBy = call.callee
    return user == answerer?.user || miss(&entry, call, user, reason) ? entry : nil
  }

  /// The call went on to the user, and was not answered there.
  /// - Returns: false where the user has nothing of it.
  private func miss(
    _ entry: inout HistoryEntry, _ call: Call, _ user: String, _ reason: EndReason
  ) -> Bool {
    let legs = call.legs.filter { $0.party.user == user }
    guard !legs.isEmpty else { return false }
    let hasDeclined = legs.contains { $0.left == .declined }
    (entry.device, entry.answeredAt) = (nil, nil)
    if call.answerer != nil {
      entry.reason = hasDeclined ? .declined : .answeredElsewhere
    } else {
      guard isMissed(call, reason), !hasDeclined else { return false }
      entry.isMissed = true
    }
    if legs.contains(where: { $0.left == .unanswered }) {
      (entry.wentOn, entry.reason) = (true, .unanswered)
    }
    return true
  }

  /// The same for each reading of a call.
  func playsInHistory(_ fault: Fault, _ call: Call) -> Bool {
    guard self.fault == fault, call.number % 3 == 0 else { return false }
    faultsPlayed += 1
    return true
  }
}
