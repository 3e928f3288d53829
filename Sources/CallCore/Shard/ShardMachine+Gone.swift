/// Ends of registrations and of their tokens, in apps with webhooks: the app's stream has the event before the store
/// loses the registration or the token. So a crash in between loses nothing: the registration is still there, and the
/// repeated request, or the next sweep, has the event stored again, with the same identity.
extension ShardMachine {
  /// Whether an event of this device is on its way to the stream, or too many of other devices are. The gateway repeats
  /// its report.
  func mustWaitForEvents(of report: PushReport, _ user: UserKey) -> Bool {
    guard !pendingGone.isEmpty else { return false }
    return report.hasWebhooks && pendingGone.count >= limits.registrationsWaiting
      || isEventPending(of: report.device, user)
  }

  private func isEventPending(of device: DeviceID, _ user: UserKey) -> Bool {
    pendingGone.values.contains { $0.isAbout(user, device) }
  }

  /// A provider no longer accepts a token.
  /// - Returns: whether an event is to be stored first.
  mutating func storeEventFirst(
    of registration: Registration, _ report: PushReport, _ reply: PendingReply?,
    _ turn: inout Turn
  ) -> Bool {
    guard report.hasWebhooks, storedParts.contains(.events),
      let gone = registration.gone(report.fingerprint, .refused)
    else { return false }
    storeEvent(gone, of: registration, .refused(report), reply, at: report.goneSince, &turn)
    return true
  }

  /// Another device registers a token.
  /// - Returns: whether an event is to be stored first. Then `reply` and `claim` wait for that.
  mutating func storeEventFirst(
    ofTaken fingerprint: String, _ user: UserKey, _ device: DeviceID, reply: PendingReply?,
    claim: UInt64?, _ turn: inout Turn
  ) -> Bool {
    guard storedParts.contains(.events),
      let registration = users[user]?.device(device)?.registration,
      registration.hasWebhooks, let gone = registration.gone(fingerprint, .taken)
    else { return false }
    // The event of an earlier request waits, which was given up or is repeated.
    let waiting = pendingGone.first { $0.value.isTaken(fingerprint, user, device) }
    if let (number, former) = waiting {
      if case .taken(_, let other?) = former.what, other != claim {
        tokenStepDone(token: other, .failed, &turn)
      }
      pendingGone[number]?.what = .taken(fingerprint: fingerprint, claim: claim)
      pendingGone[number]?.reply = reply
      return true
    }
    guard pendingGone.count < limits.registrationsWaiting else {
      reply?.send(.error(CallError(.tryAgain, retryAfterMilliseconds: 1000)), &turn)
      if let claim { tokenStepDone(token: claim, .failed, &turn) }
      return true
    }
    storeEvent(
      gone, of: registration, .taken(fingerprint: fingerprint, claim: claim), reply, at: turn.now,
      &turn)
    return true
  }

  /// A registration ends.
  /// - Returns: whether an event is to be stored first. Then `reply` waits for that.
  mutating func storeEventFirst(
    ofEnd cause: GoneCause, _ user: UserKey, _ device: DeviceID, reply: PendingReply?,
    _ turn: inout Turn
  ) -> Bool {
    guard storedParts.contains(.events), let registration = newestRegistration(of: device, user),
      registration.hasWebhooks
    else { return false }
    if pendingGone.count >= limits.registrationsWaiting || isEventPending(of: device, user) {
      let isRepeated = pendingGone.values.contains { $0.reply == reply }
      // Without a request, the next sweep repeats this.
      if !isRepeated {
        reply?.send(.error(CallError(.tryAgain, retryAfterMilliseconds: 200)), &turn)
      }
      return true
    }
    let gone = GoneRegistration(
      device: device, deviceName: registration.request.deviceName, cause: cause,
      registeredAt: registration.registeredAt)
    let what = PendingGone.What.registration(cause, registeredAt: registration.registeredAt)
    storeEvent(gone, of: registration, what, reply, at: turn.now, &turn)
    return true
  }

  private mutating func storeEvent(
    _ gone: GoneRegistration, of registration: Registration, _ what: PendingGone.What,
    _ reply: PendingReply?, at: Timestamp, _ turn: inout Turn
  ) {
    let token = nextToken()
    pendingGone[token] = PendingGone(
      user: registration.user, device: registration.device, what: what, reply: reply)
    turn.perform(.deviceEvent(AppEvent(gone, of: registration.user, at: at), token: token))
  }

