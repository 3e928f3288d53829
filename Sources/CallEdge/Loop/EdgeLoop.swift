internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NIOCore

/// The state that all connections of one event loop share: the table of sessions, the commands that wait for replies,
/// and the buffers that each connection needs only for a moment. Used on its event loop only.
///
/// `docs/architecture.md`, "From a socket to an invite", follows a frame and a delivery through it.
final class EdgeLoop {
  /// The endpoint for which a session number stands.
  enum Endpoint {
    case device(WebSocketHandler)
    case request(HTTPHandler)
    /// A question to all shards.
    indirect case question(CallsQuestion)
  }

  let eventLoop: any EventLoop
  let shared: EdgeShared
  /// The low bits of this loop's session numbers, by which a batch of deliveries is distributed.
  let index: Int

  // MARK: State of connections

  var endpoints: [UInt64: Endpoint] = [:]
  /// Sessions whose close frame was sent. For the cluster they have ended; the peer has not answered yet.
  private(set) var closing: [UInt64: WebSocketHandler] = [:]
  /// All sessions, closing ones too, to be handled once a second.
  private var wheel = TimerWheel<WebSocketHandler>(slotCount: EdgeLoop.ticksPerSweep)
  /// HTTP connections.
  private(set) var requests: [ObjectIdentifier: HTTPHandler] = [:]
  /// Connections on which no device has attached, and how many there may be.
  var unattached = UnattachedConnections()
  let unattachedMax: Int
  /// Refused connections that stay open until their peers have read the reason.
  var refusalsOpen = 0
  var unfinished = UnfinishedMessages()
  /// Sessions whose devices do not read what waits for them, and how many bytes waited at the last check.
  var slow: [UInt64: WebSocketHandler] = [:]
  var slowBytes = 0
  var closed = ClosedSessions()
  private var lastSession: UInt64 = 0
  /// Handlers with written frames that leave at the end of this turn.
  private var needFlush: [WebSocketHandler] = []
  /// Handlers with written frames that wait for another: since the last lazy flush, and since the one
  /// before it.
  private var needLazyFlush: [WebSocketHandler] = []
  private var needLazyFlushLonger: [WebSocketHandler] = []

  // MARK: State of +Commands

  var outbox: CommandOutbox
  var isFlushScheduled = false
  var isLazyFlushScheduled = false
  var commandsThisTick = 0
  /// Under load, commands that may wait leave with the acknowledgements, and otherwise at once.
  var isBusy = false
  /// Whether the bus was connected at the last tick.
  var isBusConnected = true
  /// The outbox's gaps in streams of signals, as the metrics have them.
  var signalGapsNoted: (count: Int, forgotten: UInt64) = (0, 0)
  /// How many questions for calls are under way.
  var questionsOpen = 0

  // MARK: State of +Tokens, +Drain, +Reach and +Nearer

  /// The generation of keys and revocations by which the sessions were checked.
  var tokenGeneration: UInt64
  /// The generation of keys whose terms are in force.
  var termsGeneration: UInt64 = 0
  var revokedLately = RevokedLately()
  /// Set while the edge sends its devices elsewhere, and when it has done so.
  var drain: Drain?
  /// Set on the one loop that checks whether the cluster answers.
  var reach: Reach?
  /// Sessions whose devices wait for a notice that another edge is nearer, the next one last.
  var nearerWaiting: [UInt64] = []
  /// How many of them the gauge has.
  var nearerCounted = 0

  var frames = FrameBuffers()
  /// Room for one unmasked message.
  let scratch: UnsafeMutableRawBufferPointer
  private var spareActions: [DeviceSession.Action] = []
  private var ticks: UInt64 = 0
  private var isStopped = false

  /// How many low bits of a session's number hold the index of its loop.
  static let indexBits: UInt64 = 8
  static let tickInterval = TimeAmount.milliseconds(100)
  /// Each session is handled once a second.
  static let ticksPerSweep = 10
  /// A frame that was written lazily leaves after one to two times this.
  static let ticksPerLazyFlush: UInt64 = 2
  /// From how many commands in one tick on the loop counts as busy: 200 a second.
  static let busyFrom = 20

  init(index: Int, eventLoop: any EventLoop, shared: EdgeShared) {
    self.index = index
    self.eventLoop = eventLoop
    self.shared = shared
    tokenGeneration = shared.tokens.generation
    let configuration = shared.configuration
    outbox = CommandOutbox(
      rules: .init(
        shardCount: configuration.shardCount, pendingMax: configuration.commandsPendingPerLoop,
        resendAfter: configuration.resendAfter, timeout: configuration.commandTimeout))
    unattachedMax = configuration.peers.unattachedMax(loops: configuration.eventLoops)
    let frameBytes = DeviceCodec.json.frameBytesMaximum(
      protobufBytes: configuration.peers.frameBytesMax)
    scratch = .allocate(byteCount: frameBytes + 16, alignment: 16)
  }

