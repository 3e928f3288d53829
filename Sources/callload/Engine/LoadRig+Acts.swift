import CallClient
import CallCore
import CallWire

/// The parts of a scenario: what devices do, and when.
extension LoadRig {
  /// The call rings: from now on people react.
  func scheduleActs(_ live: LiveCall, from since: Timestamp) {
    let plan = live.plan
    let act = since + plan.act
    switch plan.kind {
    case .answered: answer(live, plan.actor, at: act)
    case .twoAnswer:
      answer(live, plan.actor, at: act)
      if plan.other != plan.actor { answer(live, plan.other, at: act) }
    case .declinedEverywhere:
      at(act, plan.call) { [self] in decline($0, .everywhere) }
    case .declinedHere:
      at(act, plan.call) { [self] in decline($0, .here) }
      if plan.answersThen, plan.other != plan.actor {
        answer(live, plan.other, at: act + plan.then)
      }
    case .cancelled: cancel(live, at: act)
    case .cancelAtAnswer:
      answer(live, plan.actor, at: act)
      cancel(live, at: act)
    case .unanswered: break
    case .busy:
      for callee in plan.callees {
        at(act + plan.alert(callee), plan.call) { [self] in sayBusy($0, callee) }
      }
    case .calleeReturns:
      at(act, plan.call) { [self] _ in drop(devices[plan.actor], for: plan.away) }
    case .callerReturns:
      at(act, plan.call) { [self] _ in drop(devices[plan.caller], for: plan.away) }
      // Half of the callers miss the moment of the answer and hear of it when they are back.
      if plan.answersThen { answer(live, plan.actor, at: act + plan.then) }
    }
  }

  /// A dropped device is attached again.
  func returned(_ live: LiveCall, _ device: LoadDevice) {
    let plan = live.plan
    switch plan.kind {
    case .callerReturns where device.index == plan.caller && !plan.answersThen:
      answer(live, plan.actor, at: loop.now + plan.then)
    case .calleeReturns where device.index == plan.actor: live.isBack = true
    default: break
    }
  }

  /// A callee's device that came back was told to ring again: now somebody answers.
  func heardAgain(_ live: LiveCall, _ device: LoadDevice) {
    guard live.answerIntended.isEmpty else { return }
    let answerer = live.plan.answersThen ? device.index : live.plan.other
    answer(live, answerer, at: loop.now + live.plan.then)
  }

  private func answer(_ live: LiveCall, _ device: Int, at time: Timestamp) {
    live.answerIntended[device] = time
    at(time, live.plan.call) { [self] live in
      // A person can't answer what does not ring yet, but will as soon as it does; the time that
      // this takes counts.
      guard live.invited.contains(device) else {
        live.answersOnInvite.insert(device)
        return
      }
      sayAnswer(live, device)
    }
  }

  func sayAnswer(_ live: LiveCall, _ device: Int) {
    guard !live.isOver.contains(device) else { return }
    say(
      .call(CallAddress(call: live.plan.call), .answer(description: Self.description)),
      devices[device])
  }

  private func decline(_ live: LiveCall, _ scope: DeclineScope) {
    let device = live.plan.actor
    guard !live.isOver.contains(device), !live.actsByPush.contains(device) else { return }
    guard !isYetToWake(device, live) else {
      live.declineOnInvite = scope
      return
    }
    say(.call(CallAddress(call: live.plan.call), .decline(scope)), devices[device])
  }

  private func sayBusy(_ live: LiveCall, _ device: Int) {
    guard !live.isOver.contains(device), !live.actsByPush.contains(device) else { return }
    guard !isYetToWake(device, live) else {
      live.busyOnInvite.insert(device)
      return
    }
    say(.call(CallAddress(call: live.plan.call), .busy), devices[device])
  }

  /// A device that sleeps cannot refuse what does not ring there yet.
  private func isYetToWake(_ device: Int, _ live: LiveCall) -> Bool {
    sleep?.sleeps(device) == true && !live.invited.contains(device)
  }

  /// A device rings at last, after the time when it was to refuse.
  func refuseOnInvite(_ live: LiveCall, _ device: Int) {
    if device == live.plan.actor, let scope = live.declineOnInvite {
      live.declineOnInvite = nil
      decline(live, scope)
    }
    if live.busyOnInvite.remove(device) != nil { sayBusy(live, device) }
  }

  private func cancel(_ live: LiveCall, at time: Timestamp) {
    live.cancelIntended = time
    at(time, live.plan.call) { [self] live in
      let caller = devices[live.plan.caller]
      guard !live.isOver.contains(caller.index) else { return }
      say(.call(caller.driver.machine.address(live.plan.call), .cancel), caller)
    }
  }

  /// The device's socket breaks, without a word; it comes back after a while.
  private func drop(_ device: LoadDevice, for span: Span) {
    guard device.isAttached else { return }
    connectionGone(device)
    device.driver.suspend()
    loop.schedule(at: loop.now + span) { device.driver.resume() }
  }
}
