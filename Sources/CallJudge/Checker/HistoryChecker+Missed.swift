internal import CallCore

/// The rule for missed calls: a call is missed by the users at whom it rang in vain, unless they declined it, and by no one
/// else. The stops and states of all devices follow from the journal alone, so no fault excuses another word.
extension HistoryChecker {
  /// A call ends: what the journal says of who missed it.
  func missedRightly(_ end: EndedFacts, _ facts: Facts, _ call: CallID) throws(HistoryViolation) {
    try require(
      end.missed == facts.isMissed(endingAs: end.reason), .missedRightly, call,
      "it ends as \(end.reason.name), \(end.missed ? "" : "not ")missed")
  }

  /// A device learns that the call is over for it, by a stop or by a state.
  mutating func toldMissed(
    _ who: Who, _ reason: EndReason, by: Who?, missed: Bool, isState: Bool, _ call: CallID
  ) throws(HistoryViolation) {
    let truth = calls[call, default: Facts()].isMissed(by: who, reason, by, isState: isState)
    guard let truth else { return }
    judged[.missedRightly, default: 0] += 1
    try require(
      missed == truth, .missedRightly, call,
      "\(who) is told \(reason.name) as \(missed ? "a missed call" : "no missed call")")
  }
}

extension HistoryChecker.Facts {
  /// Whether the call, as it ends, is missed by somebody whom it rings.
  fileprivate func isMissed(endingAs reason: EndReason) -> Bool {
    guard reason.isMissedCall else { return false }
    let guests = diversions.flatMap(\.to).filter { left($0) == nil }
    return declinedHere.isEmpty || guests.contains { !hasDeclined($0) }
  }

  /// Whether a device is to learn of a missed call; nil: that is not known.
  fileprivate func isMissed(
    by who: Who, _ reason: EndReason, _ by: Who?, isState: Bool
  ) -> Bool? {
    if !reason.isMissedCall { return false }
    // A device may ring for several transfers, of which some are missed, and for one after it had placed the call.
    guard let placed, transfers.isEmpty else { return nil }
    if who == journalCaller { return false }
    // The end of a device's own part says nothing of the call, which may ring on.
    if by == who { return nil }
    // The placer's other devices see the call as the placer does.
    guard placed.callee.user.hasBytes(of: who.user) || wentOn(to: who.user) else { return false }
    if let left = left(who.user) {
      // The user has called back: a stop from before may say either.
      if answered?.merged != nil, answered?.by.user.hasBytes(of: who.user) == true { return nil }
      // A device that did not ring may be told the end of the call, too.
      guard !isState, left.stop.reason == reason else { return nil }
      return left.stop.missed && !hasDeclined(who.user)
    }
    return ended?.reason == reason ? !hasDeclined(who.user) : nil
  }
}
