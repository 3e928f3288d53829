internal import CallBus
internal import CallWire
internal import Synchronization

/// By what a gateway takes jobs: a subscription for each lane, from when jobs are wanted until they
/// are not. A lane that cannot be taken yet is its own task's business; meanwhile jobs may come to be
/// unwanted, and wanted again, so each time has a number.
final class LaneConsumers: Sendable {
  private struct State {
    var round = 0
    var isWanted = false
    var takers: [any BusSubscription] = []
  }
  private let state = Mutex(State())

  /// What the heartbeat says.
  var nodeState: NodeState {
    state.withLock { state in
      if state.round > 0, !state.isWanted { return .leaving }
      return state.takers.isEmpty ? .starting : .serving
    }
  }

  /// Jobs are wanted. Returns the number of this time; nil where they were wanted already.
  func begin() -> Int? {
    state.withLock { state in
      guard !state.isWanted else { return nil }
      state.isWanted = true
      state.round += 1
      return state.round
    }
  }

  func wants(_ round: Int) -> Bool {
    state.withLock { $0.isWanted && $0.round == round }
  }

  /// Keeps a subscription that was begun in a round; ends it where that is over.
  /// - Returns: whether it was kept.
  func add(_ taker: any BusSubscription, in round: Int) -> Bool {
    let isKept = state.withLock { state in
      guard state.isWanted, state.round == round else { return false }
      state.takers.append(taker)
      return true
    }
    if !isKept { taker.cancel() }
    return isKept
  }

  /// Jobs are not wanted any more.
  func end() {
    let takers = state.withLock { state in
      state.isWanted = false
      defer { state.takers = [] }
      return state.takers
    }
    for taker in takers { taker.cancel() }
  }
}
