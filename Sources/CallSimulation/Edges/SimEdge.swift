internal import CallAuth
internal import CallBus
package import CallCore
internal import CallEdge
internal import CallJudge
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import NIOCore

/// An edge of the world: the real sessions, outbox and announcements on simulated sockets. It
/// crashes, freezes, drains and comes back as a new process.
package final class SimEdge: SimActor {
  package enum State: Equatable {
    case running
    case draining
    case down
  }

  package let name: String
  package let world: SimWorld
  /// Called with each process's bus before the process starts: for sabotage.
  package var onConnect: ((SimBus) -> Void)?
  /// The coordinator that each of its processes also is; nil: it is only an edge.
  weak var host: SimCoordinator?
  /// Called with what the app's hook says to it about a call.
  var onHookReply: (CallID, HookReply) -> Void = { _, _ in }
  private let nats: SimNATS
  private let options: SimOptions
  private var random: SimRandom
  private var starts: UInt64 = 0
  package private(set) var state = State.down
  package private(set) var node: SimNode?
  private var loop: SimEventLoop?
  private var edge: EmbeddedEdge<SimBus>?
  private var sockets: [SimSocket] = []

  package init(name: String, nats: SimNATS, options: SimOptions) {
    self.name = name
    world = nats.world
    self.nats = nats
    self.options = options
    random = world.fork("edge.\(name)")
  }

  // MARK: Life

  package func start() {
    guard state == .down else { return }
    if let host { return host.start() }
    let node = world.makeNode(name, skew: options.skew(&random))
    let bus = nats.connect(node: node)
    onConnect?(bus)
    start(on: node, bus, nil)
  }

  /// - Parameter exchange: the way from and to the coordinator of the same process.
  func start(on node: SimNode, _ bus: SimBus, _ exchange: LocalExchange?) {
    starts += 1
    let loop = SimEventLoop(node)
    var keys = options.keys.with(options.hasHook ? SimHook.settings : nil, of: SimOptions.app)
    if options.hasWebhooks { keys = keys.with(webhooks: SimHook.webhooks, of: SimOptions.app) }
    var configuration = EdgeConfiguration(nodeID: name, appKeys: keys)
    configuration.hookClient = SimHook(world.fork("hook.\(name).\(starts)"), onHookReply)
    configuration.cluster = SimOptions.cluster
    configuration.shardCount = options.shardCount
    configuration.limits = options.limits
    configuration.pingInterval = .seconds(4)
    let edge = EmbeddedEdge(
      configuration: configuration, bus: bus, clock: node.clock(),
      secret: EdgeSecret(high: random.next(), low: 1), eventLoop: loop, metrics: MetricsRegistry(),
      logger: Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() },
      pushKeys: PushKeyring(options.pushKeys), exchange: exchange)
    do {
      try edge.start()
    } catch {
      return world.stop("edge \(name) cannot start: \(error)")
    }
    self.node = node
    self.loop = loop
    self.edge = edge
    state = .running
    world.onEnd(edge.abandon)
    world.incident(name, "starts")
    beat(edge, loop)
  }

  private func beat(_ edge: EmbeddedEdge<SimBus>, _ loop: SimEventLoop) {
    guard edge === self.edge else { return }
    edge.beat(state == .draining ? .leaving : .serving)
    loop.post(after: .milliseconds(200)) { [weak self] in self?.beat(edge, loop) }
  }

  /// The process dies.
  /// - Parameter silently: its machine dies too, so its sockets fall silent and are not closed.
  package func crash(silently: Bool) {
    guard state != .down else { return }
    world.incident(name, silently ? "loses power" : "crashes")
    disturb()
    node?.kill()
    let open = sockets
    sockets = []
    for socket in open { socket.lose(silently: silently) }
    end()
    host?.crash()
  }

  package func freeze() {
    world.incident(name, "freezes")
    disturb()
    node?.freeze()
  }

  func freeze(for span: Span) {
    let node = node
    freeze()
    later(span) { if $0.node === node { $0.thaw() } }
  }

  package func thaw() {
    world.incident(name, "thaws")
    node?.thaw()
    disturb()
  }

  /// Asks devices to move, closes the remaining connections over `span`, and ends.
  /// - Parameter pause: after which it starts again, however long the end takes; nil: it does not.
  package func drain(over span: Span, backAfter pause: Span? = nil) {
    guard state == .running, let edge, let loop else { return }
    state = .draining
    world.incident(name, "drains")
    edge.beat(.leaving)
    let count = edge.beginDrain(over: span)
    let steps = 10
    for step in 1...steps {
      let after = Span(microseconds: span.microseconds * Int64(step) / Int64(steps))
      loop.post(after: after) { edge.closeSessions(leaving: count * (steps - step) / steps) }
    }
    let allowed = Span(microseconds: span.microseconds + 2_000_000)
    loop.post(after: allowed) { [weak self] in
      guard let self, self.edge === edge else { return }
      edge.stop()
      edge.beat(.gone)
      world.incident(name, "gone")
      // Its last messages still leave.
      later(.milliseconds(50)) {
        guard $0.edge === edge else { return }
        if $0.host == nil { $0.node?.kill() }
        $0.end()
        $0.host?.shutDown()
        if let pause { $0.later(pause) { $0.start() } }
      }
    }
  }

  private func end() {
    state = .down
    node = nil
    loop = nil
    edge = nil
  }

  /// Called for links that stood still; see `HistoryEvent.disturbed`.
  package var onDisturbance: ((SimSocket) -> Void)?

  func disturb() {
    forgetLostSockets()
    for socket in sockets { onDisturbance?(socket) }
  }

  private func forgetLostSockets() { sockets.removeAll { $0.isClosed || $0.isSilent } }

  // MARK: Connections

  package var isFrozen: Bool { node?.state == .frozen }

  /// Whether the port accepts connections; a frozen process's kernel still does.
  package var listens: Bool { state == .running && node?.state != .dead }

  package func accept(_ socket: SimSocket) {
    guard listens, let loop, let edge else { return socket.reset() }
    if sockets.count > 64 { forgetLostSockets() }
    sockets.append(socket)
    let channel = SimChannel(loop: loop, socket: socket, side: .edge)
    loop.node.arrive { [world, name] in
      do {
        try edge.accept(channel)
        channel.open()
      } catch {
        world.stop("edge \(name) cannot serve a connection: \(error)")
      }
    }
  }

  package func tearDown() {
    guard state != .down else { return }
    node?.kill()
    for socket in sockets { socket.fallSilent() }
    sockets = []
    end()
  }
}
