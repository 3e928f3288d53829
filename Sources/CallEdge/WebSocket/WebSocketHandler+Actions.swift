internal import CallAuth
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Carries out what the session decides.
extension WebSocketHandler {
  /// Gives the session an event, then carries out its actions in their order.
  ///
  /// An action may lead to another event at once: a token was verified, a command was refused, too much waits
  /// for the device. Its actions join the end of the queue, and the loop below carries them out.
  func handle(_ event: (inout DeviceSession, inout [DeviceSession.Action]) -> Void) {
    if isPerforming { return event(&session, &actions) }
    isPerforming = true
    actions = loop.takeActionBuffer()
    event(&session, &actions)
    var next = 0
    while next < actions.count {
      perform(actions[next])
      next += 1
    }
    loop.giveBack(&actions)
    isPerforming = false
    countLiveCalls()
  }

  /// Tells the app's gate how many live calls were placed here.
  func countLiveCalls() {
    let live = session.liveCallsPlaced
    guard live != Int(liveCallsCounted) else { return }
    if let app { loop.shared.apps.gate(of: app)?.live.add(live - Int(liveCallsCounted)) }
    liveCallsCounted = UInt8(clamping: live)
  }

  private func perform(_ action: DeviceSession.Action) {
    switch action {
    case .authenticate(let token):
      let now = loop.now
      let result = loop.verify(token, of: connection, now: now)
      handle { $0.authenticated(result, now: now, into: &$1) }
    case .authenticateRenewal(let request, let token):
      let now = loop.now
      let result = loop.verify(token, of: connection, now: now)
      handle { $0.renewed(request, token, result, now: now, into: &$1) }
    case .reply(let id, let reply): self.reply(id, reply)
    case .replyLazily(let id, let reply): sendLazily(.reply(id: id, reply))
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

  private func reply(_ id: UInt64, _ reply: ServerReply) {
    switch reply {
    case .error(let error): loop.metrics.count(error: error.code)
    case .attached: attached()
    case .done, .registered, .call, .answer, .calls: break
    }
    send(.reply(id: id, reply))
  }

  private func attached() {
    guard let sender = session.sender, !isCountedAttached else { return }
    isCountedAttached = true
    loop.hasAttached(connection)
    // Only now: the edge keeps no long message of a peer that has not shown a token.
    reader.messageBytesMax = session.codec.frameBytesMaximum(
      protobufBytes: loop.shared.gate.limits.frameBytesMax)
    userShard = Int32(ShardHash.shard(of: sender.user, count: loop.shared.configuration.shardCount))
    app = sender.user.app
    loop.shared.logger.debug("session begins", metadata: logKeys(sender.user, sender.device))
    loop.metrics.sessions.add(1)
    loop.metrics.attachesTotal.increment()
  }

  func logKeys(_ user: UserKey, _ device: DeviceID) -> Logger.Metadata {
    .keys([
      .session: "\(SessionRef(edge: loop.shared.rules.edge, number: number))", .app: "\(user.app)",
      .user: "\(user.user)", .device: "\(device)",
      .address: "\(connection.address.map(String.init(describing:)) ?? "-")",
    ])
  }

  // MARK: Commands

  /// Hands a command to the loop.
  /// - Parameter credential: replaces the session's.
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
      handle { $0.wasRefused(request: request, body, error, now: now, into: &$1) }
    }
  }

  private func askForCalls(_ request: UInt64) {
    guard let sender = session.sender,
      let error = loop.askForCalls(sender, session.credential, asker: number, request: request)
    else { return }
    let now = loop.now
    handle { $0.callsRefused(request: request, error, now: now, into: &$1) }
  }

  /// A command of this session.
  /// - Parameter request: 0 for a command that has no reply.
  func command(
    _ request: UInt64, from sender: (user: UserKey, device: DeviceID), callee: UserKey,
    _ body: Command.Body
  ) -> Command {
    var command = Command(
      session: SessionRef(edge: loop.shared.incarnation, number: number), request: request,
      user: sender.user, device: sender.device, callee: callee, body: body)
    command.credential = session.credential
    return command
  }
}
