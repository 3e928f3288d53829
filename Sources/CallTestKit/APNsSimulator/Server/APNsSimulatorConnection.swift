internal import CallCore
internal import NIOCore
internal import NIOPosix
internal import NIOSSL
internal import NIOTLS
internal import Synchronization

/// One connection: passes bytes to the transport and requests to the rules, and applies the script's faults. Runs on
/// its channel's event loop.
final class APNsSimulatorConnection: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  let simulator: APNsSimulator
  let number: Int
  let fault: APNsConnectionFault?
  var transport: APNsTransport
  var identity = ConnectionIdentity()
  var context: ChannelHandlerContext?
  /// The limit of streams once a push was accepted; a script may change it.
  var streamsMax: Int
  /// Requests that are held by the fault `gather`.
  var held: [Pending] = []
  var release: Scheduled<Void>?
  private var badTokens = 0
  /// Streams that count against the budget.
  private var spent: Set<UInt32> = []
  private var input = ByteBuffer()
  private var countsReported = APNsTransport.Counts()
  private var lastRead: NIODeadline = .now()
  private var idleCheck: Scheduled<Void>?
  private var isClosing = false
  private var isStarted = false

  /// A judged request without an answer. Its verdict has no push once the device has it.
  struct Pending {
    var stream: UInt32
    var verdict: APNsRules.Verdict
    var shape: APNsResponseShape = []
  }

  init(_ simulator: APNsSimulator, number: Int, fault: APNsConnectionFault?) {
    self.simulator = simulator
    self.number = number
    self.fault = fault
    streamsMax = simulator.options.streamsMax
    var options = APNsTransport.Options()
    options.earlyStreams = simulator.options.leniency.contains(.earlyStreams)
    transport = APNsTransport(options)
  }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case TLSUserEvent.handshakeCompleted(let negotiated)? = event as? TLSUserEvent else {
      return context.fireUserInboundEventTriggered(event)
    }
    isStarted = true
    if negotiated != "h2", !simulator.options.leniency.contains(.noALPN) {
      simulator.note([.noALPN], connection: number)
      isClosing = true
      return context.close(promise: nil)
    }
    guard fault != .noSettings else { return }
    transport.start()
    watchIdleness()
    flush()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    if fault == .noSettings || isClosing { return }
    lastRead = .now()
    input.writeBuffer(&bytes)
    transport.receive(&input)
    input.discardReadBytes()
    // A black hole reads and answers nothing.
    let events = transport.drainEvents()
    if fault == .blackHole { return transport.output.clear() }
    for event in events {
      switch event {
      case .request(let stream, let request): handle(request, stream)
      case .abandoned(let stream): held.removeAll { $0.stream == stream }
      }
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    flush()
    context.fireChannelReadComplete()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    // Stops reading from a client that does not read its answers.
    try? context.channel.syncOptions?.setOption(.autoRead, value: context.channel.isWritable)
    context.fireChannelWritabilityChanged()
  }

  func channelInactive(context: ChannelHandlerContext) {
    idleCheck?.cancel()
    simulator.options.streamBudget?.leave(spent.count)
    spent = []
    release?.cancel()
    held = []
    reportCounts()
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if !isStarted, error is NIOSSLError {
      simulator.core.withLock { $0.report.handshakesFailed += 1 }
    }
    isClosing = true
    context.close(promise: nil)
  }

  /// Answers a request, counts it, and changes the limit of streams as APNs does (R2, R4, R29).
  func answer(_ pending: Pending) {
    guard transport.isOpen(pending.stream) else { return }
    if let last = transport.goAwayLast, pending.stream > last { return }
    let verdict = pending.verdict
    simulator.deliver(verdict.push)
    let development = simulator.options.environment == .development
    transport.respond(
      to: pending.stream, verdict.response, apnsID: verdict.id ?? mintUUID(),
      uniqueID: development ? mintUUID() : nil, shape: pending.shape)
    simulator.core.withLock {
      $0.answered(verdict.response, token: verdict.token, connection: number)
    }
    if verdict.response == .accepted {
      if transport.limitAnnounced != streamsMax { transport.announce(limit: streamsMax) }
    } else if verdict.response.reason == .badDeviceToken {
      if simulator.options.narrowsAfterBadToken, transport.limitAnnounced != 1 {
        transport.announce(limit: 1)
      }
      badTokens += 1
      if let most = simulator.options.badTokensMax, badTokens == most {
        transport.goAway(last: transport.lastStream, reason: .badDeviceToken, closes: true)
      }
    }
  }

  /// Takes a stream from the budget; false if there is none left.
  func spend(_ stream: UInt32) -> Bool {
    guard let budget = simulator.options.streamBudget else { return true }
    settleBudget()
    guard budget.enter() else { return false }
    spent.insert(stream)
    return true
  }

  private func settleBudget() {
    guard !spent.isEmpty else { return }
    let ended = spent.filter { !transport.isOpen($0) }
    spent.subtract(ended)
    simulator.options.streamBudget?.leave(ended.count)
  }

  /// Sends the transport's output, and closes the connection once it is finished.
  func flush() {
    guard let context, fault != .blackHole || !isStarted || transport.output.readableBytes > 0
    else { return }
    reportCounts()
    settleBudget()
    let finished = transport.isFinished && !isClosing
    if finished { isClosing = true }
    guard transport.output.readableBytes > 0 else {
      if finished { context.close(promise: nil) }
      return
    }
    let output = transport.output
    transport.output = context.channel.allocator.buffer(capacity: 1024)
    let written = context.writeAndFlush(wrapOutboundOut(output))
    if finished {
      let context = NIOLoopBound(context, eventLoop: context.eventLoop)
      written.whenComplete { _ in context.value.close(promise: nil) }
    }
  }

  /// TCP reset: what is not sent yet is lost.
  func reset() {
    guard let context, !isClosing else { return }
    isClosing = true
    transport.isDead = true
    reportCounts()
    resetChannel(context.channel)
  }

  private func reportCounts() {
    simulator.note(transport.drainViolations(), connection: number)
    guard transport.counts != countsReported else { return }
    simulator.core.withLock {
      $0.report.note(transport.counts, since: countsReported, connection: number)
    }
    countsReported = transport.counts
  }

  private func watchIdleness() {
    guard let context else { return }
    let deadline = lastRead + simulator.options.idleTimeout
    idleCheck = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [weak self] in
      guard let self, self.context != nil else { return }
      if NIODeadline.now() - self.lastRead < self.simulator.options.idleTimeout {
        return self.watchIdleness()
      }
      self.transport.goAway(last: self.transport.lastStream, reason: .idleTimeout, closes: true)
      self.flush()
    }
  }
}

/// Resets a TCP connection, without TLS's closure.
func resetChannel(_ channel: any Channel) {
  if let socket = channel as? any SocketOptionProvider {
    socket.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { _ in }
  }
  guard
    let tls = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self)
  else { return channel.close(promise: nil) }
  tls.close(promise: nil)
}
