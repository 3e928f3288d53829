package import CallCore
package import CallTelemetry
internal import Synchronization

/// The limits of apps and their users on this edge. All event loops share them, since the sessions of an app or a
/// user may be on any loop. Each edge counts by itself.
package final class AppGates: Sendable {
  private let gates: Mutex<[String: AppGate]> = Mutex([:])
  private let registry: MetricsRegistry?
  private let usersMax: Int
  private let updates = Atomic(0)

  /// Grows whenever new terms are in force.
  var version: Int { updates.load(ordering: .relaxed) }

  /// - Parameters:
  ///   - usersMax: how many users' rates are counted for each app; twice as many at most.
  ///   - registry: where the metrics are registered; nil: there are none.
  package init(
    _ terms: [String: AppTerms], usersMax: Int, registry: MetricsRegistry?, now: Timestamp
  ) {
    self.registry = registry
    self.usersMax = usersMax
    update(terms, now: now)
  }

  /// Puts new terms in force. An app whose terms have changed begins with new rates.
  package func update(_ terms: [String: AppTerms], now: Timestamp) {
    gates.withLock { gates in
      var next: [String: AppGate] = [:]
      for (app, terms) in terms {
        let former = gates[app].flatMap { $0.terms == terms ? $0 : nil }
        next[app] =
          former
          ?? AppGate(
            app, terms, live: gates[app]?.live ?? LiveCallCount(), usersMax: usersMax,
            registry: registry, now: now)
      }
      gates = next
    }
    updates.add(1, ordering: .relaxed)
  }

  /// The limits of an app; nil for one without keys, such as the edge's own.
  package func gate(of app: String) -> AppGate? {
    gates.withLock { $0[app] }
  }

  /// Adds the limits that the command's shard has to check.
  func stamp(_ command: inout Command) {
    switch command.body {
    case .attach: break
    case .register:
      command.hasWebhooks =
        gate(of: command.user.app)?.terms.subscriptions.contains(.webhooks) ?? false
    case .place(var request):
      gate(of: command.user.app)?.terms.stamp(&request)
      command.body = .place(request)
      return
    case .app(.place(var placing)):
      gate(of: command.user.app)?.terms.stamp(&placing.request)
      command.body = .app(.place(placing))
      return
    default: return
    }
    guard let devices = gate(of: command.user.app)?.limits[.devicesOfUser], devices > 0 else {
      return
    }
    command.devicesPerUser = UInt32(clamping: devices)
  }

  /// Why an app's users may not ask for their histories; nil: they may.
  func refusalOfHistory(to app: String) -> CallError? {
    if gate(of: app)?.terms.subscriptions.contains(.history) ?? false { return nil }
    return CallError(.forbidden, "The app keeps no history: see `history` in the file of keys.")
  }

  /// Counts a command against its app's limits.
  /// - Returns: why it is refused; nil where it is not.
  package func refusal(of command: Command, now: Timestamp) -> CallError? {
    gate(of: command.user.app)?.refusal(of: command, now: now)
  }
}

extension AppTerms {
  fileprivate func stamp(_ request: inout PlaceRequest) {
    if let choice = secondCalls { request.busyWhileInCall = choice == .busy }
    if !subscriptions.isEmpty { request.subscriptions = subscriptions }
    request.ringsAnew = forwardedRing == .anew
  }
}

/// The number of live calls that an app's devices placed here and that their sessions remember.
package final class LiveCallCount: Sendable {
  private let count = Atomic(0)
  package init() {}
  package var value: Int { count.load(ordering: .relaxed) }
  package func add(_ change: Int) { count.add(change, ordering: .relaxed) }
}

