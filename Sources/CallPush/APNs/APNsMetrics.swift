public import CallTelemetry

/// What a pool counts beside the figures that all senders keep.
public struct APNsMetrics: Sendable {
  public let goAways: Counter
  public let connectionsOpened: Counter
  /// Connections that ended other than by our own closing.
  public let connectionsLost: Counter
  /// Pushes that APNs gave back unseen.
  public let requeued: Counter
  /// Pushes of unknown fate that were sent once more.
  public let repeated: Counter
  /// Attempts that had no answer in time.
  public let overdue: Counter
  /// Answers that nobody waited for any more.
  public let answeredLate: Counter
  /// Pushes refused since too many wait.
  public let queueFull: Counter
  /// Refusals that are our mistake or the configuration's.
  public let alarms: Counter

  public init(name: String, metrics: MetricsRegistry = MetricsRegistry()) {
    func counter(_ what: String, _ help: String) -> Counter {
      metrics.counter("callmesh_apns_\(what)_total", help, labels: [("sender", name)])
    }
    goAways = counter("goaways", "GOAWAY frames from APNs.")
    connectionsOpened = counter("connections_opened", "Attempts to connect to APNs.")
    connectionsLost = counter("connections_lost", "Connections to APNs that ended or drained.")
    requeued = counter("requeued", "Pushes that APNs gave back unseen.")
    repeated = counter("repeated", "Pushes of unknown fate that were sent once more.")
    overdue = counter("overdue", "Attempts that had no answer in time.")
    answeredLate = counter("answered_late", "Answers that nobody waited for any more.")
    queueFull = counter("queue_full", "Pushes refused since too many wait.")
    alarms = counter("alarms", "Refusals that are a mistake of ours or of the configuration.")
  }
}
