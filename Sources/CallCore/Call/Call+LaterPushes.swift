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
      case .won, .moved, .declined, .busy: continue
      case .waking, .delivered, .alerting, .gone, .stopped: break
      }
      let reason = reason.seen(by: legs[leg].party.device, cause: by)
      guard let registration = devices.registration(of: legs[leg].party.device),
        let purpose = registration.cleanUp(of: reason)
      else { continue }
      push(purpose, registration, reason: reason, by: by, &turn)
    }
  }

  /// Sends a notice to each of the user's devices that can show one and does not learn of the missed call
  /// otherwise, whether it was a leg or not.
  mutating func pushMissedNotices(_ end: EndedFacts, _ devices: [User.Device], _ turn: inout Turn) {
    for device in devices {
      guard let registration = device.registration,
        registration.capabilities.contains(.missedNotice), registration.noticeToken != nil,
        !learnsOfEnd(device.id)
      else { continue }
      push(.missedNotice, registration, reason: end.reason, by: end.by, &turn)
    }
  }

  /// Whether a device placed the call, had its notice, caused the end, or learns by its socket or by a
  /// clean-up push that the call was missed.
  private func learnsOfEnd(_ device: DeviceID) -> Bool {
    if case .caller = role(of: facts.callee, device) { return true }
    guard let index = legIndex(device) else { return noticedDevices.contains(device) }
    let leg = legs[index]
    if leg.laterPushes.contains(.missedNotice) || leg.laterPushes.contains(.missed) { return true }
    if leg.state.refusal != nil { return true }
    return leg.endpoint.session != nil && leg.invitation.wasSent && !leg.ringPush.mayRing
  }

  // MARK: Jobs

  /// Decides a push: a fact, and a job for the work queue.
  mutating func push(
    _ purpose: PushPurpose, _ registration: Registration, reason: EndReason? = nil,
    by: Party? = nil, _ turn: inout Turn
  ) {
    guard let job = job(purpose, registration, reason: reason, by: by, turn) else { return }
    commit(.pushed(registration.device, purpose), .urgent, &turn)
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
    return PushJob(
      user: facts.callee, device: registration.device, call: id, purpose: purpose, token: token,
      dialect: registration.dialect, caller: facts.caller, video: facts.video,
      headers: facts.headers, placedAt: facts.placedAt, ringDeadline: facts.deadline,
      decidedAt: turn.now, deadline: deadline, reason: reason, by: by,
      isRingUnknown: purpose.isCleanUp
        && !(legIndex(registration.device).map { legs[$0].ringPush.isReported } ?? true),
      pushData: purpose == .ring ? facts.pushData : "",
      hasAlertToken: token == registration.request.alertToken)
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
      let leg = legIndex(device.id)
      let purposes =
        leg.map { legs[$0].pushPurposes }
        ?? (noticedDevices.contains(device.id) ? [.missedNotice] : [])
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

extension [User.Device] {
  func registration(of device: DeviceID) -> Registration? {
    first { $0.id == device }?.registration
  }
}
