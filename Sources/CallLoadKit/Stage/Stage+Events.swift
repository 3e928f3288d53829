import CallClient
import CallCore
import CallWire

extension Stage {
  /// Before the machine sees a frame.
  func received(_ device: LoadDevice, _ frame: ServerFrame) {
    let now = loop.now
    checker.received(device: device.index, frame, at: now)
    guard case .delivery(let delivery) = frame else { return }
    if case .invite(let invite) = delivery.event, let live = live[delivery.call] {
      if live.ringSpan == nil { live.ringSpan = invite.deadline - delivery.at }
      // The client drops an invite of a call that it has; here it shows that the device is back.
      if live.isBack, device.index == live.plan.actor { rangAgain(live, device) }
    }
    pushes?.delivered(device, delivery, at: now)
  }

  func replied(
    _ device: LoadDevice, _ request: UInt64, _ command: ClientCommand, _ reply: ServerReply
  ) {
    switch command {
    case .ping: return pingReplied(device, request, reply)
    case .history: return histories?.replied(device, reply) ?? ()
    default: break
    }
    guard let call = command.address?.call else { return }
    if case .error(let error) = reply {
      // The checker counts it only for a command without a reply: the last of several attempts failed.
      checker.refused(device: device.index, request: request, error.code, at: loop.now)
    }
    if let live = live[call] {
      if case .call(_, .transfer) = command, reply.isError { transferIsOver(live) }
      switch command {
      case .call(_, .decline), .call(_, .busy), .call(_, .hangUp), .call(_, .cancel):
        // A cancel that an answer overtook, or that was refused, ends nothing.
        guard !reply.saysAnswered else { break }
        live.isOver.insert(device.index)
        if case .call(_, .cancel) = command, !reply.isError { pushes?.cancelled(call, device) }
      default: break
      }
    }
    finishIfSettled(call)
  }

  func gaveUp(_ device: LoadDevice, _ request: UInt64, _ command: ClientCommand) {
    if case .history = command { histories?.replied(device, nil) }
    checker.gaveUp(
      device: device.index, request: request, command, isAttached: device.isAttached,
      at: loop.now)
    guard let call = command.address?.call else { return }
    if case .call(_, .transfer) = command, let live = live[call] { transferIsOver(live) }
    finishIfSettled(call)
  }

  func attachedAgain(_ device: LoadDevice) {
    checker.attached(device: device.index, in: device.calls, at: loop.now)
    for call in device.calls {
      if let live = live[call] { returned(live, device) }
    }
  }

  func happened(_ call: CallID, _ event: CallEvent, _ device: LoadDevice) {
    guard let live = live[call] else { return }
    if live.plan.transfer != nil, transferHappened(live, event, device) { return }
    switch event {
    case .invited: invited(live, device)
    case .answered(let answered): self.answered(live, by: fleet.roster.device(answered.by))
    case .won: won(live, device)
    case .stopped(let stop): stopped(live, stop.reason, device)
    case .signal(let signal): checker.appReceived(device: device.index, in: live.plan.call, signal)
    case .ringing, .ringsUntil, .moved, .transfer: break
    }
  }

  private func invited(_ live: LiveCall, _ device: LoadDevice) {
    let now = loop.now
    guard live.plan.callees.contains(device.index) else { return }
    live.invited.insert(device.index)
    // Devices that have to be woken first are timed separately.
    if !device.sleeps {
      live.awakeInvited += 1
      // A call that goes on takes two more messages between shards, which would hide among the others.
      if live.awakeInvited == live.expectedInvites, live.plan.route.isDirect,
        live.plan.hook?.delays != true
      {
        rang(live.plan, at: fleet.arrivedAt)
      }
    }
    if live.ringsSince == nil {
      live.ringsSince = now
      scheduleActs(live, from: now)
    }
    rangMember(live, device.index)
    signalWhileRinging(live, device.index)
    if live.answersOnInvite.remove(device.index) != nil { sendAnswer(live, device.index) }
    refuseOnInvite(live, device.index)
    after(live.plan.alert(device.index), live.plan.call) { [unowned self] live in
      guard !live.isOver.contains(device.index) else { return }
      device.submit(.call(calleesAddress(live.plan), .alerting))
    }
  }

  private func answered(_ live: LiveCall, by winner: Int?) {
    let plan = live.plan
    live.winner = live.winner ?? winner
    if let winner, let intended = live.answerIntended[winner], !plan.dropsConnection {
      record(.answer, due: intended, at: loop.now)
    }
    let caller = devices[plan.caller]
    caller.submit(.call(caller.address(plan.call), .connected))
    signalAfterAnswer(live, plan.caller, delaysMs: [5])
    if let winner, goesOn(live, winner) { return }
    after(plan.talk, plan.call) { [unowned self] in hangUp($0, winner: winner) }
    if plan.kind == .pulled, let winner {
      after(plan.then, plan.call) { [unowned self] in pull($0, from: winner) }
    }
  }

  private func won(_ live: LiveCall, _ device: LoadDevice) {
    // If the talk is over by then, the former device has hung up in vain, or was stopped before it could.
    if live.pulling.contains(device.index) {
      live.isOver.remove(device.index)
      live.puller = device.index
      if live.isTalkOver {
        after(live.plan.talk, live.plan.call) { [unowned self] in hangUp($0, winner: nil) }
      }
    }
    device.submit(.call(calleesAddress(live.plan), .connected))
    signalAfterAnswer(live, device.index, delaysMs: [5, 20])
  }

  private func stopped(_ live: LiveCall, _ reason: EndReason, _ device: LoadDevice) {
    live.isOver.insert(device.index)
    // A device that never rang is notified when it attaches, and not before.
    let rang = live.invited.contains(device.index)
    switch reason {
    case .answeredElsewhere where rang: live.lastElsewhereAt = loop.now
    case .cancelled where rang: live.lastCancelAt = loop.now
    case .unanswered:
      // Compares lengths alone, so that clocks may differ.
      // A group's member is notified when its turn is over.
      guard live.plan.script == nil, let since = live.ringsSince, let span = live.ringSpan else {
        return
      }
      let late = (loop.now - since).microseconds - span.microseconds
      book.record(.timeout, Span(microseconds: abs(late)))
    case .answeredElsewhere, .cancelled, .declined, .busy, .unreachable, .hungUp, .failed, .glare,
      .moved, .transferred:
      break
    }
  }

  /// The call is over for all devices: only now it is known which one was notified last.
  func recordLast(_ live: LiveCall) {
    guard !live.plan.dropsConnection else { return }
    // Two devices that answer at once have the same intended time.
    if let at = live.lastElsewhereAt, let intended = live.answerIntended.values.max() {
      record(.elsewhere, due: intended, at: at)
    }
    if let at = live.lastCancelAt, let intended = live.cancelIntended {
      book.record(.cancel, at - intended)
    }
  }
}

extension ServerReply {
  var isError: Bool { if case .error = self { true } else { false } }
  fileprivate var saysAnswered: Bool {
    if case .call(let state) = self { state.phase == .answered } else { false }
  }
}
