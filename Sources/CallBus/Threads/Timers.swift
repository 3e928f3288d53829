/// What tells the time and wakes waiters at their deadlines.
///
/// A waiter owns a slot for as long as it lives, and arms it at will. `TimerThread` implements it for
/// the whole process, a bus may for the actor that lives on its thread, and a simulation for all of
/// its nodes, with a time of its own.
public protocol Timers: Sendable {
  /// The time by which deadlines are judged. Only differences mean anything.
  var now: ContinuousClock.Instant { get }

  /// Takes a slot. `action` runs where the timers run: short, and without waiting.
  func register(_ action: @escaping @Sendable () -> Void) -> Int

  /// Sets the slot's deadline, in place of a former one. Its action runs once, at or after it.
  func arm(_ slot: Int, at deadline: ContinuousClock.Instant)

  /// Gives a slot back. Its action may still be under way, but does not begin any more.
  func unregister(_ slot: Int)
}
