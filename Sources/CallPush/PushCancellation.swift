internal import Synchronization

/// Cancels a push whose call has ended, while it waits for a place, for a connection, or for the next
/// attempt. Senders check it before each attempt.
public final class PushCancellation: Sendable {
  private let cancelled = Atomic<Bool>(false)
  public init() {}
  public var isCancelled: Bool { cancelled.load(ordering: .relaxed) }
  /// An attempt that is under way continues; no further one begins.
  public func cancel() { cancelled.store(true, ordering: .relaxed) }
}
