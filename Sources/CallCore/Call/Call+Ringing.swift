/// A call that rings, at first or for a transfer: which devices ring, their commands, and what follows when none of
/// them is left to answer.
extension Call {
  /// Whether a device rings now.
  func isRung(_ role: Role) -> Bool {
    guard case .leg(let leg) = role else { return false }
    return isInRound(leg) && legs[leg].state.isLive
  }

  // MARK: Inviting

  /// The invite of a leg, as it would be sent now.
  func invite(of leg: Int) -> Invite {
    if let transfer, isInRound(leg) { return invite(of: leg, for: transfer) }
    var invite = Invite(
      caller: facts.caller, deadline: facts.deadline, video: facts.video,
      description: facts.description, headers: facts.headers, pushData: facts.pushData,
      signals: callerSignals.waiting, isSecondCall: facts.isCalleeInCall)
    guard !diversions.isEmpty else { return invite }
    let user = legs[leg].party.user
    invite.divertedBy = divertedBy(of: user)
    if let guest = guest(user) { invite.isSecondCall = guests[guest].isInCall }
    return invite
  }

  /// Rings a device: sends the invite, with all that the caller has sent so far.
  mutating func invite(leg: Int, _ turn: inout Turn) {
    guard legs[leg].endpoint.session != nil else { return }
    legs[leg].endpoint.clear()
    legs[leg].invitation = legs[leg].invitation.wasSent ? .resent : .sent
    // Past its deadline the call ends in a moment, and that stops the device.
    guard facts.deadline > turn.now else { return }
    deliver(to: leg, .invite(invite(of: leg)), &turn)
    timeline.note(.invited, UInt8(clamping: leg), at: turn.now)
    planPushAfterSilence(leg, turn)
  }

  /// A device that attaches late (R5) rings, too.
  mutating func join(_ party: Party, _ session: SessionRef, _ turn: inout Turn) {
    guard legs.count < turn.limits.legsPerCallLifetime else { return }
    commit(.legJoined(party), .urgent, &turn)
    guard let leg = legIndex(party) else { return }
    legs[leg].endpoint.session = session
    legsLostUntil = nil
    invite(leg: leg, &turn)
  }

  mutating func applyJoined(_ party: Party, at now: Timestamp) -> Bool {
    guard let leg = legIndex(party) else {
      legs.append(Leg(party: party, key: facts.key(of: party)))
      if isTransferring { ringAgain(legs.count - 1, party) }
      timeline.note(.joined, UInt8(clamping: legs.count - 1), at: now)
      return true
    }
    if isTransferring, !isInRound(leg) {
      guard leg != winner else { return false }
      ringAgain(leg, party)
      legs[leg].hadPart = true
      timeline.note(.joined, UInt8(clamping: leg), at: now)
      return true
    }
    // A device that had left is back.
    guard isSearching, case .gone = legs[leg].state else { return false }
    legs[leg].state = .waking
    return true
  }

  // MARK: Commands of the devices that ring

  mutating func alerting(_ leg: Int, _ turn: inout Turn) -> Reply {
    if isOfEarlierRinging(leg) { return .call(stateBeforeTransfer(leg)) }
    inviteAcknowledged(leg, &turn)
    guard isRung(.leg(leg)) else { return .call(state(for: .leg(leg))) }
    if legs[leg].state != .alerting {
      let first = !legs.contains { $0.state == .alerting }
      commit(.alerting(legs[leg].key), .relaxed, &turn)
      if first { deliverRinging(by: legs[leg].party, &turn) }
    }
    return .call(state(for: .leg(leg)))
  }

  /// - Parameter session: where the command came from, and where the reply goes. If the device was invited on
  ///   another session, its app gets a delivery there as well: another process of the phone may have declined, with
  ///   the credentials of a push.
  mutating func decline(
    _ leg: Int, _ scope: DeclineScope, on session: SessionRef, _ turn: inout Turn
  ) -> Reply {
    if isOfEarlierRinging(leg) { return .call(stateBeforeTransfer(leg)) }
    inviteAcknowledged(leg, &turn)
    guard isRung(.leg(leg)) else { return lateRefusal(leg) }
    let ringsElsewhere = ringsElsewhere(leg, than: session)
    switch scope {
    case .everywhere where next(after: legs[leg].party.user) != nil:
      let by = legs[leg].party
      let isNext = callNext(
        after: by.user, .declined, by: by, silent: ringsElsewhere ? nil : leg, &turn)
      // No next member rings if the time that the caller chose is over.
      if !isNext { giveUp(.declined, by: by, silent: ringsElsewhere ? nil : .leg(leg), &turn) }
    case .everywhere where ringsOthers(than: legs[leg].party.user, at: turn.now):
      declineForUser(leg, isSilent: !ringsElsewhere, &turn)
    case .everywhere:
      giveUp(.declined, by: legs[leg].party, silent: ringsElsewhere ? nil : .leg(leg), &turn)
    case .here:
      refuse(leg, .declinedHere, ringsElsewhere: ringsElsewhere, &turn)
    }
    return .call(state(for: .leg(leg)))
  }

