package import CallBus
package import CallCore
package import CallTelemetry
package import Logging

/// A push's fate, and what its provider calls it.
package struct PushDelivery: Sendable, Equatable {
  package var outcome: PushOutcome
  package var name: String?
}

/// What senders over HTTP have in common: attempts within limits until the fate is known or the
/// deadline has come.
struct PushAttempts: Sendable {
  let clock: ClusterClock
  let statistics: SenderStatistics
  let logger: Logger
  let bulkhead: KeyedBulkhead
  let http: ProviderHTTP
  let pauses = ServiceBackoff()
  let limits: SenderLimits
  private let sleeps: CancellableSleeps
  /// Waits between attempts.
  let pause: @Sendable (Span) async -> Void
  let chance: @Sendable () -> UInt64

  init(
    provider: PushProvider, name: String, caFile: String?, limits: SenderLimits,
    environment: SenderEnvironment
  ) {
    let clock = environment.clock
    self.clock = clock
    self.limits = limits
    logger = environment.logger
    statistics = SenderStatistics(name: name, provider: provider, metrics: environment.metrics)
    bulkhead = KeyedBulkhead(
      insideMax: limits.inFlightMax, waitingMax: limits.waitingMax, clock: clock)
    http = ProviderHTTP(caFile: caFile, limits: limits)
    let sleeps = CancellableSleeps(clock: clock)
    self.sleeps = sleeps
    pause = environment.pause ?? { await sleeps.sleep(for: $0) }
    chance = environment.chance
  }

  /// - Parameters:
  ///   - key: whose limit of requests counts.
  ///   - once: makes one attempt; at most one is under way.
  func run(
    _ message: PushMessage, key: String, once: (AttemptContext) async -> AttemptVerdict
  ) async -> PushDelivery {
    statistics.began()
    let delivery = await fate(message, key, once)
    statistics.ended(delivery.outcome)
    logger.debug(
      "push",
      metadata: .keys([
        .request: "\(message.id)", .state: "\(delivery.outcome.kind.rawValue)",
        .key: "\(delivery.name ?? "")",
      ]))
    return delivery
  }

  private func fate(
    _ message: PushMessage, _ key: String, _ once: (AttemptContext) async -> AttemptVerdict
  ) async -> PushDelivery {
    var context = AttemptContext(
      attempt: 0, repeatable: message.purpose != .missedNotice, now: clock.now(),
      deadline: message.deadline)
    var delivery = await attempts(message, key, &context, once)
    // An earlier attempt may have arrived, whatever became of the last one.
    if context.doubts > 0, case .failed(let reason, _) = delivery.outcome {
      delivery.outcome = .failed(reason: reason, mayHaveArrived: true)
    }
    return delivery
  }

  private func attempts(
    _ message: PushMessage, _ key: String, _ context: inout AttemptContext,
    _ once: (AttemptContext) async -> AttemptVerdict
  ) async -> PushDelivery {
    var trouble: String?
    while true {
      if let until = pauses.end(of: key, now: clock.now()) {
        guard until < message.deadline else {
          return PushDelivery(outcome: .failed(reason: trouble ?? "the service wants a pause"))
        }
        await pause(until - clock.now())
      }
      switch await bulkhead.acquire(key, until: message.deadline) {
      case .admitted: break
      case .full: return PushDelivery(outcome: .failed(reason: "too many pushes wait"))
      case .late: return PushDelivery(outcome: tooLate(message, trouble))
      }
      context.now = clock.now()
      guard context.now < message.deadline else {
        bulkhead.release(key)
        return PushDelivery(outcome: tooLate(message, trouble))
      }
      guard !message.isCancelled else {
        bulkhead.release(key)
        return PushDelivery(outcome: .expired)
      }
      context.attempt += 1
      context.chance = chance()
      if context.attempt > 1 { statistics.retried() }
      let verdict = await once(context)
      bulkhead.release(key)
      switch verdict {
      case .done(let outcome, let name):
        if let reason = outcome.reason { statistics.failed(reason, at: clock.now()) }
        return PushDelivery(outcome: outcome, name: name)
      case .retry(let wait, let reason, let cause):
        statistics.failed(reason, at: clock.now())
        trouble = reason
        if cause == .doubt { context.doubts += 1 }
        await pause(wait)
      case .renew(let reason):
        statistics.failed(reason, at: clock.now())
        trouble = reason
        context.renewed = true
      }
    }
  }

  private func tooLate(_ message: PushMessage, _ trouble: String?) -> PushOutcome {
    if let trouble { return .failed(reason: trouble) }
    return clock.now() < message.deadline ? .failed(reason: "closed") : .expired
  }

  /// One request; no longer than the push may take.
  ///
  /// Where the service is out of order and says for how long, that holds for all of the key's pushes.
  /// (Not so where there were too many requests: those may be one device's.)
  func post(
    _ url: String, key: String, headers: [(String, String)], body: [UInt8],
    context: AttemptContext
  ) async -> ProviderReply {
    let left = Duration.microseconds((context.deadline - clock.now()).microseconds)
    let start = ContinuousClock.now
    let reply = await http.post(
      url, headers: headers, body: body,
      within: max(.milliseconds(1), min(left, limits.attemptTimeout)))
    if case .answer(let answer) = reply {
      let taken = (ContinuousClock.now - start).components
      statistics.answered(
        after: taken.seconds * 1_000_000 + taken.attoseconds / 1_000_000_000_000)
      statistics.reachable(true)
      if answer.status == 503, let wait = context.retryAfter(answer) {
        pauses.note(key, until: clock.now() + wait)
      }
    } else {
      statistics.reachable(false)
    }
    return reply
  }

  /// A push that pauses between attempts gives up; one whose request is under way has a moment left.
  func close() async {
    sleeps.close()
    let grace = limits.closeGrace.components
    await bulkhead.close(
      until: clock.now()
        + .milliseconds(
          grace.seconds * 1000 + grace.attoseconds / 1_000_000_000_000_000))
    await http.close()
  }
}

extension PushOutcome {
  /// What is said of a push that did not go.
  var reason: String? {
    switch self {
    case .rejected(let reason), .failed(let reason, _): reason
    case .accepted, .tokenGone, .expired: nil
    }
  }
}

/// What a sender needs of its surroundings.
package struct SenderEnvironment: Sendable {
  package var clock: ClusterClock
  package var metrics: MetricsRegistry
  package var logger: Logger
  /// Waits between attempts; nil: by the clock.
  package var pause: (@Sendable (Span) async -> Void)?
  package var chance: @Sendable () -> UInt64

  package init(
    clock: ClusterClock, metrics: MetricsRegistry, logger: Logger,
    pause: (@Sendable (Span) async -> Void)? = nil,
    chance: @escaping @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }
  ) {
    self.clock = clock
    self.metrics = metrics
    self.logger = logger
    self.pause = pause
    self.chance = chance
  }
}
