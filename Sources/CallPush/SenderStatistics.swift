public import CallCore
public import CallTelemetry
internal import Synchronization

/// A push's outcome without its reason, for counting.
public enum PushOutcomeKind: String, Sendable, CaseIterable {
  case accepted, tokenGone, rejected, expired, failed
}

extension PushOutcome {
  public var kind: PushOutcomeKind {
    switch self {
    case .accepted, .acceptedIn: .accepted
    case .tokenGone, .tokenRefused(_, isSure: true): .tokenGone
    case .rejected: .rejected
    case .expired: .expired
    case .failed, .tokenRefused(_, isSure: false): .failed
    }
  }
}

/// The counters and gauges of a sender, the same for all senders.
///
/// A sender calls `began` and `ended` around each push, `retried` for each attempt but a push's first, `answered` for
/// each answer of the provider. No text passed to this may contain a token, a key or an address of a device.
public final class SenderStatistics: Sendable {
  /// Longer texts of errors are truncated.
  static let errorBytesMax = 200

  public let name: String
  public let provider: PushProvider
  private let inFlight: Gauge
  private let connected: Gauge
  private let outcomes: [PushOutcomeKind: Counter]
  private let retries: Counter
  private let latency: DurationHistogram
  private let trouble = Mutex<(text: String, at: Timestamp)?>(nil)

  /// - Parameters:
  ///   - name: the sender's, as configured: a metric's label.
  ///   - metrics: also registers the figures for Prometheus.
  public init(name: String, provider: PushProvider, metrics: MetricsRegistry = MetricsRegistry()) {
    self.name = name
    self.provider = provider
    let labels = [("provider", provider.name), ("sender", name)]
    inFlight = metrics.gauge(
      "callmesh_push_in_flight", "Pushes that wait for their provider's answer.", labels: labels)
    connected = metrics.gauge(
      "callmesh_push_connected", "Connections to the provider that are ready.", labels: labels)
    var outcomes: [PushOutcomeKind: Counter] = [:]
    for kind in PushOutcomeKind.allCases {
      outcomes[kind] = metrics.counter(
        "callmesh_push_outcomes_total", "What became of pushes.",
        labels: labels + [("outcome", kind.rawValue)])
    }
    self.outcomes = outcomes
    retries = metrics.counter(
      "callmesh_push_retries_total", "Attempts beyond a push's first.", labels: labels)
    latency = metrics.histogram(
      "callmesh_push_provider_seconds", "From an attempt's beginning to the provider's answer.",
      labels: labels)
  }

  public func began() { inFlight.add(1) }

  /// The end of a push that `began`.
  public func ended(_ outcome: PushOutcome) {
    inFlight.add(-1)
    outcomes[outcome.kind]?.increment()
  }

  public func retried() { retries.increment() }

  /// The provider answered an attempt, with any status; microseconds from the attempt's beginning.
  public func answered(after microseconds: Int64) { latency.record(microseconds: microseconds) }

  /// Adds `amount` to the number of connections.
  public func connectionsChanged(by amount: Int) { connected.add(Int64(amount)) }

  /// For a sender that does not know its number of connections: 1 if the latest attempt was answered, else 0.
  public func reachable(_ isReachable: Bool) { connected.set(isReachable ? 1 : 0) }

  /// An attempt failed, whether or not a retry succeeds.
  public func failed(_ what: String, at now: Timestamp) {
    let text = String(decoding: what.utf8.prefix(Self.errorBytesMax), as: UTF8.self)
    trouble.withLock { $0 = (text, now) }
  }

  /// The values at this moment, for operators. `inFlight` counts the pushes between `send` and its return.
  public var status: PushStatus.Pool {
    let trouble = trouble.withLock { $0 }
    var status = PushStatus.Pool()
    status.name = name
    status.provider = provider.name
    status.inFlight = Int(inFlight.value)
    status.connected = Int(connected.value)
    for (kind, counter) in outcomes { status.outcomes[kind.rawValue] = counter.value }
    status.retriesTotal = retries.value
    status.p50 = latency.percentile(0.5)
    status.p99 = latency.percentile(0.99)
    status.lastError = trouble?.text
    status.lastErrorAtMilliseconds = trouble?.at.milliseconds
    return status
  }
}