  /// - Parameter session: as for `decline`.
  mutating func busy(_ leg: Int, on session: SessionRef, _ turn: inout Turn) -> Reply {
    if isOfEarlierRinging(leg) { return .call(stateBeforeTransfer(leg)) }
    inviteAcknowledged(leg, &turn)
    guard isRung(.leg(leg)) else { return lateRefusal(leg) }
    refuse(leg, .busy, ringsElsewhere: ringsElsewhere(leg, than: session), &turn)
    return .call(state(for: .leg(leg)))
  }

  private func ringsElsewhere(_ leg: Int, than session: SessionRef) -> Bool {
    legs[leg].invitation.wasSent && legs[leg].endpoint.session != session
  }

  /// One device stops, the others ring on.
  private mutating func refuse(_ leg: Int, _ end: LegEnd, ringsElsewhere: Bool, _ turn: inout Turn)
  {
    commit(.legEnded(legs[leg].key, end, at: turn.now), .urgent, &turn)
    if ringsElsewhere { confirmRefusal(leg, &turn) }
    endIfNobodyIsLeft(&turn)
  }

  /// Confirms on a device's session that it declined or was busy, by a stop.
  mutating func confirmRefusal(_ leg: Int, _ turn: inout Turn) {
    guard let refusal = legs[leg].state.refusal else { return }
    stop(leg: leg, Stop(reason: refusal.reason, by: legs[leg].party), decided: refusal.at, &turn)
  }

  /// The reply to a decline or busy that comes too late (R7). The winner learns how to end its call.
  private func lateRefusal(_ leg: Int) -> Reply {
    if case .answered = stage, legs[leg].state == .won {
      return .error(CallError(.wrongState, "This device answered the call: hang up to end it."))
    }
    return .call(state(for: .leg(leg)))
  }

  mutating func applyAlerting(_ device: DeviceID, at now: Timestamp) -> Bool {
    guard let leg = legIndex(device), legs[leg].state.isLive else { return false }
    legs[leg].state = .alerting
    if hasWebhooks, firstAlerting == nil, isRinging {
      firstAlerting = FirstAlerting(leg: UInt8(clamping: leg), at: now)
    }
    timeline.note(.alerting, UInt8(clamping: leg), at: now)
    return true
  }

  /// - Parameter at: nil in records of versions that did not store it.
  mutating func applyLegEnded(
    _ device: DeviceID, _ end: LegEnd, at: Timestamp?, readAt: Timestamp
  ) -> Bool {
    guard let leg = legIndex(device), legs[leg].state.isLive else { return false }
    let endedAt = at ?? facts.placedAt
    let what: CallTimeline.What
    switch end {
    case .declinedHere: (legs[leg].state, what) = (.declined(at: endedAt), .declinedHere)
    case .busy: (legs[leg].state, what) = (.busy(at: endedAt), .busy)
    case .gone: (legs[leg].state, what) = (.gone(at: endedAt), .left)
    }
    timeline.note(what, UInt8(clamping: leg), at: at ?? readAt)
    legs[leg].endpoint.clear()
    legs[leg].signals.dropWaiting()
    legs[leg].ringPush.legEnded()
    return true
  }

  // MARK: The devices that are left

  /// Ends a ringing call when no leg is left that may answer (R19).
  mutating func endIfNobodyIsLeft(_ turn: inout Turn) {
    guard isSearching, !askForOthers(withLost: true, &turn), !awaitsGuests(at: turn.now) else {
      return
    }
    guard !legs.contains(where: { $0.state.isLive }) else {
      // All that are left may have lost their sockets.
      watchLegs(turn)
      endIfUnreached(&turn)
      return
    }
    guard case .ringing(let ringing) = stage else { return endUnreached(&turn) }
    if waitsForFirst { return wantOthers() }
    // If a device refused, the caller gets that at once. Otherwise the call waits for devices that are still unknown.
    let isRefused = legs.contains { $0.state.refusal != nil && rings($0.party.user) }
    if let until = ringing.sessionsUnknownUntil, turn.now < until, !isRefused {
      legsLostUntil = until
    } else {
      endUnreached(&turn)
    }
  }

