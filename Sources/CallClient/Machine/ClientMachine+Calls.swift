internal import CallCore
package import CallWire

extension ClientMachine {
  mutating func place(_ address: CallAddress) {
    guard calls[address.call] == nil else { return }
    calls[address.call] = CallView(
      call: address.call, callee: address.callee, role: .caller, phase: .unknown)
  }

  mutating func delivered(_ delivery: Delivery, _ turn: inout Turn) {
    let call = delivery.call
    if isTakingOver(call) { return }
    // The delivery before this one was lost. Neither is acknowledged, so both are retransmitted in
    // order.
    guard delivery.after <= calls[call]?.lastTaken ?? 0 else { return }
    // An invite makes this device a callee. Anything else belongs to a call that this device has
    // forgotten, or that ended before the device learned of it: it is acknowledged, and reported to
    // the app if it is an end.
    if calls[call] == nil {
      calls[call] = CallView(call: call, callee: "", role: .callee, phase: .unknown)
    }
    noteCallee(of: call, delivery.callee)
    guard let index = calls.index(forKey: call) else { return }
    // In place: the view's arrays are not copied.
    emit(call, calls.values[index].take(delivery), &turn)
    if delivery.event.isInvite { stayForCall(&turn) }
    let view = calls.values[index]
    let address = CallAddress(callee: view.callee, call: call)
    acks.append(
      PendingAck(
        item: AckItem(call: address, version: delivery.version),
        isInvite: delivery.event.isInvite))
    if view.isEnded { remember(call) }
  }

  /// A call that was diverted to this user is in another user's shard: whatever is said of it goes there.
  mutating func noteCallee(of call: CallID, _ callee: String) {
    guard calls[call]?.role == .callee else { return }
    calls[call]?.callee = callee.hasBytes(of: user) ? "" : callee
  }

  /// Takes the user's calls, as a frame of the attached connection has them. A late one is out of date.
  mutating func shown(_ ongoing: OngoingCalls, _ turn: inout Turn) {
    guard state == .attached, ongoing.version >= self.ongoing.version else { return }
    acks.append(PendingAck(item: AckItem(ongoing: ongoing.version), isInvite: false))
    show(ongoing, &turn)
  }

  mutating func show(_ ongoing: OngoingCalls, _ turn: inout Turn) {
    let isNews = ongoing.calls != self.ongoing.calls
    self.ongoing = ongoing
    if isNews { turn.actions.append(.event(.ongoing(ongoing.calls))) }
  }

  /// The user's history has changed. On one connection the edge writes no older state behind a newer one, and acknowledges
  /// what it writes.
  mutating func changed(_ history: HistoryState, _ turn: inout Turn) {
    guard state == .attached, history != self.history else { return }
    self.history = history
    turn.actions.append(.event(.history(history)))
  }

  func emit(_ call: CallID, _ events: [CallEvent], _ turn: inout Turn) {
    for event in events { turn.actions.append(.event(.call(call, event))) }
  }

  /// What comes before the reply to a pull is of a call that this device does not know yet. It is retransmitted.
  private func isTakingOver(_ call: CallID) -> Bool {
    if let known = calls[call], known.hasCall { return false }
    return pending.contains {
      if case .call(let address, .pull) = $0.command { address.call == call } else { false }
    }
  }

  /// This device has a call that another one of its user had.
  private mutating func takeOver(_ address: CallAddress, _ state: CallState, _ turn: inout Turn) {
    let known = calls[address.call]
    if let known, known.hasCall { return }
    // In a call to oneself the address does not say which side this is.
    let isCallees =
      state.by?.device == device
      && (address.callee.isEmpty || state.by?.user.hasBytes(of: user) == true)
    calls[address.call] = CallView(
      takenOver: address, role: isCallees ? .callee : .caller, state, versions: known?.heard ?? [])
    endedCalls.removeAll { $0 == address.call }
    stayForCall(&turn)
    emit(address.call, [.won(state)], &turn)
  }

