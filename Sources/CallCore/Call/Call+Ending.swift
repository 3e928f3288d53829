/// How a call ends, and who has missed it.
extension Call {
  // MARK: Commands

  /// - Parameter session: where the command came from, and where the reply goes.
  mutating func cancel(on session: SessionRef, _ turn: inout Turn) -> Reply {
    if isRinging {
      end(
        .cancelled, by: facts.caller, silent: learnsByReply(caller, on: session) ? .caller : nil,
        &turn)
    }
    return .call(state(for: .caller))
  }

  /// - Parameter session: where the command came from, and where the reply goes.
  mutating func hangUp(_ role: Role, on session: SessionRef, _ turn: inout Turn) -> Reply {
    switch (stage, role) {
    case (.ringing, .caller): return cancel(on: session, &turn)
    case (.ringing, .leg), (.ringing, .formerCaller), (.ringing, .calleeDevice):
      return .error(CallError(.wrongState, "The call is not answered: decline it instead."))
    case (.answered, .caller):
      end(
        .hungUp, by: facts.caller, silent: learnsByReply(caller, on: session) ? .caller : nil, &turn
      )
    case (.answered, .leg) where isRung(role):
      return .error(CallError(.wrongState, "This device has not answered: decline instead."))
    case (.answered, .leg(let leg)) where legs[leg].state == .won:
      let isSilent = learnsByReply(legs[leg].endpoint, on: session)
      end(.hungUp, by: legs[leg].party, silent: isSilent ? .leg(leg) : nil, &turn)
    case (.answered, _), (.ended, _), (.ringing, .stranger): break
    }
    return .call(state(for: role))
  }

  /// Whether the reply on this session is enough for the device to learn what its command did. If the device has begun
  /// another session since, its app may have been restarted and invited again, so it gets the end as a delivery, too.
  private func learnsByReply(_ endpoint: Endpoint, on session: SessionRef) -> Bool {
    endpoint.session.map { $0 == session } ?? true
  }

  // MARK: The end

  /// Ends the call and delivers the end to every device that it concerns.
  /// - Parameters:
  ///   - by: the party that caused it; nil: a timeout did.
  ///   - silent: the role whose device learns the end from the reply to its command, and gets no delivery.
  ///   - survivor: the crossing call to which this one gives way.
  ///   - byApp: the app's server ends it.
  mutating func end(
    _ reason: EndReason, by: Party?, silent: Role? = nil, survivor: CallID? = nil,
    byApp: Bool = false, _ turn: inout Turn
  ) {
    // Devices that ring for a transfer ring for a call that is over.
    if isTransferring { endTransfer(.cancelled, by: by, &turn) }
    let winner = winner
    // Devices that had left before the answer were stopped by it.
    let live = legs.indices.filter {
      winner == nil ? legs[$0].state.mayStillRing : legs[$0].state.isLive
    }
    let isMissed = isMissed(endingAs: reason)
    let isPushed = winner == nil && (hasRingPushUnderWay || legs.contains { $0.ringPush.mayRing })
    if isMissed || isPushed { wantsPush = true }
    let facts = EndedFacts(
      reason: reason, by: by, at: turn.now, missed: isMissed, survivor: survivor,
      unreachable: reason == .unreachable ? unreachableCause : nil, byApp: byApp)
    commit(.ended(facts), reason == .hungUp ? .relaxed : .urgent, &turn)
    if !turn.storedParts.isEmpty { requestStoring(&turn) }
    caller.clear()
    if case .caller = silent {
    } else {
      deliverToCaller(.stop(facts.stop(for: nil)), &turn)
    }
    for leg in live {
      if case .leg(leg) = silent {
        legs[leg].endpoint.clear()
      } else {
        stop(leg: leg, stop(of: facts, for: leg), &turn)
      }
    }
    if let winner {
      legs[winner].endpoint.clear()
      if case .leg(winner) = silent {
      } else {
        if let vacancyNews { deliver(to: winner, .transfer(vacancyNews), &turn) }
        deliver(to: winner, .stop(facts.stop(for: nil)), &turn)
      }
    }
    notifyGuests(&turn)
    settleIfAcknowledged(&turn)
  }

