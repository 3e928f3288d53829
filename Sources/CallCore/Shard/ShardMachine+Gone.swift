/// Tokens that are gone, of apps with webhooks: the app's stream has the event before the store loses the token. So a
/// crash in between loses nothing. The token is still there, and the gateway's next report, or the next push, has the
/// event stored again, with the same identity.
extension ShardMachine {
  /// Whether an event of this device is on its way, or too many are of whatever devices. The gateway repeats its report.
  func mustWaitToTell(of report: PushReport, _ user: UserKey) -> Bool {
    guard !pendingGone.isEmpty else { return false }
    return report.hasWebhooks && pendingGone.count >= limits.registrationsWaiting
      || pendingGone.values.contains { $0.isAbout(user, report.device) }
  }

  /// - Returns: whether an event is to be stored first.
  mutating func tellApp(
    of registration: Registration, _ report: PushReport, _ reply: PendingReply?,
    _ turn: inout Turn
  ) -> Bool {
    guard report.hasWebhooks, keeps.contains(.events),
      let gone = registration.gone(report.fingerprint)
    else { return false }
    let token = nextToken()
    pendingGone[token] = PendingGone(user: registration.user, report: report, reply: reply)
    let event = AppEvent(gone, of: registration.user, at: report.goneSince)
    turn.perform(.deviceEvent(event, token: token))
    return true
  }

  /// The stream has the event of a `deviceEvent` effect. The device may have registered again meanwhile: then it keeps
  /// what it has.
  public mutating func appEventStored(token: UInt64, now: Timestamp, into outcome: inout Outcome) {
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    guard let pending = pendingGone.removeValue(forKey: token) else {
      return turn.outcome.faults.append(MachineFault(.unexpectedStoreResult))
    }
    let (user, report) = (pending.user, pending.report)
    if isStoring(user, report.device) {
      let again = CallError(.tryAgain, retryAfterMilliseconds: 200)
      pending.reply?.send(.error(again), &turn)
    } else if !dropGone(report, user, pending.reply, tellsApp: false, &turn) {
      pending.reply?.send(.done, &turn)
    }
    carryOutPushes(&turn)
  }
}

extension PushReport {
  /// Since when the token is gone, as far as the provider says.
  var goneSince: Timestamp {
    if case .tokenGone(let since?) = outcome { since } else { at }
  }
}

extension Registration {
  /// The token of this fingerprint, as one that is gone; nil: it has none.
  fileprivate func gone(_ fingerprint: String) -> GoneRegistration? {
    guard !fingerprint.isEmpty else { return nil }
    let isVoIP = request.voipToken?.fingerprint == fingerprint
    let token = isVoIP ? request.voipToken : request.alertToken
    guard let token, token.fingerprint == fingerprint else { return nil }
    return GoneRegistration(
      device: device, deviceName: request.deviceName, provider: token.provider, isVoIP: isVoIP,
      fingerprint: fingerprint, registeredAt: registeredAt)
  }
}
