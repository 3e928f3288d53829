/// Calls that the app's server places between two users.
///
/// The callee's devices ring first. The caller's side is vacant until then: `PlacedFacts.caller` names a user and no
/// device. Once a device of the callee has answered, the vacant side is transferred to that user, by the rules of every
/// transfer (R26), and who answers there has placed the call from then on.
extension Call {
  /// Whether nobody has the caller's side: nothing is delivered to it, and nobody waits for its return.
  var isCallerVacant: Bool { facts.callerRings != nil && facts.caller.device.text.isEmpty }

  /// The call is answered: the devices of the user for whom the caller's side is vacant ring.
  ///
  /// It is decided together with the answer. A new owner does the same if it finds the one without the other.
  mutating func callForVacantSide(_ turn: inout Turn) {
    guard transfers.isEmpty else {
      // They have rung, and nobody has answered.
      return endVacant(by: transfers.last?.failure?.by, &turn)
    }
    // Rings for the callee's other devices are told apart from those that follow by the number of the ringing.
    if hasRingPushUnderWay { withdrawRings(&turn) }
    let rings = facts.callerRings ?? turn.limits.ringTimeout
    let start = DivertedFacts(
      from: "", to: [facts.caller.user], reason: .transferred, by: facts.caller, at: turn.now,
      deadline: turn.now + rings)
    commit(.diverted(start), .urgent, &turn)
    visitGuests(&turn)
  }

  /// Nobody takes the vacant side, so the call is over.
  /// - Parameter by: who caused that; nil where nobody did.
  mutating func endVacant(by: Party?, _ turn: inout Turn) {
    end(.hungUp, by: by ?? facts.caller, &turn)
  }

  /// Why nobody has taken the vacant side: the device that waits learns it before it is stopped. nil: the call did not end
  /// so.
  var vacancyNews: TransferNews? {
    guard isCallerVacant, let transfer = transfers.last, let end = transfer.failure,
      end.reason != .cancelled
    else { return nil }
    return TransferNews(
      to: transfer.target, number: UInt32(transfers.count), reason: end.reason, by: end.by)
  }
}
