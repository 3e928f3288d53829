import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Logging
import Synchronization
import Testing

/// Waits for a fact. The pause between two looks is no assumption about time: only the deadline,
/// which is there so that a test fails in place of hanging, ends the wait.
@inline(never)
func eventually(
  _ what: String, sourceLocation: SourceLocation = #_sourceLocation,
  _ holds: () async throws -> Bool
) async throws {
  let deadline = ContinuousClock.now + .seconds(60)
  let pause = Inbox<Never>(capacity: 1)
  while try await !holds() {
    guard ContinuousClock.now < deadline else {
      Issue.record("never came true: \(what)", sourceLocation: sourceLocation)
      throw Timeout(what: what)
    }
    _ = await pause.next(until: .now + .milliseconds(1))
  }
}

struct Timeout: Error { var what: String }

func testClock() -> ClusterClock {
  ClusterClock(wallMicroseconds: 1_700_000_000_000_000, timers: SlowTime.shared)
}

func quietLogger() -> Logger {
  var logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
  logger.logLevel = .critical
  return logger
}

func testConfiguration(_ node: String, shards: Int = 8) -> CoordinatorConfiguration {
  var configuration = CoordinatorConfiguration(nodeID: node, cluster: "test", version: "1")
  configuration.shardCount = shards
  configuration.heartbeatInterval = .milliseconds(20)
  // Nobody is declared dead by a machine that is merely busy; tests of death say `mortal`.
  configuration.leaseTimeout = .seconds(60)
  configuration.settleTime = .milliseconds(80)
  configuration.announceTimeout = .milliseconds(400)
  configuration.announceTimeoutWithoutEdges = .milliseconds(20)
  configuration.claimRetry = .milliseconds(40)
  // Fake edges show no tokens; tests of forgery say otherwise.
  configuration.sessionTickets = .offered
  return configuration
}

func mortal(_ configuration: inout CoordinatorConfiguration) {
  configuration.leaseTimeout = .milliseconds(400)
}

extension UserKey {
  static func user(_ name: String) -> UserKey { UserKey(app: "app", user: name) }
}

/// An edge, as far as coordinators see one: heartbeats, commands, announcements. Acknowledges every
/// delivery at once.
final class FakeEdge: Sendable {
  struct Attached {
    var user: UserKey
    var device: DeviceID
    var attachedAt: Timestamp
    /// False: its shard was never notified of it.
    var isAttached = true
  }
  struct Placed {
    var call: CallID
    var caller: UserKey
    var callee: UserKey
  }
  private struct State {
    var sessions: [UInt64: Attached] = [:]
    var items: [EdgeItem] = []
    var announceRequests: [AnnounceRequest] = []
    var placed: [UInt64: Placed] = [:]
    var lastNumber: UInt64 = 0
    var silent = false
  }
  let number: UInt64
  let bus: InProcessBus
  let subjects: Subjects
  let shardCount: Int
  let clock: ClusterClock
  private let state = Mutex(State())
  private let subscriptions = Mutex<[any BusSubscription]>([])
  private let heart: Mutex<Task<Void, Never>?> = Mutex(nil)

  private let secret: EdgeSecret?
  private let announces: Bool
  private let repeatsAfter: Duration?

  /// - Parameters:
  ///   - announces: whether it answers owners that ask for its sessions.
  ///   - repeatsAfter: when `ask` retransmits; nil where no command can be lost. There a slow machine
  ///     would only make a second registration of what was answered a moment ago.
  init(
    _ number: UInt64, _ bus: InProcessBus, shards: Int = 8, clock: ClusterClock = testClock(),
    secret: EdgeSecret? = nil, announces: Bool = true, repeatsAfter: Duration? = .milliseconds(200)
  ) throws {
    self.secret = secret
    self.announces = announces
    self.repeatsAfter = repeatsAfter
    self.number = number
    self.bus = bus
    self.clock = clock
    shardCount = shards
    subjects = Subjects(cluster: "test", shardCount: shards)
    let own = try bus.subscribe(subjects.replies(to: number)) { [weak self] in
      self?.received($0.bytes)
    }
    let announce = try bus.subscribe(subjects.announceRequests) { [weak self] in
      self?.announce($0.bytes)
    }
    subscriptions.withLock { $0 = [own, announce] }
  }

