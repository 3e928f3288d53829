/// Some devices of a user ring first, by the user's rules (R27). When they had their time, or none of them is left, the others
/// ring, too.
extension Call {
  /// Whether the callee's first devices ring alone.
  @inline(never)
  var waitsForFirst: Bool {
    if case .ringing(let ringing) = stage { ringing.othersAt != .distantFuture } else { false }
  }

  /// Whether a device of the callee is to wait until the first ones have rung alone.
  func waitsForFirst(_ party: Party) -> Bool {
    waitsForFirst && party.user.hasBytes(of: facts.callee.user)
      && !forwarding.firstDevices.contains(party.device)
  }

  /// The first devices had their time, or none of them is left.
  mutating func wantOthers() {
    changeRinging { $0.othersAt = .distantFuture }
    wantsOthers = true
  }

  /// No first device of a user rings any more, and others wait for them: the user's shard is told to let these ring.
  /// - Parameter withLost: whether a first device counts as ringing that has lost its session.
  /// - Returns: whether the call waits for an answer now.
  mutating func askForOthers(withLost: Bool, _ turn: inout Turn) -> Bool {
    var isAsked = false
    for index in guests.indices {
      let guest = guests[index]
      guard guest.holdsDevices, !guest.wantsOthers, !guest.isAwaited, !guest.isBusy,
        rings(guest.user), transfer?.start.device == nil
      else { continue }
      let isRung = legs.contains {
        $0.state.isLive && (withLost || $0.isReachable) && $0.party.user.hasBytes(of: guest.user)
      }
      if isRung { continue }
      guests[index].awaitOthers(at: turn.now)
      isAsked = true
    }
    if isAsked {
      legsLostUntil = nil
      visitGuests(&turn)
    }
    return isAsked
  }
}
