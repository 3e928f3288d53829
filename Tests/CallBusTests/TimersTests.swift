import CallBus
import CallCore
import Synchronization
import Testing

/// Time that a test sets, and slots that it fires.
private final class HandTimers: Timers {
  private struct State {
    var now = ContinuousClock.now
    var slots: [(deadline: ContinuousClock.Instant?, action: (@Sendable () -> Void)?)] = []
    var armed = 0
  }
  private let state = Mutex(State())

  var now: ContinuousClock.Instant { state.withLock { $0.now } }
  var slotsInUse: Int { state.withLock { $0.slots.count { $0.action != nil } } }

  func register(_ action: @escaping @Sendable () -> Void) -> Int {
    state.withLock {
      $0.slots.append((nil, action))
      return $0.slots.count - 1
    }
  }
  func arm(_ slot: Int, at deadline: ContinuousClock.Instant) {
    state.withLock { $0.slots[slot].deadline = deadline }
  }
  func unregister(_ slot: Int) { state.withLock { $0.slots[slot] = (nil, nil) } }

  /// Lets time pass, and fires what became due.
  func advance(by span: Duration) {
    let due = state.withLock { state in
      state.now += span
      var due: [@Sendable () -> Void] = []
      for index in state.slots.indices {
        guard let deadline = state.slots[index].deadline, deadline <= state.now else { continue }
        state.slots[index].deadline = nil
        if let action = state.slots[index].action { due.append(action) }
      }
      return due
    }
    for action in due { action() }
  }

  var isArmed: Bool { state.withLock { $0.slots.contains { $0.deadline != nil } } }
}

@Suite(.timeLimit(.minutes(1)))
struct TimersTests {
  @Test func aClockFollowsItsTimers() {
    let timers = HandTimers()
    let clock = ClusterClock(wallMicroseconds: 5_000_000, timers: timers)
    #expect(clock.now() == Timestamp(microseconds: 5_000_000))
    timers.advance(by: .milliseconds(1500))
    #expect(clock.now() == Timestamp(microseconds: 6_500_000))
    #expect(clock.instant(at: clock.now()) == timers.now)
  }

  @Test func anInboxWaitsByItsTimers() async {
    let timers = HandTimers()
    var inbox: Inbox<Int>? = Inbox(capacity: 1, timers: timers)
    #expect(await inbox!.next(until: timers.now) == [])
    async let batch = inbox!.next(until: timers.now + .seconds(3600))
    while !timers.isArmed { await Task.yield() }
    timers.advance(by: .seconds(3599))
    // Not yet: the slot stays armed for the rest.
    #expect(timers.isArmed)
    timers.advance(by: .seconds(1))
    #expect(await batch == [])
    #expect(timers.slotsInUse == 1)
    inbox = nil
    #expect(timers.slotsInUse == 0)
  }

  @Test func aPauseEndsAtItsTimeOrWithItsTask() async {
    let timers = HandTimers()
    let clock = ClusterClock(wallMicroseconds: 0, timers: timers)
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await clock.sleep(for: .seconds(60)) }
      while !timers.isArmed { await Task.yield() }
      timers.advance(by: .seconds(60))
      await group.waitForAll()
      group.addTask { await clock.sleep(for: .seconds(60)) }
      group.cancelAll()
    }
    #expect(clock.now() == Timestamp(microseconds: 60_000_000))
  }

  /// When a store that is away for 20 s is asked.
  @Test func patienceWaitsLongerAndLonger() async {
    let timers = HandTimers()
    let clock = ClusterClock(wallMicroseconds: 0, timers: timers)
    let retry = StoreRetryPolicy(
      clock: clock, limit: .seconds(20), pause: .seconds(1), longestPause: .seconds(5)
    ) { _ in }
    let asked = Inbox<Int64>(capacity: 20)
    var seen: [Int64] = []
    await withTaskGroup(of: Void.self) { group in
      group.addTask {
        await #expect(throws: BusError.timeout) {
          try await retry {
            asked.offer(clock.now().microseconds / 1_000_000)
            throw BusError.timeout
          }
        }
        asked.offer(-1)
      }
      while seen.last != -1 {
        if timers.isArmed { timers.advance(by: .seconds(1)) }
        await Task.yield()
        if asked.depth > 0 { seen += await asked.next(until: nil) }
      }
    }
    #expect(seen == [0, 1, 3, 7, 12, 17, 22, -1])
  }

  @Test func whatIsBegunEndsWhenAnInboxIsClosed() async throws {
    let word = Inbox<Never>(capacity: 1)
    #expect(try await word.unlessClosed { 7 } == 7)
    await #expect(throws: BusError.timeout) {
      try await word.unlessClosed { throw BusError.timeout }
    }
    let timers = HandTimers()
    let clock = ClusterClock(wallMicroseconds: 0, timers: timers)
    try await withThrowingTaskGroup(of: Int?.self) { group in
      group.addTask {
        try await word.unlessClosed {
          // Ends with its task only: nobody advances this time.
          await clock.sleep(for: .seconds(60))
          try Task.checkCancellation()
          return 7
        }
      }
      while !timers.isArmed { await Task.yield() }
      word.close()
      let ended = try await group.next()
      #expect(ended == .some(nil))
    }
    #expect(try await word.unlessClosed { try Task.checkCancellation() } == nil)
  }
}
