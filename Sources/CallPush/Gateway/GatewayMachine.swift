internal import CallBus
package import CallCore
internal import DequeModule

/// What a gateway does with each job: drop it, give it to a sender, let it wait, leave it to others;
/// and when the queue may forget it. A value: the time is an argument, what is to be done comes out.
///
/// A job is settled when its outcome was handed to the shard. That a provider accepted it may be said
/// without being heard; that a token is gone, or a push failed, is kept until the shard has it: the
/// queue then still knows the job if this gateway dies.
package struct GatewayMachine: Sendable {
  package struct Pool: Sendable {
    package fileprivate(set) var sending = 0
    fileprivate var queue: Deque<UInt64> = []
    package var waiting: Int { queue.count }
  }

  private struct Active {
    /// What comes next: waiting → (asking or hearing →) sending. All but the first have one of the pool's
    /// places.
    enum Stage: Equatable {
      case waiting
      /// Whether another gateway dropped the ring of which this would tell that it is over.
      case hearing(until: Timestamp)
      /// For the shard's answer, and no longer than until then.
      case asking(until: Timestamp)
      case sending
    }
    var item: UInt64
    var identity: PushIdentity
    var job: PushJob
    var pool: Int
    var service: String
    /// How often the queue handed the job out.
    var attempt: Int
    var stage = Stage.waiting
    var isWithdrawn = false
    let takenAt: Timestamp
    var toldAt: Timestamp
    var isAsking: Bool { if case .asking = stage { true } else { false } }
  }
  /// An outcome that its shard must have before the queue forgets the job.
  private struct Held {
    var item: UInt64
    var identity: PushIdentity
    var toldAt: Timestamp
  }

  private let limits: Limits
  package private(set) var pools: [Pool]
  private var active: [UInt64: Active] = [:]
  private var byIdentity: [PushIdentity: UInt64] = [:]
  /// Rings that are with a sender or wait for one.
  private var rings: [CallID: Set<UInt64>] = [:]
  /// Calls that ring no more. Their rings may come later, or again.
  private var ended: RecentSet<CallID>
  private var places: [String: Int] = [:]
  /// Rings that were dropped and that nobody can have sent: their devices ring for no push, so none
  /// need tell them that it is over.
  private var unsentRings: RecentSet<PushLeg>
  /// Rings that a sender here had: whatever others say of them, their devices may ring.
  private var sentRings: RecentSet<PushLeg>
  /// By the number of the report.
  private var held: [UInt64: Held] = [:]
  private var heldByIdentity: [PushIdentity: UInt64] = [:]
  private var fates: RecentSet<PushIdentity>
  private var reports: GatewayReports
  /// The jobs of questions that no shard has answered.
  private var questions: [UInt64: UInt64] = [:]
  private var lastQuestion: UInt64 = 0
  private var lastJob: UInt64 = 0
  private var lastTick = Timestamp(microseconds: 0)
  package private(set) var isDraining = false
  package private(set) var counts: [Count: UInt64] = [:]

  package init(
    pools: Int, limits: Limits = Limits(), reports: GatewayReports = GatewayReports()
  ) {
    self.limits = limits
    self.reports = reports
    fates = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    ended = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    unsentRings = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    sentRings = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    self.pools = Array(repeating: Pool(), count: pools)
  }

  package var reportsWaiting: Int { reports.count }
  /// Jobs that are with a sender, wait for one, or are held until a report is answered.
  package var jobs: Int { active.count + held.count }
  package var isIdle: Bool { active.isEmpty && held.isEmpty && reports.count == 0 }
  package func job(_ number: UInt64) -> PushJob? { active[number]?.job }

  private mutating func count(_ what: Count) { counts[what, default: 0] += 1 }

  // MARK: Jobs

  /// A job came.
  ///
  /// - Parameters:
  ///   - attempt: how often the queue has handed it out.
  ///   - pool: whose sender serves its token; nil: none here does.
  ///   - service: to whom it goes, where a pool has several; empty: to the pool's only one.
  package mutating func take(
    item: UInt64, _ job: PushJob, attempt: Int = 1, pool: Int?, service: String = "",
    now: Timestamp, into effects: inout [Effect]
  ) {
    let identity = PushIdentity(job)
    if takeAgain(item, identity, attempt, into: &effects) { return count(.repeated) }
    guard job.deadline > now else {
      count(.late)
      noteUnsent(job, attempt: attempt, now: now, into: &effects)
      return finish(item, identity, job, .expired, now: now, into: &effects)
    }
    if job.purpose == .ring, ended.contains(job.call) {
      count(.withdrawn)
      noteUnsent(job, attempt: attempt, now: now, into: &effects)
      return finish(item, identity, job, .expired, now: now, into: &effects)
    }
    if job.purpose.isCleanUp {
      // What says that it is over must not be followed by the ring.
      withdraw([job.call], now: now, into: &effects)
      // Nor is there anything to say of a ring that never left: a VoIP push that ends a call makes an app
      // that never rang report one.
      if unsentRings.contains(job.leg) {
        count(.withdrawn)
        return finish(item, identity, job, .expired, now: now, into: &effects)
      }
    }
    if isDraining {
      count(.released)
      return effects.append(.settle(item: item, .again(after: .zero)))
    }
    guard let pool else {
      count(.unserved)
      let share = Span(microseconds: (job.deadline - job.decidedAt).microseconds / 2)
      guard now < job.decidedAt + min(limits.unservedFor, share) else {
        let reason = "no sender for this topic"
        return finish(item, identity, job, .rejected(reason: reason), now: now, into: &effects)
      }
      return effects.append(.settle(item: item, .again(after: limits.unservedPause)))
    }
    let hasPlace = pools[pool].sending < limits.sendsPerPool
    let isFull = !hasPlace && pools[pool].waiting >= limits.waitingPerPool
    guard !isFull, service.isEmpty || places[service, default: 0] < limits.placesPerService else {
      count(.turnedAway)
      return effects.append(.settle(item: item, .again(after: limits.turnedAwayPause)))
    }
    lastJob += 1
    active[lastJob] = Active(
      item: item, identity: identity, job: job, pool: pool, service: service, attempt: attempt,
      takenAt: now, toldAt: now)
    byIdentity[identity] = lastJob
    if job.purpose == .ring { rings[job.call, default: []].insert(lastJob) }
    if !service.isEmpty { places[service, default: 0] += 1 }
    if hasPlace {
      begin(lastJob, now: now, into: &effects)
    } else {
      pools[pool].queue.append(lastJob)
    }
  }

  /// Whether the push is under way here, or was done. The newest item is the one to settle.
  private mutating func takeAgain(
    _ item: UInt64, _ identity: PushIdentity, _ attempt: Int, into effects: inout [Effect]
  ) -> Bool {
    if let number = byIdentity[identity] {
      active[number]!.attempt = max(active[number]!.attempt, attempt)
      effects.append(.forget(item: active[number]!.item))
      active[number]!.item = item
      return true
    }
    if let number = heldByIdentity[identity] {
      effects.append(.forget(item: held[number]!.item))
      held[number]!.item = item
      return true
    }
    guard fates.contains(identity) else { return false }
    effects.append(.settle(item: item, .done))
    return true
  }

  /// There is a place for the job.
  private mutating func begin(_ number: UInt64, now: Timestamp, into effects: inout [Effect]) {
    pools[active[number]!.pool].sending += 1
    let job = active[number]!.job
    let heardBy = active[number]!.takenAt + limits.hearWithin
    if job.isRingUnknown, !sentRings.contains(job.leg), now < heardBy {
      active[number]!.stage = .hearing(until: heardBy)
      return
    }
    guard job.purpose == .ring, job.decidedAt + limits.askAfter < now else {
      return send(number, now: now, into: &effects)
    }
    active[number]!.stage = .asking(until: now + limits.answerWithin)
    lastQuestion += 1
    questions[lastQuestion] = number
    effects.append(.ask(question: lastQuestion, job: number))
  }

  private mutating func send(
    _ number: UInt64, now: Timestamp, into effects: inout [Effect]
  ) {
    active[number]!.stage = .sending
    let job = active[number]!.job
    if job.purpose == .ring { sentRings.insert(job.leg, now: now) }
    effects.append(.send(job: number, pool: active[number]!.pool))
  }

  /// A shard says whether the call of which it was asked still rings for the device.
  package mutating func learnt(
    _ question: UInt64, rings: Bool, now: Timestamp, into effects: inout [Effect]
  ) {
    guard let number = questions.removeValue(forKey: question), let job = active[number],
      case .asking = job.stage
    else { return }
    if rings { return send(number, now: now, into: &effects) }
    drop(number, job, as: .overtaken, now: now, into: &effects)
    fill(job.pool, now: now, into: &effects)
  }

  /// A sender is done. What it says of a job that is not waited for any more is passed over.
  package mutating func sent(
    _ number: UInt64, _ outcome: PushOutcome, now: Timestamp, into effects: inout [Effect]
  ) {
    guard let done = active[number], done.stage == .sending else { return }
    end(number)
    finish(done.item, done.identity, done.job, outcome, now: now, into: &effects)
    fill(done.pool, now: now, into: &effects)
  }

  private mutating func end(_ number: UInt64) {
    guard let job = active.removeValue(forKey: number) else { return }
    byIdentity[job.identity] = nil
    if job.stage != .waiting { pools[job.pool].sending -= 1 }
    if rings[job.job.call]?.remove(number) != nil, rings[job.job.call]!.isEmpty {
      rings[job.job.call] = nil
    }
    guard !job.service.isEmpty, let left = places[job.service] else { return }
    places[job.service] = left > 1 ? left - 1 : nil
  }

  // MARK: Calls that ended

  /// These calls ring no more: rings for them that no sender has are dropped, and those that one has
  /// get no further attempt.
  package mutating func withdraw(
    _ calls: [CallID], now: Timestamp, into effects: inout [Effect]
  ) {
    for call in calls {
      ended.insert(call, now: now)
      for number in (rings[call] ?? []).sorted() {
        guard let job = active[number] else { continue }
        guard job.stage == .sending else {
          drop(number, job, as: .withdrawn, now: now, into: &effects)
          fill(job.pool, now: now, into: &effects)
          continue
        }
        guard !job.isWithdrawn else { continue }
        active[number]!.isWithdrawn = true
        effects.append(.withdraw(job: number))
      }
    }
  }

  /// A ring is dropped. One that was handed out before may have been sent by who had it then.
  private mutating func noteUnsent(
    _ job: PushJob, attempt: Int, now: Timestamp, into effects: inout [Effect]
  ) {
    guard job.purpose == .ring, attempt == 1 else { return }
    unsentRings.insert(job.leg, now: now)
    effects.append(.tellNeverSent(job.leg))
  }

  /// Another gateway dropped these rings: what would tell of their end has nothing to tell.
  package mutating func neverSent(
    _ legs: [PushLeg], now: Timestamp, into effects: inout [Effect]
  ) {
    let told = Set(legs.filter { !sentRings.contains($0) })
    for leg in told { unsentRings.insert(leg, now: now) }
    let vain = active.filter { _, job in
      job.job.purpose.isCleanUp && job.stage != .sending && told.contains(job.job.leg)
    }
    for (number, job) in vain.sorted(by: { $0.key < $1.key }) {
      drop(number, job, as: .withdrawn, now: now, into: &effects)
      fill(job.pool, now: now, into: &effects)
    }
  }

  /// Gives free places to those that wait.
  private mutating func fill(_ pool: Int, now: Timestamp, into effects: inout [Effect]) {
    while pools[pool].sending < limits.sendsPerPool, let next = pools[pool].queue.popFirst() {
      guard let waiting = active[next] else { continue }
      if waiting.job.deadline > now {
        begin(next, now: now, into: &effects)
      } else {
        drop(next, waiting, as: .late, now: now, into: &effects)
      }
    }
  }

  private mutating func drop(
    _ number: UInt64, _ job: Active, as what: Count, now: Timestamp,
    into effects: inout [Effect]
  ) {
    count(what)
    noteUnsent(job.job, attempt: job.attempt, now: now, into: &effects)
    end(number)
    finish(job.item, job.identity, job.job, .expired, now: now, into: &effects)
  }

  // MARK: Reports

  private mutating func finish(
    _ item: UInt64, _ identity: PushIdentity, _ job: PushJob, _ outcome: PushOutcome,
    now: Timestamp, into effects: inout [Effect]
  ) {
    let report = PushReport(
      call: job.call, device: job.device, purpose: job.purpose,
      fingerprint: job.token.fingerprint, outcome: outcome, at: now)
    let (pending, isKept) = reports.begin(job.user, report, now: now)
    count(.reports)
    if !isKept { count(.reportsGivenUp) }
    effects.append(.report(pending))
    if isKept, outcome.mustBeHeard {
      held[pending.number] = Held(item: item, identity: identity, toldAt: now)
      heldByIdentity[identity] = pending.number
    } else {
      fates.insert(identity, now: now)
      effects.append(.settle(item: item, .done))
    }
  }

  /// A shard answered a report. Where it asks to try again, nothing changes: it will be said again.
  package mutating func answered(
    _ number: UInt64, now: Timestamp, into effects: inout [Effect]
  ) {
    guard reports.answered(number) else { return }
    letGo(number, now: now, into: &effects)
  }

  private mutating func letGo(
    _ number: UInt64, now: Timestamp, into effects: inout [Effect]
  ) {
    guard let done = held.removeValue(forKey: number) else { return }
    heldByIdentity[done.identity] = nil
    fates.insert(done.identity, now: now)
    effects.append(.settle(item: done.item, .done))
  }

  // MARK: Time

  /// When to call `tick` at the latest.
  package var nextDeadline: Timestamp? {
    if isIdle { return nil }
    let step = lastTick + .milliseconds(100)
    if active.isEmpty, held.isEmpty { return reports.nextDeadline }
    return min(step, reports.nextDeadline ?? step)
  }

  package mutating func tick(now: Timestamp, into effects: inout [Effect]) {
    for step in reports.expire(now: now) {
      switch step {
      case .say(let pending):
        count(.reportsRepeated)
        effects.append(.report(pending))
      case .givenUp(let pending):
        count(.reportsGivenUp)
        letGo(pending.number, now: now, into: &effects)
      }
    }
    guard lastTick + .milliseconds(100) <= now else { return }
    lastTick = now
    for number in active.keys.sorted() { look(at: number, now: now, into: &effects) }
    for (question, number) in questions where active[number]?.isAsking != true {
      questions[question] = nil
    }
    for (number, job) in held where job.toldAt + limits.workingEvery <= now {
      held[number]!.toldAt = now
      effects.append(.settle(item: job.item, .working))
    }
    for pool in pools.indices { fill(pool, now: now, into: &effects) }
  }

  private mutating func look(
    at number: UInt64, now: Timestamp, into effects: inout [Effect]
  ) {
    guard let job = active[number] else { return }
    switch job.stage {
    case .sending:
      if job.job.deadline + limits.overdue <= now {
        count(.overdue)
        let failed = PushOutcome.failed(
          reason: "the sender did not answer", mayHaveArrived: true)
        return sent(number, failed, now: now, into: &effects)
      }
    case .waiting, .asking, .hearing:
      if job.job.deadline <= now {
        drop(number, job, as: .late, now: now, into: &effects)
        return fill(job.pool, now: now, into: &effects)
      }
      switch job.stage {
      case .asking(let until), .hearing(let until):
        if until <= now { send(number, now: now, into: &effects) }
      case .waiting, .sending: break
      }
    }
    guard job.toldAt + limits.workingEvery <= now else { return }
    active[number]!.toldAt = now
    effects.append(.settle(item: job.item, .working))
  }

  // MARK: Going

  /// Takes nothing new, and gives back what no sender has yet.
  package mutating func drain(into effects: inout [Effect]) {
    isDraining = true
    for number in active.keys.sorted() where active[number]?.stage != .sending {
      release(number, into: &effects)
    }
    for pool in pools.indices { pools[pool].queue.removeAll() }
  }

  /// Takes jobs again.
  package mutating func resume() { isDraining = false }

  /// The time for what is under way is over: it goes back to the queue, and to another gateway.
  package mutating func releaseAll(into effects: inout [Effect]) {
    for number in active.keys.sorted() { release(number, into: &effects) }
    for (_, job) in held.sorted(by: { $0.key < $1.key }) {
      count(.released)
      effects.append(.settle(item: job.item, .again(after: .zero)))
    }
    held.removeAll()
    heldByIdentity.removeAll()
  }

  private mutating func release(_ number: UInt64, into effects: inout [Effect]) {
    guard let job = active[number] else { return }
    count(.released)
    end(number)
    effects.append(.settle(item: job.item, .again(after: .zero)))
  }
}

extension PushOutcome {
  /// Whether the shard has to know: else it may be said in vain.
  package var mustBeHeard: Bool {
    switch self {
    case .accepted, .expired: false
    case .tokenGone, .rejected, .failed: true
    }
  }
}
