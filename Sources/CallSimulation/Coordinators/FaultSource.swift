internal import CallCore

/// Something that happens to a world by chance, until it is told to stop.
package protocol FaultSource: AnyObject {
  var world: SimWorld { get }
  var random: SimRandom { get set }
  var isActive: Bool { get }
}

extension FaultSource {
  /// Repeats an event at random times while the source is active.
  /// - Parameter mean: the mean time between two of them.
  func every(_ mean: Span, _ event: @escaping (Self) -> Void) {
    world.schedule(after: random.exponential(mean: mean), "fault") { [weak self] in
      guard let self, isActive else { return }
      event(self)
      every(mean, event)
    }
  }

  /// Runs an action after a while, if the source is active then.
  func later(_ span: Span, _ action: @escaping (Self) -> Void) {
    world.schedule(after: span, "after a fault") { [weak self] in
      if let self, isActive { action(self) }
    }
  }
}
