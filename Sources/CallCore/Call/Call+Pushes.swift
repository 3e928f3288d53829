/// Pushes that make devices ring, and the pushes after the ringing: clean-ups, which stop devices that a push made
/// ring, and notices of missed calls.
///
/// Each push is a fact first, so a device gets one push of a purpose for a call, whatever is retransmitted. The call
/// knows which of its legs a push can wake, and when one is due. Tokens and capabilities are in the registrations,
/// which the shard passes to `push`.
extension Call {
  // MARK: When a ring push is due

  /// Schedules the push to a leg's device, which has no session to ring on, or lost it.
  mutating func planPush(_ leg: Int, at time: Timestamp, _ turn: borrowing Turn) {
    guard legs[leg].state.isLive, legs[leg].ringPush.schedule(at: time) else { return }
    if time <= turn.now { wantsPush = true }
  }

  /// Schedules the push to a device with a session for the case that it does not acknowledge the invite in time.
  mutating func planPushAfterSilence(_ leg: Int, _ turn: borrowing Turn) {
    planPush(leg, at: turn.now + turn.limits.pushAfterSilence, turn)
  }

  /// Schedules the push to a device that lost its session in mid-ring: at once if it ended the session itself, or had
  /// not acknowledged the invite. Otherwise it rings already and is most likely on its way back, but the system may
  /// have suspended it.
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

  // MARK: Ring pushes that are due

  /// Carries out the pushes that are due.
  /// - Parameter devices: the callee's devices, as they are registered now. The call knows the devices of other users.
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

  /// Unschedules the pushes that are due, because the shard may not push now.
  mutating func dropDuePushes(_ turn: inout Turn) {
    wantsPush = false
    guard isSearching else { return }
    for leg in legs.indices where legs[leg].ringPush.dueAt <= turn.now {
      legs[leg].ringPush.unschedule()
    }
    watchLegs(turn)
    endIfNobodyIsLeft(&turn)
  }

  /// Whether a push that was decided is still to be sent. A ring push is not once its device has stopped ringing.
  func isStillWanted(_ job: PushJob) -> Bool {
    guard job.purpose == .ring else { return true }
    let leg = legIndex(facts.key(job.user.user, job.device))
    return leg.map { isRung(.leg($0)) && legs[$0].round == job.round && legs[$0].ringPush.isWaking }
      ?? false
  }

  // MARK: Results

  /// Handles a gateway's report, or the work queue's refusal of the push.
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

  /// A device no longer has a token that could wake it.
  mutating func cannotBeWoken(_ device: DeviceID, _ turn: inout Turn) {
    guard let leg = legIndex(device) else { return }
    legs[leg].ringPush.becameImpossible()
    stopWaking(leg, &turn)
  }

  /// Ends the leg of a device that no push wakes, unless the device has a session or may be back in a moment.
  private mutating func stopWaking(_ leg: Int, _ turn: inout Turn) {
    guard isRung(.leg(leg)), !legs[leg].isReachable else { return }
    if case .notSent(let awaitedUntil) = legs[leg].invitation,
      awaitedUntil.map({ $0 <= turn.now }) ?? true
    {
      commit(.legEnded(legs[leg].key, .gone, at: turn.now), .urgent, &turn)
    }
    endIfNobodyIsLeft(&turn)
  }

  // MARK: Clean-ups and notices

  /// Sends each device that may ring by a push, and has not attached since, the one push by which its SDK
  /// learns that the call is over.
  mutating func pushCleanUps(
    _ reason: EndReason, by: Party?, _ devices: [User.Device], _ turn: inout Turn
  ) {
    for leg in legs.indices
    where legs[leg].ringPush.mayRing && !legs[leg].laterPushes.contains(where: \.isCleanUp)
      && !(isTransferring && isInRound(leg))
    {
      switch legs[leg].state {
      case .won, .moved, .declined, .busy, .diverted: continue
      case .waking, .delivered, .alerting, .gone, .stopped: break
      }
      let reason = reason.seen(by: legs[leg].key, cause: by)
      guard let registration = registration(ofLeg: leg, devices, turn),
        let purpose = registration.cleanUp(of: reason)
      else { continue }
      push(purpose, registration, reason: reason, by: by, &turn)
    }
  }

