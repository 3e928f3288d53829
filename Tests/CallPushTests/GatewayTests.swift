import CallAuth
import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallWire
import Logging
import Synchronization
import Testing

/// Gateways on a bus and a queue in memory, with a scripted sender.
@Suite(.timeLimit(.minutes(2))) struct GatewayTests {
  /// Records the pushes and answers on command.
  final class Sender: PushSender {
    let seen = Inbox<PushMessage>(capacity: 10_000)
    private let state:
      Mutex<(outcome: PushOutcome?, waiting: [CheckedContinuation<PushOutcome, Never>])>

    /// - Parameter outcome: nil: it answers when it is released.
    init(_ outcome: PushOutcome?) { state = Mutex((outcome, [])) }

    func send(_ message: PushMessage) async -> PushOutcome {
      seen.offer(message)
      return await withCheckedContinuation { continuation in
        let outcome = state.withLock { state in
          if state.outcome == nil { state.waiting.append(continuation) }
          return state.outcome
        }
        if let outcome { continuation.resume(returning: outcome) }
      }
    }

    func release(_ outcome: PushOutcome) {
      let waiting = state.withLock { state in
        state.outcome = outcome
        defer { state.waiting = [] }
        return state.waiting
      }
      for continuation in waiting { continuation.resume(returning: outcome) }
    }

    func close() async { release(.failed(reason: "closed")) }
  }

  /// A cluster's bus with a shard that receives reports.
  struct Bench {
    static let shards = 4
    let bus = InProcessBus()
    let clock = ClusterClock(wallMicroseconds: 1_790_000_000_000_000)
    let subjects = Subjects(cluster: "test", shardCount: shards)
    let reports = Inbox<PushReport>(capacity: 10_000)
    let queue: InProcessWorkQueue

    /// - Parameter answering: whether the shard acknowledges a report.
    init(answering: @escaping @Sendable () -> Bool = { true }) async throws {
      var options = WorkQueueOptions()
      options.settleWithin = .seconds(3)
      queue = try await bus.openWorkQueue(options)
      for shard in 0..<Self.shards {
        let (bus, subjects, reports) = (bus, subjects, reports)
        _ = try bus.subscribe(subjects.reports(shard: shard)) { message in
          guard let batch = try? ClusterCodec.commandBatch(message.bytes) else { return }
          for command in batch.commands {
            func reply(_ reply: Reply) {
              let item = EdgeItem(
                session: command.session.number, body: .reply(request: command.request, reply))
              bus.publish(
                subjects.replies(to: batch.peer), ClusterCodec.encode(EdgeBatch(items: [item])))
            }
            switch command.body {
            case .call(let call, .query):
              // They all ring.
              reply(.call(CallState(call: call, callee: command.callee.user, phase: .ringing)))
            case .pushReport(let report):
              #expect(batch.edge == 0 && batch.peer != 0)
              #expect(ShardHash.shard(of: command.user, count: Self.shards) == shard)
              reports.offer(report)
              if answering() { reply(.done) }
            default: break
            }
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
          PushPayload(bytes: Array(content.capability.utf8), kind: .voip))
      }
    }

    /// Runs a gateway until `body` has returned, and shuts it down.
    func run(_ gateway: PushGateway<InProcessBus>, until body: () async throws -> Void)
      async throws
    {
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await gateway.run() }
        try await body()
        gateway.beginShutdown()
        try await group.waitForAll()
      }
    }

    func job(
      _ number: UInt64, topic: String = "app", lasts: Span = .seconds(60), app: String = "demo"
    ) -> PushJob {
      let now = clock.now()
      var job = pushJob()
      job.user = UserKey(app: app, user: "user\(number)")
      (job.call, job.device) = (CallID(high: 1, low: number), "phone")
      (job.token.topic, job.token.token) = (topic, "token\(number)")
      job.token.fingerprint = "f\(number)"
      (job.decidedAt, job.ringDeadline, job.deadline) = (now, now + lasts, now + lasts)
      return job
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

    func isEmpty(_ lane: PushLane = .apnsProduction) async throws {
      try await until { try await queue.depth(lane: lane.rawValue) == 0 }
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

  /// A token of another app is not sent with this app's keys.
  @Test func entriesServeTheirApps() async throws {
    let bench = try await Bench()
    let sender = Sender(.accepted)
    let gateway = bench.gateway("push-1", lanes: [("app", .apnsProduction, sender)], apps: ["demo"])
    await withTaskGroup(of: Void.self) { group in
      group.addTask { try? await gateway.run() }
      await bench.add(bench.job(1, lasts: .milliseconds(200), app: "other"))
      await bench.add(bench.job(2))
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
    let sender = Sender(.accepted)
    try await bench.run(bench.gateway("push-1", [("app", sender)])) {
      for number in UInt64(1)...100 { await bench.add(bench.job(number)) }
      let messages = await bench.collect(100, from: sender.seen)
      #expect(Set(messages.map(\.id)).count == 100)
      let reports = await bench.collect(100, from: bench.reports)
      #expect(reports.allSatisfy { $0.outcome == .accepted })
      #expect(Set(reports.map(\.call)).count == 100)
      try await bench.isEmpty()
      // The capability is valid for that device and call only.
      let keys = try PushCapabilityKeys([[UInt8](repeating: 7, count: 32)])
      let text = String(decoding: messages[0].payload, as: UTF8.self)
      let allowed = try keys.verify(text, now: bench.clock.now().microseconds / 1_000_000)
      #expect(allowed.device == "phone")
    }
    await bench.bus.close()
  }

  /// A gateway dies with a push under way. Another gateway sends it under the same id.
  @Test func whatADeadGatewayHadIsSentByAnother() async throws {
    let bench = try await Bench()
    let (stuck, well) = (Sender(nil), Sender(.accepted))
    let dying = bench.gateway("push-1", [("app", stuck)])
    let run = Task { try await dying.run() }
    await bench.add(bench.job(1))
    let first = await bench.collect(1, from: stuck.seen)
    // Like a crash: no job is returned, and nothing more is sent.
    run.cancel()
    try await bench.run(bench.gateway("push-2", [("app", well)])) {
      let second = await bench.collect(1, from: well.seen)
      #expect(second.map(\.id) == first.map(\.id))
      try await bench.isEmpty()
    }
    stuck.release(.failed(reason: "dead"))
    _ = try? await run.value
    await bench.bus.close()
  }

  /// A shard without an owner for a while receives the report of a gone token in the end.
  @Test func whatMustBeHeardIsRepeatedUntilItIs() async throws {
    let heard = Atomic(0)
    let bench = try await Bench { heard.add(1, ordering: .relaxed).newValue > 2 }
    let sender = Sender(.tokenGone(at: nil))
    try await bench.run(bench.gateway("push-1", [("app", sender)])) {
      await bench.add(bench.job(1))
      #expect(await bench.collect(2, from: bench.reports).count == 2)
      #expect(try await bench.queue.depth(lane: "apns-production") == 1)
      #expect(await bench.collect(1, from: bench.reports).count == 1)
      try await bench.isEmpty()
      #expect(sender.seen.depth == 1, "sent once")
    }
    await bench.bus.close()
  }

  /// A draining gateway finishes the pushes under way and returns the rest to the queue.
  @Test func aDrainFinishesWhatIsUnderWay() async throws {
    let bench = try await Bench()
    let sender = Sender(nil)
    let gateway = bench.gateway("push-1", [("app", sender)], sends: 2)
    let run = Task { try await gateway.run() }
    for number in UInt64(1)...4 { await bench.add(bench.job(number)) }
    _ = await bench.collect(2, from: sender.seen)
    gateway.beginShutdown()
    sender.release(.accepted)
    try await run.value
    #expect(await bench.collect(2, from: bench.reports).count == 2)
    // The two jobs that were not begun.
    let left = Inbox<WorkItem>(capacity: 10)
    _ = try await bench.queue.consume(lane: "apns-production", inFlight: 10) { left.offer($0) }
    #expect(await bench.collect(2, from: left).count == 2)
    await bench.bus.close()
  }
}