  deinit { stopHeart() }

  var items: [EdgeItem] { state.withLock { $0.items } }
  var announceRequests: [AnnounceRequest] { state.withLock { $0.announceRequests } }

  func session(_ number: UInt64) -> SessionRef { SessionRef(edge: self.number, number: number) }

  func deliveries(to session: UInt64) -> [Delivery] {
    items.compactMap {
      if $0.session == session, case .delivery(let delivery) = $0.body { return delivery }
      return nil
    }
  }

  /// - Parameter call: nil: of all calls.
  func stops(to session: UInt64, of call: CallID? = nil) -> [Stop] {
    deliveries(to: session).filter { call == nil || $0.call == call }.compactMap {
      if case .stop(let stop) = $0.event { stop } else { nil }
    }
  }

  /// Who answered, as a session of a caller was notified.
  func answers(to session: UInt64) -> [Party] {
    deliveries(to: session).compactMap {
      if case .answered(let answered) = $0.event { answered.by } else { nil }
    }
  }

  // MARK: Life

  /// Owned by the edge: ends with `stopHeart`, at the latest when the edge goes.
  func startHeart() {
    let bus = bus
    let subjects = subjects
    let beat = heartbeat(.serving)
    let clock = clock
    heart.withLock {
      $0 = Task {
        while !Task.isCancelled {
          bus.publish(subjects.heartbeats, beat)
          await clock.sleep(for: .milliseconds(20))
        }
      }
    }
  }

  func stopHeart() { heart.withLock { $0.take() }?.cancel() }

  /// The edge sends no more heartbeats, and receives nothing.
  func die() {
    stopHeart()
    for subscription in subscriptions.withLock({ $0 }) { subscription.cancel() }
  }

  func heartbeat(_ state: NodeState) -> [UInt8] {
    ClusterCodec.encode(
      Heartbeat(
        node: "edge-\(number)", role: .edge, incarnation: number, state: state, version: "1",
        shardCount: UInt32(shardCount)))
  }

  // MARK: What comes in

  private func received(_ bytes: [UInt8]) {
    guard let batch = try? ClusterCodec.edgeBatch(bytes) else { return }
    var acks: [(UInt64, Attached, Delivery)] = []
    state.withLock { state in
      state.items += batch.items
      for item in batch.items {
        if case .delivery(let delivery) = item.body, let who = state.sessions[item.session] {
          acks.append((item.session, who, delivery))
        }
      }
    }
    for (session, who, delivery) in acks {
      let callee = UserKey(app: who.user.app, user: delivery.callee)
      let ack = Acknowledgement(call: delivery.call, version: delivery.version)
      send(.ack([ack]), from: session, who.user, who.device, to: callee, request: 0)
    }
  }

  private func announce(_ bytes: [UInt8]) {
    guard let request = try? ClusterCodec.announceRequest(bytes) else { return }
    let (sessions, placed) = state.withLock { state in
      state.announceRequests.append(request)
      return (state.sessions, state.placed)
    }
    guard announces else { return }
    let shard = Int(request.shard)
    for (session, who) in sessions
    where who.isAttached && ShardHash.shard(of: who.user, count: shardCount) == shard {
      let attach = Attach(announce: true, attachedAt: who.attachedAt)
      send(.attach(attach), from: session, who.user, who.device, to: who.user, request: 0)
    }
    // Callers have their sessions in other shards: they are announced call by call.
    for (session, call) in placed
    where ShardHash.shard(of: call.callee, count: shardCount) == shard {
      send(
        .call(call.call, .resume), from: session, call.caller, "phone", to: call.callee, request: 0)
    }
    let done = AnnounceDone(
      shard: request.shard, epoch: request.epoch, edge: number, number: request.number)
    bus.publish(subjects.announceDone(shard: shard), ClusterCodec.encode(done))
  }

