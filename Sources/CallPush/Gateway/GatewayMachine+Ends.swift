internal import CallBus
package import CallCore
internal import DequeModule

/// How jobs end: withdrawals and reports.
extension GatewayMachine {
  /// These calls stopped ringing: rings that no sender has are dropped, and those that one has get no further attempt.
  package mutating func withdraw(_ ringings: [PushRinging], now: Timestamp) {
    for ringing in ringings {
      ended.insert(ringing, now: now)
      withdrawRings(of: ringing.call, now: now) { $0.round == ringing.round }
    }
  }

  mutating func withdrawRings(
    of call: CallID, now: Timestamp, where isOver: (PushJob) -> Bool
  ) {
    for number in (rings[call] ?? []).sorted() {
      guard let job = active[number], isOver(job.job) else { continue }
      guard job.stage == .sending else {
        drop(number, job, as: .withdrawn, now: now)
        fill(job.pool, now: now)
        continue
      }
      guard !job.isWithdrawn else { continue }
      active[number]!.isWithdrawn = true
      effects.append(.withdraw(job: number))
    }
  }

  /// A ring is dropped. If it was delivered before, another gateway may have sent it.
  mutating func noteUnsent(_ job: PushJob, attempt: Int, now: Timestamp) {
    guard job.purpose == .ring, attempt == 1 else { return }
    unsentRings.insert(job.leg, now: now)
    effects.append(.notifyNeverSent(job.leg))
  }

  /// Whether a sender here has the ring of this device.
  func isSendingRing(to leg: PushLeg) -> Bool {
    rings[leg.call]?.contains { active[$0]?.stage == .sending && active[$0]?.job.leg == leg }
      ?? false
  }

  /// A sender is done with a ring: now it is known whether the device needs its clean-up.
  mutating func ringEnded(
    _ job: PushJob, attempt: Int, _ outcome: PushOutcome, now: Timestamp
  ) {
    // If the job was delivered before, another gateway may have sent it.
    if outcome.neverArrived, attempt == 1 {
      sentRings.remove(job.leg)
      noteUnsent(job, attempt: attempt, now: now)
      return neverSent([job.leg], now: now)
    }
    let cleanUps = active.filter { _, waiting in
      guard case .awaitingPeers = waiting.stage else { return false }
      return waiting.job.leg == job.leg
    }
    for number in cleanUps.keys.sorted() { send(number, now: now) }
  }

  /// Another gateway dropped these rings unsent: their clean-ups are dropped.
  package mutating func neverSent(_ legs: [PushLeg], now: Timestamp) {
    let dropped = Set(legs.filter { !sentRings.contains($0) })
    for leg in dropped { unsentRings.insert(leg, now: now) }
    let cleanUps = active.filter { _, job in
      job.job.purpose.isCleanUp && job.stage != .sending && dropped.contains(job.job.leg)
    }
    for (number, job) in cleanUps.sorted(by: { $0.key < $1.key }) {
      drop(number, job, as: .withdrawn, now: now)
      fill(job.pool, now: now)
    }
  }

  /// Gives free places to waiting jobs.
  mutating func fill(_ pool: Int, now: Timestamp) {
    while pools[pool].sending < limits.sendsPerPool, let next = pools[pool].queue.popFirst() {
      guard let waiting = active[next] else { continue }
      if waiting.job.deadline > now {
        begin(next, now: now)
      } else {
        drop(next, waiting, as: .late, now: now)
      }
    }
  }

  mutating func drop(_ number: UInt64, _ job: Active, as what: Count, now: Timestamp) {
    count(what)
    noteUnsent(job.job, attempt: job.attempt, now: now)
    end(number)
    finish(job.item, job.identity, job.job, .expired, now: now)
  }

  // MARK: Reports

  mutating func finish(
    _ item: UInt64, _ identity: PushIdentity, _ job: PushJob, _ outcome: PushOutcome,
    now: Timestamp
  ) {
    var report = PushReport(
      call: job.call, device: job.device, purpose: job.purpose,
      fingerprint: job.token.fingerprint, outcome: outcome, at: now, hasWebhooks: job.hasWebhooks)
    report.round = job.round
    report.trust = job.trust
    let (pending, isKept) = reports.begin(job.user, callee: job.callee, report, now: now)
    count(.reports)
    if !isKept { count(.reportsGivenUp) }
    effects.append(.report(pending))
    if isKept, outcome.mustBeReported {
      held[pending.number] = Held(item: item, identity: identity, extendedAt: now)
      heldByIdentity[identity] = pending.number
    } else {
      fates.insert(identity, now: now)
      effects.append(.settle(item: item, .done))
    }
  }

  /// A shard acknowledged a report.
  package mutating func answered(_ number: UInt64, now: Timestamp) {
    guard reports.answered(number) else { return }
    settleHeld(number, now: now)
  }

  mutating func settleHeld(_ number: UInt64, now: Timestamp) {
    guard let done = held.removeValue(forKey: number) else { return }
    heldByIdentity[done.identity] = nil
    fates.insert(done.identity, now: now)
    effects.append(.settle(item: done.item, .done))
  }
}

extension PushOutcome {
  /// Whether no attempt can have reached the device.
  fileprivate var neverArrived: Bool {
    switch self {
    case .accepted, .acceptedIn, .failed(_, mayHaveArrived: true): false
    case .tokenGone, .tokenRefused, .rejected, .expired, .failed(_, mayHaveArrived: false): true
    }
  }

  /// Whether the shard must acknowledge the report.
  package var mustBeReported: Bool {
    switch self {
    case .accepted, .acceptedIn, .expired: false
    case .tokenGone, .tokenRefused, .rejected, .failed: true
    }
  }
}
