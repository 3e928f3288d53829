/// The members whom a call to a group rings, and their order.
extension ShardMachine {
  func targets(of group: CallGroup, _ key: UserKey, _ turn: borrowing Turn) -> DivertTargets {
    let ringSlot = Span.seconds(Int64(group.turnSeconds))
    switch group.order {
    case .together: return DivertTargets(group.users)
    case .inTurn: return DivertTargets(group.users, ringSlot: ringSlot)
    case .longestIdle:
      var last = users[key]?.groupTalks ?? [:]
      for id in Array(users[key]?.settledCalls.all ?? []) + (users[key]?.calls ?? []) {
        guard let slot = calls.slot(of: id) else { continue }
        calls[slot].noteGroupTalk(in: &last)
      }
      // The order is stable: members without a known call stay as listed.
      let sorted = group.users.enumerated().sorted { one, other in
        let (a, b) = (last[bytes(one.element)], last[bytes(other.element)])
        let never = Timestamp(microseconds: 0)
        return a == b ? one.offset < other.offset : a ?? never < b ?? never
      }
      return DivertTargets(sorted.map(\.element), ringSlot: ringSlot)
    }
  }

  /// The call is about to be forgotten. The member who had it stays noted while it is a member.
  mutating func noteGroupTalk(of call: Call) {
    let key = call.facts.callee
    guard let group = users[key]?.rules?.group, group.order == .longestIdle else { return }
    var last = users[key]?.groupTalks ?? [:]
    call.noteGroupTalk(in: &last)
    let members = Set(group.users.map(bytes))
    users[key]?.groupTalks = last.filter { members.contains($0.key) }
  }
}

/// Names that are equal by Unicode's rules are different users.
private func bytes(_ user: String) -> [UInt8] { Array(user.utf8) }

extension Call {
  /// Notes when a member's call ended. A member who still talks is not rung, whatever stands here.
  fileprivate func noteGroupTalk(in last: inout [[UInt8]: Timestamp]) {
    guard let answer, !guests.isEmpty else { return }
    let until = if case .ended(let ending) = stage { ending.facts.at } else { answer.at }
    let user = bytes(answer.by.user)
    last[user] = max(last[user] ?? until, until)
  }
}