/// The limits of one app and its users on this edge.
package final class AppGate: Sendable {
  package let terms: AppTerms
  package var limits: AppLimits { terms.limits }
  /// Kept when the terms change.
  package let live: LiveCallCount
  private struct Rates {
    var calls: TokenBucket
    var registrations: TokenBucket
    var serverRequests: TokenBucket
    var userCalls: RateTable<UserKey>
    var userBytes: RateTable<UserKey>

    var count: Int { userCalls.count + userBytes.count }
    var forgotten: UInt64 { userCalls.forgottenEarly + userBytes.forgottenEarly }
  }
  private let rates: Mutex<Rates>
  private let refused: [AppLimit: Counter]
  private let foreignTopics: Counter?
  private let usersCounted: Gauge?
  private let usersForgotten: Counter?

  init(
    _ app: String, _ terms: AppTerms, live: LiveCallCount, usersMax: Int,
    registry: MetricsRegistry?, now: Timestamp
  ) {
    self.terms = terms
    self.live = live
    let limits = terms.limits
    func users(_ limit: AppLimit) -> RateTable<UserKey> {
      RateTable(
        perSecond: limits[limit], burst: limits.burst(limit), entriesMax: usersMax, now: now)
    }
    func bucket(_ limit: AppLimit) -> TokenBucket {
      TokenBucket(burst: limits.burst(limit), now: now)
    }
    rates = Mutex(
      Rates(
        calls: bucket(.callsPerSecond), registrations: bucket(.registrationsPerSecond),
        serverRequests: bucket(.serverRequestsPerSecond), userCalls: users(.callsPerUser),
        userBytes: users(.signalBytesPerUser)))
    refused =
      registry?.counters(
        "callmesh_app_limited_total",
        "Requests refused because their app, or one of its users, had reached a limit.",
        [("app", app)], label: "limit", \.rawValue) ?? [:]
    usersCounted = registry?.gauge(
      "callmesh_app_rates", "Rates of users that are counted.", labels: [("app", app)])
    usersForgotten = registry?.counter(
      "callmesh_app_rates_forgotten_total",
      "Rates of users that were forgotten because too many others were counted.",
      labels: [("app", app)])
    foreignTopics = registry?.counter(
      "callmesh_app_foreign_topics_total",
      "Registrations that were refused since the app may not use their push topic.",
      labels: [("app", app)])
  }

  /// Whether there are limits for such commands.
  static func limits(_ body: Command.Body) -> Bool {
    switch body {
    case .place, .app(.place), .register, .rules(.write), .call(_, .answer), .call(_, .transfer),
      .call(_, .signal):
      true
    default: false
    }
  }

  /// Counts a refusal.
  package func count(_ limit: AppLimit) { refused[limit]?.increment() }

  /// Why a command is refused; nil where it is not. The user's limits come first, so that what they refuse takes
  /// nothing of the app's.
  func refusal(of command: Command, now: Timestamp) -> CallError? {
    rates.withLock { rates in
      let before = rates.forgotten
      let error = refusal(of: command, &rates, now: now)
      let forgotten = rates.forgotten - before
      if forgotten > 0 { usersForgotten?.increment(by: forgotten) }
      usersCounted?.set(Int64(rates.count))
      return error
    }
  }

  private func refusal(of command: Command, _ rates: inout Rates, now: Timestamp) -> CallError? {
    switch command.body {
    case .register(let request):
      for token in [request.voipToken, request.alertToken] {
        if let token, !terms.admits(token) { return foreign(token) }
      }
      return charge(&rates.registrations, .registrationsPerSecond, now: now)
    // They are written to the same store.
    case .rules(.write): return charge(&rates.registrations, .registrationsPerSecond, now: now)
    case .place:
      return charge(&rates.userCalls, command.user, .callsPerUser, now: now)
        ?? tooManyLiveCalls() ?? charge(&rates.calls, .callsPerSecond, now: now)
        ?? chargeBytes(of: command, &rates, now: now)
    // It rings another user, as a call does.
    case .call(_, .transfer):
      return charge(&rates.userCalls, command.user, .callsPerUser, now: now)
        ?? charge(&rates.calls, .callsPerSecond, now: now)
    // No user places it.
    case .app(.place): return tooManyLiveCalls() ?? charge(&rates.calls, .callsPerSecond, now: now)
    default: return chargeBytes(of: command, &rates, now: now)
    }
  }

  /// Counts a request of the app's server.
  /// - Parameters:
  ///   - cost: in thousandths of a request.
  ///   - mayOverdraw: as in `TokenBucket`.
  /// - Returns: why it is refused; nil where it is not.
  package func chargeServerRequest(
    cost: Int64 = 1000, mayOverdraw: Bool = false, now: Timestamp
  ) -> CallError? {
    let limit = AppLimit.serverRequestsPerSecond
    let wait = rates.withLock {
      $0.serverRequests.consume(
        cost: cost, mayOverdraw: mayOverdraw, perSecond: limits[limit],
        burst: limits.burst(limit), now: now)
    }
    return wait.map { refusal(limit, wait: $0) }
  }

  private func tooManyLiveCalls() -> CallError? {
    guard live.value >= limits[.liveCalls] else { return nil }
    count(.liveCalls)
    return limits.refusal(.liveCalls, .tooManyLiveCalls, retryAfterMilliseconds: 1000)
  }

  private func foreign(_ token: PushToken) -> CallError {
    foreignTopics?.increment()
    return CallError(
      .foreignPushTopic,
      "The app may not use the push topic \"\(token.topic)\": its pushTopics have no such one.")
  }

  private func chargeBytes(of command: Command, _ rates: inout Rates, now: Timestamp) -> CallError?
  {
    let bytes = command.body.signalBytes
    guard bytes > 0 else { return nil }
    return charge(
      &rates.userBytes, command.user, .signalBytesPerUser, cost: Int64(bytes) * 1000,
      mayOverdraw: command.body.isAnswer, now: now)
  }

  private func charge(_ bucket: inout TokenBucket, _ limit: AppLimit, now: Timestamp) -> CallError?
  {
    let wait = bucket.consume(perSecond: limits[limit], burst: limits.burst(limit), now: now)
    return wait.map { refusal(limit, wait: $0) }
  }

  private func charge(
    _ table: inout RateTable<UserKey>, _ user: UserKey, _ limit: AppLimit, cost: Int64 = 1000,
    mayOverdraw: Bool = false, now: Timestamp
  ) -> CallError? {
    table.charge(user, cost: cost, mayOverdraw: mayOverdraw, now: now).map {
      refusal(limit, wait: $0)
    }
  }

  private func refusal(_ limit: AppLimit, wait: UInt32) -> CallError {
    count(limit)
    return limits.refusal(limit, retryAfterMilliseconds: wait)
  }
}

extension Command.Body {
  /// Whether it answers a call. Candidates that came before must not keep it out: the call would ring on.
  fileprivate var isAnswer: Bool {
    if case .call(_, .answer) = self { true } else { false }
  }

  /// The bytes of descriptions, candidates, headers and the like, which shards keep until the call is over.
  fileprivate var signalBytes: Int {
    switch self {
    case .place(let request):
      request.setup.headers.reduce(
        request.setup.description.utf8.count + request.setup.pushData.utf8.count
      ) {
        $0 + $1.name.utf8.count + $1.value.utf8.count
      }
    case .call(_, .answer(let description)): description.utf8.count
    case .call(_, .signal(_, let body)): body.utf8.count
    default: 0
    }
  }
}