  private var unreachableCause: UnreachableCause {
    if !legs.isEmpty { return .lost }
    guard case .ringing(let ringing) = stage, !ringing.calleeHasDevices else { return .notWakeable }
    return .noDevice
  }

  /// Once every device has acknowledged the end, a new owner of the shard need not deliver it again.
  mutating func settleIfAcknowledged(_ turn: inout Turn) {
    if caller.outbox.isEmpty, isAcknowledged { commit(.settled, .idle, &turn) }
  }

  /// One function for all conditions, and not inlined: where the call changes, each read of it copies it.
  @inline(never)
  private var isAcknowledged: Bool {
    isEnded && !isSettled && legs.allSatisfy { $0.endpoint.outbox.isEmpty }
      && formerCallers.allSatisfy { $0.endpoint.outbox.isEmpty }
  }

  mutating func applyEnded(_ end: EndedFacts) -> Bool {
    guard becomeEnded(end) else { return false }
    for index in legs.indices where legs[index].state.isLive {
      let declined =
        end.reason == .declined && end.by.map { legs[index].key == facts.key(of: $0) } == true
      legs[index].state = declined ? .declined(at: nil) : .stopped
    }
    noteEnd(end)
    releaseMemory()
    return true
  }

  private mutating func noteEnd(_ end: EndedFacts) {
    let by = end.by.flatMap { party -> UInt8? in
      if party.user.hasBytes(of: facts.caller.user), party.device == facts.caller.device {
        return CallTimeline.caller
      }
      return legIndex(party).map { UInt8(clamping: $0) }
    }
    let what: CallTimeline.What =
      switch end.reason {
      case _ where end.byApp: .endedByApp
      case .declined: .declined
      case .cancelled: .cancelled
      case .hungUp: .hungUp
      case .answeredElsewhere, .unanswered, .busy, .unreachable, .failed, .glare, .moved,
        .transferred:
        .ended
      }
    timeline.note(what, by ?? CallTimeline.call, at: end.at)
  }

  /// An ended call is kept for devices that come late, which need no descriptions and candidates.
  private mutating func releaseMemory() {
    callerSignals.release()
    for index in moves.indices { moves[index].description = "" }
    facts.description = ""
    facts.headers = []
    facts.pushData = ""
    caller.clear()
    for index in legs.indices {
      // Deliveries to the other legs say that these lost, which stays true.
      if legs[index].state == .won { legs[index].endpoint.clear() }
      legs[index].signals.release()
    }
  }

  // MARK: Crossing calls

  /// Gives way to a crossing call (R8). `Crossing` has the rules.
  ///
  /// A call that was answered meanwhile goes on, and the other one has to give way.
  /// - Parameter by: the callee's device that placed the other one.
  mutating func giveWay(to crossed: CrossedCall, by: Party, _ turn: inout Turn) {
    switch stage {
    case .ringing:
      let isOther = Crossing.survives(
        crossed.survivor, caller: facts.callee.user, over: id, caller: facts.caller.user)
      guard isOther || crossed.isSurvivorAnswered else { return }
      end(.glare, by: by, survivor: crossed.survivor, &turn)
      // If the survivor was answered, the device needs only the end of its own call.
      if !crossed.isSurvivorAnswered { requestMerge(&turn) }
    // Where another user has answered, the callee's own call rings beside this one.
    case .answered where !crossed.isSurvivorAnswered && isTalking(facts.callee.user):
      let reverse = CrossedCall(
        call: crossed.survivor, caller: facts.callee.user, survivor: id, by: facts.caller.device,
        isSurvivorAnswered: true)
      notifyCallersShard(.crossed(reverse), since: turn.now, &turn)
    case .answered, .ended: break
    }
  }

