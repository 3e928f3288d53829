internal import Synchronization

/// A bounded queue from any number of threads to one task, which takes all elements at once.
///
/// Policy when full: refuse, and count. Offering never blocks, and resumes the consumer once per batch, not per
/// element.
public final class Inbox<Element: Sendable>: Sendable {
  public let capacity: Int

  private struct State {
    var elements: [Element] = []
    var waiter: UnsafeContinuation<Void, Never>?
    var waitsUntil: ContinuousClock.Instant?
    /// The time for which the timer's slot is armed. It may be earlier than `waitsUntil`: the timer is then armed again
    /// when it fires, which is cheaper than re-arming it for every wait.
    var armedFor: ContinuousClock.Instant?
    var timerSlot: Int?
    var closed = false
    var dropped: UInt64 = 0
  }
  private let state = Mutex(State())

  /// nil: the process's timers, called without an existential.
  private let timers: (any Timers)?

  /// - Parameter timers: wake the consumer at its deadlines; nil: the process's timers.
  public init(capacity: Int, timers: (any Timers)? = nil) {
    self.capacity = capacity
    self.timers = timers
  }

  deinit {
    guard let slot = state.withLock({ $0.timerSlot }) else { return }
    if let timers { timers.unregister(slot) } else { TimerThread.shared.unregister(slot) }
  }

  /// Queues an element and wakes the consumer. Returns false if the inbox is full or closed; the element is then
  /// dropped and counted.
  @discardableResult
  public func offer(_ element: Element) -> Bool {
    let (taken, waiter) = state.withLock { state in
      guard admit(element, &state) else { return (false, nil as UnsafeContinuation<Void, Never>?) }
      return (true, state.waiter.take())
    }
    waiter?.resume()
    return taken
  }

  /// Queues an element without waking the consumer, for a producer that calls `wake()` after a burst.
  @discardableResult
  public func offerWithoutWaking(_ element: Element) -> Bool {
    state.withLock { admit(element, &$0) }
  }

  /// Wakes the consumer if there are elements.
  public func wake() {
    state.withLock { $0.elements.isEmpty ? nil : $0.waiter.take() }?.resume()
  }

  /// Takes all elements; waits if there are none.
  ///
  /// Returns an empty array at the deadline (nil: none), when the task is cancelled, and when the inbox is closed and
  /// empty. One task at a time may wait.
  public func next(until deadline: ContinuousClock.Instant?) async -> [Element] {
    let ready = takeAll()
    if let ready { return ready }
    await withTaskCancellationHandler {
      await withUnsafeContinuation { wait($0, until: deadline) }
    } onCancel: {
      state.withLock { $0.waiter.take() }?.resume()
    }
    return takeAll() ?? []
  }

  /// As `next(until:)`, for an actor that stays on its own executor: a cancellation handler costs a switch to the
  /// cooperative pool and back. Cancelling the task does not end the wait; closing the inbox does.
  public func nextUntilClosed(
    deadline: ContinuousClock.Instant?, isolation: isolated (any Actor)? = #isolation
  ) async -> [Element] {
    if let ready = takeAll() { return ready }
    await withUnsafeContinuation(isolation: isolation) { wait($0, until: deadline) }
    return takeAll() ?? []
  }

  /// Refuses further elements and wakes the consumer, which still receives the queued ones.
  public func close() {
    state.withLock { state in
      state.closed = true
      return state.waiter.take()
    }?.resume()
  }

  public var isClosed: Bool { state.withLock { $0.closed } }
  /// The number of elements refused because the inbox was full or closed.
  public var dropped: UInt64 { state.withLock { $0.dropped } }
  public var depth: Int { state.withLock { $0.elements.count } }

  private func admit(_ element: Element, _ state: inout State) -> Bool {
    guard !state.closed, state.elements.count < capacity else {
      state.dropped += 1
      return false
    }
    state.elements.append(element)
    return true
  }

  private func takeAll() -> [Element]? {
    state.withLock { state in
      if state.elements.isEmpty { return state.closed ? [] : nil }
      var taken: [Element] = []
      swap(&taken, &state.elements)
      return taken
    }
  }

  private func wait(
    _ continuation: UnsafeContinuation<Void, Never>, until deadline: ContinuousClock.Instant?
  ) {
    let waits = state.withLock { state in
      // A cancellation before this lock found no waiter; it is noticed here.
      guard state.elements.isEmpty, !state.closed, !Task.isCancelled else { return false }
      if let deadline, deadline <= now { return false }
      precondition(state.waiter == nil, "an inbox has one consumer")
      state.waiter = continuation
      state.waitsUntil = deadline
      if let deadline { arm(for: deadline, &state) }
      return true
    }
    if !waits { continuation.resume() }
  }

  /// Lock order: the inbox's, then the timers'. Timers run actions without holding their lock.
  private func arm(for deadline: ContinuousClock.Instant, _ state: inout State) {
    if let armedFor = state.armedFor, armedFor <= deadline { return }
    let slot = state.timerSlot ?? registered()
    state.timerSlot = slot
    state.armedFor = deadline
    if let timers {
      timers.arm(slot, at: deadline)
    } else {
      TimerThread.shared.arm(slot, at: deadline)
    }
  }

  private func registered() -> Int {
    let action: @Sendable () -> Void = { [weak self] in self?.timerFired() }
    return timers?.register(action) ?? TimerThread.shared.register(action)
  }

  private var now: ContinuousClock.Instant { timers?.now ?? .now }

  private func timerFired() {
    state.withLock { state -> UnsafeContinuation<Void, Never>? in
      state.armedFor = nil
      guard state.waiter != nil, let deadline = state.waitsUntil else { return nil }
      if deadline <= now { return state.waiter.take() }
      arm(for: deadline, &state)
      return nil
    }?.resume()
  }
}

/// An inbox without elements, as a shutdown signal: closed once; one task at a time may wait for it.
extension Inbox where Element == Never {
  /// Runs `body`, and cancels it if the inbox is closed before it ends.
  /// - Returns: nil if the inbox was closed first.
  /// - Throws: what `body` throws, unless the inbox was closed first.
  public func unlessClosed<Value: Sendable>(
    _ body: @Sendable @escaping () async throws -> Value
  ) async throws -> Value? {
    guard !isClosed else { return nil }
    do {
      return try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await body() }
        group.addTask {
          while !self.isClosed, !Task.isCancelled { _ = await self.next(until: nil) }
          return nil
        }
        defer { group.cancelAll() }
        return try await group.next() ?? nil
      }
    } catch  where isClosed {
      return nil
    }
  }
}
