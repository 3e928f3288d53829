internal import Synchronization

/// Whether a push is still wanted: its call may end while it waits for a place, for a connection, or for
/// the next attempt. Who sends asks before each attempt.
public final class PushWish: Sendable {
  private let isOver = Atomic<Bool>(false)
  public init() {}
  public var isWanted: Bool { !isOver.load(ordering: .relaxed) }
  /// Attempts that are under way go on; no other begins.
  public func withdraw() { isOver.store(true, ordering: .relaxed) }
}