  /// Asks the surviving call's shard, which is the shard of this call's caller, to connect the caller's device. A new
  /// owner asks again: the confirmation is not journalled, and the request is idempotent.
  func requestMerge(_ turn: inout Turn) {
    guard case .ended(let ending) = stage, let survivor = ending.facts.survivor else { return }
    let request = MergeRequest(
      call: survivor, merged: id, caller: facts.callee.user, deviceName: facts.caller.deviceName)
    notifyCallersShard(.merge(request), since: ending.facts.at, &turn)
  }

  private func notifyCallersShard(
    _ body: Command.Body, since: Timestamp, _ turn: inout Turn
  ) {
    let until = since + turn.limits.mergeTimeout
    guard turn.now < until else { return }
    turn.perform(.tell(callerKey, facts.caller.device, body, until: until))
  }

  // MARK: Missed calls

  // A user has missed a call that came to the user and was neither answered nor declined there. Stops, notices, numbers
  // in pushes and histories all follow from these functions, so they agree.

  /// Whether a user has declined on a device, and so has seen the call.
  func hasDeclined(_ user: String) -> Bool {
    legs.contains { $0.state.isDeclined && $0.party.user.hasBytes(of: user) }
  }

  /// Whether the call, if it ends now, is missed by a user whom it rings.
  func isMissed(endingAs reason: EndReason) -> Bool {
    reason.isMissedCall
      && (!legs.contains { $0.state.isDeclined }
        || guests.contains { rings($0.user) && !hasDeclined($0.user) })
  }

  /// Adapts a stop to one user: the call is not missed by a user who has declined it, or has it since by calling back.
  func adapted(_ stop: Stop, to user: String) -> Stop {
    var stop = stop
    let calledBack = answer.map { $0.merged != nil && $0.by.user.hasBytes(of: user) } ?? false
    if stop.missed, calledBack && transfers.isEmpty || hasDeclined(user) { stop.missed = false }
    return stop
  }

  /// The stop by which a device learns the end.
  /// - Parameter leg: a leg that has not answered.
  func stop(of end: EndedFacts, for leg: Int) -> Stop {
    adapted(end.stop(for: legs[leg].key), to: legs[leg].party.user)
  }

  /// How a transfer ended for a user whom it rang in vain; nil: it rings on, or was taken while it rang there.
  func end(of transfer: Transfer, for user: String) -> (stop: Stop, at: Timestamp)? {
    var ended: (stop: Stop, at: Timestamp)?
    if let end = transfer.failure {
      ended = (Stop(reason: end.reason, by: end.by, missed: end.reason.isMissedCall), end.at)
    }
    // For the transfer's target it fails when the whole transfer does, unless it rang there in vain and another user
    // declined it later.
    let left = transfer.diversions.dropFirst().first { $0.from.hasBytes(of: user) }
    let isMissedBefore = left?.stop.missed == true && ended?.stop.missed == false
    if let left, ended == nil || isMissedBefore || !user.hasBytes(of: transfer.target) {
      let isLate = left.reason == .ringSlotOver && ended?.stop.missed == true
      ended = (left.stop, left.at)
      if isLate { ended?.stop.missed = true }
    }
    return ended.map { (adapted($0.stop, to: user), $0.at) }
  }

  /// The last transfer that a user has missed, while the call goes on and has no entry in a history yet. The entry of a
  /// user who had the call before is not missed.
  func missedTransfer(by user: String) -> PlacedCall? {
    guard case .answered(let conversation) = stage,
      !([placer, conversation.answer.by] + moves.map(\.to)).contains(where: {
        $0.user.hasBytes(of: user)
      })
    else { return nil }
    let missed = transfers.last {
      $0.rang(user) && end(of: $0, for: user)?.stop.missed == true
    }
    return missed.map { PlacedCall(id, placedAt: $0.start.at) }
  }
}
