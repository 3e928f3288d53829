internal import CallBus
internal import CallWire
internal import Synchronization

/// A gateway's subscriptions to the lanes of the work queue. Each period between `begin` and `end` is a round with a
/// number: a task may still try to subscribe to a lane when its round is over and the next one has begun.
final class LaneConsumers: Sendable {
  private struct State {
    var round = 0
    var isConsuming = false
    var subscriptions: [any BusSubscription] = []
  }
  private let state = Mutex(State())
  /// Whether there is a lane to consume. A gateway without providers delivers to webhooks only.
  private let hasLanes: Bool

  init(hasLanes: Bool) { self.hasLanes = hasLanes }

  /// The state for the heartbeat.
  var nodeState: NodeState {
    state.withLock { state in
      if state.round > 0, !state.isConsuming { return .leaving }
      return hasLanes && state.subscriptions.isEmpty ? .starting : .serving
    }
  }

  /// Begins a round. Returns its number; nil if a round is under way.
  func begin() -> Int? {
    state.withLock { state in
      guard !state.isConsuming else { return nil }
      state.isConsuming = true
      state.round += 1
      return state.round
    }
  }

  func isCurrent(_ round: Int) -> Bool {
    state.withLock { $0.isConsuming && $0.round == round }
  }

  /// Keeps a subscription of a round; cancels it if the round is over.
  /// - Returns: whether it was kept.
  func add(_ subscription: any BusSubscription, in round: Int) -> Bool {
    let isKept = state.withLock { state in
      guard state.isConsuming, state.round == round else { return false }
      state.subscriptions.append(subscription)
      return true
    }
    if !isKept { subscription.cancel() }
    return isKept
  }

  /// Ends the round: cancels all subscriptions.
  func end() {
    let subscriptions = state.withLock { state in
      state.isConsuming = false
      defer { state.subscriptions = [] }
      return state.subscriptions
    }
    for subscription in subscriptions { subscription.cancel() }
  }
}
