import CallAuth
import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Logging
import NIOCore
import ServiceLifecycle
import Synchronization
import Testing

/// Wall-clock seconds of all tests: tokens are made and judged by this time.
let wallSeconds: Int64 = 1_800_000_000

/// All shards of a cluster. They answer by a script and keep what they received.
final class FakeShards: Sendable {
  /// The reply of the shards to a command; nil: none.
  typealias Script = @Sendable (Command) -> Reply?

  let heard = Inbox<Command>(capacity: 100_000)
  private let script: Mutex<Script>
  private let bus: InProcessBus
  let subjects: Subjects
  private let kept = Mutex<[Command]>([])

  init(bus: InProcessBus, subjects: Subjects, shardCount: Int) throws {
    self.bus = bus
    self.subjects = subjects
    script = Mutex(Self.agreeing)
    for shard in 0..<shardCount {
      _ = try bus.subscribe(subjects.commands(shard: shard)) { [self] message in
        receive(message, shard: shard, count: shardCount)
      }
    }
  }

  /// Says yes to everything.
  static let agreeing: Script = { command in
    switch command.body {
    case .attach: command.request == 0 ? nil : .attached(forCall: nil)
    case .sessionClosed, .callerGone, .ack, .crossed: nil
    case .register:
      .registered(expiresAt: Timestamp(microseconds: 5_000_000), removed: ["old"])
    case .call(let call, .query), .call(let call, .decline), .call(let call, .busy):
      .call(CallState(call: call, callee: command.callee.user, phase: .ringing, version: 3))
    case .calls: .calls(LiveCalls())
    case .history: .history(HistoryPage())
    case .rules(.read): .rules(UserRules())
    case .rules(.write(let rules)): .rules(rules)
    case .app(let request): agreeing(request, command.user)
    case .unregister, .place, .call, .pushReport, .tokenTaken, .merge, .replaced, .visit, .talking:
      .done
    }
  }

  private static func agreeing(_ request: AppRequest, _ user: UserKey) -> Reply {
    switch request {
    case .user: .app(.user(AppUser(user: user.user)))
    case .calls, .live: .app(.calls(AppCalls()))
    case .call(let call), .end(let call):
      .app(
        .call(
          AppCall(
            state: CallState(call: call, callee: user.user, phase: .ended),
            caller: Party(user: "caller", device: "c1"), placedAt: Timestamp(microseconds: 0))))
    case .place(let placing):
      .app(
        .call(
          AppCall(
            state: CallState(call: placing.request.call, callee: user.user, phase: .placed),
            caller: Party(user: placing.caller, device: "", name: placing.request.callerName),
            placedAt: Timestamp(microseconds: 0))))
    case .group: .app(.group(CallGroup(users: ["ann"], order: .inTurn)))
    case .setGroup(let group): group.map { .app(.group($0)) } ?? .done
    case .remove: .done
    case .name: .app(.name("Ann Lee"))
    case .setName(let name): .app(.name(name))
    }
  }

  func follow(_ script: @escaping Script) { self.script.withLock { $0 = script } }

  private func receive(_ message: BusMessage, shard: Int, count: Int) {
    guard let batch = try? ClusterCodec.commandBatch(message.bytes) else {
      Issue.record("a batch that cannot be read")
      return
    }
    if batch.secret.map({ EdgeNumber.of(secret: $0.high, $0.low) }) != batch.edge {
      Issue.record("a batch that does not prove its edge's number")
    }
    var items: [EdgeItem] = []
    let script = script.withLock { $0 }
    for command in batch.commands {
      if Self.shard(of: command, count: count) != shard {
        Issue.record("a command for another shard")
      }
      // The edge's own requests are no test's business, unless they are that test's.
      if command.user.app != "callmesh" { heard.offer(command) }
      if let reply = script(command) {
        items.append(
          EdgeItem(
            session: command.session.number, body: .reply(request: command.request, reply)))
      }
    }
    if !items.isEmpty { say(items, to: batch.edge) }
  }

  private static func shard(of command: Command, count: Int) -> Int {
    if let shard = command.body.namedShard { return Int(shard) }
    return ShardHash.shard(of: command.callee, count: count)
  }

  func say(_ items: [EdgeItem], to edge: UInt64) {
    bus.publish(subjects.replies(to: edge), ClusterCodec.encode(EdgeBatch(items: items)))
  }

  /// Waits for a command that fits, dropping those before it.
  func next(_ fits: (Command) -> Bool) async throws -> Command {
    while true {
      var waiting = kept.withLock { commands in
        defer { commands = [] }
        return commands
      }
      if waiting.isEmpty { waiting = await heard.next(until: .now + patience) }
      if waiting.isEmpty { throw TestFailure("no such command came") }
      guard let index = waiting.firstIndex(where: fits) else { continue }
      let rest = Array(waiting[(index + 1)...])
      kept.withLock { $0 = rest }
      return waiting[index]
    }
  }
}

/// Time that stands still until a test lets some of it pass.
final class StillTime: Timers {
  private let time = Mutex(ContinuousClock.now)

  var now: ContinuousClock.Instant { time.withLock { $0 } }
  func pass(_ span: Duration) { time.withLock { $0 += span } }

