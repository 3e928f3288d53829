package import CallBus
package import CallCore
internal import DequeModule

/// What a gateway does with each job: drop it, give it to a sender, let it wait, leave it to others;
/// and when the queue may forget it. A value: the time is an argument, what is to be done comes out.
///
/// A job is settled when its outcome was handed to the shard. That a provider accepted it may be said
/// without being heard; that a token is gone, or a push failed, is kept until the shard has it: the
/// queue then still knows the job if this gateway dies.
package struct GatewayMachine: Sendable {
  package struct Limits: Sendable {
    /// Pushes under way in one pool.
    package var sendsPerPool = 1000
    /// Jobs that wait for one of those places. Policy: a further one goes back into the queue.
    package var waitingPerPool = 1000
    /// After how long a job is handed out again that found no place here.
    package var turnedAwayPause = Duration.milliseconds(250)
    /// After how long a job is handed out again for which there is no sender here: perhaps to a
    /// gateway that has one.
    package var unservedPause = Duration.milliseconds(500)
    /// So often a job may find no sender before it is rejected.
    package var unservedMax = 3
    /// How often the queue is told that a job is worked on.
    package var workingEvery = Span.seconds(2)
    /// A sender that has not answered so long behind the deadline is not waited for.
    package var overdue = Span.seconds(5)
    /// For how long the fate of a push is remembered: its job may come again.
    package var fatesKept = Span.seconds(120)
    package var fatesMax = 200_000
    package init() {}
  }

  package enum Effect: Sendable, Equatable {
    case settle(item: UInt64, WorkSettlement)
    /// The job was handed out again: nothing will be said of the former item any more.
    case forget(item: UInt64)
    case send(job: UInt64, pool: Int)
    case report(GatewayReports.Pending)
  }

  package enum Count: String, Sendable, CaseIterable {
    /// Jobs past their deadline before they could be sent.
    case late
    /// Jobs handed out again that are, or were, dealt with here.
    case repeated
    /// Jobs that found no place and went back.
    case turnedAway
    /// Jobs for which there was no sender here.
    case unserved
    case reports
    case reportsRepeated
    case reportsGivenUp
    /// Senders that did not answer in time.
    case overdue
    /// Jobs given back because the gateway goes.
    case released
  }

  package struct Pool: Sendable {
    package fileprivate(set) var sending = 0
    fileprivate var queue: Deque<UInt64> = []
    package var waiting: Int { queue.count }
  }

  private struct Active {
    var item: UInt64
    var identity: PushIdentity
    var job: PushJob
    var pool: Int
    var isSending = false
    var toldAt: Timestamp
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
  /// By the number of the report.
  private var held: [UInt64: Held] = [:]
  private var heldByIdentity: [PushIdentity: UInt64] = [:]
  private var fates: Set<PushIdentity> = []
  private var fateAges: Deque<(identity: PushIdentity, until: Timestamp)> = []
  private var reports: GatewayReports
  private var lastJob: UInt64 = 0
  private var lastTick = Timestamp(microseconds: 0)
  package private(set) var isDraining = false
  package private(set) var counts: [Count: UInt64] = [:]

  package init(
    pools: Int, limits: Limits = Limits(), reports: GatewayReports = GatewayReports()
  ) {
    self.limits = limits
    self.reports = reports
    self.pools = Array(repeating: Pool(), count: pools)
  }

  package var reportsWaiting: Int { reports.count }
  /// Jobs that are with a sender, wait for one, or are held until a report is answered.
  package var jobs: Int { active.count + held.count }
  package var isIdle: Bool { active.isEmpty && held.isEmpty && reports.count == 0 }
  package func job(_ number: UInt64) -> PushJob? { active[number]?.job }

  private mutating func count(_ what: Count) { counts[what, default: 0] += 1 }

  // MARK: Jobs

  /// A job came. `pool` is whose sender serves its token; nil: none here does.
  package mutating func take(
    item: UInt64, _ job: PushJob, attempt: Int, pool: Int?, now: Timestamp,
    into effects: inout [Effect]
  ) {
    let identity = PushIdentity(job)
    if takeAgain(item, identity, into: &effects) { return count(.repeated) }
    guard job.deadline > now else {
      count(.late)
      return finish(item, identity, job, .expired, now: now, into: &effects)
    }
    if isDraining {
      count(.released)
      return effects.append(.settle(item: item, .again(after: .zero)))
    }
    guard let pool else {
      count(.unserved)
      guard attempt < limits.unservedMax else {
        let reason = "no sender for this topic"
        return finish(item, identity, job, .rejected(reason: reason), now: now, into: &effects)
      }
      return effects.append(.settle(item: item, .again(after: limits.unservedPause)))
    }
    let hasPlace = pools[pool].sending < limits.sendsPerPool
    guard hasPlace || pools[pool].waiting < limits.waitingPerPool else {
      count(.turnedAway)
      return effects.append(.settle(item: item, .again(after: limits.turnedAwayPause)))
    }
    lastJob += 1
    active[lastJob] = Active(
      item: item, identity: identity, job: job, pool: pool, toldAt: now)
    byIdentity[identity] = lastJob
    if hasPlace {
      send(lastJob, into: &effects)
    } else {
      pools[pool].queue.append(lastJob)
    }
  }

  /// Whether the push is under way here, or was done. The newest item is the one to settle.
  private mutating func takeAgain(
    _ item: UInt64, _ identity: PushIdentity, into effects: inout [Effect]
  ) -> Bool {
    if let number = byIdentity[identity] {
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

  private mutating func send(_ number: UInt64, into effects: inout [Effect]) {
    active[number]!.isSending = true
    pools[active[number]!.pool].sending += 1
    effects.append(.send(job: number, pool: active[number]!.pool))
  }

  /// A sender is done. What it says of a job that is not waited for any more is passed over.
  package mutating func sent(
    _ number: UInt64, _ outcome: PushOutcome, now: Timestamp, into effects: inout [Effect]
  ) {
    guard let done = active[number], done.isSending else { return }
    end(number)
    finish(done.item, done.identity, done.job, outcome, now: now, into: &effects)
    fill(done.pool, now: now, into: &effects)
  }

  private mutating func end(_ number: UInt64) {
    guard let job = active.removeValue(forKey: number) else { return }
    byIdentity[job.identity] = nil
    if job.isSending { pools[job.pool].sending -= 1 }
  }

  /// Gives free places to those that wait.
  private mutating func fill(_ pool: Int, now: Timestamp, into effects: inout [Effect]) {
    while pools[pool].sending < limits.sendsPerPool, let next = pools[pool].queue.popFirst() {
      guard let waiting = active[next] else { continue }
      if waiting.job.deadline > now {
        send(next, into: &effects)
      } else {
        drop(next, waiting, now: now, into: &effects)
      }
    }
  }

  private mutating func drop(
    _ number: UInt64, _ job: Active, now: Timestamp, into effects: inout [Effect]
  ) {
    count(.late)
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
      remember(identity, now: now)
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
    remember(done.identity, now: now)
    effects.append(.settle(item: done.item, .done))
  }

  private mutating func remember(_ identity: PushIdentity, now: Timestamp) {
    while let first = fateAges.first, first.until <= now || fates.count >= limits.fatesMax {
      fateAges.removeFirst()
      fates.remove(first.identity)
    }
    guard fates.insert(identity).inserted else { return }
    fateAges.append((identity, now + limits.fatesKept))
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
    if job.isSending {
      if job.job.deadline + limits.overdue <= now {
        count(.overdue)
        let failed = PushOutcome.failed(reason: "the sender did not answer")
        return sent(number, failed, now: now, into: &effects)
      }
    } else if job.job.deadline <= now {
      return drop(number, job, now: now, into: &effects)
    }
    guard job.toldAt + limits.workingEvery <= now else { return }
    active[number]!.toldAt = now
    effects.append(.settle(item: job.item, .working))
  }

  // MARK: Going

  /// Takes nothing new, and gives back what no sender has yet.
  package mutating func drain(into effects: inout [Effect]) {
    isDraining = true
    for number in active.keys.sorted() where active[number]?.isSending == false {
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
