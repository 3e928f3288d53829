/// The pushes after the ringing: clean-ups, which stop devices that a push made ring, and notices of missed
/// calls; and what a new owner retransmits.
extension Call {
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
      let reason = reason.seen(by: legs[leg].party.device, cause: by)
      guard let registration = registration(ofLeg: leg, devices, turn),
        let purpose = registration.cleanUp(of: reason)
      else { continue }
      push(purpose, registration, reason: reason, by: by, &turn)
    }
  }

  /// The same for devices whose users the call has left.
  mutating func pushCleanUpsOfDiverted(_ devices: [User.Device], _ turn: inout Turn) {
    for leg in legs.indices
    where legs[leg].ringPush.mayRing && !legs[leg].laterPushes.contains(where: \.isCleanUp) {
      guard let stop = leftStop(leg),
        // Who declined knows.
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

  /// The same for users to whom the call went on.
  mutating func pushMissedNotices(_ end: EndedFacts, _ turn: inout Turn) {
    for index in guests.indices {
      guard let devices = guests[index].pushable(at: turn.now) else { continue }
      pushMissedNotices(end, devices, &turn)
    }
  }

  /// The same for users whom a transfer rang in vain.
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

  /// The devices without those that learn of an end by their sockets, which a new owner has not told the call yet.
  private func withoutSession(_ devices: [User.Device]) -> [User.Device] {
    devices.filter { device in
      device.session == nil || device.registration.map { legIndex(key(of: $0)) == nil } ?? true
    }
  }

  /// Whether a device placed the call, had its notice, caused the end, or learns by its socket or by a
  /// clean-up push that the call was missed.
  /// - Parameter route: how the call went on in the ringing that is over.
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
    // A member of a group whose turn was over was not told yet that the call is missed.
    if left?.reason == .turn {
      return leg.laterPushes.contains(.missedNotice) || leg.state.refusal != nil
    }
    if leg.laterPushes.contains(.missedNotice) || leg.laterPushes.contains(.missed) { return true }
    if leg.state.refusal != nil { return true }
    return leg.endpoint.session != nil && leg.invitation.wasSent && !leg.ringPush.mayRing
  }

  private func key(of registration: Registration) -> DeviceID {
    facts.key(registration.user.user, registration.device)
  }

  /// Devices of a user to whom the call went on have stopped under this owner, which learns only now which ones they are,
  /// and by which tokens they are pushed.
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

  /// The registration by which a leg's device is pushed; nil: it has none, or its user's shard is asked first.
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

  /// When it began to ring.
  private func ringsSince(_ leg: Int?) -> Timestamp {
    transfer(of: leg)?.start.at ?? facts.placedAt
  }

  /// The transfer for which a device rang last.
  func transfer(of leg: Int?) -> Transfer? {
    guard let leg, legs[leg].round > 0, legs[leg].round <= transfers.count else { return nil }
    return transfers[Int(legs[leg].round) - 1]
  }

  /// Since when it rings no more.
  /// - Parameter leg: nil: a device that is none.
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

  /// Adds to the work queue again, under the same ids, the pushes that were decided and still matter: whether
  /// they left is not known. The work queue takes each once.
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
        if let leg, let stop = leftStop(leg), legs[leg].round > 0 {
          (reason, by) = (stop.reason, stop.by)
        }
        let seen = reason?.seen(by: device.id, cause: by)
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
      // While it rings again, notices to devices that did not ring are those of an earlier ringing.
      return (leg != nil || !isSearching)
        && turn.now < overSince(leg) + limits.pushRetransmitWindow
    }
  }

  /// Why it rings no more, and who caused that.
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
