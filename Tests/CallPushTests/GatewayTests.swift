import CallAuth
import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallWire
import Logging
import Synchronization
import Testing

/// Gateways on a bus and a queue in memory, with a sender that does as the test says.
@Suite(.timeLimit(.minutes(2))) struct GatewayTests {
  /// Keeps what it is given and answers when it is told to.
  final class Sender: PushSender {
    let seen = Inbox<PushMessage>(capacity: 10_000)
    private let state: Mutex<(outcome: PushOutcome?, waiting: [CheckedContinuation<Void, Never>])>

    /// - Parameter outcome: nil: it answers when it is released.
    init(_ outcome: PushOutcome?) { state = Mutex((outcome, [])) }

    func send(_ message: PushMessage) async -> PushOutcome {
      seen.offer(message)
      while true {
        if let outcome = state.withLock({ $0.outcome }) { return outcome }
        await withCheckedContinuation { continuation in
          let isReady = state.withLock { state in
            if state.outcome == nil { state.waiting.append(continuation) }
            return state.outcome != nil
          }
          if isReady { continuation.resume() }
        }
      }
    }

    func release(_ outcome: PushOutcome) {
      let waiting = state.withLock { state in
        state.outcome = outcome
        defer { state.waiting = [] }
        return state.waiting
      }
      for continuation in waiting { continuation.resume() }
    }

    func close() async { release(.failed(reason: "closed")) }
  }

  /// A cluster's bus with a shard that hears reports.
  struct Bench {
    static let shards = 4
    let bus = InProcessBus()
    let clock = ClusterClock(wallMicroseconds: 1_790_000_000_000_000)
    let subjects = Subjects(cluster: "test", shardCount: shards)
    let reports = Inbox<PushReport>(capacity: 10_000)
    let queue: InProcessWorkQueue

    init() async throws {
      var options = WorkQueueOptions()
      options.settleWithin = .seconds(3)
      queue = try await bus.openWorkQueue(options)
    }

    func listen(answering: @escaping @Sendable () -> Bool = { true }) throws {
      for shard in 0..<Self.shards {
        let (bus, subjects, reports) = (bus, subjects, reports)
        _ = try bus.subscribe(subjects.reports(shard: shard)) { message in
          guard let batch = try? ClusterCodec.commandBatch(message.bytes) else { return }
          for command in batch.commands {
            if case .call(let call, .query) = command.body {
              // They all ring.
              let state = CallState(call: call, callee: command.callee.user, phase: .ringing)
              let item = EdgeItem(
                session: command.session.number,
                body: .reply(request: command.request, .call(state)))
              bus.publish(
                subjects.replies(to: batch.peer), ClusterCodec.encode(EdgeBatch(items: [item])))
            }
            guard case .pushReport(let report) = command.body else { continue }
            #expect(batch.edge == 0 && batch.peer != 0)
            #expect(ShardHash.shard(of: command.user, count: Self.shards) == shard)
            reports.offer(report)
            guard answering() else { continue }
            let item = EdgeItem(
              session: command.session.number, body: .reply(request: command.request, .done))
            bus.publish(
              subjects.replies(to: batch.peer), ClusterCodec.encode(EdgeBatch(items: [item])))
          }
        }
      }
    }

    func gateway(_ name: String, _ senders: [(name: String, sender: Sender)], sends: Int = 10)
      -> PushGateway<InProcessBus>
    {
      gateway(name, lanes: senders.map { ($0.name, .apnsProduction, $0.sender) }, sends: sends)
    }

    func gateway(
      _ name: String, lanes senders: [(name: String, lane: PushLane, sender: Sender)],
      sends: Int = 10, apps: Set<String>? = nil
    ) -> PushGateway<InProcessBus> {
      var configuration = PushGatewayConfiguration(nodeID: name, cluster: "test", version: "t")
      configuration.shardCount = Self.shards
      configuration.sendsPerPool = sends
      configuration.waitingPerPool = sends
      configuration.drain = .seconds(20)
      let pools = senders.map { name, lane, sender in
        var pool = GatewayPool(
          name: name, lane: lane, sender: sender,
          statistics: SenderStatistics(name: name, provider: .apns)
        ) { $0.topic == name }
        pool.apps = apps
        return pool
      }
      return PushGateway(
        configuration: configuration, bus: bus, clock: clock, metrics: MetricsRegistry(),
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, pools: pools,
        keyring: PushKeyring(try? PushCapabilityKeys([[UInt8](repeating: 7, count: 32)]))
      ) { content in
        .payload(
          PushPayload(
            bytes: Array(content.capability.utf8), kind: .voip, collapseKey: "", shed: []))
      }
    }

    func job(
      _ number: UInt64, topic: String, lasts: Span = .seconds(60), app: String = "demo"
    ) -> PushJob {
      let now = clock.now()
      return PushJob(
        user: UserKey(app: app, user: "user\(number)"), device: "phone",
        call: CallID(high: 1, low: number), purpose: .ring,
        token: PushToken(
          provider: .apns, environment: "production", topic: topic, token: "token\(number)",
          fingerprint: "f\(number)"),
        dialect: .callmesh, caller: Party(user: "ann", device: "a"), video: false, headers: [],
        placedAt: now, ringDeadline: now + lasts, decidedAt: now, deadline: now + lasts)
    }

    func add(_ job: PushJob, lane: PushLane = .apnsProduction) async {
      let result = await withCheckedContinuation { done in
        queue.add(
          lane: lane.rawValue, id: PushIdentity(job).uuid, ClusterCodec.encode(job)
        ) { done.resume(returning: $0) }
      }
      guard case .appended = result else {
        Issue.record("not added: \(result)")
        return
      }
    }

    func isEmpty() async throws {
      while try await queue.depth(lane: "apns-production") > 0 {
        try Task.checkCancellation()
        await clock.sleep(for: .milliseconds(5))
      }
    }

    func collect<Element: Sendable>(_ count: Int, from inbox: Inbox<Element>) async -> [Element] {
      var all: [Element] = []
      while all.count < count {
        let batch = await inbox.next(until: .now + .seconds(30))
        if batch.isEmpty { break }
        all += batch
      }
      return all
    }
  }

  /// What a device of another app registered is not sent with this one's keys.
  @Test func entriesServeTheirApps() async throws {
    let bench = try await Bench()
    try bench.listen()
    let sender = Sender(.accepted)
    let gateway = bench.gateway("push-1", lanes: [("app", .apnsProduction, sender)], apps: ["demo"])
    await withTaskGroup(of: Void.self) { group in
      group.addTask { try? await gateway.run() }
      await bench.add(bench.job(1, topic: "app", lasts: .milliseconds(200), app: "other"))
      await bench.add(bench.job(2, topic: "app"))
      let reports = await bench.collect(2, from: bench.reports)
      let mine = reports.first { $0.call.low == 2 }
      let others = reports.first { $0.call.low == 1 }
      #expect(mine?.outcome == .accepted)
      switch others?.outcome {
      case .rejected, .expired: break
      default: Issue.record("\(String(describing: others))")
      }
      #expect(await bench.collect(1, from: sender.seen).count == 1)
      group.cancelAll()
    }
  }

  @Test func jobsAreSentReportedAndForgotten() async throws {
    let bench = try await Bench()
    try bench.listen()
    let sender = Sender(.accepted)
    let gateway = bench.gateway("push-1", [("app", sender)])
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await gateway.run() }
      for number in UInt64(1)...100 { await bench.add(bench.job(number, topic: "app")) }
      let messages = await bench.collect(100, from: sender.seen)
      #expect(Set(messages.map(\.id)).count == 100)
      let reports = await bench.collect(100, from: bench.reports)
      #expect(reports.allSatisfy { $0.outcome == .accepted })
      #expect(Set(reports.map(\.call)).count == 100)
      try await bench.isEmpty()
      // What a push allows is that device's, for that call.
      let keys = try PushCapabilityKeys([[UInt8](repeating: 7, count: 32)])
      let text = String(decoding: messages[0].payload, as: UTF8.self)
      let allowed = try keys.verify(text, now: bench.clock.now().microseconds / 1_000_000)
      #expect(allowed.device == "phone")
      gateway.beginShutdown()
      try await group.waitForAll()
    }
    await bench.bus.close()
  }

  /// One team's provider is dead: another's pushes go on, and so does its own when it is back.
  @Test func aDeadPoolDelaysNoOther() async throws {
    let bench = try await Bench()
    try bench.listen()
    let (dead, well) = (Sender(nil), Sender(.accepted))
    let gateway = bench.gateway("push-1", [("dead", dead), ("well", well)], sends: 5)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await gateway.run() }
      // More than its pool holds: what has no place goes back into the queue.
      for number in UInt64(1)...40 { await bench.add(bench.job(number, topic: "dead")) }
      _ = await bench.collect(5, from: dead.seen)
      for number in UInt64(101)...200 { await bench.add(bench.job(number, topic: "well")) }
      #expect(await bench.collect(100, from: well.seen).count == 100)
      #expect(dead.seen.depth == 0, "more under way than allowed")
      dead.release(.accepted)
      #expect(await bench.collect(35, from: dead.seen).count == 35)
      try await bench.isEmpty()
      gateway.beginShutdown()
      try await group.waitForAll()
    }
    await bench.bus.close()
  }

  /// A gateway dies with a push under way: another sends it, under the same id.
  @Test func whatADeadGatewayHadIsSentByAnother() async throws {
    let bench = try await Bench()
    try bench.listen()
    let (stuck, well) = (Sender(nil), Sender(.accepted))
    let dying = bench.gateway("push-1", [("app", stuck)])
    let run = Task { try await dying.run() }
    await bench.add(bench.job(1, topic: "app"))
    let first = await bench.collect(1, from: stuck.seen)
    // As a crash: nothing is given back, and nothing is said any more.
    run.cancel()
    let living = bench.gateway("push-2", [("app", well)])
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await living.run() }
      let second = await bench.collect(1, from: well.seen)
      #expect(second.map(\.id) == first.map(\.id))
      try await bench.isEmpty()
      living.beginShutdown()
      try await group.waitForAll()
    }
    stuck.release(.failed(reason: "dead"))
    _ = try? await run.value
    await bench.bus.close()
  }

  @Test func lateJobsAreDroppedAndReported() async throws {
    let bench = try await Bench()
    try bench.listen()
    let sender = Sender(.accepted)
    let gateway = bench.gateway("push-1", [("app", sender)])
    await bench.add(bench.job(1, topic: "app", lasts: .milliseconds(-1)))
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await gateway.run() }
      #expect(await bench.collect(1, from: bench.reports).map(\.outcome) == [.expired])
      try await bench.isEmpty()
      #expect(sender.seen.depth == 0)
      gateway.beginShutdown()
      try await group.waitForAll()
    }
    await bench.bus.close()
  }

  /// A shard that has no owner for a while hears in the end that a token is gone.
  @Test func whatMustBeHeardIsRepeatedUntilItIs() async throws {
    let bench = try await Bench()
    let heard = Mutex(0)
    try bench.listen {
      heard.withLock {
        $0 += 1
        return $0 > 2
      }
    }
    let sender = Sender(.tokenGone(at: nil))
    let gateway = bench.gateway("push-1", [("app", sender)])
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await gateway.run() }
      await bench.add(bench.job(1, topic: "app"))
      #expect(await bench.collect(2, from: bench.reports).count == 2)
      #expect(try await bench.queue.depth(lane: "apns-production") == 1)
      #expect(await bench.collect(1, from: bench.reports).count == 1)
      try await bench.isEmpty()
      #expect(sender.seen.depth == 1, "sent once")
      gateway.beginShutdown()
      try await group.waitForAll()
    }
    await bench.bus.close()
  }

  /// A node that goes finishes what is under way and leaves the rest to others.
  @Test func aDrainFinishesWhatIsUnderWay() async throws {
    let bench = try await Bench()
    try bench.listen()
    let sender = Sender(nil)
    let gateway = bench.gateway("push-1", [("app", sender)], sends: 2)
    let run = Task { try await gateway.run() }
    for number in UInt64(1)...4 { await bench.add(bench.job(number, topic: "app")) }
    _ = await bench.collect(2, from: sender.seen)
    gateway.beginShutdown()
    sender.release(.accepted)
    try await run.value
    #expect(await bench.collect(2, from: bench.reports).count == 2)
    // The two that nobody had begun.
    let left = Inbox<WorkItem>(capacity: 10)
    _ = try await bench.queue.take(lane: "apns-production", inFlight: 10) { left.offer($0) }
    #expect(await bench.collect(2, from: left).count == 2)
    await bench.bus.close()
  }
}
