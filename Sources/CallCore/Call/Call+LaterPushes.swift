/// The pushes after the ringing: clean-ups, which stop devices that a push made ring, and notices of missed
/// calls; and what a new owner retransmits.
extension Call {
  /// Sends each device that may ring by a push, and has not attached since, the one push by which its SDK
  /// learns that the call is over.
  mutating func pushCleanUps(
    _ reason: EndReason, by: Party?, _ devices: [User.Device], _ turn: inout Turn
  ) {
    for leg in legs.indices
    where legs[leg].ringPush.mayRing && !legs[leg].laterPushes.contains(where: \.isCleanUp) {
      switch legs[leg].state {
      case .won, .moved, .declined, .busy, .diverted: continue
      case .waking, .delivered, .alerting, .gone, .stopped: break
      }
      let reason = reason.seen(by: legs[leg].party.device, cause: by)
      guard let registration = device(of: legs[leg].party, devices)?.registration,
        let purpose = registration.cleanUp(of: reason)
      else { continue }
      push(purpose, registration, reason: reason, by: by, &turn)
    }
  }

  /// The same for devices whose users the call has left.
  mutating func pushCleanUpsOfDiverted(_ devices: [User.Device], _ turn: inout Turn) {
    for leg in legs.indices
    where legs[leg].ringPush.mayRing && !legs[leg].laterPushes.contains(where: \.isCleanUp) {
      guard case .diverted = legs[leg].state,
        let stop = diversion(from: legs[leg].party.user)?.stop,
        // Who declined knows.
        stop.by.map({ facts.key(of: $0) != legs[leg].key }) ?? true,
        let registration = device(of: legs[leg].party, devices)?.registration,
        let purpose = registration.cleanUp(of: stop.reason)
      else { continue }
      push(purpose, registration, reason: stop.reason, by: stop.by, &turn)
    }
  }

  /// Sends a notice to each of the user's devices that can show one and does not learn of the missed call
  /// otherwise, whether it was a leg or not.
  mutating func pushMissedNotices(_ end: EndedFacts, _ devices: [User.Device], _ turn: inout Turn) {
    for device in guests.isEmpty ? devices : devices + guests.flatMap(\.devices) {
      guard let registration = device.registration,
        registration.capabilities.contains(.missedNotice), registration.noticeToken != nil,
        !learnsOfEnd(registration)
      else { continue }
      push(.missedNotice, registration, reason: end.reason, by: end.by, &turn)
    }
  }

  /// Whether a device placed the call, had its notice, caused the end, or learns by its socket or by a
  /// clean-up push that the call was missed.
  private func learnsOfEnd(_ registration: Registration) -> Bool {
    if case .caller = role(of: registration.user, registration.device) { return true }
    if diversion(from: registration.user.user)?.reason == .declined { return true }
    let key = key(of: registration)
    guard let index = legIndex(key) else { return noticedDevices.contains(key) }
    let leg = legs[index]
    // A member of a group whose turn was over was not told yet that the call is missed.
    if diversion(from: registration.user.user)?.reason == .turn {
      return leg.laterPushes.contains(.missedNotice)
    }
    if leg.laterPushes.contains(.missedNotice) || leg.laterPushes.contains(.missed) { return true }
    if leg.state.refusal != nil { return true }
    return leg.endpoint.session != nil && leg.invitation.wasSent && !leg.ringPush.mayRing
  }

  private func key(of registration: Registration) -> DeviceID {
    facts.key(registration.user.user, registration.device)
  }

  // MARK: Jobs

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
    let deadline =
      switch purpose {
      case .ring: facts.deadline
      case .missed, .answeredElsewhere, .cancel, .ended: overSince + limits.cleanUpPushLifetime
      case .missedNotice: overSince + limits.missedNoticeLifetime
      }
    var job = PushJob(
      user: registration.user, device: registration.device, call: id, purpose: purpose,
      token: token,
      dialect: registration.dialect, caller: facts.caller, video: facts.video,
      headers: facts.headers, placedAt: facts.placedAt, ringDeadline: facts.deadline,
      decidedAt: turn.now, deadline: deadline, reason: reason, by: by,
      isRingUnknown: purpose.isCleanUp
        && !(legIndex(key(of: registration)).map { legs[$0].ringPush.isReported } ?? true),
      pushData: purpose == .ring ? facts.pushData : "",
      hasAlertToken: token == registration.request.alertToken)
    if registration.user != facts.callee { job.calledUser = facts.callee.user }
    job.hasWebhooks = hasWebhooks
    return job
  }

  /// Since when it rings no more.
  private var overSince: Timestamp {
    switch stage {
    case .ringing: facts.deadline
    case .answered(let conversation): conversation.answer.at
    case .ended(let ending): ending.answer?.at ?? ending.facts.at
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
    let (reason, by) = over
    for device in devices {
      guard let registration = device.registration else { continue }
      let key = key(of: registration)
      let leg = legIndex(key)
      let purposes =
        leg.map { legs[$0].pushPurposes }
        ?? (noticedDevices.contains(key) ? [.missedNotice] : [])
      for purpose in purposes where stillMatters(purpose, leg, turn) {
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
      guard let leg, isRinging, legs[leg].ringPush.isWaking else { return false }
      return turn.now < facts.deadline
        && turn.now < facts.placedAt + limits.pushRetransmitWindow
    case .missed, .answeredElsewhere, .cancel, .ended:
      let lifetime = min(limits.cleanUpPushLifetime, limits.pushRetransmitWindow)
      return turn.now < overSince + lifetime
    case .missedNotice: return turn.now < overSince + limits.pushRetransmitWindow
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
