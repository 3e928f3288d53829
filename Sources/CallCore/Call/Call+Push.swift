/// Who is pushed for a call, when, and what afterwards. Each push is a fact first: whatever repeats,
/// a device gets one push of a purpose for a call.
///
/// The call knows which of its legs a push can wake, and when one is due; tokens and capabilities are
/// in the registrations, which the shard hands over when it calls `push`.
extension Call {
  // MARK: When

  /// A leg has no session to ring on, or lost it: when its device is to be pushed.
  mutating func planPush(_ leg: Int, at time: Timestamp, _ context: CallContext) {
    guard legs[leg].wakes, !legs[leg].pushes.contains(.ring), legs[leg].state.isLive else { return }
    legs[leg].pushAt = time
    if time <= context.now { wantsPush = true }
  }

  /// Devices with a session are pushed if they stay silent.
  mutating func planPushAfterSilence(_ leg: Int, _ context: CallContext) {
    planPush(leg, at: context.now + context.limits.pushAfterSilence, context)
  }

  /// A leg lost its session in mid-ring. Returns whether a push is to bring it back.
  ///
  /// Who had not heard the invite, or took its leave, is pushed at once. Who had heard it, and whose
  /// socket broke, rings already, and is most likely on its way back; perhaps it was put to sleep.
  mutating func planPushAfterLoss(_ leg: Int, graceful: Bool, _ context: CallContext) -> Bool {
    let isUnheard = legs[leg].state == .waking
    planPush(
      leg,
      at: isUnheard || graceful ? context.now : context.now + context.limits.reattachGrace,
      context)
    return legs[leg].isReachable
  }

  /// A device registered a token in mid-ring.
  mutating func becameWakeable(_ device: DeviceID, _ context: CallContext) {
    guard isRinging, let leg = legIndex(device), legs[leg].state.isLive else { return }
    legs[leg].wakes = true
    guard legs[leg].state == .waking, legs[leg].pushAt == .distantFuture else { return }
    if legs[leg].endpoint.session == nil {
      planPush(leg, at: context.now, context)
    } else {
      planPushAfterSilence(leg, context)
    }
  }

  // MARK: What

  /// Carries out what is due, with the callee's devices as they are registered now.
  mutating func push(
    _ devices: [User.Device], _ context: CallContext, into outcome: inout Outcome
  ) {
    wantsPush = false
    if !isRinging, !isWithdrawn, hasPushUnderWay {
      isWithdrawn = true
      outcome.effects.append(.withdrawPushes(id))
    }
    switch stage {
    case .ringing: pushRinging(devices, context, into: &outcome)
    case .answered(let answer):
      cleanUp(.answeredElsewhere, by: answer.by, devices, context, into: &outcome)
    case .ended(let end, let answer):
      if answer == nil { cleanUp(end.reason, by: end.by, devices, context, into: &outcome) }
      if end.missed { giveNotice(end, devices, context, into: &outcome) }
    }
  }

  private mutating func pushRinging(
    _ devices: [User.Device], _ context: CallContext, into outcome: inout Outcome
  ) {
    guard facts.deadline > context.now else { return }
    for leg in legs.indices where legs[leg].state.isLive && legs[leg].pushAt <= context.now {
      legs[leg].pushAt = .distantFuture
      let registration = registration(of: legs[leg].party.device, devices)
      if let registration, registration.ringToken != nil {
        push(.ring, registration, context, into: &outcome)
      } else {
        legs[leg].wakes = false
      }
    }
    endIfNobodyIsLeft(context, into: &outcome)
  }

  /// Whether a push that was to make somebody ring may not have left yet.
  var hasPushUnderWay: Bool {
    legs.contains { $0.pushes.contains(.ring) && !$0.isRingReported }
  }

  /// Nobody may be pushed now: who waited for a push waits for nothing.
  mutating func dropDuePushes(_ context: CallContext, into outcome: inout Outcome) {
    wantsPush = false
    guard isRinging else { return }
    for leg in legs.indices where legs[leg].pushAt <= context.now {
      legs[leg].pushAt = .distantFuture
    }
    watchLegs(context)
    endIfNobodyIsLeft(context, into: &outcome)
  }

  /// Whether a push that was decided still has somebody to tell: no ring for what rings no more.
  func isStillWanted(_ purpose: PushPurpose, _ device: DeviceID) -> Bool {
    guard purpose == .ring else { return true }
    return isRinging && (legIndex(device).map { legs[$0].isBeingWoken } ?? false)
  }