  // An edge pauses by its clock only while its store is away, which a bus in memory's never is.
  func register(_ action: @escaping @Sendable () -> Void) -> Int { 0 }
  func arm(_ slot: Int, at deadline: ContinuousClock.Instant) {
    Issue.record("somebody waits for a time that may never come")
  }
  func unregister(_ slot: Int) {}
}

/// An edge on a bus in memory, with shards that answer by a script.
struct EdgeFixture {
  let node: EdgeNode<InProcessBus>
  let bus: InProcessBus
  let shards: FakeShards
  let port: Int
  let keys: AppKeys
  let metrics: MetricsRegistry
  let configuration: EdgeConfiguration
  /// The keys with which the edge checks push capabilities.
  let pushKeys: PushKeyring

  /// - Parameters:
  ///   - time: what the edge's clock follows; nil: the machine's.
  ///   - terms: those of the app.
  ///   - hook: the app's; nil: it has none.
  ///   - exchange: the way from and to shards of the same process.
  static func run(
    at time: StillTime? = nil, terms: AppTerms = AppTerms(), hook: HookSettings? = nil,
    exchange: LocalExchange? = nil,
    _ change: (inout EdgeConfiguration) -> Void = { _ in },
    log: (@Sendable (String) -> Void)? = nil,
    _ body: (EdgeFixture) async throws -> Void
  ) async throws {
    let keys = AppKeys.generateDevelopment(app: "demo").0.with(terms, of: "demo").with(
      hook, of: "demo")
    var configuration = EdgeConfiguration(nodeID: "edge-1", appKeys: keys)
    configuration.eventLoops = 2
    configuration.shardCount = 8
    configuration.drainSeconds = 0
    change(&configuration)
    let bus = InProcessBus()
    let subjects = Subjects(
      cluster: configuration.cluster, shardCount: configuration.shardCount)
    let shards = try FakeShards(
      bus: bus, subjects: subjects, shardCount: configuration.shardCount)
    let metrics = MetricsRegistry()
    let logger = Logger(label: "test") { label in
      guard let log else { return SwiftLogNoOpLogHandler() }
      return LineLogHandler(label: label, logLevel: .debug, asJSON: false, write: log)
    }
    let pushKeys = PushKeyring(try PushCapabilityKeys([[UInt8](1...32)]))
    let node = EdgeNode(
      configuration: configuration, bus: bus,
      clock: ClusterClock(wallMicroseconds: wallSeconds * 1_000_000, timers: time),
      metrics: metrics, logger: logger, pushKeys: pushKeys, exchange: exchange)
    let services = ServiceGroup(services: [node], logger: logger)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await services.run() }
      let port = try await node.boundPort
      let fixture = EdgeFixture(
        node: node, bus: bus, shards: shards, port: port, keys: keys,
        metrics: metrics, configuration: configuration, pushKeys: pushKeys)
      do {
        try await body(fixture)
      } catch {
        Issue.record(error)
      }
      await services.triggerGracefulShutdown()
      try await group.waitForAll()
    }
    await bus.close()
  }

  func token(_ user: String, device: String? = nil, lifetimeSeconds: Int64 = 3600) async throws
    -> String
  {
    try keys.mintToken(
      app: "demo", user: user, device: device, lifetimeSeconds: lifetimeSeconds,
      now: wallSeconds)
  }

  func client(from source: String = "127.0.0.1") async throws -> RawClient {
    try await RawClient.connect(port: port, from: source)
  }

  /// Waits until all sockets are closed but a probe's own.
  func connectionsEnd() async throws {
    let started = ContinuousClock.now
    let probe = try await client()
    repeat {
      guard .now < started + patience else { throw TestFailure("a connection stays") }
      // Only after an answer is the probe itself one of the edge's connections.
      #expect(try await probe.request("GET", "/healthz").status == 200)
    } while metric("callmesh_edge_connections") > 1
    try await probe.channel.close().get()
  }

  /// Waits until a metric has such a value.
  func until(_ name: String, _ fits: (Double) -> Bool) async throws {
    let started = ContinuousClock.now
    while !fits(metric(name)) {
      guard .now < started + patience else { throw TestFailure("\(name) is \(metric(name))") }
      await Task.yield()
    }
  }

  /// How often a limit was reached.
  func limited(_ limit: PeerLimit) -> Double {
    metric("callmesh_edge_limited_total{limit=\"\(limit.rawValue)\"}")
  }

  func refused(_ refusal: ConnectionRefusal) -> Double {
    metric("callmesh_connections_refused_total{reason=\"\(refusal.rawValue)\"}")
  }

  /// An attached device.
  func device(_ user: String, _ device: String, codec: DeviceCodec = .protobuf) async throws
    -> (client: RawClient, session: UInt64)
  {
    let client = try await client()
    client.codec = codec
    try await client.attach(token: try await token(user), device: device)
    let attach = try await shards.next {
      if case .attach = $0.body { $0.device.text == device } else { false }
    }
    return (client, attach.session.number)
  }

  func say(_ items: EdgeItem...) { shards.say(items, to: node.incarnation) }

  /// The value of a metric without labels, or with the given ones.
  func metric(_ name: String) -> Double {
    for line in metrics.render().split(separator: "\n") where line.hasPrefix(name + " ") {
      return Double(line.split(separator: " ").last ?? "") ?? 0
    }
    return 0
  }
}