  deinit { scratch.deallocate() }

  var metrics: EdgeMetrics { shared.metrics }
  var now: Timestamp { shared.clock.now() }
  var pendingCommands: Int { outbox.pendingCount }
  /// Sessions, closing ones too, and requests that wait for replies.
  var openCount: Int { endpoints.count + closing.count }

  static func loopIndex(ofSession number: UInt64) -> Int {
    Int(number & ((1 << indexBits) - 1))
  }

  // MARK: Connections

  func makeSessionNumber() -> UInt64 {
    lastSession += 1
    return lastSession << Self.indexBits | UInt64(index)
  }

  func device(_ session: UInt64) -> WebSocketHandler? {
    guard case .device(let handler)? = endpoints[session] else { return nil }
    return handler
  }

  /// A copy, since a session that ends removes itself from the table.
  var devices: [WebSocketHandler] {
    endpoints.values.compactMap { if case .device(let handler) = $0 { handler } else { nil } }
  }

  func add(_ handler: WebSocketHandler) {
    endpoints[handler.number] = .device(handler)
    wheel.add(handler.number, handler)
  }

  func remove(_ handler: WebSocketHandler) {
    endpoints.removeValue(forKey: handler.number)
    wheel.remove(handler.number)
    closing.removeValue(forKey: handler.number)
    noteUnfinished(handler, bytes: nil, begins: false)
    if slow[handler.number] != nil { noteSlow(handler, false) }
  }

  /// The session's close frame was sent: from now on only its deadline counts.
  func retire(_ handler: WebSocketHandler) {
    if endpoints.removeValue(forKey: handler.number) != nil { closing[handler.number] = handler }
  }

  func add(_ handler: HTTPHandler) { requests[ObjectIdentifier(handler)] = handler }
  func remove(_ handler: HTTPHandler) { requests.removeValue(forKey: ObjectIdentifier(handler)) }

  /// Drops all connections without closing them, for a process that has crashed.
  func abandon() {
    endpoints.removeAll()
    closing.removeAll()
    requests.removeAll()
    wheel = TimerWheel(slotCount: Self.ticksPerSweep)
    unattached.abandon()
    slow.removeAll()
    needFlush.removeAll()
    needLazyFlush.removeAll()
    needLazyFlushLonger.removeAll()
    reach = nil
  }

  // MARK: Buffers

  /// An empty buffer for the actions of one event. Must be given back.
  func takeActionBuffer() -> [DeviceSession.Action] {
    var taken: [DeviceSession.Action] = []
    swap(&taken, &spareActions)
    return taken
  }

  func giveBack(_ actions: inout [DeviceSession.Action]) {
    actions.removeAll(keepingCapacity: true)
    swap(&actions, &spareActions)
  }

  // MARK: Flushing sockets

  /// Flushes the handler's socket at the end of this turn of the event loop.
  func flushSoon(_ handler: WebSocketHandler) { needFlush.append(handler) }

  /// Flushes the handler's socket with its next frame, or at the second lazy flush from now.
  func flushLazily(_ handler: WebSocketHandler) { needLazyFlush.append(handler) }

  func flushSockets() {
    guard !needFlush.isEmpty else { return }
    let handlers = needFlush
    needFlush.removeAll(keepingCapacity: true)
    for handler in handlers { handler.flush() }
  }

  private func flushLazySockets() {
    for handler in needLazyFlushLonger where handler.needsLazyFlush { handler.flush() }
    needLazyFlushLonger.removeAll(keepingCapacity: true)
    swap(&needLazyFlush, &needLazyFlushLonger)
  }

  // MARK: Time

  /// Begins to tick.
  func start() {
    eventLoop.assumeIsolated().scheduleTask(in: Self.tickInterval) {
      guard !self.isStopped else { return }
      self.tick()
      self.start()
    }
  }

  /// Ends the ticks.
  func stop() {
    isStopped = true
    reach = nil
  }

  private func tick() {
    let now = self.now
    ticks += 1
    isBusy = commandsThisTick >= Self.busyFrom
    commandsThisTick = 0
    checkBusConnection(now: now)
    updateAppTerms(now: now)
    sweepCommands(now: now)
    checkReach(now: now)
    recheckTokens(now: now)
    for handler in wheel.due(at: ticks) { handler.handle(at: now) { $0.tick(&$1) } }
    if ticks % UInt64(Self.ticksPerSweep) == 0 {
      // A copy, since handlers remove themselves.
      for handler in Array(requests.values) { handler.tick(now: now) }
      sweepUnfinished(now: now)
    }
    if !slow.isEmpty { sweepSlow() }
    continueDrain(now: now)
    sendNearerNotices()
    if ticks % Self.ticksPerLazyFlush == 0 { flushLazySockets() }
    flushCommands(all: false)
    flushSockets()
  }
}
