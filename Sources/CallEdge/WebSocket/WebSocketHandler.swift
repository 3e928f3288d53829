internal import CallAuth
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import NIOCore

/// One device's socket: reads and writes frames, and performs what its `DeviceSession` decides.
///
/// The only handler of its channel, and without buffers of its own while nothing is half read: this
/// is what an idle device costs.
final class WebSocketHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  let number: UInt64
  private let loop: EdgeLoop
  private let connection: Connection
  private var session: DeviceSession
  private var reader: WebSocketReader
  /// What has arrived of a frame that is not whole.
  private var rest: ByteBuffer?
  private var context: ChannelHandlerContext?
  /// The shard of the session's user; -1 while it is not attached.
  private var userShard: Int32 = -1
  /// The session's, once it was attached.
  private var app: String?
  /// Of the calls placed here, those that the app's gate has counted.
  private var liveCallsNoted: UInt8 = 0
  private var isTouched = false
  /// Something is written that waits for company before it is flushed.
  private var isHolding = false
  private var isReading = false
  private var isCountedAttached = false
  /// When the bytes that are being read arrived.
  private var readAt = Timestamp(microseconds: 0)
  /// How many bytes were thrown away behind something that cannot be understood; nil: nothing was.
  private var discarded: Int?
  /// How many bytes came while the session was closing.
  private var lingered = 0
  /// The loop knows of a message that is not whole.
  private var isUnfinished = false
  /// More waits for the device than one that reads would leave.
  private var isSlow = false
  private var pongsWaiting: UInt8 = 0
  /// What the latest ping said that is not answered, because too many pongs wait.
  private var latestPing: [UInt8]?

  init(loop: EdgeLoop, connection: Connection, codec: DeviceCodec, login: Login?) {
    self.loop = loop
    self.connection = connection
    number = loop.makeSessionNumber()
    session = DeviceSession(
      number: number, codec: codec, claims: login?.claims, token: login?.token ?? "",
      rules: loop.shared.rules, now: loop.now)
    let limits = loop.shared.gate.limits
    reader = WebSocketReader(
      messageBytesMax: min(limits.unattachedFrameBytesMax, limits.frameBytesMax),
      skippedBytesMax: limits.skippedBytesMax, fragmentsMax: limits.fragmentsMax,
      beginningBytesMax: DeviceCodec.idSearchedBytes)
  }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    loop.add(self)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    end()
    self.context = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    end()
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // A broken socket; who it was is of no interest beyond the count of closed sessions.
    context.close(promise: nil)
  }

  /// More waits for the device, or less, than the channel's write buffer water marks.
  func channelWritabilityChanged(context: ChannelHandlerContext) {
    isSlow = !context.channel.isWritable
    loop.noteSlow(self, isSlow)
    if isSlow { checkWaiting() }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var buffer = unwrapInboundIn(data)
    if let discarded { return discard(buffer.readableBytes, after: discarded) }
    if session.isClosing, !mayLinger(buffer.readableBytes) { return }
    session.heardFromDevice()
    if rest != nil {
      rest?.writeBuffer(&buffer)
      guard let joined = rest.take() else { return }
      buffer = joined
    }
    isReading = true
    var begins = false
    let consumed = buffer.withUnsafeReadableBytes { read($0, begins: &begins) }
    isReading = false
    guard self.context != nil, discarded == nil else { return }
    if consumed < buffer.readableBytes {
      buffer.moveReaderIndex(forwardBy: consumed)
      // A copy of its own: the channel's read buffer goes back.
      var kept = context.channel.allocator.buffer(capacity: buffer.readableBytes)
      kept.writeBuffer(&buffer)
      rest = kept
    }
    noteUnfinished(begins: begins)
  }

  /// Tells the loop of a message that is not whole, and when it is.
  private func noteUnfinished(begins: Bool) {
    let isHalf = rest != nil || reader.isAmidMessage
    guard isHalf || isUnfinished else { return }
    isUnfinished = isHalf
    let bytes = isHalf ? (rest?.readableBytes ?? 0) + reader.keptBytes : nil
    loop.noteUnfinished(self, bytes: bytes, begins: begins)
  }

  /// A message was not whole in time.
  func messageTookTooLong(now: Timestamp) {
    rest = nil
    reader.abandon()
    discarded = 0
    noteWhole()
    drive { $0.messageTookTooLong(now: now, into: &$1) }
  }

  private func noteWhole() {
    guard isUnfinished else { return }
    isUnfinished = false
    loop.noteUnfinished(self, bytes: nil, begins: false)
  }

  /// Reads on after the close frame, up to a limit: a socket that is closed with something unread is
  /// reset, and the peer loses the close frame with whatever it had not read.
  private func discard(_ count: Int, after before: Int) {
    discarded = before + count
    if before + count > loop.shared.gate.limits.lingerBytesMax { cutOff(.lingerBytes) }
  }

  /// A closing session reads only to find the peer's close frame.
  private func mayLinger(_ count: Int) -> Bool {
    lingered += count
    if lingered <= loop.shared.gate.limits.lingerBytesMax { return true }
    cutOff(.lingerBytes)
    return false
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if isTouched { flush() }
  }

  /// Reads all whole frames; returns how many bytes they were.
  /// - Parameter begins: set where a message ended, so that what is left is of another one.
  private func read(_ bytes: UnsafeRawBufferPointer, begins: inout Bool) -> Int {
    var consumed = 0
    let now = loop.now
    readAt = now
    while context != nil {
      switch reader.next(bytes, consumed: &consumed, scratch: loop.scratch) {
      case .needMore: return consumed
      case .nothing: break
      case .message(let kind, let payload):
        begins = true
        received(kind, payload, now: now)
      case .ping(let payload): if mayControl(now: now) { pong(payload) }
      case .pong: _ = mayControl(now: now)
      case .close(let code): drive { $0.receivedClose(code: code, now: now, into: &$1) }
      case .tooLarge(let beginning):
        begins = true
        received(bad: tooLarge(beginning), now: now)
      case .violation(let reason):
        discarded = 0
        noteWhole()
        drive { $0.receivedViolation(reason, now: now, into: &$1) }
        return bytes.count
      }
    }
    return bytes.count
  }

  /// Counts a ping or pong. False where it is one too many.
  private func mayControl(now: Timestamp) -> Bool {
    var may = false
    drive { may = $0.receivedControl(now: now, into: &$1) }
    if !may { loop.shared.gate.metrics.limit(.controlFrames) }
    return may
  }

  /// Answers a ping. Where the peer does not take what is written, it gets a pong for the latest only.
  private func pong(_ payload: some Collection<UInt8>) {
    guard let context else { return }
    guard pongsWaiting < min(loop.shared.gate.limits.pongsWaitingMax, 255) else {
      loop.shared.gate.metrics.limit(.pongsWaiting)
      latestPing = Array(payload)
      return
    }
    pongsWaiting += 1
    let taken = context.eventLoop.makePromise(of: Void.self)
    taken.futureResult.assumeIsolated().whenComplete { _ in
      self.pongsWaiting -= 1
      if !self.session.isClosing, let latest = self.latestPing.take() { self.pong(latest) }
    }
    write(
      WebSocketWriter.frame(.pong, payload, allocator: context.channel.allocator), promise: taken)
  }

  private func tooLarge(_ beginning: UnsafeRawBufferPointer) -> FrameError {
    var error = session.codec.tooLarge(beginning)
    if !session.isAttached {
      error.error = CallError(
        .frameTooLarge, "Before the attach a frame is at most \(reader.messageBytesMax) bytes.")
    }
    return error
  }

  private func received(
    _ kind: WebSocketReader.Kind, _ payload: UnsafeRawBufferPointer, now: Timestamp
  ) {
    if session.isClosing { return }
    loop.metrics.framesIn.increment()
    let expected: WebSocketReader.Kind = session.codec == .json ? .text : .binary
    guard kind == expected else {
      return received(bad: FrameError(id: 0, error: CallError(.wrongFrameType)), now: now)
    }
    let frame: ClientFrame
    do {
      frame = try session.codec.decodeClient(payload, limits: loop.shared.configuration.limits)
    } catch {
      return received(bad: error, now: now)
    }
    drive { $0.received(frame, bytes: payload.count, now: now, into: &$1) }
  }

  private func received(bad error: FrameError, now: Timestamp) {
    drive { $0.received(bad: error, now: now, into: &$1) }
  }

  // MARK: Performing

  private func drive(
    _ event: (inout DeviceSession, inout [DeviceSession.Action]) -> Void
  ) {
    var actions = loop.takeActions()
    event(&session, &actions)
    for action in actions { perform(action) }
    loop.giveBack(&actions)
    noteLiveCalls()
  }

  /// Tells the app's gate how many calls that live were placed here.
  private func noteLiveCalls() {
    let live = session.liveCallsPlaced
    guard live != Int(liveCallsNoted) else { return }
    if let app { loop.shared.apps.gate(of: app)?.live.add(live - Int(liveCallsNoted)) }
    liveCallsNoted = UInt8(clamping: live)
  }

  private func perform(_ action: DeviceSession.Action) {
    switch action {
    case .authenticate(let token): authenticate(token)
    case .authenticateRenewal(let request, let token): renew(request, token)
    case .reply(let id, let reply): self.reply(id, reply)
    case .replyLazily(let id, let reply): hold(.reply(id: id, reply))
    case .notice(let notice): send(.notice(notice))
    case .forward(let request, let callee, let body):
      forward(request: request, callee: callee, body)
    case .forwardRenewal(let request, let callee, let attach, let token):
      forward(request: request, callee: callee, .attach(attach), by: .token(token))
    case .acknowledge(let callee, let items):
      guard let sender = session.sender else { return }
      loop.acknowledge(command(0, from: sender, callee: callee, .ack(items)))
    case .askForCalls(let request): askForCalls(request)
    case .ping: write(.ping, EmptyCollection())
    case .close(let reason): sendClose(reason)
    case .abort: abort()
    }
  }

  private func authenticate(_ token: String) {
    let now = loop.now
    if let error = loop.refusalToAuthenticate(connection) {
      return drive { $0.mayNotAuthenticate(error, now: now, into: &$1) }
    }
    let result: Result<DeviceClaims, AuthFailure>
    do {
      result = .success(
        try loop.shared.tokens.verify(token, now: now.microseconds / 1_000_000))
    } catch {
      result = .failure(error)
      loop.noteFailure(connection, CallError(error).code)
    }
    drive { $0.authenticated(result, now: now, into: &$1) }
  }

  private func renew(_ request: UInt64, _ token: String) {
    let now = loop.now
    let result: Result<DeviceClaims, CallError>
    if let error = loop.refusalToAuthenticate(connection) {
      result = .failure(error)
    } else {
      do {
        result = .success(
          try loop.shared.tokens.verify(token, now: now.microseconds / 1_000_000))
      } catch {
        result = .failure(CallError(error))
        loop.noteFailure(connection, CallError(error).code)
      }
    }
    drive { $0.renewed(request, token, result, now: now, into: &$1) }
  }

  private func reply(_ id: UInt64, _ reply: ServerReply) {
    switch reply {
    case .error(let error): loop.metrics.countError(error.code)
    case .attached: attached()
    case .done, .registered, .call, .answer, .calls: break
    }
    send(.reply(id: id, reply))
  }

  private func attached() {
    guard let sender = session.sender, !isCountedAttached else { return }
    isCountedAttached = true
    loop.hasAttached(connection)
    // Nobody unknown makes the edge keep so much of an unfinished frame.
    reader.messageBytesMax = session.codec.frameBytesMaximum(
      protobufBytes: loop.shared.gate.limits.frameBytesMax)
    userShard = Int32(
      ShardHash.shard(of: sender.user, count: loop.shared.configuration.shardCount))
    app = sender.user.app
    loop.shared.logger.debug("session begins", metadata: logKeys(sender.user, sender.device))
    loop.metrics.sessions.add(1)
    loop.metrics.attachesTotal.increment()
  }

  private func logKeys(_ user: UserKey, _ device: DeviceID) -> Logger.Metadata {
    .keys([
      .session: "\(SessionRef(edge: loop.shared.rules.edge, number: number))", .app: "\(user.app)",
      .user: "\(user.user)", .device: "\(device)",
      .address: "\(connection.address.map(String.init(describing:)) ?? "-")",
    ])
  }

  /// - Parameter credential: in place of the session's.
  private func forward(
    request: UInt64, callee: UserKey, _ body: Command.Body, by credential: Credential? = nil
  ) {
    guard let sender = session.sender else { return }
    var command = command(request, from: sender, callee: callee, body)
    if let credential { command.credential = credential }
    if case .place(var place) = body {
      place.receivedAt = readAt
      command.body = .place(place)
    }
    let now = loop.now
    switch loop.submit(command, now: now) {
    case .sent: break
    case .repeated: session.wasRepeated(body)
    case .refused(let error):
      drive { $0.wasRefused(request: request, body, error, now: now, into: &$1) }
    }
  }

  private func askForCalls(_ request: UInt64) {
    guard let sender = session.sender else { return }
    let error = loop.askForCalls(
      sender, session.credential, asker: number, request: request)
    guard let error else { return }
    let now = loop.now
    drive { $0.callsRefused(request: request, error, now: now, into: &$1) }
  }

  private func command(
    _ request: UInt64, from sender: (user: UserKey, device: DeviceID), callee: UserKey,
    _ body: Command.Body
  ) -> Command {
    var command = Command(
      session: SessionRef(edge: loop.shared.incarnation, number: number), request: request,
      user: sender.user, device: sender.device, callee: callee, body: body)
    command.credential = session.credential
    return command
  }

  // MARK: Writing

  func send(_ frame: ServerFrame) {
    loop.metrics.framesOut.increment()
    let codec = session.codec
    write(WebSocketWriter.Opcode(codec), codec.encode(frame))
  }

  /// Writes a frame that leaves with the next one, or when the loop loses patience.
  private func hold(_ frame: ServerFrame) {
    guard let context else { return }
    loop.metrics.framesOut.increment()
    let codec = session.codec
    let buffer = WebSocketWriter.frame(
      WebSocketWriter.Opcode(codec), codec.encode(frame), allocator: context.channel.allocator)
    context.write(wrapOutboundOut(buffer), promise: nil)
    guard !isTouched, !isHolding else { return }
    isHolding = true
    loop.hold(self)
  }

  /// Flushes what still waits for company.
  func stopHolding() { if isHolding { flush() } }

  private func write(_ opcode: WebSocketWriter.Opcode, _ payload: some Collection<UInt8>) {
    guard let context else { return }
    let buffer = WebSocketWriter.frame(opcode, payload, allocator: context.channel.allocator)
    write(buffer)
  }

  private func write(_ buffer: ByteBuffer, promise: EventLoopPromise<Void>? = nil) {
    guard let context else { return }
    context.write(wrapOutboundOut(buffer), promise: promise)
    if isSlow { checkWaiting() }
    guard !isTouched else { return }
    isTouched = true
    // What is written while reading leaves when all is read.
    if !isReading { loop.touch(self) }
  }

  func flush() {
    isTouched = false
    isHolding = false
    context?.flush()
  }

  private func sendClose(_ reason: CloseReason) {
    guard let context else { return }
    loop.metrics.countClose(reason)
    let written = context.eventLoop.makePromise(of: Void.self)
    // The peer sees the end behind the close frame, whatever it still sends.
    written.futureResult.assumeIsolated().whenSuccess {
      self.context?.close(mode: .output, promise: nil)
    }
    write(
      WebSocketWriter.close(reason, allocator: context.channel.allocator), promise: written)
    loop.retire(self)
    leave()
  }

  /// Bytes that wait for the device.
  var bytesWaiting: Int {
    (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
  }

  /// Closes the session when more waits for the device than may.
  private func checkWaiting() {
    guard !session.isClosing, bytesWaiting > loop.shared.gate.limits.outboundBytesMax else {
      return
    }
    let now = loop.now
    drive { $0.fellBehind(now: now, into: &$1) }
  }

  /// Lets go of a peer that has reached a limit.
  func cutOff(_ limit: PeerLimit? = nil) {
    if let limit { loop.shared.gate.metrics.limit(limit) }
    abort()
  }

  /// Lets go of the socket, with what it does not take at once.
  func abort() {
    guard let context else { return }
    flush()
    context.close(promise: nil)
  }

  private func end() {
    loop.remove(self)
    leave()
  }

  /// Tells the cluster, once, that the session is over.
  private func leave() {
    if isCountedAttached {
      isCountedAttached = false
      loop.metrics.sessions.add(-1)
    }
    userShard = -1
    guard let farewell = session.takeFarewell() else { return }
    noteLiveCalls()
    loop.remember(farewell, session: number)
    loop.shared.logger.debug("session ends", metadata: logKeys(farewell.user, farewell.device))
    let sender = (farewell.user, farewell.device)
    loop.say(
      command(
        0, from: sender, callee: farewell.user, .sessionClosed(graceful: farewell.graceful)))
    for (callee, calls) in farewell.calls {
      loop.say(command(0, from: sender, callee: callee, .callerGone(calls)))
    }
  }

  // MARK: For the loop

  func replied(to command: Command, _ reply: Reply, now: Timestamp) {
    drive {
      $0.replied(request: command.request, to: command.body, reply, now: now, into: &$1)
    }
  }

  /// Whose session it is, once that is known.
  var sender: (user: UserKey, device: DeviceID)? { session.sender }

  /// - Parameter live: nil where not every shard answered.
  func callsListed(request: UInt64, _ live: LiveCalls?, now: Timestamp) {
    drive { $0.callsListed(request: request, live, now: now, into: &$1) }
  }

  /// False when the session takes no deliveries any more.
  func deliver(_ delivery: Delivery) -> Bool {
    guard session.willDeliver(delivery) else { return false }
    send(.delivery(delivery))
    return true
  }

  func close(_ notice: Notice, now: Timestamp) {
    drive { $0.asked(toClose: notice, now: now, into: &$1) }
  }

  /// Keys or revocations have changed.
  func recheckToken(now: Timestamp) {
    drive { $0.recheckToken(loop.shared.tokens, now: now, into: &$1) }
  }

  /// An operator ends the session.
  func kick(now: Timestamp) {
    drive { $0.kicked(now: now, into: &$1) }
  }

  /// Whether a call rings or goes on here, or was placed from here.
  func isInCall(at now: Timestamp) -> Bool { session.isInCall(at: now) }

  func tick(now: Timestamp) {
    drive { $0.tick(now: now, into: &$1) }
  }

  func announcement(toShard shard: Int) -> Command? {
    guard userShard == shard, let sender = session.sender, let body = session.announcement
    else { return nil }
    return command(0, from: sender, callee: sender.user, body)
  }

  /// What tells a shard's new owner where the callers of its calls are: one `resume` for each live
  /// call to the shard's users that was placed from here. Nobody waits for the replies.
  func resumptions(ofShard shard: Int) -> [Command] {
    guard !session.placedCalls.isEmpty, session.isAttached, let sender = session.sender
    else { return [] }
    let count = loop.shared.configuration.shardCount
    return session.placedCalls
      .filter { ShardHash.shard(of: $0.callee, count: count) == shard }
      .map { command(0, from: sender, callee: $0.callee, .call($0.call, .resume)) }
  }
}