  /// Sends clean-ups to devices whose users the call has left.
  mutating func pushCleanUpsOfDiverted(_ devices: [User.Device], _ turn: inout Turn) {
    for leg in legs.indices
    where legs[leg].ringPush.mayRing && !legs[leg].laterPushes.contains(where: \.isCleanUp) {
      guard let stop = leftStop(leg),
        // The device that declined needs none.
        stop.by.map({ facts.key(of: $0) != legs[leg].key }) ?? true,
        let registration = registration(ofLeg: leg, devices, turn),
        let purpose = registration.cleanUp(of: stop.reason)
      else { continue }
      push(purpose, registration, reason: stop.reason, by: stop.by, &turn)
    }
  }

  /// Sends a notice to each of the user's devices that can show one and does not learn of the missed call
  /// otherwise, whether it was a leg or not.
  mutating func pushMissedNotices(_ end: EndedFacts, _ devices: [User.Device], _ turn: inout Turn) {
    for device in devices {
      guard let registration = device.registration, registration.takesNotices,
        !learnsOfEnd(registration, diversions[...])
      else { continue }
      push(.missedNotice, registration, reason: end.reason, by: end.by, &turn)
    }
  }

  /// Sends notices to users to whom the call went on.
  mutating func pushMissedNotices(_ end: EndedFacts, _ turn: inout Turn) {
    for index in guests.indices {
      guard let devices = guests[index].pushable(at: turn.now) else { continue }
      pushMissedNotices(end, devices, &turn)
    }
  }

  /// Sends notices to users whom a transfer rang in vain.
  /// - Parameter late: only this guest, whose shard has named its devices since.
  mutating func pushNoticesOfTransfer(late: Int? = nil, _ turn: inout Turn) {
    guard let transfer = transfers.last, let end = transfer.failure, end.reason.isMissedCall else {
      return
    }
    for index in guests.indices where late.map({ $0 == index }) ?? true {
      let user = guests[index].user
      guard transfer.rang(user), self.end(of: transfer, for: user)?.stop.missed == true,
        let devices = guests[index].pushable(at: turn.now)
      else { continue }
      for device in late == nil ? devices : withoutSession(devices) {
        guard let registration = device.registration, registration.takesNotices,
          !learnsOfEnd(registration, transfer.diversions.dropFirst())
        else { continue }
        push(.missedNotice, registration, reason: end.reason, by: end.by, &turn)
      }
    }
  }

  /// The devices without those that learn of an end over their sockets. The legs do not have these sessions yet at a
  /// new owner.
  private func withoutSession(_ devices: [User.Device]) -> [User.Device] {
    devices.filter { device in
      device.session == nil || device.registration.map { legIndex(key(of: $0)) == nil } ?? true
    }
  }

  /// Whether a device placed the call, had its notice, caused the end, or learns over its socket or by a clean-up push
  /// that the call was missed.
  /// - Parameter route: the diversions of the ringing that is over.
  private func learnsOfEnd(_ registration: Registration, _ route: ArraySlice<DivertedFacts>)
    -> Bool
  {
    let left = route.first { $0.from.hasBytes(of: registration.user.user) }
    if case .caller = role(of: registration.user, registration.device) { return true }
    if hasDeclined(registration.user.user) { return true }
    if left?.reason == .declined { return true }
    let key = key(of: registration)
    guard let index = legIndex(key) else { return noticedDevices.contains(key) }
    let leg = legs[index]
    // The stop at the end of a member's ring slot did not say that the call is missed.
    if left?.reason == .ringSlotOver {
      return leg.laterPushes.contains(.missedNotice) || leg.state.refusal != nil
    }
    if leg.laterPushes.contains(.missedNotice) || leg.laterPushes.contains(.missed) { return true }
    if leg.state.refusal != nil { return true }
    return leg.endpoint.session != nil && leg.invitation.wasSent && !leg.ringPush.mayRing
  }

  private func key(of registration: Registration) -> DeviceID {
    facts.key(registration.user.user, registration.device)
  }

  /// Sends clean-ups and notices that were due to a guest's devices before its shard named them and their tokens.
  mutating func pushLate(ofGuest index: Int, _ turn: inout Turn) {
    let user = guests[index].user
    let isOwed =
      guests[index].owesPushes
      || legs.contains {
        $0.ringPush.mayRing && !$0.state.isLive && $0.party.user.hasBytes(of: user)
      }
    guests[index].owesPushes = false
    guard isOwed, turn.mayPush else { return }
    pushCleanUpsOfDiverted([], &turn)
    pushNoticesOfTransfer(late: index, &turn)
    switch stage {
    case .ringing: break
    case .answered(let conversation):
      pushCleanUps(.answeredElsewhere, by: conversation.answer.by, [], &turn)
    case .ended(let ending):
      let end = ending.facts
      if ending.answer == nil { pushCleanUps(end.reason, by: end.by, [], &turn) }
      if end.missed { pushMissedNotices(end, withoutSession(guests[index].devices), &turn) }
    }
  }

