internal import Synchronization

/// A request that waits for its replies.
struct PendingReplies {
  var subject: String
  var deadline: ContinuousClock.Instant
  var limit: Int
  var emptyIsTimeout: Bool
  var replies: [BusMessage] = []
  var subscription: InProcessSubscription
  var continuation: CheckedContinuation<[BusMessage], any Error>
}

extension InProcessCore {
  func request(
    _ subject: String, _ bytes: [UInt8], window: Duration, limit: Int, emptyIsTimeout: Bool
  ) async throws -> [BusMessage] {
    let deadline = ContinuousClock.now + window
    let id = state.withLock { state in
      state.lastID += 1
      return state.lastID
    }
    let inbox = "_INBOX.\(id)"
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        do {
          let subscription = try subscribe(inbox, queue: nil) { [weak self] message in
            self?.reply(message, to: id)
          }
          state.withLock {
            $0.requests[id] = PendingReplies(
              subject: inbox, deadline: deadline, limit: limit, emptyIsTimeout: emptyIsTimeout,
              subscription: subscription, continuation: continuation)
          }
        } catch {
          continuation.resume(throwing: error)
          return
        }
        let message = OutgoingMessage(subject: subject, bytes: bytes, replyTo: inbox)
        if publish(CollectionOfOne(message)) > 0 {
          finish(id) { .failure(BusError.failed("the outbox is full, \($0.subject) was not sent")) }
        }
        if Task.isCancelled { finish(id) { _ in .failure(CancellationError()) } }
      }
    } onCancel: {
      finish(id) { _ in .failure(CancellationError()) }
    }
  }

  private func reply(_ message: BusMessage, to id: UInt64) {
    let complete = state.withLock { state in
      state.requests[id]?.replies.append(message)
      return state.requests[id].map { $0.replies.count >= $0.limit } ?? false
    }
    if complete { finish(id) { .success($0.replies) } }
  }

  func noResponders(_ inbox: String) {
    guard let id = state.withLock({ $0.requests.first { $0.value.subject == inbox }?.key }) else {
      return
    }
    finish(id) { _ in .failure(BusError.noResponders) }
  }

  private func finish(
    _ id: UInt64, _ result: (PendingReplies) -> Result<[BusMessage], any Error>
  ) {
    guard let request = state.withLock({ $0.requests.removeValue(forKey: id) }) else { return }
    request.subscription.cancel()
    request.continuation.resume(with: result(request))
  }

  /// Ends the requests whose time is over, or all of them. Returns the next deadline.
  func expireRequests(all: Bool) -> ContinuousClock.Instant? {
    let now = ContinuousClock.now
    let due = state.withLock { state in
      state.requests.filter { all || $0.value.deadline <= now }.map(\.key)
    }
    for id in due {
      finish(id) { request in
        if all { return .failure(BusError.closed) }
        if request.replies.isEmpty, request.emptyIsTimeout { return .failure(BusError.timeout) }
        return .success(request.replies)
      }
    }
    return state.withLock { $0.requests.values.map(\.deadline).min() }
  }
}
