package import CallBus
internal import CallCore

/// One process of the world: its executor, its clocks and its state.
package final class SimNode: @unchecked Sendable {
  package enum State: Sendable, Equatable {
    case running
    /// Stopped, as by a debugger: events for it wait.
    case frozen
    /// It receives nothing, and nothing that it sends arrives. Its tasks unwind.
    case dead
  }

  package let world: SimWorld
  package let name: String
  package let number: Int
  package private(set) var state = State.running
  /// The timers that its clocks and inboxes run on.
  package let timers: SimTimers
  package let executor: SimExecutor
  /// The executor that its tasks prefer: with it, all of them run on the world's thread.
  package let taskExecutor: SimTaskExecutor

  private var jobs: [UnownedJob] = []
  private static let jobsMost = 500_000
  private var backlog: [(isTimer: Bool, body: () -> Void)] = []
  private var isReady = false
  private var onDeath: [() -> Void] = []
  private var random: SimRandom
  /// Runs each of the process's events and turns: for measurements.
  package var runner: ((() -> Void) -> Void)?

  init(_ world: SimWorld, name: String, number: Int, skew: Span, drift: Int) {
    self.world = world
    self.name = name
    self.number = number
    timers = SimTimers(world, skew: skew, drift: drift)
    executor = SimExecutor()
    taskExecutor = SimTaskExecutor(executor)
    random = world.fork("node.\(number)")
    executor.node = self
    timers.node = self
  }

  package func clock() -> ClusterClock {
    ClusterClock(wallMicroseconds: timers.localMicroseconds, timers: timers)
  }

  /// Starts a task whose every step runs on this node.
  package func start(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
    Task(executorPreference: taskExecutor) { await body() }
  }

  // MARK: Events

  /// A message or reply arrives. It is handled now, when the node is thawed, or never.
  package func arrive(_ body: @escaping () -> Void) { handle(isTimer: false, body) }

  func fire(_ body: @escaping () -> Void) { handle(isTimer: true, body) }

  private func handle(isTimer: Bool, _ body: @escaping () -> Void) {
    switch state {
    case .running: if let runner { runner(body) } else { body() }
    case .frozen: backlog.append((isTimer, body))
    case .dead: break
    }
  }

  // MARK: Faults

  package func freeze() {
    if state == .running { state = .frozen }
  }

  package func thaw() {
    guard state == .frozen else { return }
    state = .running
    let waiting = backlog
    backlog = []
    // It is undefined which of a process's threads continues first.
    let timersFirst = random.chance(0.5)
    if timersFirst { for item in waiting where item.isTimer { item.body() } }
    for item in waiting where !(item.isTimer && timersFirst) { item.body() }
    makeReady()
  }

  /// Kills the process. Whoever started its tasks must cancel them.
  package func kill() {
    guard state != .dead else { return }
    state = .dead
    // Released at the end: that may have effects.
    let (dropped, listeners) = (backlog, onDeath)
    (backlog, onDeath) = ([], [])
    withExtendedLifetime(dropped) { for body in listeners { body() } }
    makeReady()
  }

  /// Calls `body` when the node dies.
  func onDeath(_ body: @escaping () -> Void) { onDeath.append(body) }

  /// Breaks the node's references at the end of the world.
  func dismantle() {
    executor.node = nil
    timers.node = nil
    timers.forget()
    onDeath.removeAll()
    backlog.removeAll()
  }

  // MARK: Jobs

  fileprivate func enqueue(_ job: UnownedJob) {
    jobs.append(job)
    makeReady()
  }

  private func makeReady() {
    guard !isReady, state != .frozen, !jobs.isEmpty else { return }
    isReady = true
    world.becameReady(self)
  }

  func runJobs() {
    if let runner { runner(runReadyJobs) } else { runReadyJobs() }
  }

  private func runReadyJobs() {
    isReady = false
    let serial = executor.asUnownedSerialExecutor()
    let task = taskExecutor.asUnownedTaskExecutor()
    var index = 0
    while index < jobs.count {
      // Jobs take no simulated time: a task that never rests waits for a time that cannot come.
      if index > Self.jobsMost {
        jobs.removeAll()
        return world.stop("\(name) never comes to rest")
      }
      // Frozen as an effect of one of its own jobs: the others wait.
      if state == .frozen { break }
      let job = jobs[index]
      index += 1
      // As `GuestExecutor` does.
      job.runSynchronously(isolatedTo: serial, taskExecutor: task)
    }
    jobs.removeFirst(index)
  }
}

package final class SimExecutor: SerialExecutor, @unchecked Sendable {
  /// nil once the world is over.
  fileprivate(set) var node: SimNode?

  package func enqueue(_ job: consuming ExecutorJob) {
    node?.enqueue(UnownedJob(job))
  }

  package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    UnownedSerialExecutor(ordinary: self)
  }
}

package final class SimTaskExecutor: TaskExecutor, @unchecked Sendable {
  private let executor: SimExecutor

  fileprivate init(_ executor: SimExecutor) { self.executor = executor }

  package func enqueue(_ job: consuming ExecutorJob) {
    executor.node?.enqueue(UnownedJob(job))
  }
}

/// The timers of one node, on a clock that is its own.
package final class SimTimers: Timers, @unchecked Sendable {
  private let world: SimWorld
  /// nil once the world is over.
  fileprivate(set) var node: SimNode?
  private let skew: Int64
  private let drift: Int64
  private let began: Int64
  private var lastSlot = 0
  private var actions: [Int: @Sendable () -> Void] = [:]
  private var events: [Int: SimEvent] = [:]

  fileprivate init(_ world: SimWorld, skew: Span, drift: Int) {
    self.world = world
    self.skew = skew.microseconds
    self.drift = Int64(drift)
    began = world.now.microseconds
  }

  var localMicroseconds: Int64 {
    let elapsed = world.now.microseconds - began
    return began + skew + elapsed + elapsed * drift / 1_000_000
  }

  /// The time by the node's wall clock.
  var localTime: Timestamp { Timestamp(microseconds: localMicroseconds) }

  func trueTime(_ local: Timestamp) -> Timestamp {
    let elapsed = local.microseconds - began - skew
    return Timestamp(microseconds: began + elapsed * 1_000_000 / (1_000_000 + drift))
  }

  package var microseconds: Int64 { localMicroseconds }

  package var now: ContinuousClock.Instant {
    world.instantOfBeginning
      + .microseconds(localMicroseconds - SimWorld.beginning.microseconds)
  }

  package func register(_ action: @escaping @Sendable () -> Void) -> Int {
    lastSlot += 1
    actions[lastSlot] = action
    return lastSlot
  }

  package func arm(_ slot: Int, at deadline: ContinuousClock.Instant) {
    events[slot]?.cancel()
    let wait = Span(min(deadline - now, .seconds(100_000))).microseconds
    // A fast clock reaches the deadline earlier in true time, but never before it.
    let trueWait = drift == 0 ? wait : wait * 1_000_000 / (1_000_000 + drift) + 1
    events[slot] = world.schedule(after: Span(microseconds: trueWait)) { [unowned self] in
      node?.fire { [unowned self] in actions[slot]?() }
    }
  }

  package func unregister(_ slot: Int) {
    events.removeValue(forKey: slot)?.cancel()
    actions[slot] = nil
  }

  fileprivate func forget() { actions.removeAll() }
}
