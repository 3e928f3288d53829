internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NIOCore

/// What all connections of one event loop share: the table of sessions, the commands under way, and
/// the buffers that each needs only for a moment. Touched on its event loop only.
final class EdgeLoop {
  enum Endpoint {
    case device(WebSocketHandler)
    case request(HTTPHandler)
    /// Its shards are asked under a session number of its own.
    case question(CallsQuestion)
  }

  let eventLoop: any EventLoop
  let shared: EdgeShared
  /// Stands in the low bits of session numbers, so that a batch of deliveries can be sorted by loop.
  let index: Int

  var endpoints: [UInt64: Endpoint] = [:]
  /// Questions for calls that are under way.
  var questionsOpen = 0
  /// The devices among them, and those that close.
  private var watched = SweepSlots<WebSocketHandler>(count: EdgeLoop.ticksPerSweep)
  /// Gone for the cluster; their peers have yet to answer the close frame.
  private(set) var closing: [UInt64: WebSocketHandler] = [:]
  /// HTTP connections, to be watched for idleness.
  private(set) var requests: [ObjectIdentifier: HTTPHandler] = [:]
  /// Connections on which no device has attached, and how many there may be.
  var unattached = UnattachedConnections()
  let unattachedMax: Int
  /// Refused connections whose peers are being told why.
  var refusalsTold = 0
  var unfinished = UnfinishedMessages()
  /// Sessions whose devices do not read what waits for them, and what waited at the last look.
  var slow: [UInt64: WebSocketHandler] = [:]
  var slowBytes = 0
  private var closed = ClosedSessions()
  private var outbox: CommandOutbox
  private var lastSession: UInt64 = 0
  private var flushScheduled = false
  private var lazyFlushScheduled = false
  private var touched: [WebSocketHandler] = []
  /// Sockets with frames that wait for company: since the last look, and since the one before.
  private var holding: [WebSocketHandler] = []
  private var holdingLong: [WebSocketHandler] = []
  private var spareActions: [DeviceSession.Action] = []
  private var ticks: UInt64 = 0
  private var commandsThisTick = 0
  /// Under load, commands that may wait travel with the acknowledgements; else they go at once.
  private var isBusy = false
  /// Commands in one tick from which on the loop counts as busy: 200 a second.
  private static let busyFrom = 20
  private var isStopped = false
  /// Whether the bus had its connection at the last tick.
  private var isBusConnected = true
  /// Of the keys and revocations by which the sessions were looked at.
  var tokenGeneration: UInt64
  var revokedLately = RevokedLately()
  /// Of the keys whose terms are in force.
  private var termsGeneration: UInt64 = 0
  /// Set while the edge sends its devices elsewhere, and when it has done so.
  var drain: Drain?
  /// Set on the one loop that asks whether the cluster is there.
  var reach: Reach?
  /// Room for one unmasked message.
  let scratch: UnsafeMutableRawBufferPointer

  /// Low bits of a session's number.
  static let indexBits: UInt64 = 8
  static let tickInterval = TimeAmount.milliseconds(100)
  /// Each session is looked at once a second.
  static let ticksPerSweep = 10
  /// What waits for company does so for one to two of these spans.
  static let ticksPerHold: UInt64 = 2

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
  /// Sessions, closing ones too, and waiting requests.
  var openCount: Int { endpoints.count + closing.count }

  static func loopIndex(ofSession number: UInt64) -> Int {
    Int(number & ((1 << indexBits) - 1))
  }

  // MARK: Connections

  func makeSessionNumber() -> UInt64 {
    lastSession += 1
    return lastSession << Self.indexBits | UInt64(index)
  }

  func add(_ handler: WebSocketHandler) {
    endpoints[handler.number] = .device(handler)
    watched.add(handler.number, handler)
  }
  func remove(_ handler: WebSocketHandler) {
    endpoints.removeValue(forKey: handler.number)
    watched.remove(handler.number)
    closing.removeValue(forKey: handler.number)
    noteUnfinished(handler, bytes: nil, begins: false)
    if slow[handler.number] != nil { noteSlow(handler, false) }
  }
  /// A close frame was sent: from now on the handler is only watched.
  func retire(_ handler: WebSocketHandler) {
    if endpoints.removeValue(forKey: handler.number) != nil { closing[handler.number] = handler }
  }
  func add(_ handler: HTTPHandler) { requests[ObjectIdentifier(handler)] = handler }
  func remove(_ handler: HTTPHandler) { requests.removeValue(forKey: ObjectIdentifier(handler)) }

  /// A buffer for one event's actions; empty. To be given back.
  func takeActions() -> [DeviceSession.Action] {
    var taken: [DeviceSession.Action] = []
    swap(&taken, &spareActions)
    return taken
  }

  func giveBack(_ actions: inout [DeviceSession.Action]) {
    actions.removeAll(keepingCapacity: true)
    swap(&actions, &spareActions)
  }

  // MARK: Commands

  enum Submission {
    case sent
    /// The same command is under way: its one reply answers both.
    case repeated
    case refused(CallError)
  }

