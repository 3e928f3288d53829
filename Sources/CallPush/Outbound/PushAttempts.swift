internal import CallBus
package import CallCore
internal import CallTelemetry
internal import Logging

/// A push's outcome, and the provider's name of it.
package struct PushDelivery: Sendable, Equatable {
  package var outcome: PushOutcome
  package var name: String?
}

/// Why a push cannot be sent, whatever the provider would answer.
package struct PushRefusal: Error {
  var reason: String
  /// The token can never be used again.
  var isGone = false
  var outcome: PushOutcome { isGone ? .tokenGone(at: nil) : .rejected(reason: reason) }
}

/// The common part of senders over HTTP: attempts within limits until the outcome is known or the deadline passes.
package struct PushAttempts: Sendable {
  let clock: ClusterClock
  let statistics: SenderStatistics
  let logger: Logger
  let bulkhead: KeyedBulkhead
  let http: ProviderHTTP
  let backoffs = ServiceBackoff()
  let limits: SenderLimits
  let refusals: TokenRefusals
  private let name: String
  private let caFile: String?
  /// Pushes that the full bulkhead refused.
  private let refused: Counter
  private let sleeps: CancellableSleeps
  /// Sleeps between attempts.
  let pause: @Sendable (Span, PushCancellation?) async -> Void
  let chance: @Sendable () -> UInt64

  package init(
    provider: PushProvider, name: String, caFile: String?, limits: SenderLimits,
    environment: SenderEnvironment
  ) {
    let clock = environment.clock
    self.clock = clock
    self.limits = limits
    self.name = name
    self.caFile = caFile
    logger = environment.logger
    statistics = SenderStatistics(name: name, provider: provider, metrics: environment.metrics)
    bulkhead = KeyedBulkhead(
      insideMax: limits.inFlightMax, waitingMax: limits.waitingMax, clock: clock)
    refusals = TokenRefusals(
      name: name, provider: provider, metrics: environment.metrics, logger: environment.logger)
    let labels = [("provider", provider.name), ("sender", name)]
    let bulkhead = bulkhead
    environment.metrics.reading(
      "callmesh_push_sender_waiting", "Pushes that wait for one of their sender's requests.",
      labels: labels
    ) { Double(bulkhead.waiting) }
    refused = environment.metrics.counter(
      "callmesh_push_sender_refused_total", "Pushes refused since too many wait in their sender.",
      labels: labels)
    http = ProviderHTTP(caFile: caFile, limits: limits)
    let sleeps = CancellableSleeps(clock: clock)
    self.sleeps = sleeps
    if let given = environment.pause {
      pause = { span, _ in await given(span) }
    } else {
      pause = { await sleeps.sleep(for: $0, unless: $1) }
    }
    chance = environment.chance
  }

  /// - Parameters:
  ///   - key: the bulkhead's key.
  ///   - request: what each attempt sends, or why the push is never sent.
  ///   - once: makes one attempt; called again after it has returned.
  package func run<Request>(
    _ message: PushMessage, key: String = "", _ request: Result<Request, PushRefusal>,
    once: (Request, AttemptContext) async -> AttemptVerdict
  ) async -> PushDelivery {
    statistics.began()
    let delivery = await outcome(of: message, key) { context in
      switch request {
      case .success(let request): await once(request, context)
      case .failure(let refusal): .done(refusal.outcome)
      }
    }
    statistics.ended(delivery.outcome)
    logger.debug(
      "push",
      metadata: .keys([
        .request: "\(message.id)", .state: "\(delivery.outcome.kind.rawValue)",
        .key: "\(delivery.name ?? "")",
      ]))
    return delivery
  }

  private func outcome(
    of message: PushMessage, _ key: String, _ once: (AttemptContext) async -> AttemptVerdict
  ) async -> PushDelivery {
    var context = AttemptContext(now: clock.now(), deadline: message.deadline)
    context.attempt = 0
    context.isUrgent = message.isUrgent
    var delivery = await attempts(message, key, &context, once)
    // An earlier attempt may have arrived, whatever the outcome of the last one.
    guard context.doubts > 0 else { return delivery }
    switch delivery.outcome {
    case .failed(let reason, _): delivery.outcome = .failed(reason: reason, mayHaveArrived: true)
    case .expired: delivery.outcome = .failed(reason: "the call is over", mayHaveArrived: true)
    case .accepted, .acceptedIn, .tokenGone, .tokenRefused, .rejected: break
    }
    return delivery
  }

  private func attempts(
    _ message: PushMessage, _ key: String, _ context: inout AttemptContext,
    _ once: (AttemptContext) async -> AttemptVerdict
  ) async -> PushDelivery {
    // If no later attempt succeeds.
    var trouble: PushOutcome?
    while true {
      // Pauses of a cancelled task end at once.
      if Task.isCancelled { return PushDelivery(outcome: trouble ?? .failed(reason: "closed")) }
      // A ring does not wait: what one answer demanded must not silence the devices of others.
      if !message.isUrgent, let until = backoffs.end(of: key, now: clock.now()) {
        guard until < message.deadline else {
          return PushDelivery(outcome: trouble ?? .failed(reason: "the service wants a pause"))
        }
        await rest(until - clock.now(), message)
      }
      switch await bulkhead.acquire(key, until: message.deadline, unless: message.cancellation) {
      case .admitted: break
      case .full:
        refused.increment()
        return PushDelivery(outcome: .failed(reason: "too many pushes wait"))
      case .late:
        return PushDelivery(outcome: message.isCancelled ? .expired : tooLate(message, trouble))
      }
      context.now = clock.now()
      let isLate = context.now >= message.deadline
      guard !isLate, !message.isCancelled else {
        bulkhead.release(key)
        return PushDelivery(outcome: isLate ? tooLate(message, trouble) : .expired)
      }
      context.attempt += 1
      context.chance = chance()
      if context.attempt > 1 { statistics.retried() }
      let verdict = await once(context)
      bulkhead.release(key)
      switch verdict {
      case .done(let outcome, let name):
        if outcome.kind == .accepted { refusals.accepted(message.token, now: clock.now()) }
        if let reason = outcome.reason { statistics.failed(reason, at: clock.now()) }
        return PushDelivery(outcome: outcome, name: name)
      case .retry(let wait, let reason, let cause):
        statistics.failed(reason, at: clock.now())
        trouble = .failed(reason: reason)
        if cause == .doubt { context.doubts += 1 }
        await rest(wait, message)
      case .tokenRefused(let refusal):
        statistics.failed(refusal.reason, at: clock.now())
        let verdict = refusals.judge(refusal, of: message, now: clock.now())
        guard !verdict.isFinal, message.isUrgent,
          case .retry(let wait, _, _) = context.retry(reason: refusal.reason)
        else { return PushDelivery(outcome: verdict.outcome) }
        trouble = verdict.outcome
        await rest(wait, message)
      case .renew(let reason):
        statistics.failed(reason, at: clock.now())
        trouble = .failed(reason: reason)
        context.renewed = true
      }
    }
  }

  /// Pauses. A notice leaves its place in the gateway to others meanwhile.
  private func rest(_ span: Span, _ message: PushMessage) async {
    message.onPause?(clock.now() + span)
    await pause(span, message.cancellation)
    message.onPause?(nil)
  }

  private func tooLate(_ message: PushMessage, _ trouble: PushOutcome?) -> PushOutcome {
    if let trouble { return trouble }
    return clock.now() < message.deadline ? .failed(reason: "closed") : .expired
  }

  /// - Throws: if the configuration has another `caFile`, which is read only once.
  func checkUnchanged(caFile new: String?) throws(SenderConfigurationError) {
    guard new != caFile else { return }
    throw SenderConfigurationError(
      sender: name, place: "caFile", what: "it cannot change while the sender runs",
      remedy: "restart the node")
  }

  /// Sends one request, which ends before the push's deadline, and judges the reply.
  ///
  /// A 503 with `Retry-After` pauses all notices of the key. A 429 does not: it may concern a single device.
  func post(
    _ url: String, key: String, headers: [(String, String)], body: [UInt8],
    context: AttemptContext, judge: (ProviderReply, AttemptContext) -> AttemptVerdict
  ) async -> AttemptVerdict {
    let start = ContinuousClock.now
    let reply = await http.post(
      url, headers: headers, body: body,
      within: max(.milliseconds(1), min(context.deadline - clock.now(), limits.attemptTimeout)))
    if case .answer(let answer) = reply {
      let taken = (ContinuousClock.now - start).components
      statistics.answered(after: taken.seconds * 1_000_000 + taken.attoseconds / 1_000_000_000_000)
      statistics.reachable(true)
      if answer.status == 503, let wait = context.retryAfter(answer) {
        backoffs.note(key, until: clock.now() + wait)
      }
    } else {
      statistics.reachable(false)
    }
    var context = context
    context.now = clock.now()
    return judge(reply, context)
  }

  /// Pushes that pause between attempts fail; requests under way get `closeGrace`.
  package func close() async {
    sleeps.close()
    await bulkhead.close(until: clock.now() + limits.closeGrace)
    await http.close()
  }
}

extension PushOutcome {
  /// Why a push was not sent.
  var reason: String? {
    switch self {
    case .rejected(let reason), .failed(let reason, _), .tokenRefused(let reason, _): reason
    case .accepted, .acceptedIn, .tokenGone, .expired: nil
    }
  }
}