  /// Ends the call if the time in which a lost leg may come back is over, unless devices that waited for the first ones
  /// ring then.
  mutating func endIfUnreached(_ turn: inout Turn) {
    guard let until = legsLostUntil, until <= turn.now else { return }
    if waitsForFirst { return wantOthers() }
    if askForOthers(withLost: false, &turn) { return }
    endUnreached(&turn)
  }

  /// No device is left to answer. The call ends as declined if a person declined, as busy if a device was busy, or else
  /// as unreachable.
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

  /// Ends the call, or the transfer for which it rings: no device takes it.
  /// - Parameter silent: as for `end`.
  mutating func giveUp(
    _ reason: EndReason, by: Party?, silent: Role? = nil, _ turn: inout Turn
  ) {
    if isTransferring {
      endTransfer(reason, by: by, silent: silent, &turn)
    } else {
      end(reason, by: by, silent: silent, &turn)
    }
  }

  /// While a call rings and no device of the callee has a session or is being woken, the call lasts only as
  /// long as one may come back.
  mutating func watchLegs(_ turn: borrowing Turn) {
    guard isSearching, !awaitsGuests(at: turn.now) else { return }
    if legs.contains(where: { $0.state.isLive && $0.isReachable }) {
      legsLostUntil = nil
    } else if legsLostUntil == nil {
      legsLostUntil = lostLegsGrace(turn)
    }
  }

  /// Devices of the callee may be on their way to an edge until then.
  mutating func awaitDevices(until: Timestamp) {
    changeRinging { $0.sessionsUnknownUntil = until }
    if let lost = legsLostUntil { legsLostUntil = max(lost, until) }
  }

  /// A device that rang has longer to come back than one that was never reached.
  private func lostLegsGrace(_ turn: borrowing Turn) -> Timestamp {
    var until = turn.now
    if case .ringing(let ringing) = stage, let unknown = ringing.sessionsUnknownUntil {
      until = max(until, unknown)
    }
    for leg in legs where leg.state.isLive {
      switch leg.invitation {
      case .notSent(let awaitedUntil): until = max(until, awaitedUntil ?? until)
      case .sent, .resent, .sentByFormerOwner:
        until = max(until, turn.now + turn.limits.resumeGraceRinging)
      }
    }
    return until
  }

  // MARK: Time

  mutating func tickRinging(_ ringing: CallStage.Ringing, _ turn: inout Turn) {
    func isOver(_ time: Timestamp?) -> Bool { time.map { $0 <= turn.now } ?? false }
    if isOver(facts.deadline) {
      end(.unanswered, by: nil, &turn)
    } else if isOver(ringing.callerLostUntil) {
      end(.cancelled, by: facts.caller, &turn)
    } else if isOver(ringing.othersAt) {
      wantOthers()
    } else if isOver(ringing.legsLostUntil) {
      endIfUnreached(&turn)
    } else if legs.contains(where: { $0.ringPush.dueAt <= turn.now }) {
      wantsPush = true
    }
  }

  // MARK: First devices

  // Some devices of a user ring first, by the user's rules (R27). The others ring as well once the first ones had their
  // time, or none of them is left.

  /// Whether the callee's first devices ring alone.
  @inline(never)
  var waitsForFirst: Bool {
    if case .ringing(let ringing) = stage { ringing.othersAt != .distantFuture } else { false }
  }

  /// Whether a device of the callee is to wait until the first ones have rung alone.
  func waitsForFirst(_ party: Party) -> Bool {
    waitsForFirst && party.user.hasBytes(of: facts.callee.user)
      && !forwarding.firstDevices.contains(party.device)
  }

  /// Has the shard ring the callee's other devices.
  mutating func wantOthers() {
    changeRinging { $0.othersAt = .distantFuture }
    wantsOthers = true
  }

  /// Asks the shards of users of whom no first device rings any longer to let their other devices ring.
  /// - Parameter withLost: whether a first device that has lost its session counts as ringing.
  /// - Returns: whether the call waits for an answer now.
  mutating func askForOthers(withLost: Bool, _ turn: inout Turn) -> Bool {
    var isAsked = false
    for index in guests.indices {
      let guest = guests[index]
      guard guest.holdsDevices, !guest.wantsOthers, !guest.isAwaited, !guest.isBusy,
        rings(guest.user), transfer?.start.device == nil
      else { continue }
      let isRung = legs.contains {
        $0.state.isLive && (withLost || $0.isReachable) && $0.party.user.hasBytes(of: guest.user)
      }
      if isRung { continue }
      guests[index].awaitOthers(at: turn.now)
      isAsked = true
    }
    if isAsked {
      legsLostUntil = nil
      visitGuests(&turn)
    }
    return isAsked
  }
}
