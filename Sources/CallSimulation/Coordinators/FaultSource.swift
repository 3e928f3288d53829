internal import CallCore

package enum SimIntensity: String, Sendable, CaseIterable {
  case calm
  case usual
  case brutal

  func pick<Value>(calm: Value, usual: Value, brutal: Value) -> Value {
    switch self {
    case .calm: calm
    case .usual: usual
    case .brutal: brutal
    }
  }

  /// The mean time between two faults: seconds in a calm, a usual and a brutal world.
  func seconds(_ calm: Double, _ usual: Double, _ brutal: Double) -> Span {
    let seconds = pick(calm: calm, usual: usual, brutal: brutal)
    return Span(microseconds: Int64((seconds * 1_000_000).rounded()))
  }
}

/// A source of random events, until it is stopped.
package protocol FaultSource: SimActor {
  var random: SimRandom { get set }
  var isActive: Bool { get }
}

extension FaultSource {
  /// Repeats an event at random times while the source is active.
  /// - Parameter mean: the mean time between two of them.
  func every(_ mean: Span, _ event: @escaping (Self) -> Void) {
    laterIfActive(random.exponential(mean: mean)) {
      event($0)
      $0.every(mean, event)
    }
  }

  /// Runs an action after a while, if the source is active then.
  func laterIfActive(_ span: Span, _ action: @escaping (Self) -> Void) {
    later(span) { if $0.isActive { action($0) } }
  }
}
