/// Pushes that make devices ring: which devices get one, and when.
///
/// Each push is a fact first: whatever is retransmitted, a device gets one push of a purpose for a call. The
/// call knows which of its legs a push can wake, and when one is due. Tokens and capabilities are in the
/// registrations, which the shard passes to `push`.
extension Call {
  // MARK: When

  /// A leg has no session to ring on, or lost it: schedules the push of its device.
  mutating func planPush(_ leg: Int, at time: Timestamp, _ turn: borrowing Turn) {
    guard legs[leg].state.isLive, legs[leg].ringPush.schedule(at: time) else { return }
    if time <= turn.now { wantsPush = true }
  }

  /// A device with a session is pushed if it does not acknowledge the invite in time.
  mutating func planPushAfterSilence(_ leg: Int, _ turn: borrowing Turn) {
    planPush(leg, at: turn.now + turn.limits.pushAfterSilence, turn)
  }

  /// A leg lost its session in mid-ring. Its device is pushed at once if it ended the session itself, or had
  /// not acknowledged the invite. Otherwise it rings already, and is most likely on its way back; it may
  /// also have been put to sleep.
  /// - Returns: whether a push is to bring the device back.
  mutating func planPushAfterLoss(_ leg: Int, graceful: Bool, _ turn: borrowing Turn) -> Bool {
    let isAtOnce = legs[leg].state == .waking || graceful
    planPush(leg, at: isAtOnce ? turn.now : turn.now + turn.limits.reattachGrace, turn)
    return legs[leg].isReachable
  }

  /// A device registered a token in mid-ring.
  mutating func becameWakeable(_ device: DeviceID, _ turn: borrowing Turn) {
    guard let leg = legIndex(device), isRung(.leg(leg)) else { return }
    legs[leg].ringPush.becamePossible()
    guard legs[leg].state == .waking, legs[leg].ringPush == .idle else { return }
    if legs[leg].endpoint.session == nil {
      planPush(leg, at: turn.now, turn)
    } else {
      planPushAfterSilence(leg, turn)
    }
  }

  // MARK: Carried out

  /// Carries out the pushes that are due.
  /// - Parameter devices: the callee's, as they are registered now. The call knows those of other users.
  mutating func push(_ devices: [User.Device], _ turn: inout Turn) {
    wantsPush = false
    if !isSearching, !isPushWithdrawn, hasRingPushUnderWay { withdrawRings(&turn) }
    if !diversions.isEmpty || !transfers.isEmpty { pushCleanUpsOfDiverted(devices, &turn) }
    if !transfers.isEmpty { pushNoticesOfTransfer(&turn) }
    switch stage {
    case .ringing: pushRinging(devices, &turn)
    case .answered(let conversation):
      if isTransferring { pushRinging(devices, &turn) }
      pushCleanUps(.answeredElsewhere, by: conversation.answer.by, devices, &turn)
    case .ended(let ending):
      let end = ending.facts
      if ending.answer == nil {
        pushCleanUps(end.reason, by: end.by, devices, &turn)
      }
      if end.missed {
        pushMissedNotices(end, devices, &turn)
        pushMissedNotices(end, &turn)
      }
    }
  }

  mutating func withdrawRings(_ turn: inout Turn) {
    isPushWithdrawn = true
    let ringing = PushRinging(call: id, round: UInt8(clamping: transfers.count))
    turn.outcome.effects.append(.withdrawPushes(ringing))
  }

  private mutating func pushRinging(_ devices: [User.Device], _ turn: inout Turn) {
    guard facts.deadline > turn.now else { return }
    for leg in legs.indices where legs[leg].state.isLive {
      guard legs[leg].ringPush.dueAt <= turn.now else { continue }
      let registration = registration(ofLeg: leg, devices, turn)
      if let registration, registration.ringToken != nil {
        push(.ring, registration, &turn)
      } else if guest(legs[leg].party.user).map({ guests[$0].owesPushes }) ?? false {
        _ = legs[leg].ringPush.schedule(at: turn.now + Guest.ringingInterval)
      } else {
        legs[leg].ringPush.becameImpossible()
      }
    }
    endIfNobodyIsLeft(&turn)
  }

