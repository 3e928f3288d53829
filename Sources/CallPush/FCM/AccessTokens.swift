package import CallBus
package import CallCore
internal import Synchronization

/// Gives out access tokens, and gets them: `AccessTokenMachine`'s driver.
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
  private let pause: @Sendable (Span) async -> Void
  private let get: @Sendable () async -> AccessTokenMachine.Exchanged
  private let state = Mutex(State())

  /// - Parameter get: makes one exchange, with the credentials of that moment, in bounded time.
  package init(
    clock: ClusterClock, chance: @escaping @Sendable () -> UInt64,
    pause: @escaping @Sendable (Span) async -> Void,
    get: @escaping @Sendable () async -> AccessTokenMachine.Exchanged
  ) {
    self.clock = clock
    self.chance = chance
    self.pause = pause
    self.get = get
  }

  /// A token that is good now. Waits for an exchange, and through the pause behind a failed one, as
  /// long as that ends before the deadline.
  package func token(until deadline: Timestamp) async -> Result {
    while true {
      let now = clock.now()
      guard now < deadline else { return .none(reason: "no access token in time") }
      let next = state.withLock { state -> Step in
        step(&state, now: now, deadline: deadline)
      }
      switch next {
      case .result(let result): return result
      case .pause(let until, let reason):
        await pause(until - now)
        // A pause that ends early ends because all ends.
        guard clock.now() >= until else { return .none(reason: reason) }
      case .wait(let number, let inbox):
        _ = await inbox.next(until: clock.instant(at: deadline))
        state.withLock { $0.waiters[number] = nil }
        if Task.isCancelled { return .none(reason: "cancelled") }
      }
    }
  }

  private enum Step {
    case result(Result)
    case pause(until: Timestamp, reason: String)
    case wait(UInt64, Inbox<Void>)
  }

  private func step(_ state: inout State, now: Timestamp, deadline: Timestamp) -> Step {
    guard !state.closed else { return .result(.none(reason: "closed")) }
    switch state.machine.want(now: now) {
    case .use(let text): return .result(.token(text))
    case .useAndExchange(let text):
      begin(&state)
      return .result(.token(text))
    case .pausing(let reason, let until):
      return until < deadline
        ? .pause(until: until, reason: reason) : .result(.none(reason: reason))
    case .exchange:
      begin(&state)
      return wait(&state)
    case .wait: return wait(&state)
    }
  }

  private func wait(_ state: inout State) -> Step {
    state.nextWaiter += 1
    let inbox = Inbox<Void>(capacity: 1, timers: clock.timers)
    state.waiters[state.nextWaiter] = inbox
    return .wait(state.nextWaiter, inbox)
  }

  /// The exchange is nobody's push: it goes on when the one that began it gives up.
  private func begin(_ state: inout State) {
    let generation = state.machine.generation
    state.exchange = Task {
      let result = await get()
      let waiters = self.state.withLock { state -> [Inbox<Void>] in
        state.machine.exchanged(
          result, generation: generation, now: clock.now(), chance: chance())
        return Array(state.waiters.values)
      }
      for waiter in waiters { waiter.offer(()) }
    }
  }

  /// The provider refused this token.
  package func refused(_ token: String) { state.withLock { $0.machine.refused(token) } }

  /// New credentials: the next push gets a token of theirs.
  package func credentialsChanged() {
    let waiters = state.withLock { state in
      state.machine.credentialsChanged()
      state.exchange?.cancel()
      state.exchange = nil
      return Array(state.waiters.values)
    }
    for waiter in waiters { waiter.offer(()) }
  }

  package func close() async {
    let (exchange, waiters) = state.withLock { state in
      state.closed = true
      return (state.exchange.take(), Array(state.waiters.values))
    }
    exchange?.cancel()
    for waiter in waiters { waiter.offer(()) }
    await exchange?.value
  }
}
