internal import CallCore
internal import CallWire

/// Deliveries of shards, and announcements to a shard's new owner.
extension WebSocketHandler {
  /// Writes a delivery.
  /// - Returns: false when the session takes none any more.
  func deliver(_ delivery: Delivery) -> Bool {
    guard session.willDeliver(delivery) else { return false }
    send(.delivery(delivery))
    return true
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
