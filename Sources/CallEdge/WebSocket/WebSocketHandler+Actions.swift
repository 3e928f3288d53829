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
  /// for the device. Its actions are appended to the same turn.
  /// - Parameter now: the time of the event; nil: the loop's present time.
  func handle(
    at now: Timestamp? = nil, _ event: (inout DeviceSession, inout DeviceSession.Turn) -> Void
  ) {
    turn.now = now ?? loop.now
    if isPerforming { return event(&session, &turn) }
    isPerforming = true
    turn.actions = loop.takeActionBuffer()
    event(&session, &turn)
    var next = 0
    while next < turn.actions.count {
      // Moved out: to read it there would copy it.
      var action = DeviceSession.Action.ping
      swap(&action, &turn.actions[next])
      perform(action)
      next += 1
    }
    loop.giveBack(&turn.actions)
    isPerforming = false
    countLiveCalls()
  }

  /// Reports to the app's gate how many live calls were placed here.
  func countLiveCalls() {
    let live = session.liveCallsPlaced
    guard live != Int(liveCallsCounted) else { return }
    if let app { loop.shared.apps.gate(of: app)?.live.add(live - Int(liveCallsCounted)) }
    liveCallsCounted = UInt16(clamping: live)
  }

  private func perform(_ action: DeviceSession.Action) {
    switch action {
    case .authenticate(let token):
      let now = loop.now
      let result = loop.verify(token, of: connection, now: now)
      handle(at: now) { $0.authenticated(result, &$1) }
    case .authenticateRenewal(let request, let token):
      let now = loop.now
      let result = loop.verify(token, of: connection, now: now)
      handle(at: now) { $0.renewed(request, token, result, &$1) }
    case .reply(let id, let reply): self.reply(id, reply)
    case .replyLazily(let id, let reply): sendLazily(.reply(id: id, reply))
    case .notice(let notice): send(.notice(notice))
    case .relays(let relays): send(.relays(relays))
    case .forward(let request, let callee, let body):
      forward(request: request, callee: callee, body)
    case .forwardRenewal(let request, let callee, let attach, let token):
      forward(request: request, callee: callee, .attach(attach), by: .token(token))
    case .acknowledge(let callee, let items):
      guard let sender = session.sender else { return }
      loop.acknowledge(command(0, from: sender, callee: callee, .ack(items)))
    case .reportTalking(let request, let talking):
      guard let sender = session.sender else { return }
      forward(request: request, callee: sender.user, .talking(talking))
    case .announce:
      guard let sender = session.sender, let body = session.announcement else { return }
      loop.submit(unanswered: command(0, from: sender, callee: sender.user, body))
    case .reportCrossing(let callee, let crossed):
      guard let sender = session.sender else { return }
      loop.submit(unanswered: command(0, from: sender, callee: callee, .crossed(crossed)))
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
    case .done, .registered, .call, .answer, .calls, .history, .rules: break
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
  private func forward(
    request: UInt64, callee: UserKey, _ body: Command.Body, by credential: Credential? = nil
  ) {
    guard let sender = session.sender else { return }
    var sent = body
    if case .place(var place) = sent {
      place.receivedAt = readAt
      sent = .place(place)
    }
    // A name for the command would cost a copy.
    switch loop.submit(
      command(request, from: sender, callee: callee, sent, by: credential), now: turn.now)
    {
    case .sent: break
    case .repeated: session.wasRepeated(body)
    case .refused(let error):
      handle(at: turn.now) { $0.wasRefused(request: request, body, error, &$1) }
    }
  }

  private func askForCalls(_ request: UInt64) {
    guard let sender = session.sender,
      let error = loop.askForCalls(sender, session.credential, asker: number, request: request)
    else { return }
    handle { $0.callsRefused(request: request, error, &$1) }
  }

  /// A command of this session.
  /// - Parameters:
  ///   - request: 0 for a command that has no reply.
  ///   - credential: nil: the session's.
  func command(
    _ request: UInt64, from sender: (user: UserKey, device: DeviceID), callee: UserKey,
    _ body: Command.Body, by credential: Credential? = nil
  ) -> Command {
    var command = Command(
      session: SessionRef(edge: loop.shared.incarnation, number: number), request: request,
      user: sender.user, device: sender.device, callee: callee, body: body,
      credential: credential ?? session.credential)
    switch body {
    case .place, .call(_, .resume), .call(_, .pull), .call(_, .answer):
      command.attachedAt = session.attachedAt
    default: break
    }
    return command
  }
}

/// Deliveries of shards, and announcements to a shard's new owner.
extension WebSocketHandler {
  /// Writes a delivery.
  /// - Returns: false when the session accepts no more deliveries.
  func deliver(_ delivery: Delivery) -> Bool {
    guard session.willDeliver(delivery) else { return false }
    send(.delivery(delivery))
    if session.mayCross(delivery) { handle { $0.reportCrossings(of: delivery.call, &$1) } }
    if session.mayReportTalking { handle { $0.reportTalking(&$1) } }
    return true
  }

  /// Writes the user's calls.
  func show(_ ongoing: OngoingCalls) {
    guard session.willShow(ongoing) else { return }
    loop.metrics.deliveriesTotal.increment()
    send(.ongoing(ongoing))
  }

  /// Writes the state of the user's history.
  func show(_ history: HistoryState) {
    var isShown = false
    handle { isShown = $0.willShow(history, &$1) }
    guard isShown else { return }
    loop.metrics.deliveriesTotal.increment()
    send(.history(history))
  }

  // MARK: A shard's new owner

  /// The command that announces this session to a shard's new owner; nil where the shard is not its user's.
  func announcement(toShard shard: Int, epoch: UInt64) -> Command? {
    guard isUsers(shard) else { return nil }
    session.noteOwner(epoch: epoch)
    guard let sender = session.sender, let body = session.announcement else { return nil }
    return command(0, from: sender, callee: sender.user, body)
  }

  /// Whether a shard is the user's. A session that waits for the reply to its attach has a user, too: the reply on its
  /// way may be a former owner's.
  private func isUsers(_ shard: Int) -> Bool {
    if userShard >= 0 { return userShard == shard }
    guard let user = session.sender?.user else { return false }
    return ShardHash.shard(of: user, count: loop.shared.configuration.shardCount) == shard
  }

  /// The commands by which a shard's new owner learns where the callers of its calls are: one `resume` for each
  /// live call to the shard's users that was placed from here. They have no replies.
  func resumptions(ofShard shard: Int) -> [Command] {
    guard !session.placedCalls.isEmpty, session.isAttached, let sender = session.sender
    else { return [] }
    let count = loop.shared.configuration.shardCount
    return session.placedCalls
      .filter { ShardHash.shard(of: $0.callee, count: count) == shard }
      .map { command(0, from: sender, callee: $0.callee, .call($0.call, .resume)) }
  }
}
