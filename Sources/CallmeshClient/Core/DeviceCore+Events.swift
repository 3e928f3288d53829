internal import CallCore
internal import CallMachine
internal import CallWire

// Events of the machine, as the app gets them.
extension DeviceCore {
  func handle(_ event: ClientEvent, _ engine: DeviceEngine) {
    switch event {
    case .attached(let info, let again):
      (user, id) = (info.user, info.device.text)
      relays = info.relays
      events.send(.attached(Device.Session(info, isAgain: again)))
    case .detached(let retryAt): events.send(.detached(retryIn: wait(until: retryAt)))
    case .notTrusted(let problem): events.send(.notTrusted(problem))
    case .refused(let error):
      let error = Self.refusal(error)
      events.send(.refused(error))
      endAll(error)
    case .call(let id, let event): happened(id, event, engine)
    case .ongoing(let calls):
      ongoing = calls
      events.send(.ongoing(calls))
    case .history(let state):
      historyState = state
      events.send(.history(state))
    case .relays(let credentials):
      relays = credentials
      events.send(.relays)
    case .notice(let notice): events.send(.notice(notice))
    case .replied, .gaveUp: break
    }
  }

  /// The error for a session whose place another one has taken. This library makes it; no server sends it.
  private static func refusal(_ error: CallError) -> CallmeshError {
    switch error.code {
    case .alreadyAttached, .unknownDevice: CallmeshError(.replaced, error.message)
    default: CallmeshError(error)
    }
  }

  // MARK: Calls

  private func happened(_ id: CallID, _ event: CallEvent, _ engine: DeviceEngine) {
    let known = calls[id]
    let call = known ?? begin(id, event, engine)
    if case .signal(let signal) = event { return call.add(signal) }
    if case .invited(let invite) = event, call.state == .waking {
      call.cross(crossed(by: invite, to: call))
    }
    let view = machine?.calls[id]
    if case .invited(let invite) = event { refuse(call, invite) }
    let happened = publish(call, isNew: known == nil) { $0.apply(event, view) }
    if case .invited(let invite) = event, happened.isEmpty, known != nil {
      ringAgain(call, invite, engine)
    }
  }

  /// A call that this device begins to know: it rings, was pulled, or ended before the device learned of it.
  private func begin(_ id: CallID, _ event: CallEvent, _ engine: DeviceEngine) -> Call {
    let view = machine?.calls[id]
    let callee = view?.callee ?? ""
    let role: Call.Role = view?.role == .caller ? .caller : .callee
    return add(
      Call(
        Address(callee: callee.isEmpty ? user : callee, call: id),
        CallProgress(.waking, role), engine))
  }

  /// The call has been transferred back to this device. It lacked the end of its former part.
  private func ringAgain(_ call: Call, _ invite: Invite, _ engine: DeviceEngine) {
    publish(call) { $0.ended(Stop(reason: .transferred), isLocal: false) }
    happened(call.id, .invited(invite), engine)
  }

  func add(_ call: Call) -> Call {
    calls[call.id] = call
    return call
  }

  /// This device's call to the user who calls: one that has given way to this call, or an unanswered one. A call that was
  /// diverted or transferred rings beside any other.
  private func crossed(by invite: Invite, to call: Call) -> Call? {
    if let merged = invite.merged, let own = gaveWay, own.id == merged { return own }
    guard call.callee.hasBytes(of: user), invite.divertedBy.isEmpty, invite.transferredBy == nil,
      !invite.caller.device.text.isEmpty
    else { return nil }
    return calls.values.first {
      let progress = $0.progress
      return progress.role == .caller && !progress.isTalking && !progress.isOver
        && $0.callee.hasBytes(of: invite.caller.user)
    }
  }

  /// Changes a call, and notifies all readers.
  @discardableResult
  func publish(
    _ call: Call, isNew: Bool = false, _ body: (inout CallProgress) -> [Call.Event]
  ) -> [Call.Event] {
    let happened = (try? call.change { progress in body(&progress) }) ?? []
    announce(call, happened, isNew: isNew)
    return happened
  }

  func announce(_ call: Call, _ happened: [Call.Event], isNew: Bool = false) {
    for event in happened {
      switch event {
      case _ where call === unseen && !call.isOver: continue
      case .incoming: events.send(.incoming(call))
      case .answered(_, _, isHere: true) where isNew: events.send(.taken(call))
      case .ended:
        if calls[call.id] === call { calls[call.id] = nil }
        if call.role == .caller, call.end?.reason == .glare { gaveWay = call }
        events.send(.ended(call))
      default: break
      }
      events.send(.call(call, event))
    }
  }
}
