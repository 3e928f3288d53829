internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import Synchronization

/// Looks how many jobs are in each lane of the push queue, for a metric.
///
/// Coordinators fill the queue and look at all lanes. A gateway knows only of those that it serves, and
/// what waits in a lane that nobody serves is what an operator has to hear of.
final class PushDepths: Sendable {
  static let interval = Span.seconds(2)
  private let queue: any WorkQueue
  private let clock: ClusterClock
  private let depths = Mutex<[String: Int]>([:])

  init(queue: any WorkQueue, clock: ClusterClock, metrics: MetricsRegistry) {
    self.queue = queue
    self.clock = clock
    for lane in PushToken.lanes {
      metrics.reading(
        "callmesh_push_queue_depth", "Jobs in the work queue, those under way included.",
        labels: [("lane", lane)]
      ) { [weak self] in self?.depth(of: lane) ?? .nan }
    }
  }

  /// nil: the store did not say, or not yet.
  private func depth(of lane: String) -> Double? {
    depths.withLock { $0[lane].map(Double.init) }
  }

  /// Until it is cancelled.
  func run() async {
    while !Task.isCancelled {
      for lane in PushToken.lanes {
        let depth = try? await queue.depth(lane: lane)
        depths.withLock { $0[lane] = depth }
      }
      await clock.pause(Self.interval)
    }
  }
}
