package import CallTelemetry

/// The metrics of one webhook.
package struct WebhookMetrics: Sendable {
  package let delivered: Counter
  package let failed: Counter
  package let deadLetters: Counter
  package let repeated: Counter
  package let unreadable: Counter
  package let lost: Counter
  package let latency: DurationHistogram
  package let open: Gauge
  package let posting: Gauge
  package let away: Gauge
  package let gone: Gauge
  package let owned: Gauge

  /// - Parameter webhook: identifies the URL; the URL itself may hold a secret.
  package init(_ registry: MetricsRegistry, app: String, webhook: String) {
    let labels = [("app", app), ("webhook", webhook)]
    func counter(_ name: String, _ help: String) -> Counter {
      registry.counter("callmesh_webhook_\(name)_total", help, labels: labels)
    }
    func gauge(_ name: String, _ help: String) -> Gauge {
      registry.gauge("callmesh_webhook_\(name)", help, labels: labels)
    }
    delivered = counter("delivered", "Events that a webhook has taken.")
    failed = counter("failures", "Attempts to deliver an event that failed.")
    deadLetters = counter("dead_letters", "Events that were given up.")
    repeated = counter(
      "events_repeated", "Events in the stream once more, which were not delivered again.")
    unreadable = counter(
      "events_unreadable", "Events in the stream that this version cannot read.")
    lost = counter(
      "events_lost", "Events that the stream had dropped before they were delivered.")
    latency = registry.histogram(
      "callmesh_webhook_seconds", "From an attempt's start to its answer or failure.",
      labels: labels)
    open = gauge("open", "Events that were read and are not delivered.")
    posting = gauge("outstanding", "Attempts that wait for their answers.")
    away = gauge("away", "1 while a webhook takes nothing.")
    gone = gauge("gone", "1 while a webhook says that it is gone (410).")
    owned = gauge("owned", "1 while this gateway delivers to the webhook.")
  }
}