  /// Hands a command to its shard.
  func submit(_ command: Command, now: Timestamp) -> Submission {
    // What is retransmitted is counted once.
    if AppGate.limits(command.body), !outbox.isWaiting(command),
      let error = shared.apps.refusal(of: command, now: now)
    {
      return .refused(error)
    }
    let command = shared.apps.stamped(command)
    let lazily = isBusy && command.body.mayWait
    switch outbox.submit(command, lazily: lazily, now: now) {
    case .accepted:
      metrics.commandsTotal.increment()
      shared.logger.received(command)
      metrics.commandsPending.add(1)
      commandsThisTick += 1
      if lazily { scheduleLazyFlush() } else { scheduleFlush() }
      return .sent
    case .repeated: return .repeated
    case .conflicting:
      return .refused(CallError(.invalidField, "Another command waits under this id."))
    case .outOfTurn: return .refused(CallError(.tryAgain, retryAfterMilliseconds: 200))
    case .full: return .refused(CallError(.overloaded, retryAfterMilliseconds: 1000))
    }
  }

  /// Hands over a command that is never answered.
  func say(_ command: Command) {
    metrics.commandsTotal.increment()
    shared.logger.received(command)
    outbox.say(command)
    scheduleFlush()
  }

  func acknowledge(_ command: Command) {
    metrics.commandsTotal.increment()
    shared.logger.received(command)
    outbox.acknowledge(command)
    scheduleLazyFlush()
  }

  private func scheduleLazyFlush() {
    guard !lazyFlushScheduled, outbox.hasLazy else { return }
    lazyFlushScheduled = true
    eventLoop.assumeIsolated().scheduleTask(
      in: .microseconds(shared.configuration.acknowledgementDelay.microseconds)
    ) {
      self.lazyFlushScheduled = false
      self.flushCommands(all: true)
    }
  }

  /// At the end of this turn of the event loop, when all sockets that had something were read.
  private func scheduleFlush() {
    guard !flushScheduled else { return }
    flushScheduled = true
    eventLoop.assumeIsolated().execute {
      self.flushScheduled = false
      self.flushCommands(all: false)
    }
  }

  func flushCommands(all: Bool) {
    guard outbox.hasUrgent || (all && outbox.hasLazy) else { return }
    var messages: [OutgoingMessage] = []
    outbox.flush(all: all) { shard, commands in
      let commands = isBusConnected ? commands : commands.filter { $0.request == 0 }
      if !commands.isEmpty { messages.append(shared.message(to: shard, commands)) }
    }
    shared.publish(messages)
  }

  // MARK: What the cluster says

  /// Handles a burst of replies and deliveries; each socket is flushed once.
  func handle(_ items: [EdgeItem]) {
    let now = self.now
    for item in items { handle(item, now: now) }
    flushTouched()
  }

  private func handle(_ item: EdgeItem, now: Timestamp) {
    switch item.body {
    case .reply(let request, let reply):
      handleReply(session: item.session, request: request, reply, now: now)
    case .delivery(let delivery):
      guard let handler = device(item.session), handler.deliver(delivery) else {
        return undeliverable(delivery, session: item.session, now: now)
      }
      metrics.deliveriesTotal.increment()
      shared.logger.written(
        delivery, to: SessionRef(edge: shared.incarnation, number: item.session), handler.sender)
    case .notice(let notice):
      guard let handler = device(item.session) else {
        return metrics.deliveriesUnknown.increment()
      }
      handler.send(.notice(notice))
    case .close(let notice):
      guard let handler = device(item.session) else { return }
      handler.close(notice, now: now)
    }
  }

  /// The shard does not know yet that the session is over: the news may have been lost.
  private func undeliverable(_ delivery: Delivery, session: UInt64, now: Timestamp) {
    metrics.deliveriesUnknown.increment()
    let ref = SessionRef(edge: shared.incarnation, number: session)
    if let command = closed.reminder(of: delivery, session: ref, now: now) { say(command) }
  }

  /// Remembers a session that ended.
  func remember(_ farewell: DeviceSession.Farewell, session: UInt64) {
    closed.add(farewell, session: session, now: now)
  }

  private func handleReply(session: UInt64, request: UInt64, _ reply: Reply, now: Timestamp) {
    if takesReply(session: session, now: now) { return }
    if outbox.hasOvertaken(session: session, request: request, reply) { return }
    guard let pending = outbox.replied(session: session, request: request) else {
      return metrics.deliveriesUnknown.increment()
    }
    metrics.commandsPending.add(-1)
    metrics.commandLatency.record(microseconds: (now - pending.since).microseconds)
    answer(pending.command, reply, now: now)
  }

  private func answer(_ command: Command, _ reply: Reply, now: Timestamp) {
    switch endpoints[command.session.number] {
    case .device(let handler): handler.replied(to: command, reply, now: now)
    case .request(let handler):
      endpoints.removeValue(forKey: command.session.number)
      handler.replied(to: command, reply)
    case .question(let question):
      answer(question, session: command.session.number, reply, now: now)
    case nil: metrics.deliveriesUnknown.increment()
    }
  }