  mutating func takeReply(_ command: ClientCommand, _ reply: ServerReply, _ turn: inout Turn) {
    if case .call(let address, .pull) = command {
      if case .answer(won: true, let state) = reply { takeOver(address, state, &turn) }
      return
    }
    guard let address = command.address, let index = calls.index(forKey: address.call) else {
      return
    }
    var events: [CallEvent] = []
    switch reply {
    case .answer(let won, let state):
      events = calls.values[index].answerDecided(won: won, state)
    case .call(let state): events = calls.values[index].take(state)
    case .done:
      if let reason = command.endsOwnPart { calls.values[index].left(reason) }
    case .error(let error):
      // No delivery will follow for a call that never existed or is forgotten.
      switch command {
      // `callIDTaken` does not tell whose call has the id: this device may have placed it
      // in a former run of the app, and asks for its state.
      case .place
      where calls.values[index].phase == .unknown && !isPlacing(address.call)
        && error.code != .callIDTaken:
        calls.values[index].left(.failed)
      case .call(_, .resume) where error.code == .unknownCall || error.code == .notParty:
        events = calls.values[index].take(
          CallState(call: address.call, callee: address.callee, phase: .unknown))
      default: break
      }
    case .attached, .registered, .calls, .history, .rules: break
    }
    emit(address.call, events, &turn)
    if calls.values[index].isEnded { remember(address.call) }
  }

  func isPlacing(_ call: CallID) -> Bool {
    pending.contains {
      if case .place(let address, _) = $0.command { address.call == call } else { false }
    }
  }

  /// Keeps a bounded number of ended calls, and those with an unanswered command: late deliveries
  /// are acknowledged under the callee's name, which only the view knows.
  mutating func remember(_ call: CallID) {
    guard !endedCalls.contains(call) else { return }
    endedCalls.append(call)
    while endedCalls.count > configuration.endedCallsMax,
      let index = endedCalls.firstIndex(where: { !isAwaited($0) })
    {
      calls[endedCalls.remove(at: index)] = nil
    }
  }

  private func isAwaited(_ call: CallID) -> Bool {
    pending.contains { $0.command.address?.call == call }
  }
}

extension ClientCommand {
  /// The call that the command is about; nil: none.
  package var address: CallAddress? {
    switch self {
    case .place(let address, _), .call(let address, _): address
    case .attach, .detach, .register, .unregister, .ack, .ping, .calls, .renew, .history, .rules:
      nil
    }
  }

  /// The call whose invite this command acknowledges.
  var acknowledgedInvite: CallID? {
    guard case .call(let address, let verb) = self else { return nil }
    return switch verb {
    case .alerting, .answer, .decline, .busy: address.call
    default: nil
    }
  }

  /// The end reason of the call for the device that sends this.
  var endsOwnPart: EndReason? {
    guard case .call(_, let verb) = self else { return nil }
    return switch verb {
    case .decline: .declined
    case .busy: .busy
    case .cancel: .cancelled
    case .hangUp: .hungUp
    default: nil
    }
  }
}

extension Delivery.Event {
  fileprivate var isInvite: Bool {
    if case .invite = self { true } else { false }
  }
}

/// Cancels calls whose `place` was given up without a conclusive reply.
extension ClientMachine {
  /// How long the cancel is retransmitted: the longest ring timeout of a cluster's default
  /// configuration.
  static let withdrawalTime: Span = .seconds(180)

  /// Cancels a call whose `place` was given up although an attempt may have taken effect: a message
  /// that was delayed by an outage may place the call long after its caller gave up.
  mutating func withdraw(_ entry: Pending, _ turn: inout Turn) {
    guard entry.isDoubtful, case .place(let address, _) = entry.command, !isPlacing(address.call)
    else { return }
    if calls[address.call]?.phase == .unknown { calls[address.call]?.left(.failed) }
    // A call that is known to be placed is the app's to end.
    guard calls[address.call]?.isEnded ?? true else { return }
    end(.call(address, .cancel), &turn)
    remember(address.call)
  }

  /// The cancel of a call that was given up came too late: hangs up on whoever answered.
  mutating func hangUpWithdrawn(_ entry: Pending, _ reply: ServerReply, _ turn: inout Turn) {
    guard entry.until != nil, case .call(let address, .cancel) = entry.command,
      case .call(let state) = reply, state.phase == .answered
    else { return }
    end(.call(address, .hangUp), &turn)
  }

  private mutating func end(_ command: ClientCommand, _ turn: inout Turn) {
    guard let request = enqueue(command, &turn),
      let index = pending.lastIndex(where: { $0.id == request })
    else { return }
    pending[index].until = turn.now + Self.withdrawalTime
  }

  /// Whether an unanswered command has another attempt left.
  func mayRetransmit(_ entry: Pending, now: Timestamp) -> Bool {
    if let until = entry.until { return now < until }
    return entry.attempts < configuration.commandAttempts
  }
}
