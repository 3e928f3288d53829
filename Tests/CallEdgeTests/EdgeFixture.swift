import CallAuth
import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Foundation
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
    func answer(_ call: CallID, _ phase: CallPhase, _ caller: Party) -> Reply {
      let state = CallState(call: call, callee: user.user, phase: phase)
      return .app(
        .call(AppCall(state: state, caller: caller, placedAt: Timestamp(microseconds: 0))))
    }
    return switch request {
    case .user: .app(.user(AppUser(user: user.user)))
    case .calls, .live: .app(.calls(AppCalls()))
    case .call(let call), .end(let call):
      answer(call, .ended, Party(user: "caller", device: "c1"))
    case .place(let placing):
      answer(
        placing.request.call, .placed,
        Party(user: placing.caller, device: "", name: placing.request.callerName))
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
  func next(_ fits: (Command) -> Bool = { _ in true }) async throws -> Command {
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

  func nextPlace() async throws -> PlaceRequest { try #require(await next(\.isPlace).place) }
}

extension Command {
  var attach: Attach? { if case .attach(let attach) = body { attach } else { nil } }
  var place: PlaceRequest? { if case .place(let request) = body { request } else { nil } }
  var isAttach: Bool { attach != nil }
  /// Whether it tells a shard's new owner of a session.
  var isAnnouncement: Bool { attach?.announce == true }
  var isPlace: Bool { place != nil }
  var isEnd: Bool { if case .sessionClosed = body { true } else { false } }
  var isRegister: Bool { if case .register = body { true } else { false } }
  var isAck: Bool { if case .ack = body { true } else { false } }
  var isQuery: Bool { if case .call(_, .query) = body { true } else { false } }
}

extension ClientCommand {
  static func place(
    _ call: CallID, to callee: String = "bob", description: String = ""
  ) -> ClientCommand {
    .place(
      CallAddress(callee: callee, call: call), PlaceRequest(call: call, description: description))
  }
}

extension EdgeItem {
  static func delivery(
    _ event: Delivery.Event, to session: UInt64, of callee: String = "ann", version: UInt64 = 1
  ) -> EdgeItem {
    let delivery = Delivery(
      call: CallID(high: 1, low: 2), callee: callee, version: version,
      at: Timestamp(microseconds: 1), event: event)
    return EdgeItem(session: session, body: .delivery(delivery))
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

/// Runs a test, or one case of it, with an edge of its own: `edge`.
struct EdgeTrait: TestTrait, TestScoping {
  var standsStill = false
  var isTLS = false
  var terms = AppTerms()
  var change: Change

  typealias Change = @Sendable (inout EdgeConfiguration) -> Void
  @TaskLocal static var current: EdgeFixture?

  func provideScope(
    for test: Test, testCase: Test.Case?,
    performing function: @concurrent @Sendable () async throws -> Void
  ) async throws {
    let files = isTLS ? try TLSFiles() : nil
    let tls = try files?.edgeTLS()
    try await EdgeFixture.run(at: standsStill ? StillTime() : nil, terms: terms) {
      $0.tls = tls
      change(&$0)
    } _: { edge in
      try await Self.$current.withValue(edge) {
        try await TLSFiles.$current.withValue(files) { try await function() }
      }
    }
  }
}

extension Trait where Self == EdgeTrait {
  static func edge(
    terms: AppTerms = AppTerms(), _ change: @escaping EdgeTrait.Change = { _ in }
  ) -> EdgeTrait {
    EdgeTrait(terms: terms, change: change)
  }

  /// An edge whose time stands still until the test lets it pass.
  static func stillEdge(
    terms: AppTerms = AppTerms(), _ change: @escaping EdgeTrait.Change = { _ in }
  ) -> EdgeTrait {
    EdgeTrait(standsStill: true, terms: terms, change: change)
  }

  /// An edge whose devices' port speaks TLS.
  static func edgeWithTLS(
    standsStill: Bool = false, _ change: @escaping EdgeTrait.Change = { _ in }
  ) -> EdgeTrait {
    EdgeTrait(standsStill: standsStill, isTLS: true, change: change)
  }
}

/// The edge of a test with the trait.
var edge: EdgeFixture { EdgeTrait.current! }

extension AppTerms {
  static func limited(
    _ limits: [AppLimit: Int], pushTopics: [String]? = nil, subscriptions: Subscriptions = []
  ) -> AppTerms {
    var terms = AppTerms(pushTopics: pushTopics, subscriptions: subscriptions)
    for (limit, value) in limits { terms.limits[limit] = value }
    return terms
  }
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
  /// The time that the edge's clock follows; nil: the machine's.
  let time: StillTime?

  /// - Parameter exchange: the way from and to shards of the same process.
  static func run(
    at time: StillTime? = nil, terms: AppTerms = AppTerms(), hook: HookSettings? = nil,
    exchange: LocalExchange? = nil,
    _ change: (inout EdgeConfiguration) -> Void = { _ in },
    log: (@Sendable (String) -> Void)? = nil,
    _ body: (EdgeFixture) async throws -> Void
  ) async throws {
    let keys = AppKeys.generateDevelopment(app: "demo").0
      .with(terms, of: "demo").with(hook, of: "demo")
    var configuration = EdgeConfiguration(nodeID: "edge-1", appKeys: keys)
    configuration.eventLoops = 2
    configuration.shardCount = 8
    configuration.drainSeconds = 0
    change(&configuration)
    let bus = InProcessBus()
    let subjects = Subjects(cluster: configuration.cluster, shardCount: configuration.shardCount)
    let shards = try FakeShards(bus: bus, subjects: subjects, shardCount: configuration.shardCount)
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
        metrics: metrics, configuration: configuration, pushKeys: pushKeys, time: time)
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

  func token(
    _ user: String, device: String? = nil, lifetimeSeconds: Int64 = 3600, now: Int64 = wallSeconds
  ) throws -> String {
    try keys.mintToken(
      app: "demo", user: user, device: device, lifetimeSeconds: lifetimeSeconds, now: now)
  }

  func expiredToken(_ user: String = "ann") throws -> String {
    try token(user, lifetimeSeconds: 60, now: wallSeconds - 61)
  }

  func serverToken(lifetimeSeconds: Int64 = 60, now: Int64 = wallSeconds) throws -> String {
    try keys.mintServerToken(app: "demo", lifetimeSeconds: lifetimeSeconds, now: now)
  }

  func client(from source: String = "127.0.0.1") async throws -> RawClient {
    try await RawClient.connect(port: port, from: source)
  }

  /// A connection that has become a WebSocket, without a session.
  func socket(_ codec: DeviceCodec = .protobuf) async throws -> RawClient {
    let client = try await client()
    client.codec = codec
    guard try await client.upgrade(codec.subprotocol).status == 101 else {
      throw TestFailure("no upgrade")
    }
    return client
  }

  /// A request on a connection of its own.
  func request(
    _ method: String, _ path: String, token: String? = nil, body: String? = nil,
    headers: [String] = [], from source: String = "127.0.0.1"
  ) async throws -> RawClient.Response {
    try await client(from: source).request(method, path, token: token, body: body, headers: headers)
  }

  /// Waits until all sockets are closed but a probe's own.
  func connectionsEnd() async throws {
    let probe = try await client()
    // Only after an answer is the probe itself one of the edge's connections.
    #expect(try await probe.request("GET", "/healthz").status == 200)
    try await until("callmesh_edge_connections") { $0 == 1 }
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
  func device(
    _ user: String, _ device: String, codec: DeviceCodec = .protobuf
  ) async throws -> (client: RawClient, session: UInt64) {
    let client = try await socket(codec)
    try await client.attach(AttachRequest(token: try token(user), device: device))
    let attach = try await shards.next { $0.isAttach && $0.device.text == device }
    return (client, attach.session.number)
  }

  func say(_ items: EdgeItem...) { shards.say(items, to: node.incarnation) }

  /// Lets some time pass, which stands still otherwise.
  func pass(_ span: Duration) {
    if time == nil { Issue.record("time passes by itself") }
    time?.pass(span)
  }

  /// Sends a session more than the sockets of both sides can hold.
  func flood(_ session: UInt64, items: Int = 400) {
    let invite = Invite(
      caller: Party(user: "bob", device: "phone"), deadline: Timestamp(microseconds: 0),
      description: String(repeating: "x", count: 60_000))
    for _ in 0..<items { say(.delivery(.invite(invite), to: session)) }
  }

  /// Asks for the sessions of a user's shard, as its new owner does.
  func askForSessions(of user: String, epoch: UInt64, number: UInt64 = 0) {
    let shard = ShardHash.shard(of: UserKey(app: "demo", user: user), count: 8)
    let request = AnnounceRequest(shard: UInt32(shard), epoch: epoch, number: number)
    bus.publish(shards.subjects.announceRequests, ClusterCodec.encode(request))
  }

  /// The status that the edge gives operators.
  func status() async throws -> NodeStatus {
    let answer = try await bus.request(shards.subjects.adminStatus, [], timeout: .seconds(10))
    return try JSONDecoder().decode(NodeStatus.self, from: Data(answer.bytes))
  }

  /// Sends an operator's order, and returns the answer.
  func order(_ name: String, _ request: some Encodable) async throws -> [UInt8] {
    try await bus.request(
      shards.subjects.order(name, by: "ann"), Array(try JSONEncoder().encode(request)),
      timeout: patience
    ).bytes
  }

  /// The value of a metric without labels, or with the given ones.
  func metric(_ name: String) -> Double {
    for line in metrics.render().split(separator: "\n") where line.hasPrefix(name + " ") {
      return Double(line.split(separator: " ").last ?? "") ?? 0
    }
    return 0
  }
}
