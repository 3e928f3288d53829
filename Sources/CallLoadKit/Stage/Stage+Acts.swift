import CallClient
import CallCore
import CallWire

extension Stage {
  func after(_ span: Span, _ call: CallID, _ action: @escaping (LiveCall) -> Void) {
    at(loop.now + span, call, action)
  }

  func at(_ time: Timestamp, _ call: CallID, _ action: @escaping (LiveCall) -> Void) {
    loop.schedule(at: time) { [weak self] in
      if let live = self?.live[call] { action(live) }
    }
  }

  /// The address under which a device that rings refers to the call. Only its own user goes without saying.
  func calleesAddress(_ plan: CallPlan) -> CallAddress {
    CallAddress(callee: plan.route.called(fleet.roster) ?? "", call: plan.call)
  }

  func scheduleActs(_ live: LiveCall, from since: Timestamp) {
    let plan = live.plan
    let act = since + plan.act
    switch plan.kind {
    case .answered, .pulled, .forwarded, .transferred, .consulted:
      answer(live, plan.actor, at: act)
    case .secondCall where plan.during != nil && !plan.answersThen:
      refuse(live, plan.actor, .decline(.everywhere), at: act)
    case .secondCall: answer(live, plan.actor, at: act)
    case .twoAnswer:
      answer(live, plan.actor, at: act)
      if plan.other != plan.actor { answer(live, plan.other, at: act) }
    case .declinedEverywhere: refuse(live, plan.actor, .decline(.everywhere), at: act)
    case .declinedHere:
      refuse(live, plan.actor, .decline(.here), at: act)
      if plan.answersThen, plan.other != plan.actor {
        answer(live, plan.other, at: act + plan.then)
      }
    case .cancelled: cancel(live, at: act)
    case .cancelAtAnswer:
      answer(live, plan.actor, at: act)
      cancel(live, at: act)
    case .unanswered, .crossing, .group: break
    case .busy:
      for callee in plan.callees { refuse(live, callee, .busy, at: act + plan.alert(callee)) }
    case .calleeReturns:
      at(act, plan.call) { [unowned self] _ in devices[plan.actor].drop(for: plan.away) }
    case .callerReturns:
      at(act, plan.call) { [unowned self] _ in devices[plan.caller].drop(for: plan.away) }
      // Half of the callers are away at the answer and are notified of it when they are back.
      if plan.answersThen { answer(live, plan.actor, at: act + plan.then) }
    }
  }

  func returned(_ live: LiveCall, _ device: LoadDevice) {
    let plan = live.plan
    switch plan.kind {
    case .callerReturns where device.index == plan.caller && !plan.answersThen:
      answer(live, plan.actor, at: loop.now + plan.then)
    case .calleeReturns where device.index == plan.actor: live.isBack = true
    default: break
    }
  }

  /// A callee's device that came back rings again: now somebody answers.
  func rangAgain(_ live: LiveCall, _ device: LoadDevice) {
    guard live.answerIntended.isEmpty else { return }
    let answerer = live.plan.answersThen ? device.index : live.plan.other
    answer(live, answerer, at: loop.now + live.plan.then)
  }

  func answer(_ live: LiveCall, _ device: Int, at time: Timestamp) {
    live.answerIntended[device] = time
    at(time, live.plan.call) { [unowned self] live in
      // A person can only answer what rings, but does so at once then; the delay counts.
      if live.invited.contains(device) {
        sendAnswer(live, device)
      } else {
        live.answersOnInvite.insert(device)
      }
    }
  }

  /// The callee's other devices that rang take the call over.
  func pull(_ live: LiveCall, from winner: Int) {
    let (plan, holder) = (live.plan, fleet.roster.party(winner).device)
    for callee in plan.callees
    where callee != winner && live.invited.contains(callee) && devices[callee].isAttached {
      live.pulling.insert(callee)
      let request = PullRequest(from: holder, description: LiveCall.description)
      devices[callee].submit(.call(calleesAddress(plan), .pull(request)))
    }
  }

  func sendAnswer(_ live: LiveCall, _ device: Int) {
    guard !live.isOver.contains(device) else { return }
    devices[device].submit(
      .call(calleesAddress(live.plan), .answer(description: LiveCall.description)))
  }

  func refuse(_ live: LiveCall, _ device: Int, _ verb: CallVerb, at time: Timestamp) {
    at(time, live.plan.call) { [unowned self] in refuse($0, device, verb) }
  }

  /// A device that sleeps cannot refuse a call before it rings there; it does as soon as it rings.
  private func refuse(_ live: LiveCall, _ device: Int, _ verb: CallVerb) {
    guard !live.isOver.contains(device), !live.actsByPush.contains(device) else { return }
    guard !devices[device].sleeps || live.invited.contains(device) else {
      live.refusesOnInvite[device] = verb
      return
    }
    devices[device].submit(.call(calleesAddress(live.plan), verb))
  }

  /// A device rings after the time when it was to refuse.
  func refuseOnInvite(_ live: LiveCall, _ device: Int) {
    if let verb = live.refusesOnInvite.removeValue(forKey: device) { refuse(live, device, verb) }
  }

  func cancel(_ live: LiveCall, at time: Timestamp) {
    live.cancelIntended = time
    at(time, live.plan.call) { [unowned self] live in
      let caller = devices[live.plan.caller]
      guard !live.isOver.contains(caller.index) else { return }
      caller.submit(.call(caller.address(live.plan.call), .cancel))
    }
  }
}
