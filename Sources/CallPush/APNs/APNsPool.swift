package import CallBus
package import CallCore
internal import CallTelemetry
package import Logging
package import NIOCore
internal import Synchronization

/// Connections to APNs for one team, key and environment, as other threads see them. All work is
/// done on one event loop.
package final class APNsPool: Sendable {
  struct Submission: Sendable {
    let request: APNsRequest
    let isUrgent: Bool
    let deadline: Timestamp
    let cancellation: PushCancellation?
    let done: CheckedContinuation<APNsResult, Never>
  }

  private struct Inbox {
    var submissions: [Submission] = []
    /// Whether the loop has been woken and has not yet come.
    var isWoken = false
  }

  private let eventLoop: any EventLoop
  private let driver: NIOLoopBoundBox<APNsPoolDriver>
  private let inbox = Mutex(Inbox())
  private let inboxMax: Int

  /// Connects at once: the first push of an hour should not have to wait for that. Must be closed.
  package init(
    configuration: APNsConfiguration, endpoint: APNsEndpoint, eventLoop: any EventLoop,
    clock: ClusterClock, seed: UInt64, statistics: SenderStatistics, metrics: APNsMetrics,
    logger: Logger
  ) {
    self.eventLoop = eventLoop
    inboxMax = configuration.limits.queued
    driver = .makeBoxSendingValue(
      APNsPoolDriver(
        configuration: configuration, endpoint: endpoint, eventLoop: eventLoop, clock: clock,
        seed: seed, statistics: statistics, metrics: metrics, logger: logger),
      eventLoop: eventLoop)
    eventLoop.execute { [driver] in driver.value.start() }
  }

  /// Returns when the push's fate is known, or when its time is over: neither an error nor the
  /// cancellation of the task ends it before.
  package func send(
    _ request: APNsRequest, isUrgent: Bool, deadline: Timestamp,
    cancellation: PushCancellation? = nil
  ) async -> APNsResult {
    await withCheckedContinuation { done in
      let submission = Submission(
        request: request, isUrgent: isUrgent, deadline: deadline, cancellation: cancellation,
        done: done)
      let (isFull, wake) = inbox.withLock { inbox in
        guard inbox.submissions.count < inboxMax else { return (true, false) }
        inbox.submissions.append(submission)
        let wake = !inbox.isWoken
        inbox.isWoken = true
        return (false, wake)
      }
      if isFull { done.resume(returning: .outcome(.failed(reason: "queue full"))) }
      if wake { eventLoop.execute { [self] in driver.value.submit(take()) } }
    }
  }

  private func take() -> [Submission] {
    inbox.withLock { inbox in
      inbox.isWoken = false
      var taken: [Submission] = []
      swap(&taken, &inbox.submissions)
      return taken
    }
  }

  /// Connections opened from now on use these; those that are open drain.
  package func update(_ credentials: APNsCredentials) {
    eventLoop.execute { [driver] in driver.value.update(credentials) }
  }

  /// Takes no more pushes, lets those under way finish within the grace, and closes all connections.
  package func close() async {
    await withCheckedContinuation { done in
      eventLoop.execute { [driver] in driver.value.close { done.resume() } }
    }
  }
}
