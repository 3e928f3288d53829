/// Whom a call to a group rings.
extension ShardMachine {
  func targets(of group: CallGroup, _ key: UserKey, _ turn: borrowing Turn) -> DivertTargets {
    let each = Span.seconds(Int64(group.turnSeconds))
    switch group.order {
    case .together: return DivertTargets(group.users)
    case .inTurn: return DivertTargets(group.users, turn: each)
    case .longestIdle:
      var last = users[key]?.groupTalks ?? [:]
      for id in Array(users[key]?.settledCalls.all ?? []) + (users[key]?.calls ?? []) {
        guard let slot = calls.slot(of: id) else { continue }
        calls[slot].noteGroupTalk(in: &last, now: turn.now)
      }
      // Those of whom nothing is known keep their order.
      let sorted = group.users.enumerated().sorted { one, other in
        let (a, b) = (last[bytes(one.element)], last[bytes(other.element)])
        let never = Timestamp(microseconds: 0)
        return a == b ? one.offset < other.offset : a ?? never < b ?? never
      }
      return DivertTargets(sorted.map(\.element), turn: each)
    }
  }

  /// The call is about to be forgotten: who had it stays known.
  mutating func noteGroupTalk(of call: Call) {
    let key = call.facts.callee
    guard users[key]?.rules?.group?.order == .longestIdle else { return }
    call.noteGroupTalk(in: &users[key, default: User()].groupTalks, now: call.facts.placedAt)
  }
}

/// Names that are equal by Unicode's rules are different users.
private func bytes(_ user: String) -> [UInt8] { Array(user.utf8) }

extension Call {
  /// Notes until when a member has talked.
  fileprivate func noteGroupTalk(in last: inout [[UInt8]: Timestamp], now: Timestamp) {
    guard let answer, !guests.isEmpty else { return }
    let until = if case .ended(let ending) = stage { ending.facts.at } else { now }
    let user = bytes(answer.by.user)
    // Policy: remember no more than a group has.
    guard last[user] != nil || last.count < CallGroup.usersMax * 2 else { return }
    last[user] = max(last[user] ?? until, until)
  }
}
