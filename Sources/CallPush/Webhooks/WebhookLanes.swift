package import CallAuth
internal import CallBus
internal import CallCore
package import CallTelemetry
internal import Synchronization

/// The webhooks of all apps at this gateway, as the file of keys names them: at most four for each app.
package final class WebhookLanes: Sendable {
  private struct Key: Hashable {
    var app: String
    var endpoint: String
  }

  private let lanes = Mutex<[Key: WebhookLane]>([:])
  private let environment: WebhookEnvironment
  private let metrics: MetricsRegistry

  package init(_ environment: WebhookEnvironment, _ metrics: MetricsRegistry) {
    self.environment = environment
    self.metrics = metrics
  }

  /// Puts settings in force, and stops webhooks that are named no more.
  /// - Returns: the new ones, which are to be run.
  package func follow(_ settings: [String: [WebhookSettings]]) -> [WebhookLane] {
    lanes.withLock { lanes in
      var next: [Key: WebhookLane] = [:]
      var begun: [WebhookLane] = []
      for (app, webhooks) in settings.sorted(by: { $0.key < $1.key }) {
        for webhook in webhooks {
          let key = Key(app: app, endpoint: webhook.endpoint.id)
          if let lane = lanes.removeValue(forKey: key) {
            lane.update(webhook)
            next[key] = lane
          } else {
            let counts = WebhookMetrics(metrics, app: app, webhook: webhook.endpoint.id)
            let lane = WebhookLane(app: app, webhook, environment, counts)
            next[key] = lane
            begun.append(lane)
          }
        }
      }
      for lane in lanes.values { lane.stop() }
      lanes = next
      return begun
    }
  }

  package func stopAll() { _ = follow([:]) }

  /// A message was stored on an app's subject.
  package func wake(subject: String) {
    guard let part = subject.split(separator: ".").last, let app = Subjects.keyText(part) else {
      return
    }
    lanes.withLock { lanes in
      for (key, lane) in lanes where key.app == app { lane.wake() }
    }
  }
}
