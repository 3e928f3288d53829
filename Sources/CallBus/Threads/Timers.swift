/// A clock and its timers.
///
/// A waiter registers one slot for its lifetime and arms it as needed. `TimerThread` serves the whole process, a bus
/// may serve the actor on its thread, and a simulation serves all of its nodes with virtual time.
public protocol Timers: Sendable {
  /// The time that deadlines are compared with. Only differences are meaningful.
  var now: ContinuousClock.Instant { get }

  /// Registers a slot. `action` runs on the timers' thread and must not block.
  func register(_ action: @escaping @Sendable () -> Void) -> Int

  /// Sets the slot's deadline, replacing a former one. Its action runs once, at or after the deadline.
  func arm(_ slot: Int, at deadline: ContinuousClock.Instant)

  /// Releases a slot. Its action may still be running, but does not start any more.
  func unregister(_ slot: Int)
}
