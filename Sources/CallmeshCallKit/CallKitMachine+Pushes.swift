public import CallmeshClient

// Pushes.
extension CallKitMachine {
  /// A VoIP push. Perform what is returned before its handler returns.
  /// - Parameters:
  ///   - news: the content of the push; nil: it cannot be read.
  ///   - isExpired: its call's deadline has passed.
  ///   - spare: the id of the call that is shown and ended for a push that names none.
  public mutating func pushed(
    _ news: CallPush?, isExpired: Bool, spare: CallID
  ) -> [Action] {
    switch news {
    case .ring(let address, let shown): rang(address, shown, isExpired: isExpired)
    case .end(let id, let reason, let shown): cleanedUp(id, reason, shown)
    case nil: [.report(spare, .unknown), .reportEnded(spare, .failed)]
    }
  }

  private mutating func rang(_ address: Address, _ shown: Shown, isExpired: Bool) -> [Action] {
    let id = address.call
    // The system refuses a second report of a call, but wants it.
    if calls[id] != nil { return [.report(id, shown), .wake(address, isWanted: false)] }
    if let reason = ended.last(where: { $0.id == id })?.reason {
      // A late push, or the call rings here once more, for a transfer. Its invite is reported then.
      return [.report(id, shown), .reportEnded(id, reason), .wake(address, isWanted: false)]
    }
    if isExpired {
      note(id, .unanswered)
      return [.report(id, shown), .reportEnded(id, .unanswered)]
    }
    calls[id] = .waking
    return [.report(id, shown), .wake(address, isWanted: false)]
  }

  private mutating func cleanedUp(
    _ id: CallID, _ reason: EndedReason, _ shown: Shown
  ) -> [Action] {
    // This device has the call: the push is late, or of another ringing.
    if let stage = calls[id], stage == .talking || stage == .dialling {
      return [.report(id, shown)]
    }
    let failed: [Action] = isAnswering(id) ? [.fail(id, .answer)] : []
    calls[id] = nil
    note(id, reason)
    return [.report(id, shown)] + failed + [.reportEnded(id, reason)]
  }

  /// The system does not show a call that was reported.
  public mutating func reportFailed(_ id: CallID, _ error: ReportError) -> [Action] {
    switch error {
    case .isShown: return []
    case .isFiltered, .other:
      // The user's other devices ring on.
      guard calls.removeValue(forKey: id) != nil else { return [] }
      note(id, .failed, isLeft: true)
      return [error == .isFiltered ? .declineHere(id) : .busy(id)]
    }
  }

  func isAnswering(_ id: CallID) -> Bool {
    if case .answering = calls[id] { true } else { false }
  }

  func isLeft(_ id: CallID) -> Bool { ended.contains { $0.id == id && $0.isLeft } }

  mutating func note(_ id: CallID, _ reason: EndedReason, isLeft: Bool = false) {
    ended.removeAll { $0.id == id }
    if ended.count == Self.endedMax { ended.removeFirst() }
    ended.append((id, reason, isLeft))
  }
}
