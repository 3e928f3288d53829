package import CallAuth
internal import CallBus
package import CallCore
internal import CallTelemetry
internal import Synchronization

/// Measures the depth of every lane of the push queue. Coordinators do, since a gateway knows only the lanes that it
/// serves, and operators must learn about a lane that no gateway serves.
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

  private func depth(of lane: String) -> Double? {
    depths.withLock { $0[lane].map(Double.init) }
  }

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

/// Limits the pushes a second of each app on one worker. Pushes that stop a ringing are not counted: a phone that was
/// made to ring must be stopped.
package struct PushRates {
  private let tokens: TokenAuthority?
  /// The generation of the keys that `terms` belong to.
  private var generation: UInt64?
  private var terms: [String: AppTerms] = [:]
  private var buckets: [String: TokenBucket] = [:]
  /// Apps are those of the file of keys. Policy if edges know more: all limits restart.
  private static let appsMax = 1024

  /// - Parameter tokens: nil: every app has the default limit.
  package init(_ tokens: TokenAuthority?) { self.tokens = tokens }

  /// Counts one push.
  /// - Returns: nil if it is allowed; otherwise the sentence of the refusal.
  package mutating func refusal(of job: PushJob, now: Timestamp) -> String? {
    if job.purpose.isCleanUp { return nil }
    if let tokens, tokens.generation != generation {
      generation = tokens.generation
      terms = tokens.keys.terms
      buckets = [:]
    }
    let limits = terms[job.user.app]?.limits ?? AppLimits()
    if buckets.count >= Self.appsMax { buckets = [:] }
    let burst = limits.burst(.pushesPerSecond)
    let wait = buckets[job.user.app, default: TokenBucket(burst: burst, now: now)]
      .consume(perSecond: limits[.pushesPerSecond], burst: burst, now: now)
    return wait.map { limits.refusal(.pushesPerSecond, retryAfterMilliseconds: $0).message }
  }
}
