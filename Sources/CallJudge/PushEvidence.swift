package import CallCore

/// Why a push should not have been sent.
package enum PushObjection: Equatable, Sendable {
  /// It rings for a call that does not.
  case rangTooLate(String)
  /// It tells the device that answered that the call is over.
  case toWinner(String)
  /// The device's registration takes no such push.
  case notTaken(String)
  /// It tells the device, or its user, what they know or never have to know.
  case unwanted(String)

  package var text: String {
    switch self {
    case .rangTooLate(let text), .toWinner(let text), .notTaken(let text), .unwanted(let text): text
    }
  }
}

/// What is known of a call and of one of the callee's devices, to judge a push by.
package struct PushEvidence: Sendable {
  /// Whether the call is answered, or ended.
  package var isOver = true
  package var isAnswered = false
  /// How the call ended, where that is known.
  package var endReason: EndReason?
  /// Whether the user knows of the call: one of the devices declined.
  package var userKnows = false
  /// What the device's registration takes; nil where that is not known.
  package var takes: PushCapabilities?
  /// Whether a push made the device ring, or may have.
  package var wasRung = true
  package var isWinner = false
  /// Whether the device declined, was busy, or ended the call itself.
  package var endedItsPart = false
  package var isCaller = false

  package init() {}

  /// What speaks against a push; nil where nothing does.
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

extension PushPurpose {
  /// What a registration must take to be sent such a push; nil where it need take nothing.
  package var capability: PushCapabilities? {
    switch self {
    case .ring: nil
    case .missed: .missed
    case .answeredElsewhere: .answeredElsewhere
    case .cancel: .cancel
    case .ended: .ended
    case .missedNotice: .missedNotice
    }
  }
}
