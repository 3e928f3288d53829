package import CallBus
package import CallCore
internal import DequeModule
internal import Synchronization

/// Lets a limited number of requests per key go at a time; the others wait, first come, first served,
/// so that a push service that answers nobody holds up no other.
///
/// Policy: more than `waitingMax` in all are refused, and who waits past its deadline leaves.
package final class KeyedGate: Sendable {
  package enum Entry: Sendable, Equatable {
    /// In: `leave` must follow.
    case entered
    /// Too many wait.
    case full
    /// The deadline came first, or the gate is closed.
    case late
  }

  private struct Waiter {
    var number: UInt64
    var inbox: Inbox<Void>
  }
  private struct Key {
    var inside = 0
    var waiting: Deque<Waiter> = []
  }
  private struct State {
    var keys: [String: Key] = [:]
    var waiting = 0
    var nextNumber: UInt64 = 0
    var closed = false
    /// Woken when the last one has left.
    var drained: Inbox<Void>?
  }

  private let insideMax: Int
  private let waitingMax: Int
  private let clock: ClusterClock
  private let state = Mutex(State())

  package init(insideMax: Int, waitingMax: Int, clock: ClusterClock) {
    self.insideMax = max(1, insideMax)
    self.waitingMax = waitingMax
    self.clock = clock
  }

  package func enter(_ key: String, until deadline: Timestamp) async -> Entry {
    enum Step {
      case entry(Entry)
      case wait(Waiter)
    }
    let step = state.withLock { state -> Step in
      guard !state.closed else { return .entry(.late) }
      if state.keys[key, default: Key()].inside < insideMax {
        state.keys[key, default: Key()].inside += 1
        return .entry(.entered)
      }
      guard state.waiting < waitingMax else { return .entry(.full) }
      state.nextNumber += 1
      let waiter = Waiter(
        number: state.nextNumber, inbox: Inbox(capacity: 1, timers: clock.timers))
      state.keys[key, default: Key()].waiting.append(waiter)
      state.waiting += 1
      return .wait(waiter)
    }
    switch step {
    case .entry(let entry): return entry
    case .wait(let waiter):
      let granted = await !waiter.inbox.next(until: clock.instant(at: deadline)).isEmpty
      if granted { return .entered }
      if withdraw(waiter.number, from: key) { return .late }
      // Its turn came, or the gate closed, just now.
      return waiter.inbox.isClosed ? .late : .entered
    }
  }

  /// False when it is no longer among those that wait.
  private func withdraw(_ number: UInt64, from key: String) -> Bool {
    state.withLock { state in
      guard let index = state.keys[key]?.waiting.firstIndex(where: { $0.number == number })
      else { return false }
      state.keys[key]?.waiting.remove(at: index)
      state.waiting -= 1
      return true
    }
  }

  package func leave(_ key: String) {
    let wake = state.withLock { state -> Inbox<Void>? in
      guard var entry = state.keys[key] else { return nil }
      // The place passes from hand to hand while somebody waits for it.
      if let next = entry.waiting.popFirst() {
        state.waiting -= 1
        state.keys[key] = entry
        return next.inbox
      }
      entry.inside -= 1
      state.keys[key] = entry.inside > 0 ? entry : nil
      return state.keys.isEmpty ? state.drained : nil
    }
    wake?.offer(())
  }

  /// Lets nobody in any more, sends away who waits, and returns when all have left, or at the time.
  package func close(until deadline: Timestamp) async {
    let drained = Inbox<Void>(capacity: 1, timers: clock.timers)
    let (turnedAway, empty) = state.withLock { state -> ([Waiter], Bool) in
      state.closed = true
      let waiters = state.keys.values.flatMap(\.waiting)
      for key in state.keys.keys { state.keys[key]?.waiting = [] }
      state.waiting = 0
      state.drained = drained
      return (waiters, state.keys.isEmpty)
    }
    for waiter in turnedAway { waiter.inbox.close() }
    if !empty { _ = await drained.next(until: clock.instant(at: deadline)) }
  }

  package var inside: Int { state.withLock { $0.keys.values.reduce(0) { $0 + $1.inside } } }
  package var waiting: Int { state.withLock { $0.waiting } }
  package func waiting(for key: String) -> Int {
    state.withLock { $0.keys[key]?.waiting.count ?? 0 }
  }
}
