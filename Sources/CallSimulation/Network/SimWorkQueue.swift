package import CallBus
internal import CallCore

package final class SimWorkQueue: WorkQueue, @unchecked Sendable {
  private let bus: SimBus
  private let timeout: Span

  init(_ bus: SimBus, timeout: Duration) {
    self.bus = bus
    self.timeout = Span(timeout)
  }

  private var nats: SimNATS { bus.nats }
  private var link: SimLink { bus.link }

  package func add(
    lane: String, id: String, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    bus.writes.write(
      .queue(lane), timeout: timeout, mayBeRefused: true,
      apply: { [nats, node = bus.node] in nats.addJob(lane: lane, id: id, bytes, from: node) },
      completion: completion)
  }

  package func consume(
    lane: String, inFlight: Int, handler: @escaping @Sendable (WorkItem) -> Void
  ) async throws -> any BusSubscription {
    let taker = SimTaker(link, lane: lane, inFlight: inFlight, handler: handler)
    let cancel = { [link, nats] in
      taker.isCancelled = true
      link.send { nats.work.end(taker) }
    }
    if !link.isClosed { link.onBreak.append { [nats] in nats.work.end(taker) } }
    do {
      try await bus.ask { [nats] in nats.work.begin(taker) }
    } catch {
      // Its request may have arrived all the same.
      cancel()
      throw error
    }
    if !link.isClosed {
      link.onReconnect.append { [link, nats] in link.send { nats.work.begin(taker) } }
    }
    return SimSubscription(cancel)
  }

  package func depth(lane: String) async throws -> Int {
    try await bus.ask { [nats] in nats.work.depth(lane: lane) }
  }
}

final class SimTaker {
  let link: SimLink
  let lane: String
  let inFlight: Int
  let handler: @Sendable (WorkItem) -> Void
  var isCancelled = false
  /// Its number at the server; nil: not registered at present.
  var number: Int?

  init(
    _ link: SimLink, lane: String, inFlight: Int, handler: @escaping @Sendable (WorkItem) -> Void
  ) {
    self.link = link
    self.lane = lane
    self.inFlight = inFlight
    self.handler = handler
  }
}

package final class SimWork: SimActor, @unchecked Sendable {
  /// The acknowledgement timeout of a job. Shorter than in production, like all timeouts of a
  /// world, and longer than a gateway's interval of progress reports.
  package static let settleWithin = Duration.seconds(3)

  private unowned let nats: SimNATS
  package let world: SimWorld
  private let start = ContinuousClock.now
  private var lanes: WorkQueueMachine
  private var random: SimRandom
  private var lastSequence: UInt64 = 0
  private var takers: [Int: SimTaker] = [:]
  private var wakesAt: ContinuousClock.Instant?

  init(_ nats: SimNATS) {
    self.nats = nats
    world = nats.world
    random = world.fork("work queue")
    var options = WorkQueueOptions()
    options.settleWithin = Self.settleWithin
    lanes = WorkQueueMachine(options)
  }

  private var now: ContinuousClock.Instant { start + .microseconds(world.now.microseconds) }

  /// `isNew` is false for a job that the queue deduplicated.
  func add(lane: String, id: String, _ bytes: [UInt8]) -> (result: AppendResult, isNew: Bool) {
    let result = lanes.add(lane: lane, id: id, bytes, now: now)
    guard case .appended(let sequence) = result else { return (result, false) }
    let isNew = sequence > lastSequence
    lastSequence = max(lastSequence, sequence)
    return (result, isNew)
  }

  package func depth(lane: String) -> Int { lanes.depth(lane: lane) }

  func begin(_ taker: SimTaker) {
    guard !taker.isCancelled, taker.number == nil, !taker.link.isClosed else { return }
    let number = lanes.addTaker(lane: taker.lane, inFlight: taker.inFlight)
    taker.number = number
    takers[number] = taker
    handOut()
  }

  func end(_ taker: SimTaker) {
    guard let number = taker.number else { return }
    taker.number = nil
    takers[number] = nil
    lanes.removeTaker(number, lane: taker.lane)
  }

  func handOut() {
    for handout in lanes.handOut(now: now) {
      guard let taker = takers[handout.taker] else { continue }
      if handout.attempt > 1 { world.count("queue.handed out again") }
      if random.chance(nats.faults.jobLost) {
        world.count("fault.job lost on its way")
        continue
      }
      let item = WorkItem(bytes: nats.tamper.changesJob(handout.bytes), attempt: handout.attempt) {
        [self, link = taker.link] settlement in
        link.send { [self] in settle(handout, settlement) }
      }
      taker.link.reply { if !taker.isCancelled { taker.handler(item) } }
    }
    guard let next = lanes.nextDeadline, wakesAt.map({ next < $0 }) ?? true else { return }
    wakesAt = next
    let time = Timestamp(microseconds: Span(next - start).microseconds + 1)
    later(time - world.now) {
      $0.wakesAt = nil
      $0.handOut()
    }
  }

  private func settle(_ handout: WorkQueueMachine.Handout, _ settlement: WorkSettlement) {
    if random.chance(nats.faults.settlementLost) { return world.count("fault.settlement lost") }
    lanes.settle(handout, settlement, now: now)
    if settlement == .done { for look in nats.observers.jobDone { look(handout.bytes) } }
    handOut()
  }
}
