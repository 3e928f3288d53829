/// The entries that an ended call leaves in the histories of its users.
extension Call {
  typealias UsersEntry = (user: UserKey, entry: HistoryEntry)

  /// The call, if it is one that a user missed and the store may lack its entries.
  func missedUnstored(_ keeps: StoredParts, by user: UserKey) -> PlacedCall? {
    guard lacking(keeps).contains(.history),
      let missed = historyEntries.first(where: { $0.user == user && $0.entry.isMissed })
    else { return nil }
    return PlacedCall(id, placedAt: missed.entry.placedAt)
  }

  /// The entry of the callee, that of the caller, and those of users who answered in place of the callee, at whom it rang
  /// in vain, or to whom it was transferred. Of a call to oneself the caller has one, and not the callee. A user for
  /// whom the app's server placed the call has one as if the call had been transferred to it, and none if it never rang
  /// there. Empty while it goes on.
  var historyEntries: [UsersEntry] {
    guard case .ended(let ending) = stage else { return [] }
    let (end, answer) = (ending.facts, ending.answer)
    var placed = HistoryEntry(
      call: id, callee: facts.callee.user, isPlaced: true, peer: facts.callee.user,
      device: placer.device, deviceName: placer.deviceName, placedAt: facts.placedAt,
      answeredAt: answer?.at, endedAt: end.at, reason: end.reason, video: facts.video,
      answeredBy: answererInPlace(answer))
    placed.wentTo = diversions.targets
    let placerKey = key(of: placer.user)
    var entries: [UsersEntry] = facts.callerRings == nil ? [(placerKey, placed)] : []
    var received = placed
    (received.isPlaced, received.wentTo) = (false, [])
    (received.peer, received.peerName) = (placer.user, placer.name)
    (received.device, received.deviceName) = (answer?.by.device, answer?.by.deviceName ?? "")
    if let answer, !answer.by.user.hasBytes(of: facts.callee.user) {
      var inPlace = received
      inPlace.divertedBy = divertedBy(of: answer.by.user)
      inPlace.answeredBy = ""
      entries.append((key(of: answer.by.user), inPlace))
    }
    received.isMissed = end.missed
    entries += entriesInVain(
      received, end, answer, besides: entries.map(\.user.user) + [facts.callee.user])
    if placerKey != facts.callee {
      leave(&received, facts.callee.user)
      entries.insert((facts.callee, received), at: 0)
    }
    return transfers.isEmpty ? entries : withTransfers(entries, end)
  }

  private func key(of user: String) -> UserKey { UserKey(app: facts.callee.app, user: user) }

  /// Who answered in place of the callee; empty: nobody.
  private func answererInPlace(_ answer: AnsweredFacts?) -> String {
    guard let user = answer?.by.user, !user.hasBytes(of: facts.callee.user) else { return "" }
    return user
  }

  /// Those of users to whom the call went on, and who missed or declined it, or at whom it rang until another user
  /// answered: a device of theirs rang, or got a notice.
  private func entriesInVain(
    _ received: HistoryEntry, _ end: EndedFacts, _ answer: AnsweredFacts?, besides others: [String]
  ) -> [UsersEntry] {
    diversions.flatMap(\.to).compactMap { user in
      guard !others.contains(where: { $0.hasBytes(of: user) }), wasReached(user) else { return nil }
      var entry = received
      entry.divertedBy = divertedBy(of: user)
      if let answer { (entry.endedAt, entry.reason) = (answer.at, .answeredElsewhere) }
      (entry.answeredAt, entry.device, entry.deviceName) = (nil, nil, "")
      leave(&entry, user)
      let hasDeclined =
        diversion(from: user)?.reason == .declined
        || end.reason == .declined && end.by?.user.hasBytes(of: user) == true
      guard entry.isMissed || hasDeclined || answer != nil else { return nil }
      return (key(of: user), entry)
    }
  }

  /// Whether a device of a user to whom the call went on rang, or got a notice.
  private func wasReached(_ user: String) -> Bool {
    legs.contains { $0.party.user.hasBytes(of: user) }
      || noticedDevices.contains { $0.isOfGuest(user) }
  }

  /// For a user whom the call left it was over then, as the user's devices were told.
  private func leave(_ entry: inout HistoryEntry, _ user: String) {
    if hasDeclined(user) { entry.isMissed = false }
    guard let left = diversion(from: user) else { return }
    let stop = asTold(left.stop, to: user)
    (entry.reason, entry.endedAt) = (stop.reason, left.at)
    entry.isMissed = left.reason != .declined && (entry.isMissed || stop.missed)
    (entry.answeredAt, entry.device, entry.deviceName) = (nil, nil, "")
    (entry.wentOn, entry.wentTo) = (!left.to.isEmpty, [left].targets)
  }
}
