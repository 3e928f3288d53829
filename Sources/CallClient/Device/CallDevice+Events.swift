internal import CallCore
internal import Synchronization

extension CallDevice {
  /// The events of one device, in order. The sequence ends with `stop`.
  public struct Events: AsyncSequence, Sendable {
    public typealias Element = ClientEvent
    public typealias Failure = Never
    let buffer: EventBuffer

    public struct AsyncIterator: AsyncIteratorProtocol {
      let buffer: EventBuffer

      public mutating func next() async -> ClientEvent? { await buffer.next() }
      public mutating func next(isolation: isolated (any Actor)?) async -> ClientEvent? {
        await buffer.next()
      }
    }

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer) }
  }
}

/// Events on their way to the app. Policy at the limit: the oldest unimportant event is dropped, or the
/// oldest one if all are important.
final class EventBuffer: Sendable {
  private struct State {
    var events: [ClientEvent] = []
    var waiter: CheckedContinuation<ClientEvent?, Never>?
    var isFinished = false
    var dropped = 0
  }

  private let capacity: Int
  private let state = Mutex(State())

  init(capacity: Int) { self.capacity = max(1, capacity) }

  var dropped: Int { state.withLock { $0.dropped } }

  func append(_ event: ClientEvent) {
    let waiter = state.withLock { state -> CheckedContinuation<ClientEvent?, Never>? in
      if let waiter = state.waiter.take() { return waiter }
      if state.events.count >= capacity {
        state.events.remove(at: state.events.firstIndex { !$0.isImportant } ?? 0)
        state.dropped += 1
      }
      state.events.append(event)
      return nil
    }
    waiter?.resume(returning: event)
  }

  func finish() {
    let waiter = state.withLock {
      $0.isFinished = true
      return $0.waiter.take()
    }
    waiter?.resume(returning: nil)
  }

  func next() async -> ClientEvent? {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let now: ClientEvent?? = state.withLock { state in
          if !state.events.isEmpty { return .some(state.events.removeFirst()) }
          // A second reader gets the end: it would otherwise leave the first waiting for ever.
          if state.isFinished || state.waiter != nil || Task.isCancelled { return .some(nil) }
          state.waiter = continuation
          return nil
        }
        if let now { continuation.resume(returning: now) }
      }
    } onCancel: {
      state.withLock { $0.waiter.take() }?.resume(returning: nil)
    }
  }
}

extension ClientEvent {
  /// Whether the app must not miss it.
  fileprivate var isImportant: Bool {
    switch self {
    case .call(_, .invited), .call(_, .answered), .call(_, .won), .call(_, .moved),
      .call(_, .stopped), .refused, .ongoing, .history:
      true
    // Otherwise the app would not learn that pushes can no longer wake it.
    case .notice(let notice): notice.kind == .tokenTaken || notice.kind == .deviceRemoved
    case .call(_, .ringing), .call(_, .signal), .attached, .detached, .notTrusted,
      .replied, .gaveUp:
      false
    }
  }
}