  /// Whether a push that was to make a device ring may not have left yet.
  var hasRingPushUnderWay: Bool {
    legs.contains { $0.ringPush.isDecided && !$0.ringPush.isReported }
  }

  /// The shard may not push now: legs that waited for a push wait no longer.
  mutating func dropDuePushes(_ turn: inout Turn) {
    wantsPush = false
    guard isSearching else { return }
    for leg in legs.indices where legs[leg].ringPush.dueAt <= turn.now {
      legs[leg].ringPush.unschedule()
    }
    watchLegs(turn)
    endIfNobodyIsLeft(&turn)
  }

  /// Whether a push that was decided is still to be sent: no ring for a device that rings no more.
  func isStillWanted(_ job: PushJob) -> Bool {
    guard job.purpose == .ring else { return true }
    let leg = legIndex(facts.key(job.user.user, job.device))
    return leg.map { isRung(.leg($0)) && legs[$0].round == job.round && legs[$0].ringPush.isWaking }
      ?? false
  }

  // MARK: What became of it

  /// A gateway's report, or that the work queue did not take the push.
  mutating func pushReported(
    _ user: UserKey, _ device: DeviceID, _ purpose: PushPurpose, round: UInt8,
    _ result: PushOutcome, _ turn: inout Turn
  ) {
    let device = facts.key(user.user, device)
    let leg = legIndex(device)
    let who =
      leg.map { UInt8(clamping: $0) }
      ?? noticedDevices.firstIndex(of: device).map { CallTimeline.noticed($0) }
      ?? CallTimeline.call
    timeline.note(result, who, purpose, at: turn.now)
    guard purpose == .ring, let leg, legs[leg].round == round else { return }
    legs[leg].ringPush.report(result)
    if case .accepted = result { return }
    stopWaking(leg, &turn)
  }

  /// A device has no token any more that could wake it.
  mutating func cannotBeWoken(_ device: DeviceID, _ turn: inout Turn) {
    guard let leg = legIndex(device) else { return }
    legs[leg].ringPush.becameImpossible()
    stopWaking(leg, &turn)
  }

  /// No push wakes the device. Its leg ends, unless it has a session or may be back in a moment.
  private mutating func stopWaking(_ leg: Int, _ turn: inout Turn) {
    guard isRung(.leg(leg)), !legs[leg].isReachable else { return }
    if case .notSent(let awaitedUntil) = legs[leg].invitation,
      awaitedUntil.map({ $0 <= turn.now }) ?? true
    {
      commit(.legEnded(legs[leg].key, .gone, at: turn.now), .urgent, &turn)
    }
    endIfNobodyIsLeft(&turn)
  }

  /// The same for the devices of a user to whom the call was diverted, once the user's shard has named them. The call may
  /// be over by then, and they still ring.
  mutating func takeOverPushes(ofGuest index: Int, _ turn: inout Turn) {
    for leg in legs.indices where legs[leg].party.user.hasBytes(of: guests[index].user) {
      let hasToken = guests[index].devices.contains {
        $0.id == legs[leg].party.device && $0.wakes
      }
      legs[leg].ringPush.takenOver(
        isPossible: turn.mayPush && hasToken,
        isAwaited: hasToken && legs[leg].endpoint.session == nil
          && (legs[leg].state.isLive || legs[leg].ringPush.isWaking))
    }
    if turn.mayPush { retransmitPushes(guests[index].devices, &turn) }
  }

  /// A new owner learns from the journal which pushes were decided, and nothing else of them.
  mutating func takeOverPushes(_ devices: [User.Device], mayPush: Bool) {
    for leg in legs.indices {
      if guest(legs[leg].party.user) != nil {
        // A device that had stopped before got the pushes that were due then.
        if !legs[leg].state.isLive { legs[leg].ringPush.giveUp() }
        continue
      }
      let hasToken = device(of: legs[leg].party, devices)?.wakes == true
      legs[leg].ringPush.takenOver(
        isPossible: mayPush && hasToken,
        isAwaited: hasToken && legs[leg].state.isLive && legs[leg].endpoint.session == nil)
    }
  }
}
