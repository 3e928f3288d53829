package import CallAuth
package import CallCore
package import CallTelemetry
package import Logging
internal import Synchronization

/// The hooks of the apps that have one. All event loops share them; each edge asks by itself.
package final class AppHooks: Sendable {
  private let hooks = Mutex<[String: AppHook]>([:])
  /// So that the calls of a cluster without hooks take no lock.
  private let isEmpty = Atomic(true)
  package let client: any HookClient
  private let registry: MetricsRegistry
  private let logger: Logger

  package init(
    _ settings: [String: HookSettings], client: any HookClient, registry: MetricsRegistry,
    logger: Logger
  ) {
    self.client = client
    self.registry = registry
    self.logger = logger
    update(settings)
  }

  /// Puts new settings in force. A hook whose settings have changed is asked again at once.
  package func update(_ settings: [String: HookSettings]) {
    hooks.withLock { hooks in
      for (app, hook) in hooks where settings[app] == nil { hook.end() }
      hooks = settings.reduce(into: [:]) { next, entry in
        let hook = hooks[entry.key]
        hook?.update(entry.value)
        next[entry.key] = hook ?? AppHook(entry.key, entry.value, registry, logger)
      }
    }
    isEmpty.store(settings.isEmpty, ordering: .relaxed)
  }

  /// nil for an app without a hook.
  package func hook(of app: String) -> AppHook? {
    if isEmpty.load(ordering: .relaxed) { return nil }
    return hooks.withLock { $0[app] }
  }

  /// The apps whose hook is not asked at present, sorted.
  package var away: [String] {
    hooks.withLock { hooks in hooks.filter { $0.value.isAway }.keys.sorted() }
  }
}

/// One app's hook, with its metrics.
package final class AppHook: Sendable {
  package enum Admission: Sendable {
    /// `settled` must follow.
    case ask(HookGate.Permit, HookSettings)
    /// It is not asked.
    case decided(HookDecision)
  }

  /// The outcome of a call, as metrics name it.
  fileprivate enum Outcome: String, CaseIterable {
    case allowed, refused
    case timeout, unreachable, status
    case tooLarge = "too_large"
    case unreadable
    case skippedAway = "skipped_away"
    case skippedFull = "skipped_full"
  }

  private struct State {
    var settings: HookSettings
    var gate = HookGate()
    /// When a failure was last logged, and how many there were since.
    var loggedAt: Timestamp?
    var unlogged = 0
  }

  /// Failures of one hook are logged at most this often.
  private static let logInterval: Span = .seconds(60)

  private let app: String
  private let state: Mutex<State>
  private let logger: Logger
  private let outcomes: [Outcome: Counter]
  private let latency: DurationHistogram
  private let outstanding: Gauge
  private let away: Gauge

  fileprivate init(
    _ app: String, _ settings: HookSettings, _ registry: MetricsRegistry, _ logger: Logger
  ) {
    self.app = app
    self.logger = logger
    state = Mutex(State(settings: settings))
    outcomes = registry.counters(
      "callmesh_hook_calls_total", "Calls of an app that has a hook, by what the hook said.",
      [("app", app)], label: "outcome", \.rawValue)
    latency = registry.histogram(
      "callmesh_hook_seconds", "From a question to an app's hook until its answer or failure.",
      labels: [("app", app)])
    outstanding = registry.gauge(
      "callmesh_hook_outstanding", "Questions to an app's hook that wait for their answers.",
      labels: [("app", app)])
    away = registry.gauge(
      "callmesh_hook_away", "1 while an app's hook is not asked, since it does not answer.",
      labels: [("app", app)])
  }

  package var isAway: Bool { state.withLock { $0.gate.isAway } }

  fileprivate func update(_ settings: HookSettings) {
    state.withLock { state in
      guard state.settings != settings else { return }
      state.settings = settings
      state.gate.restart()
      away.set(0)
    }
  }

  /// The app no longer has a hook.
  fileprivate func end() {
    state.withLock { $0.gate.restart() }
    away.set(0)
  }

  /// Whether the hook is asked about one more call.
  package func admit(now: Timestamp) -> Admission {
    let (admission, settings) = state.withLock { ($0.gate.admit(now: now), $0.settings) }
    switch admission {
    case .ask(let permit):
      outstanding.add(1)
      return .ask(permit, settings)
    case .skip(let skip):
      count(skip == .away ? .skippedAway : .skippedFull)
      return .decided(Self.unanswered(settings))
    }
  }

  /// A question is over.
  /// - Parameter since: when it was asked.
  package func settled(
    _ permit: HookGate.Permit, _ reply: Result<[UInt8], HookFailure>, since: Timestamp,
    now: Timestamp
  ) -> HookDecision {
    outstanding.add(-1)
    latency.record(microseconds: (now - since).microseconds)
    let answer = reply.flatMap(HookAnswer.read)
    let isAnswered = if case .success = answer { true } else { false }
    let settings = state.withLock { state in
      let change = state.gate.settle(permit, isAnswered: isAnswered, now: now)
      if let change { note(change) }
      if case .failure(let failure) = answer { log(failure, &state, now: now) }
      return state.settings
    }
    switch answer {
    case .success(let decision):
      if case .allow = decision { count(.allowed) } else { count(.refused) }
      return decision
    case .failure(let failure):
      count(Outcome(failure))
      return Self.unanswered(settings)
    }
  }

  private static func unanswered(_ settings: HookSettings) -> HookDecision {
    switch settings.whenAway {
    case .allow: .allow(callerName: nil)
    case .refuse: .refuse(CallError(.appAway, retryAfterMilliseconds: 2000))
    }
  }

  private func count(_ outcome: Outcome) { outcomes[outcome]?.increment() }

  private func note(_ change: HookGate.Change) {
    away.set(change == .wentAway ? 1 : 0)
    let metadata = Logger.Metadata.keys([.app: "\(app)"])
    switch change {
    case .wentAway:
      logger.warning("an app's hook does not answer: its calls go without", metadata: metadata)
    case .cameBack: logger.notice("an app's hook answers again", metadata: metadata)
    }
  }

  private func log(_ failure: HookFailure, _ state: inout State, now: Timestamp) {
    state.unlogged += 1
    if let last = state.loggedAt, now < last + Self.logInterval { return }
    logger.warning(
      "an app's hook failed",
      metadata: .keys([
        .app: "\(app)", .reason: "\(failure)", .count: "\(state.unlogged)",
      ]))
    state.loggedAt = now
    state.unlogged = 0
  }
}

extension AppHook.Outcome {
  fileprivate init(_ failure: HookFailure) {
    switch failure {
    case .timeout: self = .timeout
    case .unreachable: self = .unreachable
    case .status: self = .status
    case .tooLarge: self = .tooLarge
    case .unreadable: self = .unreadable
    }
  }
}
