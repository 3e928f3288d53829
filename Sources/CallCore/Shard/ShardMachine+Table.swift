/// How the shard keeps its calls: every change passes here, so that gauges, indices and deadlines stay right.
extension ShardMachine {
  mutating func insert(_ call: Call) {
    calls.insert(call)
    if !call.isEnded { placedCalls.add(call) }
    users[call.facts.callee, default: User()].calls.append(call.id)
    tally.add(call.phase, 1)
    rearm(call.id)
  }

  /// Changes a call in place. Does nothing for an unknown call.
  mutating func mutate(_ id: CallID, _ body: (inout Call) -> Void) {
    guard let slot = calls.slot(of: id) else { return }
    let before = calls[slot].phase
    let wasSettled = calls[slot].isSettled
    body(&calls[slot])
    let after = calls[slot].phase
    if calls[slot].wantsPush { callsWantingPush.append(id) }
    if calls[slot].isSettled, !wasSettled { settle(id, calls[slot].facts.callee) }
    if before != after {
      tally.add(before, -1)
      tally.add(after, 1)
      if after == .answered { tally.callsAnsweredTotal += 1 }
      if after == .ended {
        tally.callsEndedTotal += 1
        placedCalls.remove(calls[slot])
      }
    }
    arm(slot)
  }

  mutating func rearm(_ id: CallID) {
    guard let slot = calls.slot(of: id) else { return }
    calls[slot].armedAt = .distantFuture
    arm(slot)
  }

  /// Arms an earlier deadline at once; a later one only when the armed one fires.
  private mutating func arm(_ slot: Int) {
    let next = calls[slot].nextDeadline(limits)
    guard next < calls[slot].armedAt else { return }
    calls[slot].armedAt = next
    deadlines.insert(calls[slot].id, at: next)
  }

  private mutating func settle(_ id: CallID, _ callee: UserKey) {
    users[callee]?.calls.removeAll { $0 == id }
    users[callee]?.settledCalls.append(id)
  }

  mutating func forget(_ id: CallID) {
    guard let call = calls.remove(id) else { return }
    if !call.isEnded { placedCalls.remove(call) }
    tally.add(call.phase, -1)
    if call.isSettled {
      users[call.facts.callee]?.settledCalls.remove(id)
    } else {
      users[call.facts.callee]?.calls.removeAll { $0 == id }
    }
    tidy(call.facts.callee)
  }

  /// Forgets a user of whom there is nothing worth keeping.
  mutating func tidy(_ key: UserKey) {
    users[key]?.prune()
    if users[key]?.isEmpty == true { users[key] = nil }
  }
}
