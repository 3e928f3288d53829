internal import CallCore

/// The calls that were placed from here.
///
/// A session remembers them for two reasons. It reports each call that may exist to the call's shard, when the
/// shard has a new owner and when the socket breaks. And a device may have a limited number of live calls.
///
/// A command that was answered with an error, or not in time, may or may not have reached its shard. Its call is
/// reported, but does not count as live. Otherwise a device that tried in vain during an outage could place no
/// further call.
extension DeviceSession {
  /// A command that places a call, or resumes it, is about to be sent.
  mutating func notePlacing(_ call: CallID, callee: UserKey) {
    if let index = placedCalls.firstIndex(where: { $0.call == call && $0.callee == callee }) {
      placedCalls[index].commandsOpen += 1
    } else {
      remember(PlacedCall(call: call, callee: callee, commandsOpen: 1))
    }
  }

  private mutating func remember(_ call: PlacedCall) {
    if placedCalls.count >= rules.placedCallsMax {
      placedCalls.remove(at: placedCalls.firstIndex { !$0.counts } ?? 0)
    }
    placedCalls.append(call)
  }

  mutating func forget(_ call: CallID) { forget { $0.call == call } }

  private mutating func forget(where isOver: (PlacedCall) -> Bool) {
    if talking?.calls.isEmpty == false { mayReportTalking = true }
    placedCalls.removeAll(where: isOver)
    if placedCalls.isEmpty { placedCalls = [] }
  }

  mutating func update(_ call: CallID, _ change: (inout PlacedCall) -> Void) {
    for index in placedCalls.indices where placedCalls[index].call == call {
      change(&placedCalls[index])
    }
  }

  /// A delivery or a reply shows that the call exists.
  mutating func noteExists(of call: CallID) { update(call) { $0.isKnown = true } }

  mutating func noteRinging(of call: CallID) {
    update(call) {
      $0.isKnown = true
      $0.hasRung = true
    }
  }

  /// A command that may place a call waits for its reply no more.
  mutating func noteAnswered(_ body: Command.Body) {
    guard let call = body.placing else { return }
    update(call) { $0.commandsOpen = max(0, $0.commandsOpen - 1) }
  }

  /// A command was not sent: it has placed nothing.
  mutating func noteRefused(_ body: Command.Body) {
    guard let call = body.placing else { return }
    forget { $0.call == call && !$0.isKnown && !$0.isDoubtful && $0.commandsOpen <= 1 }
  }

  /// Notes what a reply shows of a call that was placed here.
  mutating func notePlaced(by reply: Reply, to body: Command.Body) {
    if case .answer(won: true, let state) = reply { noteTaken(body, state) }
    if case .call(let state) = reply, state.phase == .ended {
      noteEnd(of: state.call, at: state.version)
    }
    guard !placedCalls.isEmpty, let call = body.call else { return }
    noteAnswered(body)
    switch reply {
    case .error(let error): noteError(error.code, call, body)
    case .call(let state):
      switch state.phase {
      case .ended: break
      case .unknown: forget(call)
      case .answered: noteAnswer(of: call, by: state.by, at: state.at)
      // A device that rings for a call may have tried to pull it.
      case .placed, .ringing: body.placing == nil ? noteExists(of: call) : noteRinging(of: call)
      }
    case .answer(let won, let state): notePulled(call, body, won, state)
    case .done:
      switch body {
      case .call(_, .cancel), .call(_, .hangUp): forget(call)
      default: noteExists(of: call)
      }
    case .attached, .registered, .calls, .history, .rules, .app: break
    }
  }

  /// A device that pulls a call, or answers one which is transferred, may have the caller's side then: it has placed the
  /// call from now on. The other side is named then. The session may have forgotten the call meanwhile, by the end of
  /// what this device had of it before.
  private mutating func noteTaken(_ body: Command.Body, _ state: CallState) {
    guard case .call(let call, let verb) = body, verb.takesSide, state.phase == .answered,
      let by = state.by, !isOwn(by), let app = sentIdentity?.user.app,
      !stopsMeanwhile.contains(where: { $0.call == call && $0.version > state.version })
    else { return }
    let callee = UserKey(app: app, user: state.callee)
    if !placedCalls.contains(where: { $0.call == call && $0.callee == callee }) {
      remember(PlacedCall(call: call, callee: callee, commandsOpen: 0))
    }
    noteAnswer(of: call, by: by, at: state.at)
    update(call) { $0.takenAt = max($0.takenAt ?? 0, state.version) }
  }

  /// A call is over for this device, or was before the device took a side. The device may be about to take one.
  mutating func noteEnd(of call: CallID, at version: UInt64) {
    if !placedCalls.isEmpty {
      forget { $0.call == call && $0.takenAt.map { $0 < version } ?? true }
    }
    guard pendingCount > 0 else { return }
    if stopsMeanwhile.count == StopMeanwhile.countMax { stopsMeanwhile.removeFirst() }
    stopsMeanwhile.append(StopMeanwhile(call: call, version: version))
  }

  /// A call was taken over, or was not.
  private mutating func notePulled(
    _ call: CallID, _ body: Command.Body, _ won: Bool, _ state: CallState
  ) {
    guard case .call(_, .pull) = body else { return }
    if !won {
      forgetUntaken(call)
    } else if isOwn(state.by) {
      forget(call)
    }
  }

  /// A call was pulled in vain. Replies to other commands about it may have shown that it exists, but not that it was
  /// placed here.
  private mutating func forgetUntaken(_ call: CallID) {
    forget { $0.call == call && !$0.hasRung && !$0.isAnswered && $0.commandsOpen == 0 }
  }

  func isOwn(_ party: Party?) -> Bool {
    guard let party, let identity = sentIdentity else { return false }
    return party.device == identity.device && party.user.hasBytes(of: identity.user.user)
  }

  private mutating func noteError(_ code: CallError.Code, _ call: CallID, _ body: Command.Body) {
    if code == .unknownCall { return forget(call) }
    let isRefused = code.rawValue < 500
    switch body {
    // A device that has the call may also hear `notParty`, but not to this: where it cancels the other side's transfer,
    // say, or where a candidate has overtaken the pull.
    case .call(_, .resume) where code == .notParty: forget(call)
    case .call(_, .pull) where isRefused: forgetUntaken(call)
    // Refused by its shard; another attempt may be under way.
    case .place where isRefused && code != .callIDTaken:
      forget { $0.call == call && !$0.counts }
    // Where the id is taken, it may be by the call that this device placed on a former socket.
    case _ where body.placing != nil: update(call) { $0.isDoubtful = true }
    default: break
    }
  }
}

extension Command.Body {
  /// The call that the command places, resumes or takes over.
  var placing: CallID? {
    switch self {
    case .place(let request): request.call
    case .call(let call, .resume), .call(let call, .pull): call
    default: nil
    }
  }
}

extension CallVerb {
  /// Whether the device that sends it may have a side of an answered call then.
  fileprivate var takesSide: Bool {
    switch self {
    case .answer, .pull: true
    default: false
    }
  }
}
