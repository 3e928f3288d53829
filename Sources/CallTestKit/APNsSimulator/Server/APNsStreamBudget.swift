internal import Synchronization

/// A limit of streams that several simulators share, as the nodes of a provider's cluster may.
public final class APNsStreamBudget: Sendable {
  private struct State {
    var open = 0
    var openMax = 0
    var refused = 0
  }
  private let most: Int
  private let state = Mutex(State())

  public init(_ most: Int) { self.most = most }

  /// The most streams that were open at the same time.
  public var openMax: Int { state.withLock { $0.openMax } }
  public var refused: Int { state.withLock { $0.refused } }

  /// - Returns: whether one more may open. It counts from then on.
  func enter() -> Bool {
    state.withLock { state in
      guard state.open < most else {
        state.refused += 1
        return false
      }
      state.open += 1
      state.openMax = max(state.openMax, state.open)
      return true
    }
  }

  func leave(_ count: Int) {
    if count > 0 { state.withLock { $0.open -= count } }
  }
}
