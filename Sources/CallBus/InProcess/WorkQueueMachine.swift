internal import DequeModule

/// A work queue as a value: the waiting jobs, the jobs of each taker, and the known ids. The time is an argument.
package struct WorkQueueMachine: Sendable {
  package typealias Instant = ContinuousClock.Instant

  package struct Handout: Sendable, Equatable {
    package var taker: Int
    package var lane: String
    package var sequence: UInt64
    package var attempt: Int
    package var bytes: [UInt8]
  }

  private struct Job {
    var bytes: [UInt8]
    var addedAt: Instant
    var attempt = 0
    /// nil: it waits.
    var taker: Int?
    /// When a taken job is handed out again, or when a job that waits for its time is ready.
    var due: Instant?
  }
  private struct Taker {
    var inFlight: Int
    var unsettled = 0
  }
  private struct Lane {
    var jobs: [UInt64: Job] = [:]
    /// The jobs that can be handed out, the oldest first. May contain removed jobs.
    var ready: Deque<UInt64> = []
    var takers: [Int: Taker] = [:]
    /// The takers, in the order of their turns.
    var order: [Int] = []
    var turn = 0
  }

  private let options: WorkQueueOptions
  private var lanes: [String: Lane] = [:]
  private var lastSequence: UInt64 = 0
  private var lastTaker = 0
  private var jobCount = 0
  private var knownIDs: [String: UInt64] = [:]
  /// In the order in which they expire.
  private var idAges: Deque<(id: String, until: Instant)> = []
  /// Not later than the first time at which something is due.
  private var nextLook: Instant?

  package init(_ options: WorkQueueOptions) { self.options = options }

  // MARK: Adding

  package mutating func add(
    lane name: String, id: String, _ bytes: [UInt8], now: Instant
  ) -> AppendResult {
    while let first = idAges.first, first.until <= now {
      idAges.removeFirst()
      knownIDs[first.id] = nil
    }
    if let sequence = knownIDs[id] { return .appended(sequence: sequence) }
    expire(now: now)
    guard jobCount < options.maxJobs, lanes[name]?.jobs.count ?? 0 < options.maxJobsPerLane
    else { return .refused }
    lastSequence += 1
    jobCount += 1
    knownIDs[id] = lastSequence
    idAges.append((id, now + options.duplicateWindow))
    lanes[name, default: Lane()].jobs[lastSequence] = Job(bytes: bytes, addedAt: now)
    lanes[name]!.ready.append(lastSequence)
    look(at: now + options.maxAge)
    return .appended(sequence: lastSequence)
  }

  package func depth(lane: String) -> Int { lanes[lane]?.jobs.count ?? 0 }

  // MARK: Taking

  package mutating func addTaker(lane: String, inFlight: Int) -> Int {
    lastTaker += 1
    lanes[lane, default: Lane()].takers[lastTaker] = Taker(inFlight: inFlight)
    lanes[lane]!.order.append(lastTaker)
    return lastTaker
  }

  /// Unsettled jobs of the taker are handed out again in time.
  package mutating func removeTaker(_ taker: Int, lane: String) {
    lanes[lane]?.takers[taker] = nil
    lanes[lane]?.order.removeAll { $0 == taker }
  }

  /// Hands out all ready jobs for which takers have room.
  package mutating func handOut(now: Instant) -> [Handout] {
    expire(now: now)
    var out: [Handout] = []
    for name in lanes.keys.sorted() where !lanes[name]!.ready.isEmpty {
      var lane = lanes.removeValue(forKey: name)!
      handOut(name, &lane, now, into: &out)
      lanes[name] = lane
    }
    return out
  }

  private mutating func handOut(
    _ name: String, _ lane: inout Lane, _ now: Instant, into out: inout [Handout]
  ) {
    var unsettled = lane.takers.values.reduce(0) { $0 + $1.unsettled }
    while unsettled < options.maxUnsettled, let sequence = lane.ready.first {
      guard lane.jobs[sequence] != nil else {
        lane.ready.removeFirst()
        continue
      }
      guard let taker = Self.nextTaker(&lane) else { return }
      lane.ready.removeFirst()
      lane.takers[taker]!.unsettled += 1
      unsettled += 1
      lane.jobs[sequence]!.attempt += 1
      lane.jobs[sequence]!.taker = taker
      lane.jobs[sequence]!.due = now + options.settleWithin
      look(at: now + options.settleWithin)
      out.append(
        Handout(
          taker: taker, lane: name, sequence: sequence, attempt: lane.jobs[sequence]!.attempt,
          bytes: lane.jobs[sequence]!.bytes))
    }
  }

  private static func nextTaker(_ lane: inout Lane) -> Int? {
    for step in 0..<lane.order.count {
      let index = (lane.turn + step) % lane.order.count
      let taker = lane.takers[lane.order[index]]!
      if taker.unsettled < taker.inFlight {
        lane.turn = index + 1
        return lane.order[index]
      }
    }
    return nil
  }

  /// Settles a job. For a job that was handed out again meanwhile, only `.done` counts.
  package mutating func settle(_ handout: Handout, _ settlement: WorkSettlement, now: Instant) {
    guard let job = lanes[handout.lane]?.jobs[handout.sequence] else { return }
    let isCurrent = job.taker == handout.taker && job.attempt == handout.attempt
    switch settlement {
    case .done:
      release(handout.lane, handout.sequence)
      remove(handout.lane, handout.sequence)
    case .retry(let pause):
      guard isCurrent else { return }
      release(handout.lane, handout.sequence)
      if pause <= .zero {
        lanes[handout.lane]!.ready.append(handout.sequence)
      } else {
        lanes[handout.lane]!.jobs[handout.sequence]!.due = now + pause
        look(at: now + pause)
      }
    case .inProgress:
      guard isCurrent else { return }
      lanes[handout.lane]!.jobs[handout.sequence]!.due = now + options.settleWithin
    }
  }

  /// Takes the job from its taker.
  private mutating func release(_ lane: String, _ sequence: UInt64) {
    guard let taker = lanes[lane]!.jobs[sequence]!.taker else { return }
    lanes[lane]!.jobs[sequence]!.taker = nil
    lanes[lane]!.jobs[sequence]!.due = nil
    lanes[lane]!.takers[taker]?.unsettled -= 1
  }

  private mutating func remove(_ lane: String, _ sequence: UInt64) {
    lanes[lane]!.jobs[sequence] = nil
    jobCount -= 1
  }

  // MARK: Time

  /// When to call `handOut` again if nothing happens before.
  package var nextDeadline: Instant? { nextLook }

  private mutating func look(at time: Instant) { nextLook = min(nextLook ?? time, time) }

  private mutating func expire(now: Instant) {
    guard let next = nextLook, next <= now else { return }
    nextLook = nil
    for name in lanes.keys.sorted() {
      for (sequence, job) in lanes[name]!.jobs.sorted(by: { $0.key < $1.key }) {
        let end = job.addedAt + options.maxAge
        if end <= now {
          release(name, sequence)
          remove(name, sequence)
        } else if let due = job.due, due <= now {
          release(name, sequence)
          lanes[name]!.jobs[sequence]!.due = nil
          lanes[name]!.ready.append(sequence)
          look(at: end)
        } else {
          look(at: min(end, job.due ?? end))
        }
      }
    }
  }
}