  func device(_ session: UInt64) -> WebSocketHandler? {
    guard case .device(let handler)? = endpoints[session] else { return nil }
    return handler
  }

  /// Sends an HTTP request's command; its reply goes to the handler.
  func submit(_ command: Command, for handler: HTTPHandler) -> CallError? {
    if case .refused(let error) = submit(command, now: now) { return error }
    endpoints[command.session.number] = .request(handler)
    return nil
  }

  /// The HTTP connection is gone; nobody waits for the reply.
  func forgetRequest(session: UInt64) { endpoints.removeValue(forKey: session) }

  /// Something was written to the handler's socket.
  func touch(_ handler: WebSocketHandler) { touched.append(handler) }

  /// Something was written to the handler's socket that may wait for the next frame.
  func hold(_ handler: WebSocketHandler) { holding.append(handler) }

  /// The process is gone: lets go of all connections, and of who waited to write.
  func abandon() {
    endpoints.removeAll()
    closing.removeAll()
    requests.removeAll()
    watched = SweepSlots(count: Self.ticksPerSweep)
    unattached.abandon()
    slow.removeAll()
    touched.removeAll()
    holding.removeAll()
    holdingLong.removeAll()
    reach = nil
  }

  private func releaseHeld() {
    for handler in holdingLong { handler.stopHolding() }
    holdingLong.removeAll(keepingCapacity: true)
    swap(&holding, &holdingLong)
  }

  func flushTouched() {
    guard !touched.isEmpty else { return }
    let handlers = touched
    touched.removeAll(keepingCapacity: true)
    for handler in handlers { handler.flush() }
  }

  // MARK: A new owner asks

  /// Announces all sessions of a shard's users, and where the callers of its calls are; then says
  /// again what waits for an answer. Everything is published when it returns.
  /// - Returns: how many sessions there are.
  func announce(shard: Int) -> Int {
    flushCommands(all: true)
    var count = 0
    for case .device(let handler) in endpoints.values {
      if let command = handler.announcement(toShard: shard) {
        outbox.say(command)
        count += 1
      }
      for command in handler.resumptions(ofShard: shard) { outbox.say(command) }
    }
    outbox.sayAgain(toShard: shard) { endpoints[$0] != nil }
    flushCommands(all: true)
    return count
  }

  // MARK: Time

  /// Begins to keep time.
  func start() {
    eventLoop.assumeIsolated().scheduleTask(in: Self.tickInterval) {
      guard !self.isStopped else { return }
      self.tick()
      self.start()
    }
  }

  /// Nothing more will be done.
  func stop() {
    isStopped = true
    reach = nil
  }

  private func tick() {
    let now = self.now
    ticks += 1
    isBusy = commandsThisTick >= Self.busyFrom
    commandsThisTick = 0
    tendBus(now: now)
    tendTerms(now: now)
    sweepCommands(now: now)
    tendReach(now: now)
    tendTokens(now: now)
    for handler in watched.due(at: ticks) { handler.tick(now: now) }
    if ticks % UInt64(Self.ticksPerSweep) == 0 {
      sweepRequests(now: now)
      sweepUnfinished(now: now)
    }
    if !slow.isEmpty { sweepSlow() }
    continueDrain(now: now)
    if ticks % Self.ticksPerHold == 0 { releaseHeld() }
    flushCommands(all: false)
    flushTouched()
  }

  /// One loop sees for all whether the file of keys was read anew.
  private func tendTerms(now: Timestamp) {
    let generation = shared.tokens.generation
    guard index == 0, generation != termsGeneration else { return }
    termsGeneration = generation
    shared.apps.update(shared.tokens.keys.terms, now: now)
  }

  /// While the bus has no connection it keeps what it is given, and sends it afterwards: by then a command
  /// may have been given up, and an attach or a place would be carried out for somebody who turned away.
  /// So what has a reply, and is retransmitted, is not given to it before it is connected again.
  private func tendBus(now: Timestamp) {
    let wasConnected = isBusConnected
    isBusConnected = shared.isBusConnected()
    guard isBusConnected, !wasConnected else { return }
    reach?.watch.reconnected(now: now)
    outbox.retransmitAll { endpoints[$0] != nil }
  }

  private func sweepCommands(now: Timestamp) {
    let before = outbox.pendingCount
    var late: [Command] = []
    let resent = outbox.sweep(
      now: now, isLive: { endpoints[$0] != nil }, giveUp: { late.append($0) })
    metrics.commandsPending.add(Int64(outbox.pendingCount - before))
    if resent > 0 { metrics.commandsRetried.increment(by: UInt64(resent)) }
    for command in late {
      metrics.commandsTimedOut.increment()
      answer(command, .error(CallError(.tryAgain)), now: now)
    }
  }

  private func sweepRequests(now: Timestamp) {
    // A copy: handlers take themselves off the table.
    for handler in Array(requests.values) { handler.tick(now: now) }
  }
}
