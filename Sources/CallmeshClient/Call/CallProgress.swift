internal import CallCore
internal import CallMachine
internal import CallWire

/// One call as the app sees it: a state machine without I/O. Events of the machine and the device's own commands go in,
/// events for the app come out.
struct CallProgress: Sendable {
  private(set) var state: Call.State
  private(set) var role: Call.Role
  private(set) var peer: Party?
  private(set) var invite: Invite?
  private(set) var end: Call.End?
  private(set) var deadline: Timestamp?

  init(_ state: Call.State, _ role: Call.Role) { (self.state, self.role) = (state, role) }

  var isOver: Bool { state == .ended || state == .lost }
  var isTalking: Bool { state == .answered || state == .connected }

  /// Applies an event of the cluster.
  /// - Parameter view: the machine's view of the call, after the event.
  mutating func apply(_ event: CallEvent, _ view: CallView?) -> [Call.Event] {
    guard !isOver else { return [] }
    switch event {
    case .invited(let invite): return invited(invite)
    case .ringing(let by): return rings(by)
    case .answered(let answered):
      guard !isTalking else { return [] }
      (state, peer) = (.answered, answered.by)
      return [.answered(by: answered.by, description: answered.description, isHere: false)]
    case .won(let won): return self.won(won, view)
    case .stopped(let stop): return ended(stop, isLocal: view?.endedLocally ?? false)
    case .moved(let moved):
      // Media begin anew, and both sides report `connected` again.
      (state, peer) = (.answered, moved.to)
      return [.moved(to: moved.to, description: moved.description)]
    case .transfer(let news): return [.transfer(to: news.to, by: news.by, reason: news.reason)]
    case .ringsUntil(let deadline):
      self.deadline = deadline
      return [.ringsUntil(deadline.date)]
    case .signal: return []
    }
  }

  private mutating func invited(_ invite: Invite) -> [Call.Event] {
    guard state == .waking else { return [] }
    (state, self.invite, peer, deadline) = (.ringing, invite, invite.caller, invite.deadline)
    return [.incoming]
  }

  private mutating func rings(_ by: Party) -> [Call.Event] {
    guard role == .caller, !isTalking else { return [] }
    (state, peer) = (.ringing, by)
    return [.ringing(by: by)]
  }

  private mutating func won(_ won: CallState, _ view: CallView?) -> [Call.Event] {
    guard !isTalking else { return [] }
    state = .answered
    if let view { role = view.role == .caller ? .caller : .callee }
    // To a device with the callee's side, `by` is the device itself.
    if role == .caller, let by = won.by { peer = by }
    return [.answered(by: won.by, description: "", isHere: true)]
  }

  /// The call is over for this device.
  mutating func ended(
    _ stop: Stop, isLocal: Bool, error: CallmeshError? = nil
  ) -> [Call.Event] {
    guard !isOver else { return [] }
    state = role == .callee && stop.reason == .answeredElsewhere ? .lost : .ended
    var end = Call.End(reason: stop.reason)
    (end.by, end.missed, end.survivor) = (stop.by, stop.missed, stop.survivor)
    (end.unreachable, end.isLocal, end.error) = (stop.unreachable, isLocal, error)
    self.end = end
    return [.ended(end)]
  }
}

// Events that come from the device itself.
extension CallProgress {
  /// The user answers.
  /// - Throws: `wrongState` for a call that does not ring here.
  mutating func answer() throws(CallmeshError) -> [Call.Event] {
    guard role == .callee, state == .ringing else {
      throw CallmeshError(.wrongState, "The call is \(state.rawValue), and does not ring here.")
    }
    state = .answering
    return [.answering]
  }

  /// A command has its reply, and the machine has seen that.
  mutating func replied(
    _ command: ClientCommand, _ reply: ServerReply, _ view: CallView?
  ) -> [Call.Event] {
    var events: [Call.Event] = []
    switch reply {
    case .error(let error): events = refused(command, CallmeshError(error))
    case .call(let state): events = reported(state)
    case .done where command.verb == .connected: events = connected()
    case .done, .attached, .registered, .answer, .calls, .history, .rules: break
    }
    // No delivery tells a device about its own decisions.
    guard let view, view.isEnded, let stop = view.stop else { return events }
    var error: CallmeshError?
    if case .error(let why) = reply { error = CallmeshError(why) }
    return events + ended(stop, isLocal: view.endedLocally || error != nil, error: error)
  }

  /// A command got no reply, or was not sent in time.
  mutating func gaveUp(_ command: ClientCommand, _ error: CallmeshError) -> [Call.Event] {
    if let reason = command.endsOwnPart {
      return ended(Stop(reason: reason), isLocal: true, error: error)
    }
    switch command {
    case .place where state == .placing:
      return ended(Stop(reason: .failed), isLocal: true, error: error)
    case .call(_, .query) where state == .waking:
      return ended(Stop(reason: .failed), isLocal: true, error: error)
    case .call(_, .answer): return answerFailed()
    default: return []
    }
  }

  private mutating func refused(
    _ command: ClientCommand, _ error: CallmeshError
  ) -> [Call.Event] {
    let isGone = error.code == .unknownCall || error.code == .notParty
    if isGone, command.isAboutOwnPart {
      let reason = command.endsOwnPart ?? .failed
      return ended(Stop(reason: reason), isLocal: true, error: error)
    }
    if case .call(_, .answer) = command { return answerFailed() }
    if case .place = command, state == .placing {
      return ended(Stop(reason: .failed), isLocal: true, error: error)
    }
    return []
  }

  /// The call rings on: the user may try once more.
  private mutating func answerFailed() -> [Call.Event] {
    guard state == .answering else { return [] }
    state = .ringing
    return [.ringing(by: nil)]
  }

  private mutating func reported(_ reported: CallState) -> [Call.Event] {
    deadline = reported.deadline ?? deadline
    guard role == .caller, state == .placing else { return [] }
    switch reported.phase {
    case .placed:
      state = .placed
      return [.placed]
    case .ringing:
      state = .ringing
      return [.ringing(by: nil)]
    case .answered:
      // The call is of the app's former run. Its answer may have been acknowledged then, and does not come again.
      (state, peer) = (.answered, reported.by)
      return [.answered(by: reported.by, description: "", isHere: false)]
    case .unknown, .ended: return []
    }
  }

  private mutating func connected() -> [Call.Event] {
    guard state == .answered else { return [] }
    state = .connected
    return [.connected]
  }
}

extension ClientCommand {
  /// The command's verb for a call; nil: it is about no call, or places one.
  var verb: CallVerb? { if case .call(_, let verb) = self { verb } else { nil } }

  /// Whether the command says that this device has a part in the call.
  fileprivate var isAboutOwnPart: Bool {
    switch verb {
    case nil, .query, .pull, .signal, .transfer, .cancelTransfer: false
    case .alerting, .answer, .decline, .busy, .cancel, .connected, .hangUp, .resume: true
    }
  }
}
