/// Whose devices are pushed so that they ring, and when.
///
/// Each push is a fact first: whatever is retransmitted, a device gets one push of a purpose for a call. The
/// call knows which of its legs a push can wake, and when one is due. Tokens and capabilities are in the
/// registrations, which the shard passes to `push`.
extension Call {
  // MARK: When

  /// A leg has no session to ring on, or lost it: schedules the push of its device.
  mutating func planPush(_ leg: Int, at time: Timestamp, _ context: CallContext) {
    guard legs[leg].state.isLive, legs[leg].ringPush.schedule(at: time) else { return }
    if time <= context.now { wantsPush = true }
  }

  /// A device with a session is pushed if it does not acknowledge the invite in time.
  mutating func planPushAfterSilence(_ leg: Int, _ context: CallContext) {
    planPush(leg, at: context.now + context.limits.pushAfterSilence, context)
  }

  /// A leg lost its session in mid-ring. Its device is pushed at once if it ended the session itself, or had
  /// not acknowledged the invite. Otherwise it rings already, and is most likely on its way back; it may
  /// also have been put to sleep.
  /// - Returns: whether a push is to bring the device back.
  mutating func planPushAfterLoss(_ leg: Int, graceful: Bool, _ context: CallContext) -> Bool {
    let isAtOnce = legs[leg].state == .waking || graceful
    planPush(
      leg, at: isAtOnce ? context.now : context.now + context.limits.reattachGrace, context)
    return legs[leg].isReachable
  }

  /// A device registered a token in mid-ring.
  mutating func becameWakeable(_ device: DeviceID, _ context: CallContext) {
    guard isRinging, let leg = legIndex(device), legs[leg].state.isLive else { return }
    legs[leg].ringPush.becamePossible()
    guard legs[leg].state == .waking, legs[leg].ringPush == .idle else { return }
    if legs[leg].endpoint.session == nil {
      planPush(leg, at: context.now, context)
    } else {
      planPushAfterSilence(leg, context)
    }
  }

  // MARK: Carried out

  /// Carries out the pushes that are due.
  /// - Parameter devices: the callee's, as they are registered now.
  mutating func push(
    _ devices: [User.Device], _ context: CallContext, into outcome: inout Outcome
  ) {
    wantsPush = false
    if !isRinging, !isPushWithdrawn, hasRingPushUnderWay {
      isPushWithdrawn = true
      outcome.effects.append(.withdrawPushes(id))
    }
    switch stage {
    case .ringing: pushRinging(devices, context, into: &outcome)
    case .answered(let conversation):
      pushCleanUps(
        .answeredElsewhere, by: conversation.answer.by, devices, context, into: &outcome)
    case .ended(let ending):
      let end = ending.facts
      if ending.answer == nil {
        pushCleanUps(end.reason, by: end.by, devices, context, into: &outcome)
      }
      if end.missed { pushMissedNotices(end, devices, context, into: &outcome) }
    }
  }

  private mutating func pushRinging(
    _ devices: [User.Device], _ context: CallContext, into outcome: inout Outcome
  ) {
    guard facts.deadline > context.now else { return }
    for leg in legs.indices where legs[leg].state.isLive {
      guard legs[leg].ringPush.dueAt <= context.now else { continue }
      let device = legs[leg].party.device
      if let registration = devices.registration(of: device), registration.ringToken != nil {
        push(.ring, registration, context, into: &outcome)
      } else {
        legs[leg].ringPush.becameImpossible()
      }
    }
    endIfNobodyIsLeft(context, into: &outcome)
  }

  /// Whether a push that was to make a device ring may not have left yet.
  var hasRingPushUnderWay: Bool {
    legs.contains { $0.ringPush.isDecided && !$0.ringPush.isReported }
  }

  /// The shard may not push now: legs that waited for a push wait no longer.
  mutating func dropDuePushes(_ context: CallContext, into outcome: inout Outcome) {
    wantsPush = false
    guard isRinging else { return }
    for leg in legs.indices where legs[leg].ringPush.dueAt <= context.now {
      legs[leg].ringPush.unschedule()
    }
    watchLegs(context)
    endIfNobodyIsLeft(context, into: &outcome)
  }

  /// Whether a push that was decided is still to be sent: no ring for a device that rings no more.
  func isStillWanted(_ purpose: PushPurpose, _ device: DeviceID) -> Bool {
    guard purpose == .ring else { return true }
    return isRinging && (legIndex(device).map { legs[$0].ringPush.isWaking } ?? false)
  }

  // MARK: What became of it

  /// A gateway's report, or that the work queue did not take the push.
  mutating func pushReported(
    _ device: DeviceID, _ purpose: PushPurpose, _ result: PushOutcome, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let leg = legIndex(device)
    let who =
      leg.map { UInt8(clamping: $0) }
      ?? noticedDevices.firstIndex(of: device).map { CallTimeline.noticed($0) }
      ?? CallTimeline.call
    timeline.note(result, who, purpose, at: context.now)
    guard purpose == .ring, let leg else { return }
    legs[leg].ringPush.report(result)
    if case .accepted = result { return }
    stopWaking(leg, context, into: &outcome)
  }

  /// A device has no token any more that could wake it.
  mutating func cannotBeWoken(
    _ device: DeviceID, _ context: CallContext, into outcome: inout Outcome
  ) {
    guard let leg = legIndex(device) else { return }
    legs[leg].ringPush.becameImpossible()
    stopWaking(leg, context, into: &outcome)
  }

  /// No push wakes the device. Its leg ends, unless it has a session or may be back in a moment.
  private mutating func stopWaking(
    _ leg: Int, _ context: CallContext, into outcome: inout Outcome
  ) {
    guard isRinging, legs[leg].state.isLive, !legs[leg].isReachable else { return }
    if case .notSent(let awaitedUntil) = legs[leg].invitation,
      awaitedUntil.map({ $0 <= context.now }) ?? true
    {
      commit(
        .legEnded(legs[leg].party.device, .gone, at: context.now), .urgent, context,
        into: &outcome)
    }
    endIfNobodyIsLeft(context, into: &outcome)
  }

  /// A new owner learns from the journal which pushes were decided, and nothing else of them.
  mutating func takeOverPushes(_ devices: [User.Device], mayPush: Bool) {
    for leg in legs.indices {
      let hasToken = devices.first { $0.id == legs[leg].party.device }?.wakes == true
      legs[leg].ringPush.takenOver(
        isPossible: mayPush && hasToken,
        isAwaited: hasToken && legs[leg].state.isLive && legs[leg].endpoint.session == nil)
    }
  }
}
