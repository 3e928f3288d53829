package import CallCore
package import CallWire

/// What the device sends.
extension DeviceSession {
  /// The device has sent something, be it part of a frame.
  package mutating func receivedBytes() { hasReceived = true }

  /// The device sent a frame.
  /// - Parameter bytes: the size of the frame.
  package mutating func received(
    _ frame: ClientFrame, bytes: Int = 0, now: Timestamp, into actions: inout [Action]
  ) {
    if case .closing = phase { return }
    if let error = takeRate(cost: frame.command.rateCost, bytes: bytes, now: now) {
      return refuse(frame.id, error, now: now, into: &actions)
    }
    refusals = 0
    switch frame.command {
    case .ack(let items):
      acknowledge(items, request: frame.id, into: &actions)
    case .detach:
      actions.append(.reply(frame.id, .done))
      endsGracefully = true
      close(.normal, now: now, into: &actions)
    case .attach(let request):
      attach(request, id: frame.id, now: now, into: &actions)
    case .ping:
      actions.append(.reply(frame.id, isAttached ? .done : .error(CallError(.notAttached))))
    case .calls: askForCalls(frame.id, now: now, into: &actions)
    case .renew(let token): renew(token, id: frame.id, into: &actions)
    case .register, .unregister, .place, .call: forward(frame, into: &actions)
    }
  }

  /// The device sent a frame that is not valid.
  ///
  /// A frame that could not even be read counts against the peer. One that was read and has an invalid field
  /// (a user id that a person mistyped, a command of a later version) counts against the rate alone, as any
  /// command does. Otherwise a good client would lose its session in time.
  package mutating func received(
    bad error: FrameError, now: Timestamp, into actions: inout [Action]
  ) {
    if case .closing = phase { return }
    guard error.error.code.isUnreadable else {
      return refuse(error, now: now, into: &actions)
    }
    actions.append(.reply(error.id, .error(error.error)))
    countAgainstPeer(now: now, into: &actions)
  }

  private mutating func refuse(_ error: FrameError, now: Timestamp, into actions: inout [Action]) {
    if let limited = takeRate(cost: 1000, bytes: 0, now: now) {
      return refuse(error.id, limited, now: now, into: &actions)
    }
    refusals = 0
    actions.append(.reply(error.id, .error(error.error)))
  }

  /// Counts a frame that could not be read, or an attach that was refused, and closes the session at the
  /// limit. One is forgiven every `SessionRules.badFrameForgivenAfter`.
  mutating func countAgainstPeer(now: Timestamp, into actions: inout [Action]) {
    let wait = badFrames.take(
      cost: rules.badFrameCost, perSecond: 1, burst: rules.badFramesBurst, now: now)
    if wait != nil { close(.tooManyBadFrames, now: now, into: &actions) }
  }

  /// The peer sent a close frame. Only a normal closure ends the session gracefully: a browser sends "going
  /// away" when a page is reloaded.
  package mutating func receivedClose(code: UInt16?, now: Timestamp, into actions: inout [Action]) {
    if case .closing = phase {
    } else {
      endsGracefully = code == CloseReason.normal.rawValue
      close(.normal, now: now, into: &actions)
    }
    actions.append(.abort)
  }

  private mutating func refuse(
    _ id: UInt64, _ error: CallError, now: Timestamp, into actions: inout [Action]
  ) {
    refusals += 1
    actions.append(.reply(id, .error(error)))
    if refusals >= rules.configuration.peers.refusalsMax {
      close(.tooManyCommands, now: now, into: &actions)
    }
  }

}

extension ClientCommand {
  /// What the command takes of the session's rate, in thousandths of a command. Acknowledgements answer what
  /// the cluster sent, and pings cost it nothing: they count a tenth.
  fileprivate var rateCost: Int64 {
    switch self {
    case .ack, .ping: 100
    default: 1000
    }
  }
}

extension CallError.Code {
  /// Whether a frame with this error was no message of the protocol at all.
  fileprivate var isUnreadable: Bool {
    self == .malformedFrame || self == .frameTooLarge || self == .wrongFrameType
  }
}
