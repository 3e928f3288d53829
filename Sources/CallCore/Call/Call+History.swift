/// What an ended call leaves in the histories of its users.
extension Call {
  /// The call, if it is one that the callee missed and the store may lack its entries.
  func missedUnstored(_ keeps: StoredParts) -> PlacedCall? {
    guard lacking(keeps).contains(.history),
      historyEntries.contains(where: { $0.user == facts.callee && $0.entry.isMissed })
    else { return nil }
    return PlacedCall(id, placedAt: facts.placedAt)
  }

  /// The entry of the callee, that of the caller, and that of a user who answered in place of the callee. Of a call to
  /// oneself the caller has one, and not the callee. Empty while it goes on.
  var historyEntries: [(user: UserKey, entry: HistoryEntry)] {
    guard case .ended(let ending) = stage else { return [] }
    let (end, answer) = (ending.facts, ending.answer)
    let placed = HistoryEntry(
      call: id, callee: facts.callee.user, isPlaced: true, peer: facts.callee.user,
      device: placer.device, deviceName: placer.deviceName, placedAt: facts.placedAt,
      answeredAt: answer?.at, endedAt: end.at, reason: end.reason, video: facts.video)
    var entries = [(user: callerKey, entry: placed)]
    var received = placed
    received.isPlaced = false
    (received.peer, received.peerName) = (placer.user, placer.name)
    (received.device, received.deviceName) = (answer?.by.device, answer?.by.deviceName ?? "")
    if let answer, !answer.by.user.hasBytes(of: facts.callee.user) {
      var inPlace = received
      inPlace.divertedBy = divertedBy(of: answer.by.user)
      entries.append((UserKey(app: facts.callee.app, user: answer.by.user), inPlace))
    }
    if callerKey == facts.callee { return entries }
    received.isMissed = end.missed
    if let diverted = diversion(from: facts.callee.user) { received.leave(diverted) }
    entries.insert((facts.callee, received), at: 0)
    return entries
  }
}

extension HistoryEntry {
  /// For the user it was over then, as its devices were told.
  fileprivate mutating func leave(_ diverted: DivertedFacts) {
    let stop = diverted.stop
    (reason, endedAt) = (stop.reason, diverted.at)
    isMissed = diverted.reason != .declined && (isMissed || stop.missed)
    (answeredAt, device, deviceName) = (nil, nil, "")
    wentOn = !diverted.to.isEmpty
  }
}
