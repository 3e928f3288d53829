package import CallBus
package import CallCore
internal import DequeModule
internal import Synchronization

/// A bulkhead: limits the concurrent requests per key, so that a push service that does not answer delays no other.
/// Further requests wait, first come, first served.
///
/// Policy: more than `waitingMax` waiters in all are refused, and a waiter leaves at its deadline.
package final class KeyedBulkhead: Sendable {
  package enum Admission: Sendable, Equatable {
    /// `release` must follow.
    case admitted
    /// Too many wait.
    case full
    /// The deadline passed, the push was cancelled, or the bulkhead was closed.
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
    /// Signalled when the last request has released its place.
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

  /// - Parameter cancellation: ends the wait.
  package func acquire(
    _ key: String, until deadline: Timestamp, unless cancellation: PushCancellation? = nil
  ) async -> Admission {
    var admission = Admission.admitted
    let waiter = state.withLock { state -> Waiter? in
      guard !state.closed else {
        admission = .late
        return nil
      }
      if state.keys[key, default: Key()].inside < insideMax {
        state.keys[key, default: Key()].inside += 1
        return nil
      }
      guard state.waiting < waitingMax else {
        admission = .full
        return nil
      }
      state.nextNumber += 1
      let waiter = Waiter(number: state.nextNumber, inbox: Inbox(capacity: 1, timers: clock.timers))
      state.keys[key, default: Key()].waiting.append(waiter)
      state.waiting += 1
      return waiter
    }
    guard let waiter else { return admission }
    cancellation?.onCancel { [self] in
      if leave(waiter.number, from: key) { waiter.inbox.close() }
    }
    let granted = await !waiter.inbox.next(until: clock.instant(at: deadline)).isEmpty
    cancellation?.onCancel(nil)
    if granted { return .admitted }
    if leave(waiter.number, from: key) { return .late }
    // It left the queue at the same moment: with a place, which is offered now, or refused, and its inbox is closed.
    return await waiter.inbox.nextUntilClosed(deadline: nil).isEmpty ? .late : .admitted
  }

  /// - Returns: false if it no longer waits.
  private func leave(_ number: UInt64, from key: String) -> Bool {
    state.withLock { state in
      guard let index = state.keys[key]?.waiting.firstIndex(where: { $0.number == number })
      else { return false }
      state.keys[key]?.waiting.remove(at: index)
      state.waiting -= 1
      return true
    }
  }

  package func release(_ key: String) {
    let wake = state.withLock { state -> Inbox<Void>? in
      guard var entry = state.keys[key] else { return nil }
      // While requests wait, a place passes from one to the next.
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

  /// Admits no further requests, refuses the waiters, and returns when all places are released, or at the deadline.
  package func close(until deadline: Timestamp) async {
    let drained = Inbox<Void>(capacity: 1, timers: clock.timers)
    let (refused, empty) = state.withLock { state -> ([Waiter], Bool) in
      state.closed = true
      let waiters = state.keys.values.flatMap(\.waiting)
      for key in state.keys.keys { state.keys[key]?.waiting = [] }
      state.waiting = 0
      state.drained = drained
      return (waiters, state.keys.isEmpty)
    }
    for waiter in refused { waiter.inbox.close() }
    if !empty { _ = await drained.next(until: clock.instant(at: deadline)) }
  }

  package var inside: Int { state.withLock { $0.keys.values.reduce(0) { $0 + $1.inside } } }
  package var waiting: Int { state.withLock { $0.waiting } }
}
