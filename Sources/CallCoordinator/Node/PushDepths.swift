internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import Synchronization

/// Measures the depth of every lane of the push queue.
///
/// Coordinators measure it since they fill the queue: a gateway knows only the lanes that it serves, and
/// a lane that no gateway serves is what an operator must learn about.
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
        do {
          let depth = try await queue.depth(lane: lane)
          depths.withLock { $0[lane] = depth }
        } catch BusError.closed {
          return
        } catch {
          depths.withLock { $0[lane] = nil }
        }
      }
      await clock.sleep(for: Self.interval)
    }
  }
}
