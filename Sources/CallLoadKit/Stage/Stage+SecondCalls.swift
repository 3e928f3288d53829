import CallClient
import CallCore
import CallWire

/// Calls that are placed while another one is answered, by a third user or to one.
extension Stage {
  /// A first call is not held up for longer by a second one, as faults may have it.
  private static let timeout: Span = .seconds(40)

  /// Schedules the steps after the answer, other than that somebody hangs up.
  /// - Returns: whether there are any.
  func goesOn(_ live: LiveCall, _ winner: Int) -> Bool {
    let plan = live.plan
    if plan.second != nil {
      after(plan.then, plan.call) { [unowned self] in placeSecond($0, winner) }
      after(Self.timeout, plan.call) { [unowned self] in hangUp($0, winner: winner) }
      return true
    }
    if let during = plan.during, plan.kind == .consulted {
      after(plan.then, during.first) { [unowned self] first in
        guard let script = first.plan.transfer, let holder = first.winner else { return }
        transfer(first, script, holder, asked: winner)
      }
      after(Self.timeout, plan.call) { [unowned self] in hangUp($0, winner: winner) }
      return true
    }
    guard let script = plan.transfer else { return false }
    after(plan.then, plan.call) { [unowned self] in transfer($0, script, winner) }
    return true
  }

  private func placeSecond(_ live: LiveCall, _ winner: Int) {
    let isOfCaller = live.plan.transfer?.terms.ofCaller ?? false
    let holder = isOfCaller ? live.plan.caller : winner
    guard live.isOver.isDisjoint(with: [live.plan.caller, winner]),
      let plan = CallPlan(secondOf: live.plan, holder: holder, placeAt: loop.now)
    else { return }
    live.hasPlacedSecond = true
    place(plan)
  }

  /// The second call of two is over: the first one goes on for some time, unless it is to be handed over yet.
  func secondIsOver(_ live: LiveCall) {
    guard let first = live.plan.during?.first else { return }
    after(live.plan.talk, first) { [unowned self] first in
      guard first.rungByTransfer.isEmpty else { return }
      hangUp(first, winner: first.winner)
    }
  }

  /// The users of two calls that belong together are free when both are over.
  func release(_ call: LiveCall) {
    let plan = call.plan
    if let second = plan.second {
      // Its first call was never answered, or for too short a time.
      if !call.hasPlacedSecond { result.callsExpected -= 1 }
      if live[second.call] != nil {
        waitingForSecond[second.call] = call
        return
      }
    }
    if plan.during == nil {
      fleet.planner.release(
        plan, winner: call.winner, isSettled: checker.isSettled(plan.call), at: loop.now)
    } else if let first = waitingForSecond.removeValue(forKey: plan.call) {
      release(first)
    }
  }
}
