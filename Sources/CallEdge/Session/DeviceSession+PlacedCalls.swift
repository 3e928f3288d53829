internal import CallCore

// MARK: The calls placed from here

/// Which calls a session placed is remembered for two reasons. A shard that has a new owner, or learns
/// that the socket broke, must be told of each that may be there; and a device has only so many calls
/// that live. What may be there is not what lives: of a command that was answered with an error, or
/// with nothing in time, nobody knows whether it arrived. Such a call is reported and does not count,
/// or a device that tried in vain during an outage could place nothing any more.
extension DeviceSession {
  /// A command that may place a call, or finds it placed, is about to be sent.
  mutating func asked(for call: CallID, callee: UserKey) {
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
    placedCalls.removeAll(where: isOver)
    if placedCalls.isEmpty { placedCalls = [] }
  }

  /// A delivery came, or an answer that tells of it: the call is there.
  mutating func noteHeard(of call: CallID) {
    for index in placedCalls.indices where placedCalls[index].call == call {
      placedCalls[index].isKnown = true
    }
  }

  /// One command less is waited for.
  mutating func noteAnswered(_ body: Command.Body) {
    guard let call = body.placing else { return }
    for index in placedCalls.indices where placedCalls[index].call == call {
      placedCalls[index].commandsOpen = max(0, placedCalls[index].commandsOpen - 1)
    }
  }

  /// A command was not sent, so that it has placed nothing.
  mutating func noteRefused(_ body: Command.Body) {
    guard let call = body.placing else { return }
    forget { $0.call == call && !$0.isKnown && !$0.isDoubtful && $0.commandsOpen <= 1 }
  }

  /// What a reply says of a call that was placed here.
  mutating func notePlaced(by reply: Reply, to body: Command.Body) {
    guard !placedCalls.isEmpty, let call = body.call else { return }
    noteAnswered(body)
    switch reply {
    case .error(let error): noteError(error.code, call, body)
    case .call(let state) where state.phase == .ended || state.phase == .unknown: forget(call)
    case .call: noteHeard(of: call)
    case .done:
      switch body {
      case .call(_, .cancel), .call(_, .hangUp): forget(call)
      default: noteHeard(of: call)
      }
    case .answer, .attached, .registered, .calls: break
    }
  }

  private mutating func noteError(_ code: CallError.Code, _ call: CallID, _ body: Command.Body) {
    if code == .unknownCall || code == .notParty { return forget(call) }
    guard body.placing != nil else { return }
    if case .place = body, code.rawValue < 500, code != .callIDTaken {
      // Refused by its shard; another attempt may be under way.
      return forget { $0.call == call && !$0.counts }
    }
    // With an id that is taken it may be the call that this device placed on a former socket.
    for index in placedCalls.indices where placedCalls[index].call == call {
      placedCalls[index].isDoubtful = true
    }
  }
}

extension Command.Body {
  /// The call that the command places, or finds placed by its sender.
  fileprivate var placing: CallID? {
    if case .place(let request) = self { return request.call }
    if case .call(let call, .resume) = self { return call }
    return nil
  }
}
