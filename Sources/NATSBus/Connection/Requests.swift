internal import CallBus
internal import Synchronization

/// A question that waits for one or more replies, each to an inbox of its own: only so can "nobody
/// listens" be told apart from other questions' answers.
final class PendingRequest: Sendable {
  typealias Completion = @Sendable (Result<[BusMessage], any Error>) -> Void

  private struct State {
    var replies: [BusMessage] = []
    var completion: Completion?
  }

  let subject: String
  let bytes: [UInt8]
  let inbox: String
  let deadline: ContinuousClock.Instant
  private let limit: Int
  /// Whether no reply at all is an error.
  private let needsReply: Bool
  private let state: Mutex<State>

  init(
    subject: String, bytes: [UInt8], inbox: String, deadline: ContinuousClock.Instant, limit: Int,
    needsReply: Bool, completion: @escaping Completion
  ) {
    self.subject = subject
    self.bytes = bytes
    self.inbox = inbox
    self.deadline = deadline
    self.limit = limit
    self.needsReply = needsReply
    state = Mutex(State(completion: completion))
  }

  /// True when that was the last one.
  func add(_ reply: BusMessage) -> Bool {
    state.withLock { state in
      state.replies.append(reply)
      return state.replies.count >= limit
    }
  }

  /// Ends the request with an error, or with what has come when nil; without effect when it ended
  /// before.
  func end(_ error: (any Error)?) {
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

/// The requests of a connection that wait.
final class Requests: Sendable {
  private struct State {
    var waiting: [ObjectIdentifier: (request: PendingRequest, subscription: NATSSubscription)] = [:]
    /// Not later than the earliest deadline.
    var nextDeadline: ContinuousClock.Instant?
  }
  private let state = Mutex(State())

  func add(_ request: PendingRequest, _ subscription: NATSSubscription) {
    state.withLock { state in
      state.waiting[ObjectIdentifier(request)] = (request, subscription)
      state.nextDeadline = min(state.nextDeadline ?? request.deadline, request.deadline)
    }
  }

  /// Ends a request and its subscription.
  func end(_ request: PendingRequest, _ error: (any Error)?) {
    let entry = state.withLock { $0.waiting.removeValue(forKey: ObjectIdentifier(request)) }
    entry?.subscription.cancel()
    request.end(error)
  }

  func isWaiting(_ request: PendingRequest) -> Bool {
    state.withLock { $0.waiting[ObjectIdentifier(request)] != nil }
  }

  /// Ends those whose deadline has passed. Returns the next deadline.
  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
    let (due, next) = state.withLock { state -> ([PendingRequest], ContinuousClock.Instant?) in
      guard let next = state.nextDeadline, next <= now else { return ([], state.nextDeadline) }
      let due = state.waiting.values.map(\.request).filter { $0.deadline <= now }
      state.nextDeadline =
        state.waiting.values.map(\.request.deadline).filter { $0 > now }.min()
      return (due, state.nextDeadline)
    }
    for request in due { end(request, nil) }
    return next
  }

  func endAll(_ error: any Error) {
    for request in state.withLock({ $0.waiting.values.map(\.request) }) { end(request, error) }
  }
}
