internal import CallCore
internal import CallTelemetry
internal import Logging

/// Counts and logs what a pool notes. Reasons are APNs' words or ours; no token, key or payload.
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
      // That a device's token is gone is no trouble of ours.
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
      logger.info(
        "APNs wants the former provider token", metadata: .keys([.client: "\(id)"]))
    case .alarm(let reason):
      metrics.alarms.increment()
      alarm(reason, now: now)
    }
  }

  private func alarm(_ reason: String, now: Timestamp) {
    // The provider's words are few; a peer that invents more does not fill our memory.
    if alarms.count > 64, alarms[reason] == nil { alarms = [:] }
    guard let count = alarms[reason, default: LogOnce()].admit(now) else { return }
    logger.error(
      "APNs refuses pushes for a reason that somebody must look at",
      metadata: .keys([.reason: "\(reason)", .count: "\(count)"]))
  }
}
