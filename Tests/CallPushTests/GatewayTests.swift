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

  /// A cluster's bus with a shard that receives reports.
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
          PushPayload(bytes: Array(content.capability.utf8), kind: .voip))
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
}
