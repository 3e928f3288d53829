internal import CallBus
package import CallCore
internal import Glibc

/// A simulated cluster's time, randomness and threads, all on one real thread.
///
/// Everything is an event at a time, or a job of a task that an event woke. Jobs run at once, in
/// the order in which they became ready, and take no simulated time. A seed therefore determines
/// everything, and a run can be repeated.
///
/// Not synchronised: only the thread that made the world touches it, or anything in it, which is why
/// its classes are `@unchecked Sendable`. A job from another thread is a bug of the simulation and
/// traps.
package final class SimWorld: @unchecked Sendable {
  package let seed: UInt64
  /// When the world began, by true time.
  package static let beginning = Timestamp(microseconds: 1_700_000_000_000_000)
  package private(set) var now = SimWorld.beginning
  package let trace: SimTrace
  /// Why the world stopped; nil while all holds.
  package private(set) var failure: SimFailure?
  package private(set) var steps = 0
  /// Occurrences of faults, races and transitions, by name.
  package private(set) var counts: [String: Int] = [:]
  /// All nodes, in order of creation, dead ones included.
  package private(set) var nodes: [SimNode] = []

  let instantOfBeginning = ContinuousClock.now
  private var queue = EventQueue()
  private var ready: [SimNode] = []
  private var farewells: [() -> Void] = []
  private let thread = pthread_self()
  private var isOver = false

  package init(seed: UInt64, trace: SimTrace = SimTrace()) {
    self.seed = seed
    self.trace = trace
  }

  // MARK: Randomness

  /// The random stream of one consumer. Names must differ, or two consumers draw the same numbers.
  package func fork(_ name: String) -> SimRandom { SimRandom(seed: seed, name: name) }

  // MARK: Time

  @discardableResult
  package func schedule(after span: Span, _ body: @escaping () -> Void) -> SimEvent {
    schedule(at: now + span, body)
  }

  @discardableResult
  package func schedule(at time: Timestamp, _ body: @escaping () -> Void) -> SimEvent {
    queue.add(at: max(time, now), body)
  }

  package var elapsed: Span { now - Self.beginning }

  /// Runs until the time has come, or the world stopped.
  package func run(until end: Timestamp) {
    runJobs()
    while failure == nil, let (time, body) = queue.next(until: end) {
      now = time
      steps += 1
      body()
      runJobs()
    }
    if failure == nil { now = max(now, end) }
  }

  package func run(for span: Span) { run(until: now + span) }

  /// Called at the end of the world, last one first, to break reference cycles.
  func onEnd(_ farewell: @escaping () -> Void) { farewells.append(farewell) }

  // MARK: Reports

  /// Stops the world because a rule was broken. The first call counts.
  package func stop(_ reason: String, call: CallID? = nil) {
    guard failure == nil, !isOver else { return }
    failure = SimFailure(seed: seed, time: now, reason: reason, call: call)
    note("world", call: call, "STOP: \(reason)")
  }

  package func count(_ name: String, by amount: Int = 1) { counts[name, default: 0] += amount }

  package func note(_ node: String, call: CallID? = nil, _ text: @autoclosure () -> String) {
    add(node, call, text, isIncident: false)
  }

  /// A line of the trace about an incident of a node, a device or a shard. It is shown with the
  /// calls that it may concern.
  package func incident(_ node: String, call: CallID? = nil, _ text: @autoclosure () -> String) {
    add(node, call, text, isIncident: true)
  }

  private func add(_ node: String, _ call: CallID?, _ text: () -> String, isIncident: Bool) {
    guard trace.isOn, !isOver else { return }
    trace.add(
      SimTrace.Line(time: now, node: node, call: call, text: text(), isIncident: isIncident))
  }

  // MARK: Threads

  /// Makes a process, with a clock of its own.
  /// - Parameters:
  ///   - skew: how far its wall clock is ahead.
  ///   - drift: how much faster its clocks run, in millionths.
  package func makeNode(_ name: String, skew: Span = .zero, drift: Int = 0) -> SimNode {
    let node = SimNode(self, name: name, number: nodes.count, skew: skew, drift: drift)
    nodes.append(node)
    return node
  }

  func becameReady(_ node: SimNode) {
    if pthread_equal(pthread_self(), thread) == 0 {
      fatalError("a task of \(node.name) ran outside of the simulation's thread")
    }
    ready.append(node)
  }

  /// Runs all ready jobs, and those that they wake. `run` does this after every event; tests may
  /// drive parts of the world by hand.
  package func runJobs() {
    var index = 0
    while index < ready.count {
      ready[index].runJobs()
      index += 1
    }
    ready.removeAll(keepingCapacity: true)
  }

  /// Runs on for a moment, stopped or not, so that the tasks of killed nodes end. Calls no
  /// observer.
  package func unwind() {
    isOver = true
    runJobs()
    let end = now + .milliseconds(50)
    while let (time, body) = queue.next(until: end) {
      now = time
      body()
      runJobs()
    }
  }

  /// Drops all scheduled events, so that nothing retains the world. Kill the nodes and unwind
  /// before.
  package func tearDown() {
    isOver = true
    let last = farewells
    farewells = []
    for farewell in last.reversed() { farewell() }
    var dropped = EventQueue()
    swap(&dropped, &queue)
    for node in nodes { node.dismantle() }
    nodes.removeAll()
    ready.removeAll()
  }
}

/// Something of a world that acts later on.
package protocol SimActor: AnyObject {
  var world: SimWorld { get }
}

extension SimActor {
  /// Runs an action after a while, if this object still exists then.
  func later(_ span: Span, _ action: @escaping (Self) -> Void) {
    world.schedule(after: span) { [weak self] in
      if let self { action(self) }
    }
  }
}
