/// How the shard keeps its calls: every change passes here, so that gauges, indices and deadlines stay right.
extension ShardMachine {
  /// - Returns: its slot, for as long as no call is removed.
  @discardableResult
  mutating func insert(_ call: Call) -> Int {
    let slot = calls.insert(call)
    if !call.isEnded { placedCalls.add(call) }
    users[call.facts.callee, default: User()].calls.append(call.id)
    tally.add(call.phase, 1)
    rearm(call.id, at: slot)
    return slot
  }

  /// Changes a call in place. Does nothing for an unknown call.
  mutating func mutate(_ id: CallID, _ body: (inout Call) -> Void) {
    if let slot = calls.slot(of: id) { mutate(id, at: slot, body) }
  }

  /// The same where the slot is known.
  mutating func mutate(_ id: CallID, at slot: Int, _ body: (inout Call) -> Void) {
    let change = calls[slot].change(limits.endedCallKept, body)
    if change.wantsPush { callsWantingPush.append(id) }
    if change.wantsOthers { callsWantingOthers.append(id) }
    if change.isSettledNow { settle(id, calls[slot].facts.callee) }
    if change.before != change.after {
      tally.add(change.before, -1)
      tally.add(change.after, 1)
      if change.after == .answered { tally.callsAnsweredTotal += 1 }
      if change.after == .ended {
        tally.callsEndedTotal += 1
        placedCalls.remove(id, by: calls[slot].callerKey)
      }
    }
    if let deadline = change.deadline { deadlines.insert(id, at: deadline) }
    // Also where it stays answered: the device that has it may have changed.
    if !boards.isEmpty, change.before == .answered || change.after == .answered {
      noteOngoing(of: calls[slot].facts.callee)
    }
  }

  mutating func rearm(_ id: CallID) {
    if let slot = calls.slot(of: id) { rearm(id, at: slot) }
  }

  private mutating func rearm(_ id: CallID, at slot: Int) {
    calls[slot].armedAt = .distantFuture
    let next = calls[slot].nextDeadline(limits.endedCallKept)
    if let deadline = calls[slot].arm(next) { deadlines.insert(id, at: deadline) }
  }

  private mutating func settle(_ id: CallID, _ callee: UserKey) {
    users[callee]?.settle(id)
  }

  mutating func forget(_ id: CallID) {
    guard let call = calls.remove(id) else { return }
    if !call.guests.isEmpty { noteGroupTalk(of: call) }
    if !call.isEnded { placedCalls.remove(id, by: call.callerKey) }
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
    let isEmpty = users[key]?.prune() ?? false
    if !boards.isEmpty { noteOngoing(of: key) }
    if !historyBoards.isEmpty { forgetWatchers(of: key) }
    if isEmpty { users[key] = nil }
  }
}

/// The consequences of a change of a call for its shard.
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
  fileprivate mutating func change(_ endedCallKept: Span, _ body: (inout Call) -> Void)
    -> CallChange
  {
    let before = standing
    body(&self)
    let after = look(endedCallKept)
    return CallChange(
      before: before.phase, after: after.standing.phase,
      isSettledNow: after.standing.isSettled && !before.isSettled, wantsPush: wantsPush,
      wantsOthers: wantsOthers, deadline: arm(after.deadline))
  }

  @inline(never)
  private var standing: (phase: CallPhase, isSettled: Bool) { (phase, isSettled) }

  /// One look for both, and not inlined: while the call changes, each look copies it.
  @inline(never)
  private func look(
    _ endedCallKept: Span
  ) -> (standing: (phase: CallPhase, isSettled: Bool), deadline: Timestamp) {
    (standing, nextDeadline(endedCallKept))
  }

  /// Arms an earlier deadline at once; a later one only when the armed one fires.
  /// - Returns: the deadline; nil where the armed one stays.
  fileprivate mutating func arm(_ next: Timestamp) -> Timestamp? {
    guard next < armedAt else { return nil }
    armedAt = next
    return next
  }
}
