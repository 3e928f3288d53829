import CallClient
import CallCore
import CallWire
import NIOCore

extension PushDesk {
  /// How long after a call is judged its last pushes may come.
  static let quietSpan: Span = .seconds(6)

  func planned(_ plan: CallPlan) { pushJudge.planned(plan.call, at: plan.placeAt) }

  func delivered(_ device: LoadDevice, _ delivery: Delivery, at now: Timestamp) {
    if case .invite = delivery.event, device.sleeps {
      pushJudge.invited(delivery.call, device.index, decidedAt: delivery.at)
    }
    guard let plan = stage.plans[delivery.call] else { return }
    switch delivery.event {
    case .answered(let answered):
      pushJudge.over(delivery.call, decidedAt: delivery.at, heardAt: now)
      if let winner = rig.roster.device(answered.by) { pushJudge.won(delivery.call, winner) }
    case .stop:
      // A callee's device may have ended its own part alone.
      guard device.index == plan.caller else { return }
      pushJudge.over(delivery.call, decidedAt: delivery.at, heardAt: now)
    case .invite, .ringing, .signal: break
    }
  }

  func cancelled(_ call: CallID, _ device: LoadDevice) {
    guard stage.plans[call]?.caller == device.index else { return }
    pushJudge.over(call, decidedAt: nil, heardAt: rig.loop.now)
  }

  func judge(at now: Timestamp) {
    while let next = quiet.first, next.until <= now { judge(quiet.removeFirst().call) }
  }

  private func judge(_ call: CallID) {
    let (roster, timeline) = (rig.roster, stage.checker.timeline)
    var faults = PushJudge.Faults()
    faults.disturbed = { device, begin, end in
      let shard = timeline.shard(ofDevice: device)
      return timeline.isDisturbed(shard: shard, or: [device], from: begin, to: end)
    }
    // The queue may hand a job to one that has just died; a server is away for seconds.
    faults.ringUncertain = { begin, end in
      func before(_ seconds: Int64) -> Timestamp { begin + .seconds(-seconds) }
      return timeline.began({ $0 == .killPush }, from: before(1), to: end)
        || timeline.began(\.isOfNATS, from: before(10), to: end)
    }
    let finding = pushJudge.judge(call, faults: faults) { roster.party($0).text }
    for (purpose, count) in finding.late { result.late[purpose, default: 0] += count }
    for violation in finding.violations { stage.checker.pushesBroke(violation, of: call) }
  }
}