  // MARK: What goes out

  func send(
    _ body: Command.Body, from session: UInt64, _ user: UserKey, _ device: DeviceID,
    to callee: UserKey, request: UInt64, _ credential: Credential = .none, as edge: UInt64? = nil
  ) {
    let edge = edge ?? number
    var command = Command(
      session: SessionRef(edge: edge, number: session), request: request, user: user,
      device: device, callee: callee, body: body)
    command.credential = credential
    let shard = ShardHash.shard(of: callee, count: shardCount)
    bus.publish(
      subjects.commands(shard: shard),
      ClusterCodec.encode(CommandBatch(edge: edge, secret: secret, commands: [command])))
  }

  func nextRequest() -> UInt64 {
    state.withLock { state in
      state.lastNumber += 1
      return state.lastNumber
    }
  }

  func reply(to session: UInt64, request: UInt64) -> Reply? {
    for item in items where item.session == session {
      if case .reply(request, let reply) = item.body { return reply }
    }
    return nil
  }

  /// Sends a command, and retransmits it until there is a reply, as edges do.
  func ask(
    _ body: Command.Body, from session: UInt64, _ user: UserKey, _ device: DeviceID,
    to callee: UserKey, _ credential: Credential = .none
  ) async throws -> Reply {
    let request = nextRequest()
    var sendAt: ContinuousClock.Instant? = SlowTime.shared.now
    try await eventually("a reply to \(body)") {
      if reply(to: session, request: request) != nil { return true }
      if let due = sendAt, due <= SlowTime.shared.now {
        send(body, from: session, user, device, to: callee, request: request, credential)
        sendAt = repeatsAfter.map { SlowTime.shared.now + $0 }
      }
      return false
    }
    return try #require(reply(to: session, request: request))
  }

  /// Places a call from a session of the caller's phone.
  func place(_ call: CallID, from session: UInt64, _ caller: UserKey, to callee: UserKey)
    async throws
  {
    state.withLock {
      $0.sessions[session] = Attached(
        user: caller, device: "phone", attachedAt: Timestamp(microseconds: 0), isAttached: false)
      $0.placed[session] = Placed(call: call, caller: caller, callee: callee)
    }
    let request = PlaceRequest(call: call, ringTimeoutSeconds: 180)
    let reply = try await ask(.place(request), from: session, caller, "phone", to: callee)
    guard case .call = reply else { throw Timeout(what: "place: \(reply)") }
  }

  func attach(_ user: UserKey, _ device: DeviceID, session: UInt64) async throws {
    let now = clock.now()
    state.withLock {
      $0.sessions[session] = Attached(user: user, device: device, attachedAt: now)
    }
    let attach = Attach(deviceName: device.text, client: "test", attachedAt: now)
    let reply = try await ask(.attach(attach), from: session, user, device, to: user)
    guard case .attached = reply else { throw Timeout(what: "attach: \(reply)") }
  }
}

/// Bytes that are no batch.
func parcel(of count: Int) -> CommandParcel {
  CommandParcel(encoded: [UInt8](repeating: 1, count: count), from: .edges)
}

extension Reply {
  var isRegistered: Bool { if case .registered = self { true } else { false } }
  var isTryAgain: Bool { isError(.tryAgain) }
  /// The call that it is about; nil where it is about none, or an error.
  var call: CallState? { if case .call(let state) = self { state } else { nil } }
  var history: HistoryPage? { if case .history(let page) = self { page } else { nil } }
  func isError(_ code: CallError.Code) -> Bool {
    if case .error(let error) = self { error.code == code } else { false }
  }
}
