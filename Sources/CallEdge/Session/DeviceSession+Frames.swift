internal import CallCore
package import CallWire

/// Frames from the device.
extension DeviceSession {
  /// The device has sent something, be it part of a frame.
  package mutating func receivedBytes() { hasReceived = true }

  /// The device sent a frame.
  /// - Parameter bytes: the size of the frame.
  package mutating func received(_ frame: ClientFrame, bytes: Int = 0, _ turn: inout Turn) {
    if isClosing { return }
    if let refusal = chargeRates(cost: frame.command.rateCost, bytes: bytes, now: turn.now),
      !mayPass(frame.command, bytes: bytes, now: turn.now)
    {
      return refuse(frame.id, refusal, &turn)
    }
    refusals = 0
    switch frame.command {
    case .ack(let items):
      acknowledge(items, request: frame.id, &turn)
    case .detach:
      turn.reply(frame.id, .done)
      endsGracefully = true
      close(.normal, &turn)
    case .attach(let request):
      attach(request, id: frame.id, &turn)
    case .ping:
      turn.reply(frame.id, isAttached ? .done : .error(CallError(.notAttached)))
    case .calls: askForCalls(frame.id, &turn)
    case .renew(let token): renew(token, id: frame.id, &turn)
    case .register, .unregister, .place, .call, .history, .rules: forward(frame, &turn)
    }
  }

  /// The device sent a frame that is not valid.
  ///
  /// A frame that could not even be read counts against the peer. One that was read and has an invalid field
  /// (a user id that a person mistyped, a command of a later version) counts against the rate alone, as any
  /// command does. Otherwise a good client would lose its session in time.
  package mutating func received(bad error: FrameError, bytes: Int = 0, _ turn: inout Turn) {
    if isClosing { return }
    guard error.error.code.isUnreadable else {
      return refuse(error, bytes: bytes, &turn)
    }
    turn.refuse(error.id, error.error)
    countAgainstPeer(&turn)
  }

  private mutating func refuse(_ error: FrameError, bytes: Int, _ turn: inout Turn) {
    if let refusal = chargeRates(cost: 1000, bytes: bytes, now: turn.now) {
      return refuse(error.id, refusal, &turn)
    }
    refusals = 0
    turn.refuse(error.id, error.error)
  }

  /// Counts a frame that could not be read, or an attach that was refused, and closes the session at the
  /// limit. One is forgiven every `SessionRules.badFrameForgivenAfter`.
  mutating func countAgainstPeer(_ turn: inout Turn) {
    let wait = badFrames.consume(
      cost: rules.badFrameCost, perSecond: 1, burst: rules.badFramesBurst, now: turn.now)
    if wait != nil { close(.tooManyBadFrames, &turn) }
  }

  /// The peer sent a close frame. Only a normal closure ends the session gracefully: a browser sends "going
  /// away" when a page is reloaded.
  package mutating func receivedClose(code: UInt16?, _ turn: inout Turn) {
    if !isClosing {
      endsGracefully = code == CloseReason.normal.rawValue
      close(.normal, &turn)
    }
    turn.actions.append(.abort)
  }

  private mutating func refuse(
    _ id: UInt64, _ refusal: (limit: AppLimit, error: CallError), _ turn: inout Turn
  ) {
    if let app = sentIdentity?.user.app { rules.apps?.gate(of: app)?.count(refusal.limit) }
    turn.refuse(id, refusal.error)
    countRefusal(&turn)
  }

  private mutating func countRefusal(_ turn: inout Turn) {
    refusals += 1
    if refusals >= rules.configuration.peers.refusalsMax { close(.tooManyCommands, &turn) }
  }
}

extension ClientCommand {
  /// The command's share of the session's rate, in thousandths of a command. Acknowledgements answer messages of the
  /// cluster, and pings cost it nothing: both count a tenth. A history is read for each question.
  fileprivate var rateCost: Int64 {
    switch self {
    case .ack, .ping: 100
    case .history: 3000
    default: 1000
    }
  }

  /// Whether it ends a call for the device, or answers one. Such a command may overdraw the rates by as much as their
  /// bursts. If a burst of candidates kept it out, the phone would ring on.
  var mayNotWait: Bool {
    switch self {
    case .call(_, .answer), .call(_, .decline), .call(_, .busy), .call(_, .cancel),
      .call(_, .hangUp):
      true
    default: false
    }
  }
}

extension CallError.Code {
  /// Whether a frame with this error was no message of the protocol at all.
  fileprivate var isUnreadable: Bool {
    self == .malformedFrame || self == .frameTooLarge || self == .wrongFrameType
  }
}

/// Limits on what a peer may do.
extension DeviceSession {
  /// A WebSocket ping or pong arrived. It counts a tenth of a command.
  /// - Returns: whether a ping is to be answered.
  package mutating func receivedControl(_ turn: inout Turn) -> Bool {
    if isClosing { return false }
    let wait = bucket.consume(
      cost: 100, perSecond: Int(rate.perSecond), burst: Int(rate.burst), now: turn.now)
    if wait == nil { return true }
    countRefusal(&turn)
    return false
  }

  /// Takes the cost of a frame from the session's rates.
  /// - Parameter mayOverdraw: as in `TokenBucket`.
  /// - Returns: nil, or why the frame is refused.
  private mutating func chargeRates(
    cost: Int64, bytes count: Int, mayOverdraw: Bool = false, now: Timestamp
  ) -> (limit: AppLimit, error: CallError)? {
    if let wait = bytes.consume(
      cost: Int64(count) * 1000, mayOverdraw: mayOverdraw, perSecond: Int(rate.bytesPerSecond),
      burst: Int(rate.bytesBurst), now: now)
    {
      let error = CallError(
        .rateLimited,
        "bytesPerSession: at most \(rate.bytesPerSecond) bytes a second, \(rate.bytesBurst) at once.",
        retryAfterMilliseconds: wait)
      return (.bytesPerSession, error)
    }
    let (perSecond, burst) = (Int(rate.perSecond), Int(rate.burst))
    return bucket.consume(
      cost: cost, mayOverdraw: mayOverdraw, perSecond: perSecond, burst: burst, now: now
    ).map {
      let error = CallError.rateLimited(
        perSecond: perSecond, burst: burst, retryAfterMilliseconds: $0)
      return (.commandsPerSession, error)
    }
  }

  /// Whether a command that exceeds the rates passes all the same.
  private mutating func mayPass(_ command: ClientCommand, bytes: Int, now: Timestamp) -> Bool {
    command.mayNotWait
      && chargeRates(cost: command.rateCost, bytes: bytes, mayOverdraw: true, now: now) == nil
  }
}
