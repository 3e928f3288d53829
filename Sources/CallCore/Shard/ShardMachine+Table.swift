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
    let change = calls[slot].change(limits, body)
    if change.wantsPush { callsWantingPush.append(id) }
    if change.wantsOthers { callsWantingOthers.append(id) }
    if change.isSettledNow { settle(id, calls[slot].facts.callee) }
    if change.before != change.after {
      tally.add(change.before, -1)
      tally.add(change.after, 1)
      if change.after == .answered { tally.callsAnsweredTotal += 1 }
      if change.after == .ended {
        tally.callsEndedTotal += 1
        placedCalls.remove(calls[slot])
      }
    }
    if let deadline = change.deadline { deadlines.insert(id, at: deadline) }
    // Also where it stays answered: the device that has it may have changed.
    if !boards.isEmpty, change.before == .answered || change.after == .answered {
      noteOngoing(of: calls[slot].facts.callee)
    }
  }

  mutating func rearm(_ id: CallID) {
    guard let slot = calls.slot(of: id) else { return }
    calls[slot].armedAt = .distantFuture
    if let deadline = calls[slot].arm(limits) { deadlines.insert(id, at: deadline) }
  }

  private mutating func settle(_ id: CallID, _ callee: UserKey) {
    users[callee]?.calls.removeAll { $0 == id }
    users[callee]?.settledCalls.append(id)
  }

  mutating func forget(_ id: CallID) {
    guard let call = calls.remove(id) else { return }
    if !call.guests.isEmpty { noteGroupTalk(of: call) }
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
    if !boards.isEmpty { noteOngoing(of: key) }
    if !historyBoards.isEmpty { forgetWatchers(of: key) }
    if users[key]?.isEmpty == true { users[key] = nil }
  }
}

/// What a change of a call means for its shard.
private struct CallChange {
  let before: CallPhase
  let after: CallPhase
  let isSettledNow: Bool
  let wantsPush: Bool
  let wantsOthers: Bool
  /// To be put into the shard's queue.
  let deadline: Timestamp?
}

extension Call {
  /// Changes the call. All that the shard needs to know is read here: elsewhere each look would copy the call.
  fileprivate mutating func change(_ limits: CallLimits, _ body: (inout Call) -> Void) -> CallChange
  {
    let (before, wasSettled) = (phase, isSettled)
    body(&self)
    return CallChange(
      before: before, after: phase, isSettledNow: isSettled && !wasSettled, wantsPush: wantsPush,
      wantsOthers: wantsOthers, deadline: arm(limits))
  }

  /// Arms an earlier deadline at once; a later one only when the armed one fires.
  /// - Returns: the deadline; nil where the armed one stays.
  fileprivate mutating func arm(_ limits: CallLimits) -> Timestamp? {
    let next = nextDeadline(limits)
    guard next < armedAt else { return nil }
    armedAt = next
    return next
  }
}
