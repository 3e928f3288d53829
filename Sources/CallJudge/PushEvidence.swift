package import CallCore

/// Why a push must not be sent.
package enum PushObjection: Equatable, Sendable {
  /// It rings for a call that no longer rings.
  case rangTooLate(String)
  /// It notifies the device that answered of the end.
  case toWinner(String)
  /// The device's registration does not accept it.
  case notTaken(String)
  /// The device or its user has no use for it.
  case unwanted(String)

  package var text: String {
    switch self {
    case .rangTooLate(let text), .toWinner(let text), .notTaken(let text), .unwanted(let text): text
    }
  }
}

/// The facts of a call and of one of the callee's devices by which a push is judged.
package struct PushEvidence: Sendable {
  /// Whether the call is answered, or ended.
  package var isOver = true
  package var isAnswered = false
  package var endReason: EndReason?
  /// Whether the user has seen the call: one of the devices declined.
  package var userKnows = false
  /// The pushes that the device's registration accepts; nil where that is not known.
  package var takes: PushCapabilities?
  /// Whether a push made the device ring, or may have.
  package var wasRung = true
  package var isWinner = false
  /// Whether the device declined, was busy, or ended the call itself.
  package var endedItsPart = false
  package var isCaller = false

  package init() {}

  /// Why a push of this purpose must not be sent; nil where it may.
  package func objection(to purpose: PushPurpose) -> PushObjection? {
    if purpose == .ring {
      if isOver { return .rangTooLate("decided after the call was over") }
      return endedItsPart ? .rangTooLate("which had ended its part itself") : nil
    }
    if isWinner { return .toWinner("and won") }
    if let takes, let needed = purpose.capability, !takes.contains(needed) {
      return .notTaken("which its registration does not take")
    }
    if !isOver { return .unwanted("though the call still rings") }
    if endedItsPart { return .unwanted("which had ended its part itself") }
    if purpose == .missedNotice { return objectionToNotice() }
    return wasRung ? nil : .unwanted("and no push had made it ring")
  }

  private func objectionToNotice() -> PushObjection? {
    if isAnswered { return .unwanted("though the call was answered") }
    if let endReason, !endReason.isMissedCall {
      return .unwanted("though it ended as \(endReason.name)")
    }
    if userKnows { return .unwanted("though the user knows of the call") }
    return isCaller ? .unwanted("which had placed the call itself") : nil
  }
}
