import CallCore
import CallJudge

/// Judges what faults explain, and what they never explain.
extension CallRecord {
  /// Excuses what waited in a frozen process, a cut network or for a processor, and what another edge sent before, as
  /// its version proves: a device that moves has two sessions for a moment.
  mutating func examineOddities(_ timeline: FaultTimeline) {
    for oddity in oddities {
      let waited = timeline.mayComeLate(to: oddity.device, at: oddity.at)
      let stale =
        oddity.isOld
        && (timeline.mayBeStale(shard: shard, at: oddity.at) || timeline.wasBusy(at: oddity.at))
      let isExplained = stale || oddity.isOvertaken || oddity.rule != .duplicateEnd && waited
      if !isExplained { violate(oddity.rule, oddity.what) }
    }
  }

  func isDisturbed(
    _ device: Int, from begin: Timestamp, to end: Timestamp, _ timeline: FaultTimeline
  ) -> Bool {
    begin <= end && timeline.isDisturbed(shards: [shard], or: [device], from: begin, to: end)
  }

  /// A call that the cluster accepted reaches an end on which both sides agree.
  mutating func examineEnd(isAttached: (Int) -> Bool) {
    guard accepted else { return }
    if let device = forgottenBy {
      return violate(
        .acceptedThenForgotten, "\(name(of: device)) was told that there is no such call")
    }
    if !caller.isOver, !isOverForCallees, isAttached(facts.caller) {
      return violate(.acceptedThenForgotten, "the caller waits for an end that does not come")
    }
    guard let end = caller.end?.reason else { return }
    // The caller may have been away from before the answer until after the end.
    let winner = puller ?? answeredBy ?? winners.first?.device
    for callee in callees {
      // A device that refused was notified of the end of its own part; a loser has left the call.
      guard winner == nil || winner == callee.device, let told = callee.stop?.reason, told != end,
        callee.acts.isDisjoint(with: .refusal), !hasOwnEnd(callee),
        end != .glare || told != .answeredElsewhere
      else { continue }
      return violate(
        .acceptedThenForgotten,
        "the caller was told \(end.name) and \(name(of: callee.device)) \(told.name)")
    }
  }

  /// Whether every device that rang was notified of an end, or the winner was.
  var isOverForCallees: Bool {
    let invited = callees.filter { $0.invitedAt != nil }
    return !invited.isEmpty && invited.allSatisfy { $0.isOver }
      || invited.contains { $0.wonAt != nil && $0.isOver }
  }

  /// A ring timeout may be late by this much beyond what faults excuse.
  static let timeoutSlack: Span = .seconds(1)

  /// A ring timeout fires on time, or as soon as there is an owner again to fire it.
  mutating func examineTimeout(_ timeline: FaultTimeline) {
    guard let due = ringsOutAt else { return }
    // A sleeping device is notified when it wakes.
    let told = ([caller] + callees.filter { $0.invitedAt != nil })
      .filter { $0.end?.reason == .unanswered && !hasOwnEnd($0) }
    guard let first = told.compactMap({ $0.end?.at }).min() else { return }
    // The least excused device counts; one that was away is excused until it was back.
    let excused = told.map { device in
      let faults = timeline.excuse(
        shards: [shard], device: device.device, due: due, slack: Self.timeoutSlack)
      guard device.wasAway, let end = device.end else { return faults }
      let back = (device.attachedAt ?? .distantFuture).later(by: newsDelay(of: device.device))
      return end.at < back ? faults : max(faults, back)
    }
    guard let excuse = excused.min(), excuse.later(by: Self.timeoutSlack) < first else { return }
    let late = (first - due).microseconds / 1000
    violate(
      .timeoutLate,
      (["nobody was told of the ring timeout until \(late) ms after it"]
        + timeline.story(shard: shard, around: due)).joined(separator: "; "))
  }

  /// A command that a fault lost is retransmitted within this time: a client waits 7 s for a reply.
  static let retransmissionMax: Span = .seconds(8)

  /// The fault that explains an end which the scenario did not plan; nil where none does.
  func explanation(of outcome: CallOutcome, _ timeline: FaultTimeline) -> ChaosFault? {
    guard !timeline.isEmpty, let last = trace.last?.at else { return nil }
    let begin = facts.placedAt
    func fault(
      _ places: [FaultTimeline.Place], from since: Timestamp? = nil, to until: Timestamp? = nil
    ) -> ChaosFault? {
      places.lazy.compactMap {
        timeline.disturbed($0, from: since ?? begin, to: until ?? last)
      }.first
    }
    let (caller, callees) = (
      FaultTimeline.Place.device(facts.caller), facts.callees.map(FaultTimeline.Place.device)
    )
    switch outcome {
    case .refused(.tryAgain), .refused(.overloaded), .refused(.draining), .refused(.appAway):
      return fault([.shard(shard), caller])
    case .refused(.notAttached): return fault([caller])
    case .ended(.unreachable):
      // A new owner learns who is attached; only what an edge carried, or NATS, may be missing.
      return fault(callees)
        ?? shards.lazy.compactMap { timeline.lostMessages(shard: $0, from: begin, to: last) }.first
        ?? guestShards.lazy.compactMap { timeline.silence(ofShard: $0, until: last) }.first
    case .ended(.unanswered):
      // A command sent in time is decided once the fault is over, unless ringing has ended by then.
      let over = ringsOutAt ?? deadline
      // A member of a group has to answer in its turn.
      let canBeLate =
        refusal != nil || facts.route.group?.isInTurn == true
        || self.callees.contains { !$0.wasThere }
      // Whether two calls that cross become one is up to both their shards.
      let other =
        facts.crosses.flatMap { _ in
          fault([.shard(timeline.shard(ofDevice: facts.caller)), .shard(shard)])
        }
      if let other { return other }
      let since = canBeLate ? begin : max(begin, over - Self.retransmissionMax)
      let until = max(since, canBeLate ? last : over)
      return fault(
        [caller] + callees + shards.map(FaultTimeline.Place.shard), from: since, to: until)
    case .ended(.declined), .ended(.busy), .ended(.failed):
      return fault(shards.map(FaultTimeline.Place.shard) + callees + [caller])
    case .ended(.cancelled):
      guard self.caller.wasAway else { return nil }
      return fault([caller]) ?? hindrance(timeline, last)
    case .ended(.hungUp):
      // A caller that cannot come back has left.
      return self.caller.wasAway ? hindrance(timeline, last) : nil
    // No fault explains any other end, and least of all a call without an end.
    case .refused, .answered, .unfinished, .ended(.answeredElsewhere), .ended(.glare),
      .ended(.moved), .ended(.transferred):
      return nil
    }
  }

  /// The fault that kept the caller away for at least half of its absence: of an edge, or of its own shard.
  private func hindrance(_ timeline: FaultTimeline, _ last: Timestamp) -> ChaosFault? {
    guard let since = caller.awaySince else { return nil }
    let over = firstEndAt ?? last
    if let back = caller.attachedAt, back.later(by: Self.timeoutSlack) < over { return nil }
    let own = timeline.shard(ofDevice: facts.caller)
    return timeline.hindrance(shard: own, from: since, to: over)
  }
}
