/// The entries that a call that was transferred, or was to be, leaves in the histories of its users.
extension Call {
  /// Each user to whom the call was transferred, or was to be, has an entry from then on; and so have those whom the
  /// transfer reached in between, and who missed or declined it. For a user who handed the call over it is over then. A
  /// user has one entry, whoever has the call in between.
  func withTransfers(_ entries: [UsersEntry], _ end: EndedFacts) -> [UsersEntry] {
    var entries = entries
    for transfer in transfers {
      guard case .moved(let index) = transfer.outcome else { continue }
      take(moves[index], transfer, end, &entries)
    }
    for transfer in transfers {
      for user in transfer.diversions.flatMap(\.to) { miss(transfer, user, end, &entries) }
    }
    for index in entries.indices {
      let user = entries[index].user.user
      let last = moves.last {
        $0.isTransfer && ($0.from.user.hasBytes(of: user) || $0.to.user.hasBytes(of: user))
      }
      guard let last, !last.fillsVacancy, last.from.user.hasBytes(of: user) else { continue }
      (entries[index].entry.endedAt, entries[index].entry.reason) = (last.at, .transferred)
    }
    return entries
  }

  /// A user has the call now. One who had missed it before has not any more.
  private func take(
    _ move: MovedFacts, _ transfer: Transfer, _ end: EndedFacts, _ entries: inout [UsersEntry]
  ) {
    var entry = entry(of: transfer, for: move.to.user, end)
    (entry.device, entry.deviceName) = (move.to.device, move.to.deviceName)
    entry.answeredAt = move.at
    guard let known = index(of: move.to.user, entries) else {
      return entries.append((UserKey(app: facts.callee.app, user: move.to.user), entry))
    }
    if entries[known].entry.answeredAt == nil { entries[known].entry = entry }
  }

  /// The transfer rang a user in vain.
  private func miss(
    _ transfer: Transfer, _ user: String, _ end: EndedFacts, _ entries: inout [UsersEntry]
  ) {
    guard index(of: user, entries) == nil, let ended = self.end(of: transfer, for: user) else {
      return
    }
    let isTarget = transfer.failure != nil && user.hasBytes(of: transfer.target)
    let wasReached = legs.contains { $0.party.user.hasBytes(of: user) }
    let hasDeclined =
      ended.stop.reason == .declined && ended.stop.by?.user.hasBytes(of: user) == true
    let concerns = ended.stop.missed || hasDeclined
    guard isTarget || wasReached && concerns else { return }
    var entry = entry(of: transfer, for: user, end)
    (entry.endedAt, entry.reason, entry.isMissed) = (ended.at, ended.stop.reason, ended.stop.missed)
    entries.append((UserKey(app: facts.callee.app, user: user), entry))
  }

  private func entry(of transfer: Transfer, for user: String, _ end: EndedFacts) -> HistoryEntry {
    HistoryEntry(
      call: id, callee: facts.callee.user, isPlaced: false, peer: transfer.stays.user,
      peerName: transfer.stays.name, placedAt: transfer.start.at, endedAt: end.at,
      reason: end.reason, video: facts.video,
      divertedBy: transfer.start.from.isEmpty
        ? transfer.diversions.sender(to: user) : transfer.start.from)
  }

  private func index(of user: String, _ entries: [UsersEntry]) -> Int? {
    entries.firstIndex { $0.user.user.hasBytes(of: user) }
  }
}
