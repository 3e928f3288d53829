/// What an ended call leaves in the histories of its users.
extension Call {
  /// What is to be stored of an ended call and is not known to be.
  /// - Parameter keeps: what the cluster stores at all.
  func lacking(_ keeps: StoredParts) -> StoredParts {
    guard case .ended(let ending) = stage, !ending.isRecorded else { return [] }
    var wanted = keeps
    // A call that gave way leaves no entry: the one that went on does.
    if !facts.follows.contains(.history) || ending.facts.reason == .glare {
      wanted.remove(.history)
    }
    return wanted.subtracting(ending.stored)
  }

  /// The entry of each side, the callee's first; of a call to oneself the caller's alone. Empty while it goes on.
  var historyEntries: [(user: UserKey, entry: HistoryEntry)] {
    guard case .ended(let ending) = stage else { return [] }
    let (end, answer) = (ending.facts, ending.answer)
    var entry = HistoryEntry(
      call: id, callee: facts.callee.user, isPlaced: true, peer: facts.callee.user,
      device: placer.device, deviceName: placer.deviceName, placedAt: facts.placedAt,
      answeredAt: answer?.at, endedAt: end.at, reason: end.reason, video: facts.video)
    let ofCaller = (user: callerKey, entry: entry)
    if callerKey == facts.callee { return [ofCaller] }
    (entry.isPlaced, entry.isMissed) = (false, end.missed)
    (entry.peer, entry.peerName) = (placer.user, placer.name)
    (entry.device, entry.deviceName) = (answer?.by.device, answer?.by.deviceName ?? "")
    return [(facts.callee, entry), ofCaller]
  }
}