  // MARK: Jobs

  /// The registration by which a leg's device is pushed; nil: it has none, or its user's shard has to be asked first.
  mutating func registration(ofLeg leg: Int, _ devices: [User.Device], _ turn: borrowing Turn)
    -> Registration?
  {
    let party = legs[leg].party
    let known = guest(party.user).map { guests[$0].pushable(at: turn.now) ?? [] } ?? devices
    return known.first { $0.id == party.device }?.registration
  }

  /// Decides a push: a fact, and a job for the work queue.
  mutating func push(
    _ purpose: PushPurpose, _ registration: Registration, reason: EndReason? = nil,
    by: Party? = nil, _ turn: inout Turn
  ) {
    guard let job = job(purpose, registration, reason: reason, by: by, turn) else { return }
    commit(.pushed(key(of: registration), purpose), .urgent, &turn)
    turn.outcome.effects.append(.push(job))
  }

  private func job(
    _ purpose: PushPurpose, _ registration: Registration, reason: EndReason?, by: Party?,
    _ turn: borrowing Turn
  ) -> PushJob? {
    guard let token = registration.token(for: purpose) else { return nil }
    let limits = turn.limits
    let leg = legIndex(key(of: registration))
    let over = overSince(leg)
    let deadline =
      switch purpose {
      case .ring: facts.deadline
      case .missed, .answeredElsewhere, .cancel, .ended: over + limits.cleanUpPushLifetime
      case .missedNotice: over + limits.missedNoticeLifetime
      }
    var job = PushJob(
      user: registration.user, device: registration.device, call: id, purpose: purpose,
      token: token,
      dialect: registration.dialect, caller: shownCaller(leg), video: facts.video,
      headers: leg.map { legs[$0].round > 0 } ?? false ? [] : facts.headers,
      placedAt: ringsSince(leg), ringDeadline: facts.deadline,
      decidedAt: turn.now, deadline: deadline, reason: reason, by: by,
      isRingUnknown: purpose.isCleanUp
        && !(leg.map { legs[$0].ringPush.isReported } ?? true),
      pushData: purpose == .ring && !isTransferring ? facts.pushData : "",
      hasAlertToken: token == registration.request.alertToken)
    if registration.user != facts.callee { job.calledUser = facts.callee.user }
    job.hasWebhooks = hasWebhooks
    job.trust = registration.trust(in: token)
    job.round = leg.map { legs[$0].round } ?? UInt8(clamping: transfers.count)
    return job
  }

  /// When a device began to ring.
  private func ringsSince(_ leg: Int?) -> Timestamp {
    transfer(of: leg)?.start.at ?? facts.placedAt
  }

  /// The transfer for which a device rang last.
  func transfer(of leg: Int?) -> Transfer? {
    guard let leg, legs[leg].round > 0, legs[leg].round <= transfers.count else { return nil }
    return transfers[Int(legs[leg].round) - 1]
  }

  /// When the ringing was over for a device.
  /// - Parameter leg: nil: the device has no leg.
  private func overSince(_ leg: Int?) -> Timestamp {
    if transfer(of: leg) != nil, let leg, case .diverted(let at) = legs[leg].state { return at }
    let isOfLast = leg.map { Int(legs[$0].round) == transfers.count } ?? true
    if isOfLast, let end = transfers.last?.failure { return end.at }
    switch stage {
    case .ringing: return facts.deadline
    case .answered(let conversation): return conversation.answer.at
    case .ended(let ending): return ending.answer?.at ?? ending.facts.at
    }
  }

  mutating func applyPushed(_ device: DeviceID, _ purpose: PushPurpose, at now: Timestamp) {
    if let leg = legIndex(device) {
      legs[leg].pushDecided(purpose)
      timeline.note(.pushed, UInt8(clamping: leg), purpose, at: now)
    } else {
      guard !noticedDevices.contains(device), noticedDevices.count < CallTimeline.noticedMax else {
        return
      }
      noticedDevices.append(device)
      timeline.note(.pushed, CallTimeline.noticed(noticedDevices.count - 1), purpose, at: now)
    }
  }

