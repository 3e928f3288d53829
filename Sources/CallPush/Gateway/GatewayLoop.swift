internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Performs the effects of `GatewayMachine`. Used by one task only.
final class GatewayLoop<Bus: ClusterBus> {
  /// A push for a sender.
  struct Send {
    var number: UInt64
    var job: PushJob
    var pool: Int
    var cancellation: PushCancellation
  }

  private let gateway: PushGateway<Bus>
  private var machine: GatewayMachine
  private var items: [UInt64: WorkItem] = [:]
  private var lastItem: UInt64 = 0
  private var effects: [GatewayMachine.Effect] = []
  private var sends: [Send] = []
  /// By the number of the push.
  private var cancellations: [UInt64: PushCancellation] = [:]
  /// Reports and questions to shards.
  private var commands: [Command] = []
  /// Rings that were dropped unsent, for the other gateways.
  private var neverSent: [PushLeg] = []
  private var counted: [GatewayMachine.Count: UInt64] = [:]
  private var unreadable = LogOnce()
  private var rejections = LogOnce()

  init(_ gateway: PushGateway<Bus>) {
    self.gateway = gateway
    var limits = GatewayMachine.Limits()
    limits.sendsPerPool = gateway.configuration.sendsPerPool
    limits.waitingPerPool = gateway.configuration.waitingPerPool
    machine = GatewayMachine(pools: gateway.pools.count, limits: limits)
  }

  var isIdle: Bool { machine.isIdle }

  func nextDeadline(end: Timestamp?) -> ContinuousClock.Instant? {
    let next = [machine.nextDeadline, end].compactMap(\.self).min()
    return next.map { gateway.clock.instant(at: $0) }
  }

  func handle(_ event: GatewayEvent, now: Timestamp) {
    switch event {
    case .item(let item): receive(item, now: now)
    case .sent(let number, let outcome):
      cancellations[number] = nil
      note(outcome, of: number, now: now)
      machine.sent(number, outcome, now: now)
    case .paused(let number, let until): machine.paused(number, until: until, now: now)
    case .resumed(let number): machine.resumed(number)
    case .answered(let answers):
      for number in answers.reports { machine.answered(number, now: now) }
      for (number, rings) in answers.questions {
        machine.queried(number, rings: rings, now: now)
      }
    case .withdrawn(let ringings): machine.withdraw(ringings, now: now)
    case .neverSent(let legs): machine.neverSent(legs, now: now)
    case .status(let replyTo):
      gateway.answerStatus(replyTo, machine)
    case .drain, .resume, .shutDown: break
    }
    perform(now: now)
  }

  private func receive(_ item: WorkItem, now: Timestamp) {
    let job: PushJob
    do {
      job = try ClusterCodec.pushJob(item.bytes)
    } catch {
      gateway.metrics.unreadable.increment()
      if let times = unreadable.admit(now) {
        gateway.logger.warning(
          "Push jobs cannot be read; another gateway may be able to.",
          metadata: .keys([.error: "\(error)", .count: "\(times)"]))
      }
      // A later version's job, perhaps; other gateways may be able to read it.
      return item.settle(item.attempt < 10 ? .retry(after: .seconds(1)) : .done)
    }
    lastItem += 1
    items[lastItem] = item
    gateway.logger.taken(job, attempt: item.attempt)
    let pool = gateway.pools.firstIndex { $0.serves(job) }
    // The topic of a Web Push token is the service's origin.
    let service = job.token.provider == .webPush ? job.token.topic : ""
    machine.receive(
      item: lastItem, job, attempt: item.attempt, pool: pool, service: service, now: now)
    for line in machine.takeUnservedLines() {
      gateway.logger.warning(
        "No gateway has a sender for a topic: its devices are not woken.",
        metadata: .keys([
          .reason: "\(line.topic.provider.name)", .topic: "\(line.topic.topic)",
          .state: "\(line.topic.environment)", .count: "\(line.jobs)",
        ]))
    }
  }

  func tick(now: Timestamp) {
    if let next = machine.nextDeadline, next <= now { machine.tick(now: now) }
    perform(now: now)
    publishCommands()
    notifyNeverSent()
    count()
  }

  func takeSends() -> [Send] {
    defer { sends.removeAll(keepingCapacity: true) }
    return sends
  }

  func drain() {
    machine.drain()
    perform(now: gateway.clock.now())
  }

  func resume() { machine.resume() }

  func releaseAll() {
    machine.releaseAll()
    perform(now: gateway.clock.now())
    count()
  }

  private func perform(now: Timestamp) {
    swap(&effects, &machine.effects)
    for effect in effects {
      switch effect {
      case .settle(let number, .inProgress): items[number]?.settle(.inProgress)
      case .settle(let number, let settlement):
        items.removeValue(forKey: number)?.settle(settlement)
      case .forget(let number): items.removeValue(forKey: number)
      case .send(let number, let pool):
        guard let job = machine.job(number) else { continue }
        let cancellation = PushCancellation()
        cancellations[number] = cancellation
        sends.append(Send(number: number, job: job, pool: pool, cancellation: cancellation))
      case .withdraw(let number): cancellations[number]?.cancel()
      case .ask(let question, let number):
        guard let job = machine.job(number) else { continue }
        commands.append(GatewayReporting.question(question, job, peer: gateway.peer))
      case .notifyNeverSent(let leg): neverSent.append(leg)
      case .report(let pending):
        commands.append(GatewayReporting.report(pending, peer: gateway.peer))
      }
    }
    effects.removeAll(keepingCapacity: true)
  }

  // MARK: To shards

  /// Publishes one batch per shard.
  private func publishCommands() {
    guard !commands.isEmpty else { return }
    let count = gateway.configuration.shardCount
    let byShard = Dictionary(grouping: commands) { ShardHash.shard(of: $0.callee, count: count) }
    let messages = byShard.map { shard, commands in
      OutgoingMessage(
        subject: gateway.subjects.reports(shard: shard),
        bytes: ClusterCodec.encode(CommandBatch(peer: gateway.peer, commands: commands)))
    }
    commands.removeAll(keepingCapacity: true)
    gateway.bus.publish(messages)
  }

  // MARK: To other gateways

  private func notifyNeverSent() {
    guard !neverSent.isEmpty else { return }
    gateway.bus.publish(gateway.subjects.pushNeverSent, ClusterCodec.encode(neverSent: neverSent))
    neverSent.removeAll(keepingCapacity: true)
  }

  private func count() {
    for (what, value) in machine.counts where value != counted[what, default: 0] {
      gateway.metrics.counts[what]?.increment(by: value - counted[what, default: 0])
      counted[what] = value
    }
    gateway.metrics.reportsWaiting.set(Int64(machine.reportsWaiting))
    for (index, pool) in machine.pools.enumerated() {
      gateway.metrics.waiting(gateway.pools[index].name).set(Int64(pool.waiting))
    }
  }

  /// Logs failures that an operator can act on. Contains words of the provider, never a token.
  private func note(_ outcome: PushOutcome, of number: UInt64, now: Timestamp) {
    guard let job = machine.job(number) else { return }
    gateway.logger.sent(job, outcome)
    guard let reason = outcome.reason, let times = rejections.admit(now) else { return }
    gateway.logger.warning(
      "A push was not sent.",
      metadata: .keys([
        .call: "\(job.call)", .device: "\(job.device)", .app: "\(job.user.app)",
        .reason: "\(reason)", .count: "\(times)",
      ]))
  }
}
