import CallBus
import CallCore
import CallPush
import CallTelemetry
import Logging
import Synchronization

/// A clock that stands still until a test advances it. A pause ends at once and advances it.
final class HandClock: Timers {
  static let startSeconds: Int64 = 1_800_000_000

  private struct State {
    var now = ContinuousClock.now
    var slots: [(deadline: ContinuousClock.Instant?, action: (@Sendable () -> Void)?)] = []
    var pauses: [Span] = []
  }
  private let state = Mutex(State())
  private let clockBox = Mutex<ClusterClock?>(nil)

  var now: ContinuousClock.Instant { state.withLock { $0.now } }
  /// The pauses, in order.
  var pauses: [Span] { state.withLock { $0.pauses } }

  var clock: ClusterClock {
    clockBox.withLock { box in
      if let clock = box { return clock }
      let clock = ClusterClock(
        wallMicroseconds: Self.startSeconds * 1_000_000, timers: self)
      box = clock
      return clock
    }
  }

  var nowSeconds: Int64 { clock.now().microseconds / 1_000_000 }

  func register(_ action: @escaping @Sendable () -> Void) -> Int {
    state.withLock {
      $0.slots.append((nil, action))
      return $0.slots.count - 1
    }
  }
  func arm(_ slot: Int, at deadline: ContinuousClock.Instant) {
    state.withLock { $0.slots[slot].deadline = deadline }
  }
  func unregister(_ slot: Int) { state.withLock { $0.slots[slot] = (nil, nil) } }

  func advance(seconds: Int64) { advance(to: now + .seconds(seconds)) }

  private func advance(to time: ContinuousClock.Instant) {
    let due = state.withLock { state in
      state.now = max(state.now, time)
      var due: [@Sendable () -> Void] = []
      for index in state.slots.indices {
        guard let deadline = state.slots[index].deadline, deadline <= state.now else { continue }
        state.slots[index].deadline = nil
        if let action = state.slots[index].action { due.append(action) }
      }
      return due
    }
    for action in due { action() }
  }

  func environment(metrics: MetricsRegistry = MetricsRegistry(), chance: UInt64 = 0)
    -> SenderEnvironment
  {
    var environment = SenderEnvironment(
      clock: clock, metrics: metrics, logger: Logger(label: "test"))
    environment.pause = { span in
      let end = self.now + .microseconds(span.microseconds)
      self.state.withLock { $0.pauses.append(span) }
      self.advance(to: end)
    }
    environment.chance = { chance }
    return environment
  }
}

extension PushMessage {
  static func test(
    _ provider: PushProvider, token: String, purpose: PushPurpose = .ring,
    payload: String = #"{"call":"c1"}"#, deadline: Timestamp, collapseKey: String = "",
    trust: TokenTrust = .unproven
  ) -> PushMessage {
    var message = PushMessage(
      id: "id-1", token: PushToken(provider: provider, environment: "", topic: "", token: token),
      purpose: purpose, payload: Array(payload.utf8), kind: .background, deadline: deadline,
      collapseKey: collapseKey)
    message.trust = trust
    return message
  }
}

extension PushSender {
  /// Sends all at once.
  func sendAll(_ messages: [PushMessage]) async -> [PushOutcome] {
    await withTaskGroup(of: PushOutcome.self) { group in
      for message in messages { group.addTask { await self.send(message) } }
      return await group.reduce(into: []) { $0.append($1) }
    }
  }
}

extension SenderLimits {
  init(_ change: (inout SenderLimits) -> Void) {
    self.init()
    change(&self)
  }
}

/// Waits until a condition holds. The pause between two checks yields the processors and is no assumption about time.
/// The suite's time limit ends the wait.
func until(_ holds: () async throws -> Bool) async rethrows {
  let pause = Inbox<Never>(capacity: 1)
  while try await !holds() { _ = await pause.next(until: .now + .milliseconds(1)) }
}
