import CallCore
import CallJudge

/// Entries of a call that one side handed over: for that user it ended then, and the third user has one, too.
extension HistoryJudge {
  /// The third user, where its history must have the call.
  static func thirdReader(of fate: CallFate) -> [Int] {
    guard let transfer = fate.transfer, transfer.takenBy != nil || transfer.failure != nil else {
      return []
    }
    return [transfer.terms.user]
  }

  /// How the call ended for a user who had it from the beginning; nil: that is not known.
  static func reason(in fate: CallFate, isPlaced: Bool) -> EndReason? {
    guard let transfer = fate.transfer, transfer.terms.ofCaller == isPlaced else {
      return fate.reason
    }
    if transfer.takenBy != nil { return .transferred }
    return transfer.failure == nil ? nil : fate.reason
  }

  /// The mismatch in the third user's entry; nil where all fits.
  func objection(
    toEntryOfThird entry: HistoryEntry, _ fate: CallFate, _ transfer: CallFate.Transfer
  ) -> String? {
    let caller = roster.userName(roster.user(of: fate.caller))
    let (from, stays) =
      transfer.terms.ofCaller ? (caller, fate.callee) : (fate.callee, caller)
    if entry.isPlaced { return "says placed of the call" }
    if entry.callee != fate.callee { return "names the callee \(entry.callee)" }
    if entry.peer != stays { return "names \(entry.peer) as the other side, and not \(stays)" }
    if entry.divertedBy != from {
      return "says that \"\(entry.divertedBy)\" handed the call over, and not \(from)"
    }
    if let taker = transfer.takenBy {
      if entry.answeredAt == nil { return "lacks the time of the answer" }
      if entry.device != roster.party(taker).device {
        return "names the device \(entry.device?.text ?? "of nobody")"
      }
      if let reason = fate.reason, entry.reason != reason {
        return "says \(entry.reason.name), and the sides were told \(reason.name)"
      }
      return entry.isMissed ? "says that the call was missed" : nil
    }
    guard let failure = transfer.failure else { return nil }
    if entry.answeredAt != nil { return "says that it was answered" }
    if entry.reason != failure {
      return "says \(entry.reason.name), and the transfer ended as \(failure.name)"
    }
    let says = entry.isMissed ? "" : "does not say"
    return entry.isMissed == failure.isMissedCall ? nil : "wrongly \(says) that it was missed"
  }

  /// Whether two entries of a call that was handed over have times that fit.
  static func agreeOnTransfer(
    _ one: (user: Int, entry: HistoryEntry), _ other: (user: Int, entry: HistoryEntry),
    _ transfer: CallFate.Transfer
  ) -> Bool {
    let third = transfer.terms.user
    if other.user == third, one.user != third { return agreeOnTransfer(other, one, transfer) }
    let (a, b) = (one.entry, other.entry)
    guard one.user == third else {
      let isOver = [a.reason, b.reason].contains(.transferred) || a.endedAt == b.endedAt
      return isOver && a.placedAt == b.placedAt && a.answeredAt == b.answeredAt
    }
    guard a.answeredAt != nil else { return b.placedAt <= a.placedAt && a.endedAt <= b.endedAt }
    return b.reason == .transferred ? a.answeredAt == b.endedAt : a.endedAt == b.endedAt
  }
}
