internal import CallBus
internal import CallCore
internal import NIOCore
internal import Synchronization

/// Connections to APNs for one team, key and environment. Callable from any thread; one event loop does the work.
final class APNsPool: Sendable {
  struct Submission: Sendable {
    let request: APNsRequest
    let message: PushMessage
    let done: CheckedContinuation<APNsResult, Never>
  }

  private struct Inbox {
    var submissions: [Submission] = []
    /// Whether a task that takes the submissions is scheduled on the loop.
    var isWoken = false
  }

  private let eventLoop: any EventLoop
  private let driver: NIOLoopBoundBox<APNsPoolDriver>
  private let inbox = Mutex(Inbox())
  private let inboxMax: Int

  /// Connects at once, so that the first push does not wait for a connection. Must be closed.
  init(
    configuration: APNsConfiguration, endpoint: APNsEndpoint, eventLoop: any EventLoop,
    clock: ClusterClock, seed: UInt64, report: sending APNsReport
  ) {
    self.eventLoop = eventLoop
    inboxMax = configuration.limits.queued
    driver = .makeBoxSendingValue(
      APNsPoolDriver(
        configuration: configuration, endpoint: endpoint, eventLoop: eventLoop, clock: clock,
        seed: seed, report: report),
      eventLoop: eventLoop)
    eventLoop.execute { [driver] in driver.value.start() }
  }

  /// Returns when the outcome is known, or at the deadline. The task's cancellation does not end it earlier.
  func send(_ request: APNsRequest, of message: PushMessage) async -> APNsResult {
    message.cancellation?.onCancel { [eventLoop, driver] in
      eventLoop.execute { driver.value.dropCancelled() }
    }
    defer { message.cancellation?.onCancel(nil) }
    return await withCheckedContinuation { done in
      let submission = Submission(request: request, message: message, done: done)
      let (isFull, wake) = inbox.withLock { inbox in
        guard inbox.submissions.count < inboxMax else { return (true, false) }
        inbox.submissions.append(submission)
        let wake = !inbox.isWoken
        inbox.isWoken = true
        return (false, wake)
      }
      if isFull { done.resume(returning: .outcome(.failed(reason: "queue full"))) }
      if wake { eventLoop.execute { [self] in driver.value.submit(takeSubmissions()) } }
    }
  }

  private func takeSubmissions() -> [Submission] {
    inbox.withLock { inbox in
      inbox.isWoken = false
      var taken: [Submission] = []
      swap(&taken, &inbox.submissions)
      return taken
    }
  }

  /// Connections opened from now on use these credentials. Open connections drain.
  func update(_ credentials: APNsCredentials) {
    eventLoop.execute { [driver] in driver.value.update(credentials) }
  }

  /// Refuses further pushes, waits for those under way within the grace, and closes all connections.
  func close() async {
    await withCheckedContinuation { done in
      eventLoop.execute { [driver] in driver.value.close { done.resume() } }
    }
  }
}
