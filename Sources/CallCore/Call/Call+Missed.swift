/// Who has missed a call: a user to whom it came, while nobody answered or declined there. The stops of devices, notices,
/// numbers in pushes and histories all say the same.
extension Call {
  /// Whether a user has declined on one device, and so has seen the call.
  func hasDeclined(_ user: String) -> Bool {
    legs.contains { $0.state.isDeclined && $0.party.user.hasBytes(of: user) }
  }

  /// Whether the call, if it ends now, is missed by a user whom it rings.
  func isMissed(endingAs reason: EndReason) -> Bool {
    reason.isMissedCall
      && (!legs.contains { $0.state.isDeclined }
        || guests.contains { rings($0.user) && !hasDeclined($0.user) })
  }

  /// Adapts a stop to one user: the call is not missed by a user who has declined it.
  func asTold(_ stop: Stop, to user: String) -> Stop {
    var told = stop
    if told.missed, hasDeclined(user) { told.missed = false }
    return told
  }

  /// The stop that tells a device of the end.
  /// - Parameter leg: one that has not answered.
  func stop(of end: EndedFacts, for leg: Int) -> Stop {
    asTold(end.stop(for: legs[leg].party.device), to: legs[leg].party.user)
  }

  /// How a transfer ended for a user whom it rang in vain; nil: it rings on, or another one took it while it rang there.
  func end(of transfer: Transfer, for user: String) -> (stop: Stop, at: Timestamp)? {
    var ended: (stop: Stop, at: Timestamp)?
    if let end = transfer.failure {
      ended = (Stop(reason: end.reason, by: end.by, missed: end.reason.isMissedCall), end.at)
    }
    // For whom the transfer was to, it comes to nothing with the whole.
    let left = transfer.diversions.dropFirst().first { $0.from.hasBytes(of: user) }
    if let left, ended == nil || !user.hasBytes(of: transfer.target) {
      let isLate = left.reason == .turn && ended?.stop.missed == true
      ended = (left.stop, left.at)
      if isLate { ended?.stop.missed = true }
    }
    return ended.map { (asTold($0.stop, to: user), $0.at) }
  }

  /// A transfer that a user has missed, while the call goes on and has no entry in a history yet.
  func missedTransfer(by user: String) -> PlacedCall? {
    guard case .answered = stage else { return nil }
    let missed = transfers.last {
      $0.rang(user) && end(of: $0, for: user)?.stop.missed == true
    }
    return missed.map { PlacedCall(id, placedAt: $0.start.at) }
  }
}