  /// Tells those whom a push made ring, and who have not attached since, that it is over: by the one
  /// push that their SDK takes for it.
  private mutating func cleanUp(
    _ reason: EndReason, by: Party?, _ devices: [User.Device], _ context: CallContext,
    into outcome: inout Outcome
  ) {
    for leg in legs.indices where legs[leg].ringsByPush && legs[leg].pushes.cleanUp == nil {
      switch legs[leg].state {
      case .won, .declined, .busy: continue
      case .waking, .delivered, .alerting, .gone, .stopped: break
      }
      guard let registration = registration(of: legs[leg].party.device, devices),
        let purpose = Self.cleanUp(of: reason, for: registration)
      else { continue }
      push(purpose, registration, reason: reason, by: by, context, into: &outcome)
    }
  }

  /// Of the pushes that a device takes the one that says most of why a call ended; nil: none fits.
  static func cleanUp(of reason: EndReason, for registration: Registration) -> PushPurpose? {
    let takes = registration.capabilities
    if registration.ringToken != nil {
      switch reason {
      case .answeredElsewhere, .declined, .glare:
        if takes.contains(.answeredElsewhere) { return .answeredElsewhere }
      case .cancelled, .unanswered, .busy, .unreachable:
        if takes.contains(.missed) { return .missed }
      case .hungUp, .failed: break
      }
      if takes.contains(.cancel) { return .cancel }
    }
    return takes.contains(.ended) && registration.noticeToken != nil ? .ended : nil
  }

  /// A notice for each of the user's devices that can show one and did not learn of the missed call
  /// otherwise, whether it was a leg or not.
  private mutating func giveNotice(
    _ end: EndedFacts, _ devices: [User.Device], _ context: CallContext,
    into outcome: inout Outcome
  ) {
    for device in devices {
      guard let registration = device.registration,
        registration.capabilities.contains(.missedNotice), registration.noticeToken != nil,
        !knowsOfEnd(device.id)
      else { continue }
      push(
        .missedNotice, registration, reason: end.reason, by: end.by, context, into: &outcome)
    }
  }

  /// Whether a device placed the call, had its notice, caused the end, or is told over its socket or
  /// by a clean-up push that the call was missed.
  private func knowsOfEnd(_ device: DeviceID) -> Bool {
    if case .caller = role(of: facts.callee, device) { return true }
    guard let index = legIndex(device) else { return noticed.contains(device) }
    let leg = legs[index]
    if leg.pushes.contains(.missedNotice) || leg.pushes.contains(.missed) { return true }
    if leg.state == .declined || leg.state == .busy { return true }
    return leg.endpoint.session != nil && leg.told && !leg.ringsByPush
  }

  // MARK: How

  private func registration(of device: DeviceID, _ devices: [User.Device]) -> Registration? {
    devices.first { $0.id == device }?.registration
  }

  private mutating func push(
    _ purpose: PushPurpose, _ registration: Registration, reason: EndReason? = nil,
    by: Party? = nil, _ context: CallContext, into outcome: inout Outcome
  ) {
    guard
      let job = job(
        purpose, registration, reason: reason, by: by, decidedAt: context.now, context.limits)
    else { return }
    commit(.pushed(registration.device, purpose), .urgent, context, into: &outcome)
    outcome.effects.append(.push(job))
  }

