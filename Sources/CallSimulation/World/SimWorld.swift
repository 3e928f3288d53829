internal import CallBus
package import CallCore
internal import Glibc

/// A cluster's world on one thread: its time, its chance, its threads.
///
/// Everything that happens is an event at a time, or a job of a task that an event woke. Jobs run at
/// once, in the order in which they were woken; no time passes while they run. So a seed decides
/// everything, and a run can be repeated.
///
/// Not synchronised: only the thread that made the world touches it, or anything in it. What comes
/// from another thread is a mistake of the simulation and is reported as one.
package final class SimWorld: @unchecked Sendable {
  package let seed: UInt64
  /// When the world began, by a clock that is right.
  package static let beginning = Timestamp(microseconds: 1_700_000_000_000_000)
  /// The true time.
  package private(set) var now = SimWorld.beginning
  package let trace: SimTrace
  /// Why the world stopped; nil while all holds.
  package private(set) var failure: SimFailure?
  /// How many events there were.
  package private(set) var steps = 0
  /// How often what was met, by name: faults, races, transitions.
  package private(set) var counts: [String: Int] = [:]
  /// Nodes that were ever made, in order; the dead ones too.
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

  // MARK: Chance

  /// The stream of chance of one consumer. Names must differ, or two draw the same.
  package func fork(_ name: String) -> SimRandom { SimRandom(seed: seed, name: name) }

  // MARK: Time

  /// Lets something happen later. `label` says what, for who reads a profile.
  @discardableResult
  package func schedule(
    after span: Span, _ label: StaticString, _ body: @escaping () -> Void
  ) -> SimToken {
    queue.add(at: now + max(span, Span(microseconds: 0)), body)
  }

  @discardableResult
  package func schedule(
    at time: Timestamp, _ label: StaticString, _ body: @escaping () -> Void
  ) -> SimToken {
    queue.add(at: max(time, now), body)
  }

  package func cancel(_ token: SimToken) {
    let cancelled = queue.cancel(token)
    _ = consume cancelled
  }

  /// Since the beginning.
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

  /// Called at the end of the world, of those who must let go of each other then; the youngest
  /// first.
  func onEnd(_ farewell: @escaping () -> Void) { farewells.append(farewell) }

  // MARK: What is told

  /// Something that must never be was seen. The first one counts.
  package func stop(_ reason: String, call: CallID? = nil) {
    guard failure == nil, !isOver else { return }
    failure = SimFailure(seed: seed, time: now, reason: reason, call: call)
    note("world", call: call, "STOP: \(reason)")
  }

  package func count(_ name: String, by amount: Int = 1) { counts[name, default: 0] += amount }

  /// A line of the trace.
  package func note(_ node: String, call: CallID? = nil, _ text: @autoclosure () -> String) {
    guard trace.isOn, !isOver else { return }
    trace.add(SimTrace.Line(time: now, node: node, call: call, text: text()))
  }

  /// A line of the trace that says what befell a node, a device or a shard: it stands beside the lines
  /// of the calls that it may concern.
  package func incident(_ node: String, call: CallID? = nil, _ text: @autoclosure () -> String) {
    guard trace.isOn, !isOver else { return }
    trace.add(SimTrace.Line(time: now, node: node, call: call, text: text(), isIncident: true))
  }

  // MARK: Threads

  /// A new process, with a clock that differs from the true one.
  /// - Parameters:
  ///   - skew: how far its wall clock is ahead.
  ///   - drift: how much faster its clocks run, in millionths.
  package func makeNode(
    _ name: String, skew: Span = Span(microseconds: 0), drift: Int = 0
  ) -> SimNode {
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

  /// Runs what was woken, and what that wakes. For whoever drives parts of the world by hand; `run`
  /// does it after every event.
  package func runJobs() {
    var index = 0
    while index < ready.count {
      ready[index].runJobs()
      index += 1
    }
    ready.removeAll(keepingCapacity: true)
  }

  /// Runs on a little, stopped or not, so that the tasks of nodes that were killed come to their
  /// end. Nobody looks on any more.
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

  /// Forgets everything that was to happen, so that nothing holds the world any more. Kill the
  /// nodes and let them unwind before.
  package func tearDown() {
    isOver = true
    var last: [() -> Void] = []
    swap(&last, &farewells)
    for farewell in last.reversed() { farewell() }
    var dropped = EventQueue()
    swap(&dropped, &queue)
    for node in nodes { node.dismantle() }
    nodes.removeAll()
    ready.removeAll()
  }
}
