internal import CallBus
package import CallCore

/// Deadlines, pauses, and draining.
extension GatewayMachine {
  /// When to call `tick` at the latest.
  package var nextDeadline: Timestamp? {
    if isIdle { return nil }
    let step = lastTick + .milliseconds(100)
    if active.isEmpty, held.isEmpty { return reports.nextDeadline }
    return min(step, reports.nextDeadline ?? step)
  }

  package mutating func tick(now: Timestamp) {
    for step in reports.expire(now: now) {
      switch step {
      case .retransmit(let pending):
        count(.reportsRepeated)
        effects.append(.report(pending))
      case .givenUp(let pending):
        count(.reportsGivenUp)
        settleHeld(pending.number, now: now)
      }
    }
    guard lastTick + .milliseconds(100) <= now else { return }
    lastTick = now
    for number in active.keys.sorted() { look(at: number, now: now) }
    for (question, number) in questions where active[number]?.isAsking != true {
      questions[question] = nil
    }
    for (number, job) in held where job.extendedAt + limits.workingEvery <= now {
      held[number]!.extendedAt = now
      effects.append(.settle(item: job.item, .inProgress))
    }
    for pool in pools.indices { fill(pool, now: now) }
  }

  private mutating func look(at number: UInt64, now: Timestamp) {
    guard let job = active[number] else { return }
    switch job.stage {
    case .sending, .resting:
      if job.job.deadline + limits.overdue <= now {
        count(.overdue)
        let failed = PushOutcome.failed(reason: "the sender did not answer", mayHaveArrived: true)
        return sent(number, failed, now: now)
      }
    case .waiting, .asking, .awaitingPeers:
      if job.job.deadline <= now {
        drop(number, job, as: .late, now: now)
        return fill(job.pool, now: now)
      }
      switch job.stage {
      case .asking(let until), .awaitingPeers(let until):
        if until <= now { send(number, now: now) }
      case .waiting, .sending, .resting: break
      }
    }
    guard job.extendedAt + limits.workingEvery <= now else { return }
    active[number]!.extendedAt = now
    effects.append(.settle(item: job.item, .inProgress))
  }

  // MARK: Pauses

  /// The sender of a notice begins to pause. The notice leaves its place to others, so that notices which a provider
  /// makes wait delay no ring. If too many rest, it returns to the queue.
  package mutating func paused(_ number: UInt64, until: Timestamp, now: Timestamp) {
    guard let job = active[number], job.stage == .sending, job.job.purpose == .missedNotice,
      now < until
    else { return }
    if pools[job.pool].resting < limits.waitingPerPool {
      active[number]!.stage = .resting
      pools[job.pool].sending -= 1
      pools[job.pool].resting += 1
      leaveService(job.service)
    } else {
      count(.turnedAway)
      end(number)
      let pause = max(limits.putOff.lowerBound, min(until - now, limits.putOff.upperBound))
      effects.append(.withdraw(job: number))
      effects.append(
        .settle(item: job.item, .retry(after: .microseconds(pause.microseconds))))
    }
    fill(job.pool, now: now)
  }

  /// The pause is over. The notice may exceed the pool's limit for its attempt: the sender limits the requests.
  package mutating func resumed(_ number: UInt64) {
    guard let job = active[number], job.stage == .resting else { return }
    active[number]!.stage = .sending
    pools[job.pool].resting -= 1
    pools[job.pool].sending += 1
    if !job.service.isEmpty { places[job.service, default: 0] += 1 }
  }

  // MARK: Draining

  /// Refuses new jobs, and returns to the queue what no sender has yet.
  package mutating func drain() {
    isDraining = true
    for number in active.keys.sorted() where active[number]?.isWithSender != true {
      release(number)
    }
    for pool in pools.indices { pools[pool].queue.removeAll() }
  }

  /// Accepts jobs again.
  package mutating func resume() { isDraining = false }

  /// Returns everything to the queue, at the end of the drain time.
  package mutating func releaseAll() {
    for number in active.keys.sorted() { release(number) }
    for (_, job) in held.sorted(by: { $0.key < $1.key }) {
      count(.released)
      effects.append(.settle(item: job.item, .retry(after: .zero)))
    }
    held.removeAll()
    heldByIdentity.removeAll()
  }

  private mutating func release(_ number: UInt64) {
    guard let job = active[number] else { return }
    count(.released)
    end(number)
    effects.append(.settle(item: job.item, .retry(after: .zero)))
  }
}
