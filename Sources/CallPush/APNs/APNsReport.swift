internal import CallCore
package import CallTelemetry
internal import Logging

/// The counters of a pool, in addition to `SenderStatistics`. The initializer says what each counts.
package struct APNsMetrics: Sendable {
  package let goAways: Counter
  package let connectionsOpened: Counter
  package let connectionsLost: Counter
  package let requeued: Counter
  package let repeated: Counter
  package let overdue: Counter
  package let answeredLate: Counter
  package let queueFull: Counter
  package let alarms: Counter

  init(name: String, metrics: MetricsRegistry) {
    func counter(_ what: String, _ help: String) -> Counter {
      metrics.counter("callmesh_apns_\(what)_total", help, labels: [("sender", name)])
    }
    goAways = counter("goaways", "GOAWAY frames from APNs.")
    connectionsOpened = counter("connections_opened", "Attempts to connect to APNs.")
    connectionsLost = counter("connections_lost", "Connections to APNs that ended or drained.")
    requeued = counter("requeued", "Pushes that APNs gave back unseen.")
    repeated = counter("repeated", "Pushes of unknown fate that were sent once more.")
    overdue = counter("overdue", "Attempts that had no answer in time.")
    answeredLate = counter("answered_late", "Answers that came after the wait for them had ended.")
    queueFull = counter("queue_full", "Pushes refused since too many wait.")
    alarms = counter("alarms", "Refusals that are a mistake of ours or of the configuration.")
  }
}

/// Counts and logs the notes of a pool. Reasons are words of APNs or ours, and contain no token, key or payload.
final class APNsReport {
  private let statistics: SenderStatistics
  private let metrics: APNsMetrics
  private let logger: Logger
  private var usableBefore = 0
  private var alarms: [String: LogOnce] = [:]

  init(statistics: SenderStatistics, metrics: APNsMetrics, logger: Logger) {
    self.statistics = statistics
    self.metrics = metrics
    self.logger = logger
  }

  func retried() { statistics.retried() }
  func opened() { metrics.connectionsOpened.increment() }

  func usable(_ count: Int) {
    guard count != usableBefore else { return }
    statistics.connectionsChanged(by: count - usableBefore)
    usableBefore = count
  }

  func note(_ note: APNsNote, now: Timestamp) {
    switch note {
    case .answered(let status, let reason, let after):
      statistics.answered(after: after.microseconds)
      // A token that is gone is no error of the sender.
      if status != 200, status != 410, reason != "BadDeviceToken" {
        statistics.failed("\(status) \(reason)", at: now)
      }
    case .answeredLate: metrics.answeredLate.increment()
    case .goAway(let id, let isError, let reason):
      metrics.goAways.increment()
      logger.info(
        "APNs sent GOAWAY",
        metadata: .keys([
          .reason: "\(reason)", .state: isError ? "error" : "graceful", .client: "\(id)",
        ]))
    case .connectionEnded(let id, let reason):
      metrics.connectionsLost.increment()
      statistics.failed(reason, at: now)
      logger.info(
        "A connection to APNs takes no more pushes",
        metadata: .keys([.reason: "\(reason)", .client: "\(id)"]))
    case .requeued: metrics.requeued.increment()
    case .repeated: metrics.repeated.increment()
    case .overdue: metrics.overdue.increment()
    case .queueFull: metrics.queueFull.increment()
    case .wentBackToFormerToken(let id):
      logger.info("APNs wants the former provider token", metadata: .keys([.client: "\(id)"]))
    case .alarm(let reason):
      metrics.alarms.increment()
      alarm(reason, now: now)
    }
  }

  private func alarm(_ reason: String, now: Timestamp) {
    // APNs has few reasons. The bound protects the memory from a peer that invents more.
    if alarms.count > 64, alarms[reason] == nil { alarms = [:] }
    guard let count = alarms[reason, default: LogOnce()].admit(now) else { return }
    logger.error(
      "APNs refuses pushes for a reason that somebody must look at",
      metadata: .keys([.reason: "\(reason)", .count: "\(count)"]))
  }
}
