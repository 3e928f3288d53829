/// How a call connects and how it ends.
extension Call {
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

  /// Whether the reply on this session is enough for the device to learn what its command did. If the device
  /// has begun another session since, its app may have forgotten the call and been invited anew, so it gets
  /// the end as a delivery, too.
  private func learnsByReply(_ endpoint: Endpoint, on session: SessionRef) -> Bool {
    endpoint.session.map { $0 == session } ?? true
  }

  mutating func connected(_ role: Role, _ turn: inout Turn)
    -> Reply
  {
    switch (stage, role) {
    case (.answered(let conversation), .caller):
      if !conversation.isCallerConnected {
        commit(.connected(caller: true), .slow, &turn)
      }
      return .done
    case (.answered(let conversation), .leg(let leg)) where leg == conversation.winner:
      if !conversation.isWinnerConnected {
        commit(.connected(caller: false), .slow, &turn)
      }
      return .done
    case (.ringing, _): return .error(CallError(.wrongState, "Nobody has answered yet."))
    case (.answered, _), (.ended, _): return .call(state(for: role))
    }
  }

  // MARK: Ends

  /// Ends the call and delivers the end to every device that it concerns.
  /// - Parameters:
  ///   - by: who caused it; nil where nobody did (a timeout).
  ///   - silent: whose device learns the end from the reply to its command, and gets no delivery.
  ///   - survivor: the crossing call to which this one gives way.
  ///   - byApp: the app's server ends it.
  mutating func end(
    _ reason: EndReason, by: Party?, silent: Role? = nil, survivor: CallID? = nil,
    byApp: Bool = false, _ turn: inout Turn
  ) {
    // Devices that ring for a transfer ring for a call that is over.
    if isTransferring { endTransfer(.cancelled, by: by, &turn) }
    let winner = winner
    // When the call was answered, those that had left were stopped already.
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
    tellGuests(&turn)
    settleIfAcknowledged(&turn)
  }

  private var unreachableCause: UnreachableCause {
    if !legs.isEmpty { return .lost }
    guard case .ringing(let ringing) = stage, !ringing.calleeHasDevices else { return .notWakeable }
    return .noDevice
  }

  /// Ends a ringing call when no leg is left that may answer (R19).
  mutating func endIfNobodyIsLeft(_ turn: inout Turn) {
    guard isSearching, !askForOthers(withLost: true, &turn), !awaitsGuests(at: turn.now) else {
      return
    }
    guard !legs.contains(where: { $0.state.isLive }) else {
      // Perhaps only devices that lost their sockets are left.
      watchLegs(turn)
      endIfUnreached(&turn)
      return
    }
    guard case .ringing(let ringing) = stage else { return endUnreached(&turn) }
    if waitsForFirst { return wantOthers() }
    // Where somebody refused, the caller has an answer. Otherwise unknown devices are waited for.
    let isRefused = legs.contains { $0.state.refusal != nil && rings($0.party.user) }
    if let until = ringing.sessionsUnknownUntil, turn.now < until, !isRefused {
      legsLostUntil = until
    } else {
      endUnreached(&turn)
    }
  }

  /// Ends the call if the time in which a lost leg may come back is over. Devices that wait for the first ones ring before.
  mutating func endIfUnreached(_ turn: inout Turn) {
    guard let until = legsLostUntil, until <= turn.now else { return }
    if waitsForFirst { return wantOthers() }
    if askForOthers(withLost: false, &turn) { return }
    endUnreached(&turn)
  }

  /// Nobody is left to answer: declined where a person said so, busy where a device did, else
  /// unreachable.
  mutating func endUnreached(_ turn: inout Turn) {
    if callNextMember(&turn) { return }
    let rung = legs.indices.filter { isInRound($0) && rings(legs[$0].party.user) }
    let refused = rung.last { legs[$0].state.refusal != nil }
    let decliner =
      rung.last { legs[$0].state.isDeclined }.map { legs[$0].party }
      ?? route.last { $0.reason == .declined }?.by
    if let decliner {
      giveUp(.declined, by: decliner, &turn)
    } else {
      let isBusy = refused != nil || guests.contains { $0.isBusy && rings($0.user) }
      if divertFromCallee(isBusy ? .busy : .unreachable, &turn) { return }
      giveUp(isBusy ? .busy : .unreachable, by: refused.map { legs[$0].party }, &turn)
    }
  }

  /// Nobody takes the call, or the side that is transferred.
  /// - Parameter silent: as of `end`.
  mutating func giveUp(
    _ reason: EndReason, by: Party?, silent: Role? = nil, _ turn: inout Turn
  ) {
    if isTransferring {
      endTransfer(reason, by: by, silent: silent, &turn)
    } else {
      end(reason, by: by, silent: silent, &turn)
    }
  }

  /// Once every device has acknowledged the end, a new owner of the shard need not deliver it again.
  mutating func settleIfAcknowledged(_ turn: inout Turn) {
    if caller.outbox.isEmpty, isAcknowledged { commit(.settled, .idle, &turn) }
  }

  /// One look for all conditions, and not inlined: where the call changes, each look at it copies it.
  @inline(never)
  private var isAcknowledged: Bool {
    isEnded && !isSettled && legs.allSatisfy { $0.endpoint.outbox.isEmpty }
      && formerCallers.allSatisfy { $0.endpoint.outbox.isEmpty }
  }
}
