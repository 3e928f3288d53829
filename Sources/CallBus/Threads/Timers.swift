internal import Glibc
internal import Synchronization

/// One thread that runs the timers of the process.
///
/// Arming a slot takes a lock, allocates nothing, and wakes the thread only if the deadline is the earliest of all.
/// Finding the earliest deadline is a scan, which suffices for some thousands of slots.
package final class TimerThread: Timers {
  /// Never stops.
  package static let shared = TimerThread()

  private struct Slot {
    var deadline: ContinuousClock.Instant?
    var action: (@Sendable () -> Void)?
  }
  private struct State {
    var slots: [Slot] = []
    var free: [Int] = []
    /// The deadline at which the thread wakes; nil if it sleeps until it is signalled.
    var target: ContinuousClock.Instant?
  }

  private let state = Mutex(State())
  private let signal = ThreadSignal()

  private init() {
    startThread(named: "callmesh-timer") { [self] in run() }
  }

  package var now: ContinuousClock.Instant { .now }

  package func register(_ action: @escaping @Sendable () -> Void) -> Int {
    state.withLock { state in
      if let slot = state.free.popLast() {
        state.slots[slot] = Slot(deadline: nil, action: action)
        return slot
      }
      state.slots.append(Slot(deadline: nil, action: action))
      return state.slots.count - 1
    }
  }

  package func unregister(_ slot: Int) {
    state.withLock { state in
      state.slots[slot] = Slot()
      state.free.append(slot)
    }
  }

  package func arm(_ slot: Int, at deadline: ContinuousClock.Instant) {
    let mustWake = state.withLock { state in
      state.slots[slot].deadline = deadline
      guard let target = state.target else {
        state.target = deadline
        return true
      }
      guard deadline < target else { return false }
      state.target = deadline
      return true
    }
    if mustWake { signal.signal() }
  }

  private func run() {
    var due: [@Sendable () -> Void] = []
    while true {
      let target = state.withLock { state in
        let now = ContinuousClock.now
        state.target = nil
        for index in state.slots.indices {
          guard let deadline = state.slots[index].deadline else { continue }
          if deadline <= now {
            state.slots[index].deadline = nil
            if let action = state.slots[index].action { due.append(action) }
          } else if state.target.map({ deadline < $0 }) ?? true {
            state.target = deadline
          }
        }
        return state.target
      }
      guard due.isEmpty else {
        for action in due { action() }
        due.removeAll(keepingCapacity: true)
        continue
      }
      signal.wait(atMost: target.map { $0 - .now })
    }
  }
}

/// A clock and its timers.
///
/// A waiter registers one slot for its lifetime and arms it as needed. `TimerThread` serves the whole process, a bus
/// may serve the actor on its thread, and a simulation serves all of its nodes with virtual time.
public protocol Timers: AnyObject, Sendable {
  /// The time that deadlines are compared with. Only differences are meaningful.
  var now: ContinuousClock.Instant { get }

  /// The same time as a number, which costs less. Only differences are meaningful.
  var microseconds: Int64 { get }

  /// Registers a slot. `action` runs on the timers' thread and must not block.
  func register(_ action: @escaping @Sendable () -> Void) -> Int

  /// Sets the slot's deadline, replacing a former one. Its action runs once, at or after the deadline.
  func arm(_ slot: Int, at deadline: ContinuousClock.Instant)

  /// Releases a slot. Its action may still be running, but does not start again.
  func unregister(_ slot: Int)
}

extension Timers {
  public var microseconds: Int64 { MachineClock.microseconds(since: MachineClock.reference, now) }
}

/// The clock of `ContinuousClock`, read without the arithmetic of its instants and durations.
enum MachineClock {
  fileprivate static let reference = ContinuousClock.now

  /// Only differences are meaningful.
  static var microseconds: Int64 {
    #if os(Linux)
      var time = timespec()
      clock_gettime(CLOCK_BOOTTIME, &time)
      return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    #else
      return microseconds(since: reference, .now)
    #endif
  }

  fileprivate static func microseconds(
    since start: ContinuousClock.Instant, _ now: ContinuousClock.Instant
  ) -> Int64 {
    let elapsed = (now - start).components
    // Rounded down, also before the reference, so that differences are exact.
    let (quotient, rest) = elapsed.attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000_000)
    return elapsed.seconds * 1_000_000 + quotient - (rest < 0 ? 1 : 0)
  }
}
