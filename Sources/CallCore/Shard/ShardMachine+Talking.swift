/// Who is in a call. Calls to a user are in its own shard; of those that it placed its edges tell.
extension ShardMachine {
  /// A session's edge tells the answered calls that its device has placed.
  mutating func talking(_ command: Command, _ talking: Talking, _ turn: inout Turn) {
    users[command.user]?.withDevice(command.device) { device in
      guard device.session == command.session else { return }
      device.take(talking)
    }
    turn.reply(command, .done, command.body.urgency)
  }

  /// Whether a user is in an answered call, placed by it or to it.
  func isInCall(_ key: UserKey, _ turn: borrowing Turn) -> Bool {
    guard let user = users[key] else { return false }
    let now = turn.now
    return user.devices.contains { $0.isTalking(at: now, limits) }
      || user.calls.contains { id in calls.slot(of: id).map { calls[$0].phase } == .answered }
  }
}

extension User.Device {
  /// Of its present session. What was retransmitted may be older than what is known.
  mutating func take(_ talking: Talking) {
    if talkingStaleSince == nil, let known = self.talking, talking.number < known.number { return }
    self.talking = talking
    talkingStaleSince = nil
  }
}
