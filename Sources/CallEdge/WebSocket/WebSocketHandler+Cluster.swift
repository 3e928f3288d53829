internal import CallCore
internal import CallWire

/// What the loop does with a session: replies and deliveries of shards, announcements to a shard's new owner,
/// time, and what operators ask for.
extension WebSocketHandler {
  /// Whose session it is, once that is known.
  var sender: (user: UserKey, device: DeviceID)? { session.sender }

  /// Whether a call rings or goes on here, or was placed from here.
  func isInCall(at now: Timestamp) -> Bool { session.isInCall(at: now) }

  func replied(to command: Command, _ reply: Reply, now: Timestamp) {
    handle {
      $0.replied(request: command.request, to: command.body, reply, now: now, into: &$1)
    }
  }

  /// - Parameter live: nil where not every shard answered.
  func callsListed(request: UInt64, _ live: LiveCalls?, now: Timestamp) {
    handle { $0.callsListed(request: request, live, now: now, into: &$1) }
  }

  /// Writes a delivery.
  /// - Returns: false when the session takes none any more.
  func deliver(_ delivery: Delivery) -> Bool {
    guard session.willDeliver(delivery) else { return false }
    send(.delivery(delivery))
    return true
  }

  func close(_ notice: Notice, now: Timestamp) {
    handle { $0.asked(toClose: notice, now: now, into: &$1) }
  }

  /// Keys or revocations have changed.
  func recheckToken(now: Timestamp) {
    handle { $0.recheckToken(loop.shared.tokens, now: now, into: &$1) }
  }

  /// An operator ends the session.
  func kick(now: Timestamp) {
    handle { $0.kicked(now: now, into: &$1) }
  }

  func tick(now: Timestamp) {
    handle { $0.tick(now: now, into: &$1) }
  }

  // MARK: A shard's new owner

  /// The command that announces this session to a shard's new owner; nil where the shard is not its user's.
  func announcement(toShard shard: Int) -> Command? {
    guard userShard == shard, let sender = session.sender, let body = session.announcement
    else { return nil }
    return command(0, from: sender, callee: sender.user, body)
  }

  /// The commands that tell a shard's new owner where the callers of its calls are: one `resume` for each
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
