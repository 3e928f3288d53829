import CallCore
import CallWire

/// Commands to shards.
extension DeviceSession {
  /// Forwards a command to its shard, or refuses it.
  mutating func forward(_ frame: ClientFrame, _ turn: inout Turn) {
    guard case .attached(let identity) = phase else {
      return turn.refuse(frame.id, CallError(.notAttached))
    }
    guard frame.id > 0 else { return turn.refuse(0, .missingID) }
    let most = rules.configuration.commandsPendingPerSession
    guard
      pendingCount < most
        || frame.command.mayNotWait && pendingCount < most + Self.pendingReserve
    else {
      return turn.refuse(frame.id, tooManyPending)
    }
    if case .place(let address, _) = frame.command,
      !placedCalls.contains(where: { $0.call == address.call && $0.counts }),
      let refusal = refusalToPlace
    {
      return turn.refuse(frame.id, refusal)
    }
    do throws(CallError) {
      guard let (callee, body) = try command(frame.command, of: identity) else { return }
      pendingCount += 1
      turn.actions.append(.forward(request: frame.id, callee: callee, body))
    } catch {
      turn.refuse(frame.id, error)
    }
  }

  /// Further commands that may wait for their replies, if they end or answer calls.
  private static let pendingReserve = 16

  var tooManyPending: CallError {
    CallError(
      .rateLimited,
      "At most \(rules.configuration.commandsPendingPerSession) commands wait for their replies.",
      retryAfterMilliseconds: 1000)
  }

  /// Why no further call may be placed from here; nil where it may.
  private var refusalToPlace: CallError? {
    if rules.isDraining { return CallError(.draining) }
    return rules.configuration.limits.refusalToPlace(
      liveCallsPlaced: placedCalls.count(where: \.counts))
  }

  /// The command to a shard that a device's command stands for, with its callee.
  /// - Returns: nil where it stands for none.
  /// - Throws: as `RegistrationRequest.prepared(for:)`.
  private mutating func command(_ command: ClientCommand, of identity: Identity)
    throws(CallError) -> (callee: UserKey, body: Command.Body)?
  {
    func callee(_ address: CallAddress) -> UserKey { address.calleeKey(for: identity.user) }
    switch command {
    case .attach, .detach, .ack, .ping, .calls, .renew: return nil
    case .history(let body): return (identity.user, .history(body))
    case .register(let request):
      return (identity.user, .register(try request.prepared(for: identity.user)))
    case .unregister(let device): return (identity.user, .unregister(device ?? identity.device))
    case .rules(let request): return (identity.user, .rules(request))
    case .place(let address, var request):
      request.setup.call = address.call
      request.deviceName = identity.deviceName
      request.callerName = identity.name.isEmpty ? userName : identity.name
      notePlacing(address.call, callee: callee(address))
      return (callee(address), .place(request))
    case .call(let address, .pull(var request)):
      request.deviceName = identity.deviceName
      // If it is the caller's side that moves here, this session has placed the call from then on.
      notePlacing(address.call, callee: callee(address))
      return (callee(address), .call(address.call, .pull(request)))
    case .call(let address, .transfer(var request)):
      if request.consulted?.callee.isEmpty == true {
        request.consulted?.callee = identity.user.user
      }
      return (callee(address), .call(address.call, .transfer(request)))
    case .call(let address, let verb):
      if verb == .resume { notePlacing(address.call, callee: callee(address)) }
      if verb.endsRinging { endRung(address.call) }
      return (callee(address), .call(address.call, verb))
    }
  }

  /// Forwards acknowledgements, by callee. They have no reply.
  func acknowledge(_ items: [AckItem], request: UInt64, _ turn: inout Turn) {
    guard case .attached(let identity) = phase else {
      return turn.refuse(request, CallError(.notAttached))
    }
    // One command for each run of one callee; nearly always there is one run.
    var rest = items[...]
    while let first = rest.first {
      let callee = first.call.calleeKey(for: identity.user)
      let run = rest.prefix { $0.call.callee.hasBytes(of: first.call.callee) }
      turn.actions.append(
        .acknowledge(
          callee: callee,
          run.map { Acknowledgement(call: $0.call.call, version: $0.version) }))
      rest = rest.dropFirst(run.count)
    }
  }
}
