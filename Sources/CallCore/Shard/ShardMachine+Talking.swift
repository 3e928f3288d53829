/// Users in calls. A user's shard has the calls to the user. Edges report the answered ones that the user placed.
extension ShardMachine {
  /// An edge reports the answered calls that a session's device has placed.
  mutating func talking(_ command: Command, _ talking: Talking, _ turn: inout Turn) {
    if users[command.user]?.device(command.device)?.session == command.session {
      users[command.user]?.withDevice(command.device) { $0.replaceTalking(with: talking) }
      noteOngoing(of: command.user)
    }
    turn.reply(command, .done, command.body.urgency)
  }

  /// Whether a user is in an answered call, placed by it or to it.
  func isInCall(_ key: UserKey, _ turn: borrowing Turn) -> Bool {
    if !visits.isEmpty, visits.isInCall(key, now: turn.now) { return true }
    guard let user = users[key] else { return false }
    let now = turn.now
    return user.devices.contains { $0.isTalking(at: now, limits) }
      || user.calls.contains { id in
        calls.slot(of: id).map { calls[$0].isTalking(key.user) } == true
      }
  }
}

extension User.Device {
  /// As many as an edge reports. Policy: ignore more.
  private static let talkingMax = 16

  /// Its present session reports anew. A retransmitted report may be older than the last one.
  mutating func replaceTalking(with talking: Talking) {
    if talkingStaleSince == nil, let known = self.talking, talking.number < known.number { return }
    self.talking = Talking(
      number: talking.number, calls: Array(talking.calls.prefix(Self.talkingMax)),
      details: Array(talking.details.prefix(Self.talkingMax)))
    talkingStaleSince = nil
  }
}
