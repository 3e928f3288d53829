internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Pushes leave through the work queue, separately from everything for sockets, which a slow queue does not delay.
extension ShardWorker {
  /// A push that the queue has not confirmed.
  struct PendingPush {
    var term: ShardTerm
    var job: PushJob
    var attempts = 0
    /// When to try again; nil while an answer is awaited.
    var againAt: Timestamp?
  }

  /// The most unconfirmed pushes of a worker. Policy: further ones fail at once.
  static var pushesUnconfirmedMax: Int { 20_000 }
  /// How often a queue is asked that is full, and one that does not answer: for 30 s, which is longer than its stream
  /// takes to elect a leader.
  private static var attemptsMax: (full: Int, unanswered: Int) { (6, 24) }
  private static var pushBackoff: Backoff { Backoff(.milliseconds(50), to: .milliseconds(1600)) }

  func add(_ job: PushJob, _ shard: HeldShard, now: Timestamp) {
    let term = shard.term
    metrics.pushJobs[job.purpose]?.increment()
    guard pushes.count + unread.count < Self.pushesUnconfirmedMax else {
      return fail(job, term, "too many pushes wait for the work queue", now: now)
    }
    if let limit = pushRates.refusal(of: job, now: now) {
      metrics.limited(.pushesPerSecond, app: job.user.app)
      return fail(job, term, limit, now: now)
    }
    if !awaitUnread(job, shard, now: now) { enqueue(job, term) }
  }

  func enqueue(_ job: PushJob, _ term: ShardTerm) {
    lastPush += 1
    pushes[lastPush] = PendingPush(term: term, job: job)
    offer(lastPush)
  }

  private func offer(_ number: UInt64) {
    guard let job = pushes[number]?.job else { return }
    pushes[number]!.attempts += 1
    pushes[number]!.againAt = nil
    let inbox = inbox
    // The queue deduplicates by the job's id.
    pushQueue.add(lane: job.token.lane, id: job.id, ClusterCodec.encode(job)) {
      inbox.offer(.pushAdded(number, $0))
    }
  }

  func pushAdded(_ number: UInt64, _ result: AppendResult, now: Timestamp) {
    guard let push = pushes[number] else { return }
    let (reason, attemptsMax): (String, Int)
    switch result {
    case .appended:
      pushes[number] = nil
      return metrics.pushesAdded.increment()
    case .refused: (reason, attemptsMax) = ("the work queue is full", Self.attemptsMax.full)
    case .unknown(let text): (reason, attemptsMax) = (text, Self.attemptsMax.unanswered)
    }
    guard isWanted(push) else { return drop(number) }
    // An addition that did arrive is deduplicated.
    let again = now + Self.pushBackoff.pause(after: push.attempts - 1)
    if push.attempts < attemptsMax, again < push.job.deadline {
      metrics.pushRetries.increment()
      pushes[number]!.againAt = again
      pushAgainAt = min(pushAgainAt, again)
      return
    }
    pushes[number] = nil
    fail(push.job, push.term, reason, now: now)
  }

  /// Reports a failed push to the state machine, as a gateway would.
  private func fail(_ job: PushJob, _ term: ShardTerm, _ reason: String, now: Timestamp) {
    metrics.pushesFailed.increment()
    failedPushes.warn(
      logger, now: now, "Pushes could not be put into the work queue.",
      [.shard: "\(term.shard)", .call: "\(job.call)", .reason: "\(reason)"])
    guard let shard = holding(term) else { return }
    if case .parting = shard.phase { return }
    decide(shard, now: now) { $0.pushNotQueued(job, reason: reason, now: now, into: &$1) }
    touch(term.shard)
  }

  /// Retries the pushes that are due.
  func pushAgain(now: Timestamp) {
    guard pushAgainAt <= now else { return }
    pushAgainAt = .distantFuture
    for number in pushes.keys.sorted() {
      guard let again = pushes[number]?.againAt else { continue }
      guard again <= now else {
        pushAgainAt = min(pushAgainAt, again)
        continue
      }
      if isWanted(pushes[number]!) { offer(number) } else { drop(number) }
    }
  }

  /// False if the call stopped ringing, or if the shard has another owner, which pushes again what still matters.
  private func isWanted(_ push: PendingPush) -> Bool {
    holding(push.term)?.machine.isStillWanted(push.job) == true
  }

  private func drop(_ number: UInt64) {
    pushes[number] = nil
    metrics.pushesUnwanted.increment()
  }
}

extension PushToken {
  /// All lanes of the work queue, whether or not a gateway serves them.
  package static let lanes = ["apns-production", "apns-sandbox", "fcm", "web-push"]

  /// The lane of the work queue. All jobs of a lane need the same keys and connections.
  package var lane: String {
    switch provider {
    case .apns: environment == "sandbox" ? "apns-sandbox" : "apns-production"
    case .fcm: "fcm"
    case .webPush, .none: "web-push"
    }
  }
}
