import CallClient
import CallCore
import CallWire

/// What the judge of pushes is told of calls, and when it judges.
extension LoadRig {
  /// How long after a call is judged its last pushes may come.
  static let pushQuietSpan: Span = .seconds(6)

  /// The caller's device was told how its call stands.
  func noticeForPushes(_ device: LoadDevice, _ delivery: Delivery, at now: Timestamp) {
    guard let stage, let sleep else { return }
    if case .invite = delivery.event, sleep.sleeps(device.index) {
      stage.pushJudge.invited(delivery.call, device.index, decidedAt: delivery.at)
    }
    guard let plan = stage.expectations[delivery.call] else { return }
    switch delivery.event {
    case .answered(let answered):
      stage.pushJudge.over(delivery.call, decidedAt: delivery.at, heardAt: now)
      if let winner = roster.device(answered.by) { stage.pushJudge.won(delivery.call, winner) }
    case .stop:
      // A callee's device may have ended its own part alone.
      guard device.index == plan.caller else { return }
      stage.pushJudge.over(delivery.call, decidedAt: delivery.at, heardAt: now)
    case .invite, .ringing, .signal: break
    }
  }

  /// The caller's cancel was taken.
  func noticeCancelled(_ call: CallID, _ device: LoadDevice) {
    guard let stage, sleep != nil, stage.expectations[call]?.caller == device.index else { return }
    stage.pushJudge.over(call, decidedAt: nil, heardAt: loop.now)
  }

  func judgePushes(at now: Timestamp) {
    while let stage, stage.pushQuietFirst < stage.pushQuiet.count,
      stage.pushQuiet[stage.pushQuietFirst].judgeAt <= now
    {
      judgePushes(of: stage.pushQuiet[stage.pushQuietFirst].call)
      stage.pushQuietFirst += 1
    }
    if let first = stage?.pushQuietFirst, first > 4096 {
      stage?.pushQuiet.removeFirst(first)
      stage?.pushQuietFirst = 0
    }
  }

  private func judgePushes(of call: CallID) {
    guard let stage else { return }
    let (roster, timeline) = (roster, stage.checker.timeline)
    var faults = PushJudge.Faults()
    faults.disturbed = { device, begin, end in
      let shard = timeline.shard(ofDevice: device)
      return timeline.disturbed(shard: shard, from: begin, to: end) != nil
        || timeline.disturbed(device: device, from: begin, to: end) != nil
    }
    // The queue may hand a job to one that has just died; a server is away for seconds.
    faults.ringUncertain = { begin, end in
      func before(_ seconds: Int64) -> Timestamp { begin + .seconds(-seconds) }
      return timeline.began({ $0 == .killPush }, from: before(1), to: end)
        || timeline.began(\.isOfNATS, from: before(10), to: end)
    }
    let finding = stage.pushJudge.judge(call, faults: faults) { roster.party($0).text }
    for (purpose, count) in finding.late { stage.pushes.late[purpose, default: 0] += count }
    for violation in finding.violations { stage.checker.pushesBroke(violation, of: call) }
  }

  /// The stage is over: nothing more comes.
  func judgeAllPushes() {
    judgePushes(at: Timestamp.distantFuture)
  }
}