  // MARK: A new owner

  /// Restores the states of ring pushes to the devices of a guest, once the guest's shard has named them. The call may
  /// be over by then while they still ring.
  mutating func takeOverPushes(ofGuest index: Int, _ turn: inout Turn) {
    for leg in legs.indices where legs[leg].party.user.hasBytes(of: guests[index].user) {
      let hasToken = guests[index].devices.contains {
        $0.id == legs[leg].party.device && $0.wakes
      }
      legs[leg].ringPush.takenOver(
        isPossible: turn.mayPush && hasToken,
        isAwaited: hasToken && legs[leg].endpoint.session == nil
          && (legs[leg].state.isLive || legs[leg].ringPush.isWaking))
      let isAttached = guests[index].devices.contains {
        $0.id == legs[leg].party.device && $0.session != nil
      }
      if isInRound(leg), legs[leg].state.isLive, !isAttached {
        _ = planPushAfterLoss(leg, graceful: false, turn)
      }
    }
    if turn.mayPush { retransmitPushes(guests[index].devices, &turn) }
  }

  /// Restores the states of ring pushes. A new owner learns from the journal only which ones were decided.
  mutating func takeOverPushes(_ devices: [User.Device], mayPush: Bool) {
    for leg in legs.indices {
      if guest(legs[leg].party.user) != nil {
        // The former owner has sent the pushes for a device that had stopped before.
        if !legs[leg].state.isLive { legs[leg].ringPush.giveUp() }
        continue
      }
      let hasToken = device(of: legs[leg].party, devices)?.wakes == true
      legs[leg].ringPush.takenOver(
        isPossible: mayPush && hasToken,
        isAwaited: hasToken && legs[leg].state.isLive && legs[leg].endpoint.session == nil)
    }
  }

  /// Adds to the work queue again, under the same ids, the pushes that were decided and still matter, because the
  /// former owner may not have sent them. The work queue deduplicates them.
  func retransmitPushes(_ devices: [User.Device], _ turn: inout Turn) {
    let wasPushed = legs.contains { $0.ringPush.isDecided || !$0.laterPushes.isEmpty }
    guard wasPushed || !noticedDevices.isEmpty else { return }
    let over = over
    for device in devices {
      guard let registration = device.registration else { continue }
      let key = key(of: registration)
      let leg = legIndex(key)
      let purposes =
        leg.map { legs[$0].pushPurposes }
        ?? (noticedDevices.contains(key) ? [.missedNotice] : [])
      for purpose in purposes where stillMatters(purpose, leg, turn) {
        var (reason, by) = over
        if let leg, let stop = leftStop(leg), legs[leg].round > 0 || purpose.isCleanUp {
          (reason, by) = (stop.reason, stop.by)
        }
        let seen = reason?.seen(by: key, cause: by)
        guard let job = job(purpose, registration, reason: seen, by: by, turn) else { continue }
        turn.outcome.effects.append(.push(job))
      }
    }
  }

  private func stillMatters(_ purpose: PushPurpose, _ leg: Int?, _ turn: borrowing Turn) -> Bool {
    let limits = turn.limits
    switch purpose {
    case .ring:
      guard let leg, isRung(.leg(leg)), legs[leg].ringPush.isWaking else { return false }
      return turn.now < facts.deadline
        && turn.now < ringsSince(leg) + limits.pushRetransmitWindow
    case .missed, .answeredElsewhere, .cancel, .ended:
      let lifetime = min(limits.cleanUpPushLifetime, limits.pushRetransmitWindow)
      return turn.now < overSince(leg) + lifetime
    case .missedNotice:
      // While the call rings again, notices to devices without a leg belong to an earlier ringing.
      return (leg != nil || !isSearching)
        && turn.now < overSince(leg) + limits.pushRetransmitWindow
    }
  }

  /// Why the ringing is over, and who caused that.
  private var over: (reason: EndReason?, by: Party?) {
    switch stage {
    case .ringing: (nil, nil)
    case .answered(let conversation): (.answeredElsewhere, conversation.answer.by)
    case .ended(let ending):
      if let answer = ending.answer {
        (.answeredElsewhere, answer.by)
      } else {
        (ending.facts.reason, ending.facts.by)
      }
    }
  }
}
