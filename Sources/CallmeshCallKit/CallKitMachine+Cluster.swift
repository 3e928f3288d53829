public import CallmeshClient

// Events from the cluster.
extension CallKitMachine {
  /// A call rings here.
  /// - Parameters:
  ///   - crosses: it crosses an own call to the same user: one of both gives way, so it is not shown.
  ///   - isConsulted: this device was asked before the transfer: it is answered without ringing.
  public mutating func incoming(
    _ id: CallID, _ shown: Shown, crosses: Bool = false, isConsulted: Bool = false
  ) -> [Action] {
    switch calls[id] {
    case .answering(isSent: false):
      calls[id] = .answering(isSent: true)
      return [.answer(id)]
    case .waking:
      calls[id] = .ringing
      return isConsulted ? [.requestAnswer(id)] : []
    case .ringing, .answering(isSent: true), .dialling, .talking: return []
    case nil:
      guard !crosses, !isLeft(id) else { return [] }
      ended.removeAll { $0.id == id }
      calls[id] = .ringing
      return [.report(id, shown)] + (isConsulted ? [.requestAnswer(id)] : [])
    }
  }

  /// The cluster has the call that the user places.
  public func placed(_ id: CallID) -> [Action] {
    calls[id] == .dialling ? [.reportConnecting(id)] : []
  }

  /// This device is in the call.
  /// - Parameter shown: for a call that the system does not show yet.
  public mutating func answered(_ id: CallID, _ shown: Shown = .unknown) -> [Action] {
    switch calls[id] {
    case .answering:
      calls[id] = .talking
      return [.fulfill(id, .answer)]
    case .dialling:
      calls[id] = .talking
      return [.reportConnected(id)]
    // Answered by a former run of the app, or by a crossing call.
    case .waking, .ringing:
      calls[id] = .talking
      return [.requestAnswer(id)]
    case .talking: return []
    // An own call gave way to it, it was pulled here, or a former run of the app has answered it.
    case nil:
      guard !isLeft(id) else { return [] }
      ended.removeAll { $0.id == id }
      calls[id] = .talking
      return [.report(id, shown), .requestAnswer(id)]
    }
  }

  /// An answer got no conclusive reply: the call rings on.
  public mutating func answerFailed(_ id: CallID) -> [Action] {
    guard isAnswering(id) else { return [] }
    calls[id] = .ringing
    return [.fail(id, .answer)]
  }

  /// The call is over for this device.
  public mutating func ended(_ id: CallID, _ reason: EndedReason) -> [Action] {
    note(id, reason)
    guard let stage = calls.removeValue(forKey: id) else { return [] }
    if case .answering = stage { return [.fail(id, .answer), .reportEnded(id, reason)] }
    return [.reportEnded(id, reason)]
  }
}
