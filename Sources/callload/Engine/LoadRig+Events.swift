import CallClient
import CallCore
import CallWire

/// What devices hear, and what the clock says of it.
extension LoadRig {
  func handle(_ event: ClientEvent, _ device: LoadDevice) {
    switch event {
    case .attached(_, let again): attached(device, again: again)
    case .detached: break
    case .notTrusted: deviceTrustsNobody(device)
    case .refused(let error): deviceRefused(device, error)
    case .replied(let request, let command, let reply):
      replied(device, request, command, reply)
    case .gaveUp(let request, let command):
      stage?.checker.gaveUp(device: device.index, request: request, at: loop.now)
      if case .register = command { registerReplied(device, nil) }
      if case .ping = command { device.ping = nil }
      if let call = command.address?.call { finishIfSettled(call) }
    case .notice(let notice):
      if notice.kind != .tokenExpires, !isExcused(device) { count("notice: \(notice.kind.name)") }
    case .call(let call, let event):
      guard let live = stage?.live[call] else { return }
      happened(live, event, device)
    }
  }

  private func attached(_ device: LoadDevice, again: Bool) {
    deviceAttached(device)
    connectionBack(device)
    wokenAttached(device)
    guard again else { return }
    stage?.checker.attached(device: device.index, in: device.calls, at: loop.now)
    for call in device.calls {
      if let live = stage?.live[call] { returned(live, device) }
    }
  }

  private func replied(
    _ device: LoadDevice, _ request: UInt64, _ command: ClientCommand, _ reply: ServerReply
  ) {
    if case .register = command { return registerReplied(device, reply) }
    if case .ping = command { return pingReplied(device, request, reply) }
    guard let call = command.address?.call else { return }
    if case .error(let error) = reply {
      // Counted by the checker only if it is still waited for: the last of several attempts.
      stage?.checker.refused(
        device: device.index, request: request, error.code, at: loop.now)
    }
    if let live = stage?.live[call] {
      switch command {
      case .call(_, .decline), .call(_, .busy), .call(_, .hangUp), .call(_, .cancel):
        // A cancel that an answer overtook ends nothing.
        guard !reply.saysAnswered else { break }
        live.isOver.insert(device.index)
        // One that was refused ends nothing either.
        if case .call(_, .cancel) = command, !reply.isError { noticeCancelled(call, device) }
      default: break
      }
    }
    finishIfSettled(call)
  }

  /// Before the machine sees a delivery: what its event no longer tells.
  func noticeDelivery(_ device: LoadDevice, _ delivery: Delivery, at now: Timestamp) {
    guard case .invite(let invite) = delivery.event, let live = stage?.live[delivery.call] else {
      return
    }
    if live.ringSpan == nil { live.ringSpan = invite.deadline - delivery.at }
    // The machine drops the invite of a call that it knows; a device that comes back needs it.
    if live.isBack, device.index == live.plan.actor { heardAgain(live, device) }
  }

  private func happened(_ live: LiveCall, _ event: CallEvent, _ device: LoadDevice) {
    switch event {
    case .invited: invited(live, device)
    case .answered(let answered): self.answered(live, by: roster.device(answered.by))
    case .won: won(live, device)
    case .stopped(let stop): stopped(live, stop.reason, device)
    case .signal(let signal):
      stage?.checker.received(device: device.index, in: live.plan.call, signal)
    case .ringing: break
    }
  }

  private func invited(_ live: LiveCall, _ device: LoadDevice) {
    let now = loop.now
    guard live.plan.callees.contains(device.index) else { return }
    live.invited.insert(device.index)
    // Who has to be woken first is timed by itself.
    let isAwake = sleep?.sleeps(device.index) != true
    if isAwake { live.awakeInvited += 1 }
    if isAwake, live.awakeInvited == live.expectedInvites {
      rang(live.plan, at: arrivedAt)
    }
    if live.ringsSince == nil {
      live.ringsSince = now
      scheduleActs(live, from: now)
    }
    signalWhileRinging(live, device.index)
    if live.answersOnInvite.remove(device.index) != nil { sayAnswer(live, device.index) }
    refuseOnInvite(live, device.index)
    after(live.plan.alert(device.index), live.plan.call) { [self] live in
      guard !live.isOver.contains(device.index) else { return }
      say(.call(CallAddress(call: live.plan.call), .alerting), device)
    }
  }

  private func answered(_ live: LiveCall, by winner: Int?) {
    let plan = live.plan
    live.answered = true
    if let winner, let intended = live.answerIntended[winner], !plan.dropsConnection {
      stage?.book.record(.answer, loop.now - intended)
    }
    let caller = devices[plan.caller]
    say(.call(caller.driver.machine.address(plan.call), .connected), caller)
    signalAfterAnswer(live, plan.caller, delaysMs: [5])
    after(plan.talk, plan.call) { [self] in hangUp($0, winner: winner) }
  }

  private func won(_ live: LiveCall, _ device: LoadDevice) {
    say(.call(CallAddress(call: live.plan.call), .connected), device)
    signalAfterAnswer(live, device.index, delaysMs: [5, 20])
  }

  private func stopped(_ live: LiveCall, _ reason: EndReason, _ device: LoadDevice) {
    let now = loop.now
    let plan = live.plan
    live.isOver.insert(device.index)
    switch reason {
    // A device that never rang is told when it comes, and not before.
    case .answeredElsewhere:
      if live.invited.contains(device.index) { live.lastElsewhereAt = now }
    case .cancelled where device.index != plan.caller:
      if live.invited.contains(device.index) { live.lastCancelAt = now }
    case .unanswered:
      // By the lengths alone, so that clocks that differ do not matter.
      guard let since = live.ringsSince, let span = live.ringSpan else { return }
      let late = (now - since).microseconds - span.microseconds
      stage?.book.record(.timeout, Span(microseconds: abs(late)))
    case .cancelled, .declined, .busy, .unreachable, .hungUp, .failed, .glare: break
    }
  }
}

extension LoadRig {
  /// The call is over for everybody: only now it is known which device was told last.
  func recordLast(_ live: LiveCall) {
    guard !live.plan.dropsConnection else { return }
    // Of two that answer at once the intended time is the same.
    if let at = live.lastElsewhereAt, let intended = live.answerIntended.values.max() {
      stage?.book.record(.elsewhere, at - intended)
    }
    if let at = live.lastCancelAt, let intended = live.cancelIntended {
      stage?.book.record(.cancel, at - intended)
    }
  }
}

extension ServerReply {
  var isError: Bool { if case .error = self { true } else { false } }
  fileprivate var saysAnswered: Bool {
    if case .call(let state) = self { state.phase == .answered } else { false }
  }
}