  /// The stream has the event of a `deviceEvent` effect. If the device has registered again meanwhile, its registration
  /// stays.
  public mutating func appEventStored(token: UInt64, now: Timestamp, into outcome: inout Outcome) {
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    guard let pending = pendingGone.removeValue(forKey: token) else {
      return turn.outcome.faults.append(MachineFault(.unexpectedStoreResult))
    }
    switch pending.what {
    case .refused(let report): refusalEventStored(report, pending, &turn)
    case .taken(let fingerprint, let claim): takenEventStored(fingerprint, claim, pending, &turn)
    case .registration(let cause, let registeredAt):
      endEventStored(cause, registeredAt: registeredAt, pending, &turn)
    }
    carryOutPushes(&turn)
  }

  private mutating func refusalEventStored(
    _ report: PushReport, _ pending: PendingGone, _ turn: inout Turn
  ) {
    if isStoring(pending.user, pending.device) {
      pending.reply?.send(.error(CallError(.tryAgain, retryAfterMilliseconds: 200)), &turn)
    } else if !dropGone(report, pending.user, pending.reply, storesEvent: false, &turn) {
      pending.reply?.send(.done, &turn)
    }
  }

  private mutating func takenEventStored(
    _ fingerprint: String, _ claim: UInt64?, _ pending: PendingGone, _ turn: inout Turn
  ) {
    let (user, device) = (pending.user, pending.device)
    // A registration on its way to the store may hold the token. It must not arrive after this.
    if isStoring(user, device) {
      pending.reply?.send(.error(CallError(.tryAgain, retryAfterMilliseconds: 200)), &turn)
      if let claim { tokenStepDone(token: claim, .failed, &turn) }
    } else if !removeToken(
      fingerprint, user, device, reply: pending.reply, claim: claim, &turn)
    {
      pending.reply?.send(.done, &turn)
      if let claim { tokenStepDone(token: claim, .notified, &turn) }
    }
  }

  private mutating func endEventStored(
    _ cause: GoneCause, registeredAt: Timestamp, _ pending: PendingGone, _ turn: inout Turn
  ) {
    let (user, device) = (pending.user, pending.device)
    let isClaiming = pendingClaims.values.contains {
      $0.registration.user == user && $0.registration.device == device
    }
    let isSame = newestRegistration(of: device, user)?.registeredAt == registeredAt
    // It may also have come back meanwhile.
    let hasToGo =
      cause != .expired || users[user]?.device(device).map { isExpired($0, turn) } ?? false
    if isSame, !isClaiming, hasToGo {
      return removeFromStore(
        user, device, endsSession: cause == .removed, reply: pending.reply, &turn)
    }
    if cause == .removed { endSession(of: device, user, &turn) }
    pending.reply?.send(.done, &turn)
  }

  /// The registration that is on its way to the store, or else the stored one; nil: there is none.
  private func newestRegistration(of device: DeviceID, _ user: UserKey) -> Registration? {
    let stores = pendingStores.filter { _, store in
      if case .register(let registration, _) = store.what {
        registration.user == user && registration.device == device
      } else {
        false
      }
    }
    if let last = stores.max(by: { $0.key < $1.key })?.value,
      case .register(let registration, _) = last.what
    {
      return registration
    }
    return users[user]?.device(device)?.registration
  }
}

extension PushReport {
  /// When the token was lost: by the provider's time, if it gives one, else by the report's.
  var goneSince: Timestamp {
    if case .tokenGone(let since?) = outcome { since } else { at }
  }
}

extension Registration {
  /// The event's description of a token that is gone; nil: the registration has no such token.
  fileprivate func gone(_ fingerprint: String, _ cause: GoneCause) -> GoneRegistration? {
    guard !fingerprint.isEmpty else { return nil }
    let isVoIP = request.voipToken?.fingerprint == fingerprint
    let token = isVoIP ? request.voipToken : request.alertToken
    guard let token, token.fingerprint == fingerprint else { return nil }
    return GoneRegistration(
      device: device, deviceName: request.deviceName, cause: cause, provider: token.provider,
      isVoIP: isVoIP, fingerprint: fingerprint, registeredAt: registeredAt)
  }
}
