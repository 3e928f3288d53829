internal import Synchronization

/// A request that waits for one or more replies. Each has an inbox of its own, without which the
/// report that there is no subscriber could belong to another request.
package final class PendingRequest: Sendable {
  package typealias Completion = @Sendable (Result<[BusMessage], any Error>) -> Void

  private struct State {
    var replies: [BusMessage] = []
    var completion: Completion?
  }

  package let message: OutgoingMessage
  package let inbox: String
  fileprivate let deadline: ContinuousClock.Instant
  private let limit: Int
  private let needsReply: Bool
  private let state: Mutex<State>

  /// - Parameters:
  ///   - limit: how many replies end the request.
  ///   - needsReply: whether it is an error if no reply arrives in time.
  package init(
    _ subject: String, _ bytes: [UInt8], inbox: String, timeout: Duration, limit: Int,
    needsReply: Bool, completion: @escaping Completion
  ) {
    message = OutgoingMessage(subject: subject, bytes: bytes, replyTo: inbox)
    self.inbox = inbox
    deadline = .now + timeout
    self.limit = limit
    self.needsReply = needsReply
    state = Mutex(State(completion: completion))
  }

  /// Returns whether the reply is the last one.
  fileprivate func add(_ reply: BusMessage) -> Bool {
    state.withLock { state in
      state.replies.append(reply)
      return state.replies.count >= limit
    }
  }

  /// Ends the request with an error, or, if nil, with the replies so far. Does nothing if it has ended.
  fileprivate func end(_ error: (any Error)?) {
    let (completion, replies) = state.withLock { ($0.completion.take(), $0.replies) }
    if let error {
      completion?(.failure(error))
    } else if replies.isEmpty, needsReply {
      completion?(.failure(BusError.timeout))
    } else {
      completion?(.success(replies))
    }
  }
}

/// The pending requests of a bus.
package final class PendingRequests: Sendable {
  private struct State {
    /// By inbox.
    var waiting: [String: (request: PendingRequest, subscription: any BusSubscription)] = [:]
    /// Not later than the earliest deadline.
    var nextDeadline: ContinuousClock.Instant?
  }
  private let state = Mutex(State())

  package init() {}

  /// - Parameter subscription: the subscription to the request's inbox; cancelled with the request.
  package func add(_ request: PendingRequest, _ subscription: any BusSubscription) {
    state.withLock { state in
      state.waiting[request.inbox] = (request, subscription)
      state.nextDeadline = min(state.nextDeadline ?? request.deadline, request.deadline)
    }
  }

  package func received(_ reply: BusMessage, for request: PendingRequest) {
    if request.add(reply) { end(request, nil) }
  }

  /// Ends a request and its subscription.
  package func end(_ request: PendingRequest, _ error: (any Error)?) {
    let entry = state.withLock { $0.waiting.removeValue(forKey: request.inbox) }
    entry?.subscription.cancel()
    request.end(error)
  }

  /// The request with this inbox; nil if there is none, or if it has ended.
  package subscript(inbox: String) -> PendingRequest? {
    state.withLock { $0.waiting[inbox]?.request }
  }

  /// Ends those whose deadline has passed. Returns the next deadline.
  package func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
    let (due, next) = state.withLock { state -> ([PendingRequest], ContinuousClock.Instant?) in
      guard let next = state.nextDeadline, next <= now else { return ([], state.nextDeadline) }
      let due = state.waiting.values.map(\.request).filter { $0.deadline <= now }
      state.nextDeadline = state.waiting.values.map(\.request.deadline).filter { $0 > now }.min()
      return (due, state.nextDeadline)
    }
    for request in due { end(request, nil) }
    return next
  }

  package func endAll(_ error: any Error) {
    for request in state.withLock({ $0.waiting.values.map(\.request) }) { end(request, error) }
  }

  /// Waits for the replies to a request. Cancelling the task ends the request.
  /// - Parameter start: starts the request, with its completion.
  /// - Throws: `BusError`, `CancellationError`.
  package func replies(
    _ start: (@escaping PendingRequest.Completion) -> PendingRequest
  ) async throws -> [BusMessage] {
    let started = Mutex<PendingRequest?>(nil)
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let request = start { continuation.resume(with: $0) }
        started.withLock { $0 = request }
        if Task.isCancelled { end(request, CancellationError()) }
      }
    } onCancel: {
      guard let request = started.withLock({ $0 }) else { return }
      end(request, CancellationError())
    }
  }
}
