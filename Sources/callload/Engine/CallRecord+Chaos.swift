import CallCore
import CallJudge

/// What faults explain, and what they never do.
extension CallRecord {
  /// What waited in a frozen process or a cut network is excused, and what another edge said before, as its
  /// version proves: a device that moves has two sessions for a moment.
  mutating func examineOddities(_ timeline: FaultTimeline) {
    for oddity in oddities {
      let waited = timeline.mayComeLate(to: oddity.device, at: oddity.at)
      let stale = oddity.isOld && timeline.mayBeStale(shard: shard, at: oddity.at)
      let isExplained = stale || oddity.isOvertaken || oddity.rule != .duplicateEnd && waited
      if !isExplained { violate(oddity.rule, oddity.what) }
    }
  }

  func isDisturbed(
    _ device: Int, from begin: Timestamp, to end: Timestamp, _ timeline: FaultTimeline
  ) -> Bool {
    guard !timeline.isEmpty, begin <= end else { return false }
    return timeline.isDisturbed(shard: shard, or: [device], from: begin, to: end)
  }

  // MARK: Accepted, then forgotten

  /// Once the caller was told that it is placed, a call reaches an end on which both sides agree.
  mutating func examineEnd(isAttached: (Int) -> Bool) {
    guard accepted else { return }
    if let device = forgottenBy {
      let name = name(of: device)
      return violate(.acceptedThenForgotten, "\(name) was told that there is no such call")
    }
    if !caller.isOver, !isOverForCallees, isAttached(facts.caller) {
      return violate(.acceptedThenForgotten, "the caller waits for an end that does not come")
    }
    guard let end = caller.stop?.reason ?? caller.replied?.reason else { return }
    // The caller may have been away from before the answer until after the end.
    let winner = answeredBy ?? callees.first { $0.wonAt != nil }?.device
    for callee in callees {
      // Who left by itself heard the end of its own part, and who lost is not in the call any more.
      guard winner == nil || winner == callee.device, let told = callee.stop?.reason,
        callee.acts.isDisjoint(with: .refusal)
      else { continue }
      guard told != end else { continue }
      let name = name(of: callee.device)
      return violate(
        .acceptedThenForgotten,
        "the caller was told \(end.name) and \(name) \(told.name)")
    }
  }

  /// Every device that rang knows of an end, or the winner does.
  var isOverForCallees: Bool {
    let invited = callees.filter { $0.invitedAt != nil }
    return !invited.isEmpty && invited.allSatisfy { $0.isOver }
      || invited.contains { $0.wonAt != nil && $0.isOver }
  }

  // MARK: Timeouts

  /// Beyond what faults excuse.
  static let timeoutSlack: Span = .seconds(1)

  /// A ring timeout fires on time, or as soon as there is an owner again to fire it.
  mutating func examineTimeout(_ timeline: FaultTimeline) {
    guard let due = ringsOutAt else { return }
    // Who sleeps hears of it when it wakes.
    let told = ([caller] + callees.filter { $0.invitedAt != nil })
      .filter { $0.end?.reason == .unanswered }
    guard let first = told.compactMap({ $0.end?.at }).min() else { return }
    // Whoever nothing kept from hearing it is the measure; who was away, from when it was back.
    let excused = told.map { device in
      let faults = timeline.excuse(
        shard: shard, device: device.device, due: due, slack: Self.timeoutSlack)
      guard device.wasAway, let end = device.end else { return faults }
      let back = device.attachedAt ?? .distantFuture
      return end.at < back ? faults : max(faults, back)
    }
    guard let excuse = excused.min(), excuse.later(by: Self.timeoutSlack) < first else { return }
    let late = (first - due).microseconds / 1000
    let story = timeline.story(shard: shard, around: due)
    violate(
      .timeoutLate,
      (["nobody was told of the ring timeout until \(late) ms after it"] + story)
        .joined(separator: "; "))
  }

  // MARK: Other ends than planned

  /// A command that a fault swallowed is sent again within this time: a client waits 7 s for a reply.
  static let retransmissionMax: Span = .seconds(8)

  /// The fault that explains an end which the scenario did not plan; nil where none does.
  func explanation(of outcome: CallOutcome, _ timeline: FaultTimeline) -> Fault? {
    guard !timeline.isEmpty, let last = trace.last?.at else { return nil }
    let begin = facts.placedAt
    let shardFault = timeline.disturbed(shard: shard, from: begin, to: last)
    func deviceFault(_ devices: some Sequence<Int>) -> Fault? {
      devices.lazy.compactMap { timeline.disturbed(device: $0, from: begin, to: last) }.first
    }
    switch outcome {
    case .refused(.tryAgain), .refused(.overloaded), .refused(.draining):
      return shardFault ?? deviceFault([facts.caller])
    case .ended(.unreachable):
      // A new owner knows who is attached; only what an edge carried, or NATS, may be missing.
      if let fault = deviceFault(facts.callees) { return fault }
      return timeline.lostMessages(shard: shard, from: begin, to: last)
    case .ended(.unanswered):
      // What was said in time is decided once the fault is over, unless ringing has ended by then.
      let over = ringsOutAt ?? deadline
      let held = over + Span(microseconds: -Self.retransmissionMax.microseconds)
      let canBeLate = refusal != nil || callees.contains { !$0.wasThere }
      let since = canBeLate ? begin : max(begin, held)
      let until = max(since, canBeLate ? last : over)
      return ([facts.caller] + facts.callees).lazy
        .compactMap { timeline.disturbed(device: $0, from: since, to: until) }.first
        ?? timeline.disturbed(shard: shard, from: since, to: until)
    case .ended(.declined), .ended(.busy), .ended(.failed):
      return shardFault ?? deviceFault(facts.callees) ?? deviceFault([facts.caller])
    case .ended(.cancelled):
      guard caller.wasAway else { return nil }
      if let fault = deviceFault([facts.caller]) { return fault }
      return hindrance(timeline, last)
    case .ended(.hungUp):
      // A caller that cannot come back has left.
      return caller.wasAway ? hindrance(timeline, last) : nil
    // The rest is never a fault's doing, and a call without an end least of all.
    case .refused, .answered, .unfinished, .ended(.answeredElsewhere), .ended(.glare): return nil
    }
  }

  /// The fault that kept the caller away for at least half of its absence: of an edge, or of its own shard.
  private func hindrance(_ timeline: FaultTimeline, _ last: Timestamp) -> Fault? {
    guard let since = caller.awaySince else { return nil }
    let over = firstEndAt ?? last
    if let back = caller.attachedAt, back.later(by: Self.timeoutSlack) < over { return nil }
    let own = timeline.shard(ofDevice: facts.caller)
    return timeline.hindrance(shard: own, from: since, to: over)
  }
}
