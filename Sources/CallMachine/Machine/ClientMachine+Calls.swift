package import CallCore
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
    if isOfAnother(delivery) { return acknowledgeUnseen(delivery) }
    // The delivery before this one was lost. Neither is acknowledged, so both are retransmitted in
    // order.
    guard delivery.after <= calls[call]?.lastApplied ?? 0 else { return }
    // An invite makes this device a callee. Anything else belongs to a call that this device has
    // forgotten, or that ended before the device learned of it: it is acknowledged, and reported to
    // the app if it is an end.
    if calls[call] == nil {
      calls[call] = CallView(call: call, callee: "", role: .callee, phase: .unknown)
    }
    if case .invite(let invite) = delivery.event { mayRingAgain(delivery, invite, &turn) }
    noteCallee(of: call, delivery.callee)
    guard let index = calls.index(forKey: call) else { return }
    // In place: the view's arrays are not copied.
    let events = calls.values[index].apply(checked(delivery))
    emit(call, events, &turn)
    if delivery.event.isInvite { stayForCall(&turn) }
    let view = calls.values[index]
    acknowledge(delivery, to: view.callee)
    awaitInvite(after: view, events, now: turn.now)
    if case .answered = delivery.event { hangUpLateWin(view, &turn) }
    if view.isEnded { remember(call) }
  }

  private mutating func acknowledge(_ delivery: Delivery, to callee: String) {
    let address = CallAddress(callee: callee, call: delivery.call)
    let ack = PendingAck(
      item: AckItem(call: address, version: delivery.version), isInvite: delivery.event.isInvite)
    if calls[delivery.call]?.isUnclaimed == true { return hold(ack) }
    if !heldAcks.isEmpty { releaseAcks(of: delivery.call) }
    acks.append(ack)
  }

  /// Whether it is of another call than the live one that this device has under the id. A caller chooses ids: one id
  /// for calls to two callees would lead this device's commands to the wrong one.
  private func isOfAnother(_ delivery: Delivery) -> Bool {
    guard let view = calls[delivery.call], view.role == .callee, !view.isEnded,
      view.lastApplied > 0,
      !delivery.callee.isEmpty
    else { return false }
    // An invite may come before the reply to the attach, which says who this device's user is.
    return !asCallee(view.callee).hasBytes(of: asCallee(delivery.callee))
  }

  /// Has the shard stop retransmitting what changes nothing here.
  private mutating func acknowledgeUnseen(_ delivery: Delivery) {
    acknowledge(delivery, to: asCallee(delivery.callee))
  }

  /// The callee as calls have it here: none for calls to the device's own user.
  private func asCallee(_ user: String) -> String { user.hasBytes(of: self.user) ? "" : user }

  /// A call of which a side rings here may have had this device before, or have rung here.
  private mutating func mayRingAgain(
    _ delivery: Delivery, _ invite: Invite, _ turn: inout Turn
  ) {
    guard let view = calls[delivery.call], view.beginsAnew(invite, at: delivery.version) else {
      return
    }
    // It lacks the stop: if it had the call, nothing else than a transfer made it ring again; if it rang, somebody has
    // answered.
    if !view.isEnded {
      let reason: EndReason = view.phase == .ringing ? .answeredElsewhere : .transferred
      emit(delivery.call, [.stopped(Stop(reason: reason))], &turn)
    }
    calls[delivery.call] = view.ringingAgain("", at: delivery.version)
    endedCalls.removeAll { $0 == delivery.call }
  }

  /// A device answers without ringing only if it is in the call of which the invite says that it was asked there, with
  /// the user who transfers: else anybody could make it pick up.
  private func checked(_ delivery: Delivery) -> Delivery {
    guard case .invite(var invite) = delivery.event, let consulted = invite.consulted else {
      return delivery
    }
    let view = calls[consulted.call]
    if let view, view.hasCall, view.phase == .answered, let by = invite.transferredBy,
      !view.peer.isEmpty, view.peer.hasBytes(of: by.user)
    {
      return delivery
    }
    invite.consulted = nil
    var delivery = delivery
    delivery.event = .invite(invite)
    return delivery
  }

  /// A call that was diverted to this user is in another user's shard: all commands about it go there.
  mutating func noteCallee(of call: CallID, _ callee: String) {
    guard calls[call]?.role == .callee else { return }
    let callee = asCallee(callee)
    calls[call]?.callee = callee
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

  /// The user's history has changed. On one connection the edge writes no older state behind a newer one, and
  /// acknowledges what it writes.
  mutating func changed(_ history: HistoryState, _ turn: inout Turn) {
    guard state == .attached, history != self.history else { return }
    self.history = history
    turn.actions.append(.event(.history(history)))
  }

  func emit(_ call: CallID, _ events: [CallEvent], _ turn: inout Turn) {
    for event in events { turn.actions.append(.event(.call(call, event))) }
  }

  /// A delivery before the reply to a pull is of a call that this device does not know yet. It is retransmitted.
  private func isTakingOver(_ call: CallID) -> Bool {
    if let known = calls[call], known.hasCall { return false }
    return pending.contains {
      if case .call(let address, .pull) = $0.command { address.call == call } else { false }
    }
  }

  /// This device has a call that another one of its user had.
  private mutating func takeOver(_ address: CallAddress, _ state: CallState, _ turn: inout Turn) {
    let known = calls[address.call]
    if let known, known.hasCall {
      // It had lost the side without knowing it: a late stop of that is out of date.
      calls[address.call]?.takenOverAt = max(known.takenOverAt, state.version)
      return
    }
    // In a call to oneself the address does not say which side this is.
    let isCallees =
      state.by?.device == device
      && (address.callee.isEmpty || state.by?.user.hasBytes(of: user) == true)
    // Deliveries are compared with this callee.
    let side = CallAddress(
      callee: isCallees ? asCallee(address.callee) : address.callee, call: address.call)
    calls[address.call] = CallView(
      takenOver: side, role: isCallees ? .callee : .caller, state,
      lastApplied: known?.lastApplied ?? 0)
    endedCalls.removeAll { $0 == address.call }
    stayForCall(&turn)
    emit(address.call, [.won(state)], &turn)
  }

  mutating func applyReply(_ command: ClientCommand, _ reply: ServerReply, _ turn: inout Turn) {
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
      // The other side is named where this device took the caller's side of a call that was transferred.
      if won, state.phase == .answered, let by = state.by,
        by.device != device || !by.user.hasBytes(of: user)
      {
        calls.values[index].role = .caller
      }
      events = calls.values[index].answerDecided(won: won, state)
    case .call(let state): events = calls.values[index].apply(state)
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
        events = calls.values[index].apply(
          CallState(call: address.call, callee: address.callee, phase: .unknown))
      default: break
      }
    case .attached, .registered, .calls, .history, .rules: break
    }
    emit(address.call, events, &turn)
    let view = calls.values[index]
    awaitInvite(after: view, events, now: turn.now)
    if view.isEnded { remember(address.call) }
  }

  func isPlacing(_ call: CallID) -> Bool {
    pending.contains { $0.places(call) }
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
  /// The call whose invite this command acknowledges.
  var acknowledgedInvite: CallID? {
    guard case .call(let address, let verb) = self else { return nil }
    return switch verb {
    case .alerting, .answer, .decline, .busy: address.call
    default: nil
    }
  }

  /// The end reason of the call for the device that sends this.
  package var endsOwnPart: EndReason? {
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
