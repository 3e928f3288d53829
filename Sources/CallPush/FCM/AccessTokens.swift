package import CallBus
package import CallCore
internal import Synchronization

/// Fetches access tokens and hands them to pushes. The driver of `AccessTokenMachine`.
///
/// Owns the task of the exchange under way; `close` ends it.
package final class AccessTokens: Sendable {
  package enum Result: Sendable, Equatable {
    case token(String)
    case none(reason: String)
  }

  private struct State {
    var machine = AccessTokenMachine()
    var waiters: [UInt64: Inbox<Void>] = [:]
    var nextWaiter: UInt64 = 0
    var exchange: Task<Void, Never>?
    var closed = false
  }

  private let clock: ClusterClock
  private let chance: @Sendable () -> UInt64
  private let pause: @Sendable (Span, PushCancellation?) async -> Void
  private let get: @Sendable () async -> AccessTokenMachine.Exchanged
  private let state = Mutex(State())

  /// - Parameter get: makes one exchange with the current credentials, in bounded time.
  package init(
    clock: ClusterClock, chance: @escaping @Sendable () -> UInt64,
    pause: @escaping @Sendable (Span, PushCancellation?) async -> Void,
    get: @escaping @Sendable () async -> AccessTokenMachine.Exchanged
  ) {
    self.clock = clock
    self.chance = chance
    self.pause = pause
    self.get = get
  }

  /// Returns a valid token. Waits for an exchange, and for the pause after a failed one, if they end before the
  /// deadline. If the deadline passes meanwhile, the result names the failure of the last exchange.
  ///
  /// - Parameter cancellation: ends the wait.
  package func token(
    until deadline: Timestamp, unless cancellation: PushCancellation? = nil
  ) async -> Result {
    var failure = "no access token in time"
    while true {
      let now = clock.now()
      guard now < deadline else { return .none(reason: failure) }
      if cancellation?.isCancelled == true { return .none(reason: "cancelled") }
      let (answer, waiter) = state.withLock { state in ask(&state, now: now) }
      switch answer {
      case nil: return .none(reason: "closed")
      case .use(let text), .useAndExchange(let text): return .token(text)
      case .pausing(let reason, let until):
        failure = reason
        guard until < deadline else { return .none(reason: reason) }
        await pause(until - now, cancellation)
        // A pause ends early when the sender closes, or the push is cancelled.
        guard clock.now() >= until else { return .none(reason: reason) }
      case .exchange, .wait:
        guard let waiter else { continue }
        cancellation?.onCancel { [inbox = waiter.inbox] in inbox.close() }
        _ = await waiter.inbox.next(until: clock.instant(at: deadline))
        cancellation?.onCancel(nil)
        state.withLock { $0.waiters[waiter.number] = nil }
        if Task.isCancelled { return .none(reason: "cancelled") }
      }
    }
  }

  /// Returns nil for the answer after `close`.
  private func ask(
    _ state: inout State, now: Timestamp
  ) -> (answer: AccessTokenMachine.Answer?, waiter: (number: UInt64, inbox: Inbox<Void>)?) {
    guard !state.closed else { return (nil, nil) }
    let answer = state.machine.want(now: now)
    switch answer {
    case .use, .pausing, .wait: break
    case .useAndExchange, .exchange: begin(&state)
    }
    guard answer == .exchange || answer == .wait else { return (answer, nil) }
    state.nextWaiter += 1
    let inbox = Inbox<Void>(capacity: 1, timers: clock.timers)
    state.waiters[state.nextWaiter] = inbox
    return (answer, (state.nextWaiter, inbox))
  }

  /// The exchange belongs to no push: it continues if the push that began it ends.
  private func begin(_ state: inout State) {
    let generation = state.machine.generation
    state.exchange = Task {
      let result = await get()
      wakeAll {
        $0.machine.exchanged(result, generation: generation, now: clock.now(), chance: chance())
      }
    }
  }

  /// Changes the state, and wakes all that wait for a token.
  private func wakeAll(after change: (inout State) -> Void) {
    let waiters = state.withLock { state in
      change(&state)
      return Array(state.waiters.values)
    }
    for waiter in waiters { waiter.offer(()) }
  }

  /// The provider refused this token.
  package func refused(_ token: String) { state.withLock { $0.machine.refused(token) } }

  /// The next push gets a token of the new credentials.
  package func credentialsChanged() {
    wakeAll {
      $0.machine.credentialsChanged()
      $0.exchange.take()?.cancel()
    }
  }

  package func close() async {
    var exchange: Task<Void, Never>?
    wakeAll {
      $0.closed = true
      exchange = $0.exchange.take()
    }
    exchange?.cancel()
    await exchange?.value
  }
}
