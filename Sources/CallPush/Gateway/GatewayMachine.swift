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
    package internal(set) var sending = 0
    var queue: Deque<UInt64> = []
    package var waiting: Int { queue.count }
  }

  struct Active {
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
  struct Held {
    var item: UInt64
    var identity: PushIdentity
    var toldAt: Timestamp
  }

  let limits: Limits
  package internal(set) var pools: [Pool]
  var active: [UInt64: Active] = [:]
  var byIdentity: [PushIdentity: UInt64] = [:]
  /// Rings that are with a sender or wait for one.
  var rings: [CallID: Set<UInt64>] = [:]
  /// Calls that ring no more. Their rings may come later, or again.
  var ended: RecentSet<CallID>
  var places: [String: Int] = [:]
  /// Rings that were dropped and that nobody can have sent: their devices ring for no push, so none
  /// need tell them that it is over.
  var unsentRings: RecentSet<PushLeg>
  /// Rings that a sender here had: whatever others say of them, their devices may ring.
  var sentRings: RecentSet<PushLeg>
  /// By the number of the report.
  var held: [UInt64: Held] = [:]
  var heldByIdentity: [PushIdentity: UInt64] = [:]
  var fates: RecentSet<PushIdentity>
  var reports: GatewayReports
  /// The jobs of questions that no shard has answered.
  var questions: [UInt64: UInt64] = [:]
  var lastQuestion: UInt64 = 0
  var lastJob: UInt64 = 0
  var lastTick = Timestamp(microseconds: 0)
  package internal(set) var isDraining = false
  package internal(set) var counts: [Count: UInt64] = [:]
  /// The topics for which no gateway has a sender.
  package internal(set) var unserved: UnservedTopics

  package init(
    pools: Int, limits: Limits = Limits(), reports: GatewayReports = GatewayReports()
  ) {
    self.limits = limits
    self.reports = reports
    fates = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    ended = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    unsentRings = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    sentRings = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    unserved = UnservedTopics(capacity: limits.unservedTopicsMax)
    self.pools = Array(repeating: Pool(), count: pools)
  }

  package var reportsWaiting: Int { reports.count }
  /// Jobs that are with a sender, wait for one, or are held until a report is answered.
  package var jobs: Int { active.count + held.count }
  package var isIdle: Bool { active.isEmpty && held.isEmpty && reports.count == 0 }
  package func job(_ number: UInt64) -> PushJob? { active[number]?.job }

  /// Returns the topics without a sender that need a log line now, each with the number of jobs that the line
  /// stands for.
  package mutating func takeUnservedLines() -> [(topic: PushTopic, jobs: Int)] {
    unserved.takeLines()
  }

  mutating func count(_ what: Count) { counts[what, default: 0] += 1 }

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
      return effects.append(.settle(item: item, .retry(after: .zero)))
    }
    guard let pool else {
      count(.unserved)
      let share = Span(microseconds: (job.deadline - job.decidedAt).microseconds / 2)
      guard now < job.decidedAt + min(limits.unservedFor, share) else {
        unserved.note(job.token, now: now)
        let reason = "no sender for this topic"
        return finish(item, identity, job, .rejected(reason: reason), now: now, into: &effects)
      }
      return effects.append(.settle(item: item, .retry(after: limits.unservedPause)))
    }
    let hasPlace = pools[pool].sending < limits.sendsPerPool
    let isFull = !hasPlace && pools[pool].waiting >= limits.waitingPerPool
    guard !isFull, service.isEmpty || places[service, default: 0] < limits.placesPerService else {
      count(.turnedAway)
      return effects.append(.settle(item: item, .retry(after: limits.turnedAwayPause)))
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
  mutating func begin(_ number: UInt64, now: Timestamp, into effects: inout [Effect]) {
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

  mutating func send(
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

  mutating func end(_ number: UInt64) {
    guard let job = active.removeValue(forKey: number) else { return }
    byIdentity[job.identity] = nil
    if job.stage != .waiting { pools[job.pool].sending -= 1 }
    if rings[job.job.call]?.remove(number) != nil, rings[job.job.call]!.isEmpty {
      rings[job.job.call] = nil
    }
    guard !job.service.isEmpty, let left = places[job.service] else { return }
    places[job.service] = left > 1 ? left - 1 : nil
  }
}
