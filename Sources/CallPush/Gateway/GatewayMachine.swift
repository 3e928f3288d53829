internal import CallBus
package import CallCore
internal import DequeModule

/// Decides what a gateway does with each job: drop it, send it, let it wait, return it to the queue; and when the job
/// is settled. A value: the time is an argument, and `effects` are the output.
///
/// A job is settled once its outcome is reported to the shard. That a provider accepted it needs no acknowledgement. A
/// report that a token is gone, or a push failed, is held until the shard acknowledges it: if this gateway dies before,
/// the queue redelivers the job.
package struct GatewayMachine: Sendable {
  package struct Pool: Sendable {
    package internal(set) var sending = 0
    /// Notices whose senders pause.
    package internal(set) var resting = 0
    var queue: Deque<UInt64> = []
    package var waiting: Int { queue.count }
  }

  struct Active {
    /// Becomes: waiting → (asking or awaitingPeers →) sending ⇄ resting. All but waiting and resting occupy a place of
    /// the pool.
    enum Stage: Equatable {
      case waiting
      /// A clean-up waits for other gateways to report that they dropped its ring unsent.
      case awaitingPeers(until: Timestamp)
      /// Waits for the shard's answer, at most until then.
      case asking(until: Timestamp)
      case sending
      /// A notice: its sender pauses between two attempts.
      case resting
    }
    var item: UInt64
    var identity: PushIdentity
    var job: PushJob
    var pool: Int
    var service: String
    /// How often the queue delivered the job.
    var attempt: Int
    var stage = Stage.waiting
    var isWithdrawn = false
    let takenAt: Timestamp
    var extendedAt: Timestamp
    var isWithSender: Bool { stage == .sending || stage == .resting }
    var isAsking: Bool { if case .asking = stage { true } else { false } }
  }
  /// An outcome that its shard must acknowledge before the job is settled.
  struct Held {
    var item: UInt64
    var identity: PushIdentity
    var extendedAt: Timestamp
  }

  /// The effects that the owner must carry out, in order. It takes them after each event.
  package var effects: [Effect] = []
  let limits: Limits
  package internal(set) var pools: [Pool]
  var active: [UInt64: Active] = [:]
  var byIdentity: [PushIdentity: UInt64] = [:]
  /// Rings that are with a sender or wait for one.
  var rings: [CallID: Set<UInt64>] = [:]
  /// Calls that stopped ringing. Their rings may be delivered later, or again.
  var ended: RecentSet<PushRinging>
  /// Devices that had a clean-up. Their calls may ring elsewhere.
  var cleanedUp: RecentSet<PushLeg>
  var places: [String: Int] = [:]
  /// Rings that were dropped and that no gateway can have sent: their devices need no clean-up.
  var unsentRings: RecentSet<PushLeg>
  /// Rings that were given to a sender here: their devices may ring, whatever other gateways report.
  var sentRings: RecentSet<PushLeg>
  /// By the report's number.
  var held: [UInt64: Held] = [:]
  var heldByIdentity: [PushIdentity: UInt64] = [:]
  var fates: RecentSet<PushIdentity>
  var reports: GatewayReports
  /// The jobs of queries that no shard has answered.
  var questions: [UInt64: UInt64] = [:]
  var lastQuestion: UInt64 = 0
  var lastJob: UInt64 = 0
  var lastTick = Timestamp(microseconds: 0)
  package internal(set) var isDraining = false
  package internal(set) var counts: [Count: UInt64] = [:]
  /// The topics without a sender on any gateway.
  package internal(set) var unserved: UnservedTopics

  package init(pools: Int, limits: Limits = Limits(), reports: GatewayReports = GatewayReports()) {
    self.limits = limits
    self.reports = reports
    fates = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    ended = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    cleanedUp = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    unsentRings = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    sentRings = RecentSet(capacity: limits.fatesMax, kept: limits.fatesKept)
    unserved = UnservedTopics(capacity: limits.unservedTopicsMax)
    self.pools = Array(repeating: Pool(), count: pools)
  }

  package var reportsWaiting: Int { reports.count }
  /// Jobs that are being sent, wait, or are held until a report is acknowledged.
  package var jobs: Int { active.count + held.count }
  package var isIdle: Bool { active.isEmpty && held.isEmpty && reports.count == 0 }
  package func job(_ number: UInt64) -> PushJob? { active[number]?.job }

  /// The topics without a sender that are due for a log line, each with the number of jobs since the last one.
  package mutating func takeUnservedLines() -> [(topic: PushTopic, jobs: Int)] {
    unserved.takeLines()
  }

  mutating func count(_ what: Count) { counts[what, default: 0] += 1 }

  // MARK: Jobs

  /// A job was delivered.
  ///
  /// - Parameters:
  ///   - attempt: how often the queue has delivered it.
  ///   - pool: the pool whose sender serves its token; nil if there is none.
  ///   - service: the push service, if the pool has several; else empty.
  package mutating func receive(
    item: UInt64, _ job: PushJob, attempt: Int = 1, pool: Int?, service: String = "",
    now: Timestamp
  ) {
    let identity = PushIdentity(job)
    if deduplicate(item, identity, attempt) { return count(.repeated) }
    func discard(as what: Count) {
      count(what)
      noteUnsent(job, attempt: attempt, now: now)
      finish(item, identity, job, .expired, now: now)
    }
    guard job.deadline > now else { return discard(as: .late) }
    if job.purpose == .ring, ended.contains(job.ringing) || cleanedUp.contains(job.leg) {
      return discard(as: .withdrawn)
    }
    if job.purpose.isCleanUp {
      // The ring must not follow its clean-up. Other devices may ring on: the call may have left this user only.
      cleanedUp.insert(job.leg, now: now)
      withdrawRings(of: job.call, now: now) { $0.leg == job.leg }
      // A ring that was never sent needs no clean-up: a VoIP push that ends a call makes an app that never rang report
      // one.
      if unsentRings.contains(job.leg) { return discard(as: .withdrawn) }
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
        return finish(item, identity, job, .rejected(reason: reason), now: now)
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
      takenAt: now, extendedAt: now)
    byIdentity[identity] = lastJob
    if job.purpose == .ring { rings[job.call, default: []].insert(lastJob) }
    if !service.isEmpty { places[service, default: 0] += 1 }
    if hasPlace {
      begin(lastJob, now: now)
    } else {
      pools[pool].queue.append(lastJob)
    }
  }

  /// Whether the push is under way here, or was completed. The newest item is the one to settle.
  private mutating func deduplicate(
    _ item: UInt64, _ identity: PushIdentity, _ attempt: Int
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

  /// Gives the job a place.
  mutating func begin(_ number: UInt64, now: Timestamp) {
    pools[active[number]!.pool].sending += 1
    let job = active[number]!.job
    let isRinging = isSendingRing(to: job.leg)
    let waitsUntil =
      active[number]!.takenAt + (isRinging ? limits.ringOutcomeWait : limits.neverSentWait)
    if job.isRingUnknown, isRinging || !sentRings.contains(job.leg), now < waitsUntil {
      active[number]!.stage = .awaitingPeers(until: waitsUntil)
      return
    }
    guard job.purpose == .ring, job.decidedAt + limits.askAfter < now else {
      return send(number, now: now)
    }
    active[number]!.stage = .asking(until: now + limits.answerWithin)
    lastQuestion += 1
    questions[lastQuestion] = number
    effects.append(.ask(question: lastQuestion, job: number))
  }

  mutating func send(_ number: UInt64, now: Timestamp) {
    active[number]!.stage = .sending
    let job = active[number]!.job
    if job.purpose == .ring { sentRings.insert(job.leg, now: now) }
    effects.append(.send(job: number, pool: active[number]!.pool))
  }

  /// A shard answered whether a call still rings for the device.
  package mutating func queried(_ question: UInt64, rings: Bool, now: Timestamp) {
    guard let number = questions.removeValue(forKey: question), let job = active[number],
      case .asking = job.stage
    else { return }
    if rings { return send(number, now: now) }
    drop(number, job, as: .overtaken, now: now)
    fill(job.pool, now: now)
  }

  /// A sender has finished. Ignored if the job is no longer waited for.
  package mutating func sent(_ number: UInt64, _ outcome: PushOutcome, now: Timestamp) {
    guard let done = active[number], done.isWithSender else { return }
    end(number)
    if done.job.purpose == .ring { ringEnded(done.job, attempt: done.attempt, outcome, now: now) }
    finish(done.item, done.identity, done.job, outcome, now: now)
    fill(done.pool, now: now)
  }

  mutating func end(_ number: UInt64) {
    guard let job = active.removeValue(forKey: number) else { return }
    byIdentity[job.identity] = nil
    switch job.stage {
    case .waiting: break
    case .resting: pools[job.pool].resting -= 1
    case .awaitingPeers, .asking, .sending: pools[job.pool].sending -= 1
    }
    if rings[job.job.call]?.remove(number) != nil, rings[job.job.call]!.isEmpty {
      rings[job.job.call] = nil
    }
    if job.stage != .resting { leaveService(job.service) }
  }

  mutating func leaveService(_ service: String) {
    guard let left = places[service] else { return }
    places[service] = left > 1 ? left - 1 : nil
  }
}
