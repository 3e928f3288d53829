import CallCore
import CallWire

/// The histories of the twin's users, made of its calls. Times are those that no device knows of.
extension FaultyTwin {
  func history(of user: String) -> HistoryPage {
    var items: [HistoryPage.Item] = []
    for call in calls.values.sorted(by: { $0.number > $1.number }) {
      guard let entry = entry(of: call, for: user) else { continue }
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
    guard user == answerer?.user else { return nil }
    entry.divertedBy = call.callee
    return entry
  }

  /// The same for each reading of a call.
  private func playsInHistory(_ fault: Fault, _ call: Call) -> Bool {
    guard self.fault == fault, call.number % 3 == 0 else { return false }
    faultsPlayed += 1
    return true
  }
}