  private func job(
    _ purpose: PushPurpose, _ registration: Registration, reason: EndReason?, by: Party?,
    decidedAt: Timestamp, _ limits: CallLimits
  ) -> PushJob? {
    guard let token = registration.token(for: purpose) else { return nil }
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
      decidedAt: decidedAt, deadline: deadline, reason: reason, by: by,
      isRingUnknown: purpose.isCleanUp
        && !(legIndex(registration.device).map { legs[$0].isRingReported } ?? true))
  }

  /// Since when it does not ring any more.
  private var overSince: Timestamp {
    switch stage {
    case .ringing: facts.deadline
    case .answered(let answer): answer.at
    case .ended(let end, let answer): answer?.at ?? end.at
    }
  }

  mutating func applyPushed(_ device: DeviceID, _ purpose: PushPurpose, at now: Timestamp) {
    if let leg = legIndex(device) {
      legs[leg].pushes.insert(purpose)
      if purpose == .ring {
        legs[leg].isBeingWoken = true
        legs[leg].pushAt = .distantFuture
      }
      timeline.note(.pushed, UInt8(clamping: leg), purpose, at: now)
    } else {
      guard !noticed.contains(device), noticed.count < CallTimeline.noticedMax else { return }
      noticed.append(device)
      timeline.note(.pushed, CallTimeline.noticed(noticed.count - 1), purpose, at: now)
    }
  }

  // MARK: What became of it

  /// A gateway's report, or that the work queue did not take it.
  mutating func pushReported(
    _ device: DeviceID, _ purpose: PushPurpose, _ result: PushOutcome, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let leg = legIndex(device)
    let who =
      leg.map { UInt8(clamping: $0) }
      ?? noticed.firstIndex(of: device).map { CallTimeline.noticed($0) } ?? CallTimeline.call
    timeline.note(result, who, purpose, at: context.now)
    guard purpose == .ring, let leg else { return }
    legs[leg].isRingReported = true
    switch result {
    case .accepted: return
    case .failed(_, let mayHaveArrived) where legs[leg].isBeingWoken:
      legs[leg].mayHaveBeenWoken = mayHaveArrived
    case .failed, .tokenGone, .rejected, .expired: break
    }
    stopWaking(leg, context, into: &outcome)
  }

  /// A device has no token any more that could wake it.
  mutating func cannotBeWoken(
    _ device: DeviceID, _ context: CallContext, into outcome: inout Outcome
  ) {
    guard let leg = legIndex(device) else { return }
    legs[leg].wakes = false
    legs[leg].pushAt = .distantFuture
    stopWaking(leg, context, into: &outcome)
  }

  /// Nothing wakes the device. It leaves, unless it has a session or may be back in a moment.
  private mutating func stopWaking(
    _ leg: Int, _ context: CallContext, into outcome: inout Outcome
  ) {
    legs[leg].isBeingWoken = false
    guard isRinging, legs[leg].state.isLive, !legs[leg].isReachable else { return }
    let isAwaited = legs[leg].awaitedUntil.map { $0 > context.now } ?? false
    if !legs[leg].told, !isAwaited {
      commit(
        .legEnded(legs[leg].party.device, .gone, at: context.now), .urgent, context,
        into: &outcome)
    }
    endIfNobodyIsLeft(context, into: &outcome)
  }

  // MARK: A new owner

  /// Which legs can be woken, and which are being, is not journalled.
  mutating func takeOverPushes(_ devices: [User.Device], mayPush: Bool) {
    for leg in legs.indices {
      let device = devices.first { $0.id == legs[leg].party.device }
      legs[leg].wakes = mayPush && device?.wakes == true
      legs[leg].pushAt = .distantFuture
      legs[leg].isBeingWoken =
        legs[leg].pushes.contains(.ring) && legs[leg].state.isLive
        && legs[leg].endpoint.session == nil && device?.wakes == true
    }
  }

  /// Retransmits, under the same ids, the pushes that were decided and still matter: whether they left
  /// is not known. The work queue takes each once.
  func retransmitPushes(
    _ devices: [User.Device], _ context: CallContext, into outcome: inout Outcome
  ) {
    guard legs.contains(where: { !$0.pushes.isEmpty }) || !noticed.isEmpty else { return }
    for device in devices {
      guard let registration = device.registration else { continue }
      let leg = legIndex(device.id)
      let purposes =
        leg.map { legs[$0].pushes.purposes }
        ?? (noticed.contains(device.id) ? [.missedNotice] : [])
      for purpose in purposes where stillMatters(purpose, leg, context) {
        let job = job(
          purpose, registration, reason: overReason, by: overBy, decidedAt: context.now,
          context.limits)
        if let job { outcome.effects.append(.push(job)) }
      }
    }
  }

  private func stillMatters(
    _ purpose: PushPurpose, _ leg: Int?, _ context: CallContext
  ) -> Bool {
    switch purpose {
    case .ring:
      guard let leg, isRinging, legs[leg].isBeingWoken else { return false }
      return context.now < facts.deadline
        && context.now < facts.placedAt + context.limits.pushRetransmitWindow
    case .missed, .answeredElsewhere, .cancel, .ended:
      let lifetime = min(context.limits.cleanUpPushLifetime, context.limits.pushRetransmitWindow)
      return context.now < overSince + lifetime
    case .missedNotice: return context.now < overSince + context.limits.pushRetransmitWindow
    }
  }

  private var overReason: EndReason? {
    switch stage {
    case .ringing: nil
    case .answered: .answeredElsewhere
    case .ended(let end, let answer): answer == nil ? end.reason : .answeredElsewhere
    }
  }

  private var overBy: Party? {
    switch stage {
    case .ringing: nil
    case .answered(let answer): answer.by
    case .ended(let end, let answer): answer.map { $0.by } ?? end.by
    }
  }
}
