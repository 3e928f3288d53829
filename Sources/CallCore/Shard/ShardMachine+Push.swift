/// Pushes: calls decide them with the registrations at hand, and gateways report their outcomes.
extension ShardMachine {
  /// Lets calls push that want to. Called after calls were changed and before the outcome leaves, so that a push
  /// is decided together with its cause.
  mutating func carryOutPushes(_ turn: inout Turn) {
    while let id = callsWantingOthers.popLast() { ringOthers(id, &turn) }
    while let id = callsWantingPush.popLast() {
      guard let slot = calls.slot(of: id), calls[slot].wantsPush else { continue }
      guard mayPush else {
        mutate(id) { $0.dropDuePushes(&turn) }
        continue
      }
      let devices = users[calls[slot].facts.callee]?.devices ?? []
      mutate(id) { $0.push(devices, &turn) }
    }
  }

  /// A gateway reports. A repetition changes nothing more.
  mutating func pushReported(_ command: Command, _ report: PushReport, _ turn: inout Turn) {
    var isWaiting = false
    if report.concernsRegistration {
      let user = command.user
      // A registration that is on its way is newer than the report.
      if isStoring(user, report.device) || mustWaitForEvents(of: report, user) {
        applyReport(report, user, &turn)
        return turn.reply(command, .error(CallError(.tryAgain, retryAfterMilliseconds: 200)))
      }
      isWaiting = note(report, user, PendingReply(command), &turn)
    }
    applyReport(report, command.user, &turn)
    forwardToOwnShard(report, command, &turn)
    if !isWaiting { turn.reply(command, .done, command.body.urgency) }
  }

  /// Notes in the registration what a report shows of its token, or removes the token.
  /// - Returns: whether the reply follows once the store has the change.
  private mutating func note(
    _ report: PushReport, _ user: UserKey, _ reply: PendingReply?, _ turn: inout Turn
  ) -> Bool {
    if case .tokenGone = report.outcome {
      return dropGone(report, user, reply, storesEvent: true, &turn)
    }
    guard let noted = users[user]?.device(report.device)?.registration?.noting(report) else {
      return false
    }
    guard noted.isGivenUp(report.fingerprint) else {
      store(noted, .noted(noted), reply, &turn)
      return true
    }
    var last = report
    last.outcome = .tokenGone(at: nil)
    return dropGone(last, user, reply, storesEvent: true, &turn)
  }

  private mutating func applyReport(_ report: PushReport, _ user: UserKey, _ turn: inout Turn) {
    guard let slot = calls.slot(of: report.call), calls[slot].facts.callee.app == user.app,
      calls[slot].isParty(user.user)
    else { return }
    mutate(report.call) {
      $0.pushReported(
        user, report.device, report.purpose, round: report.round, report.outcome, &turn)
    }
  }

  /// The registration of a user to whom a call was diverted is in the user's own shard.
  private func forwardToOwnShard(_ report: PushReport, _ command: Command, _ turn: inout Turn) {
    guard report.concernsRegistration, command.callee != command.user else { return }
    turn.perform(
      .tell(
        command.user, report.device, .pushReport(report), until: turn.now + limits.mergeTimeout))
  }

  /// A provider no longer accepts a token. The token is removed if the device still has it and has not
  /// registered since (R12).
  /// - Parameter storesEvent: the app is to learn of it first, if it has webhooks.
  /// - Returns: whether the reply follows once the store has the change.
  mutating func dropGone(
    _ report: PushReport, _ user: UserKey, _ reply: PendingReply?, storesEvent: Bool,
    _ turn: inout Turn
  ) -> Bool {
    guard let device = users[user]?.device(report.device), let registration = device.registration,
      device.isUnwritten || registration.registeredAt < report.goneSince
    else { return false }
    if storesEvent, storeEventFirst(of: registration, report, reply, &turn) { return true }
    return removeToken(
      report.fingerprint, user, report.device, reply: reply, claim: nil, isGone: true, &turn)
  }

  /// Whether a job that the work queue has not taken yet is still to be offered to it.
  public func isStillWanted(_ job: PushJob) -> Bool {
    calls.slot(of: job.call).map { calls[$0].isStillWanted(job) } ?? false
  }

  /// The work queue did not take a push, in all the time that it had for it.
  public mutating func pushNotQueued(
    _ job: PushJob, reason: String, now: Timestamp, into outcome: inout Outcome
  ) {
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    var report = PushReport(
      call: job.call, device: job.device, purpose: job.purpose, fingerprint: job.token.fingerprint,
      outcome: .failed(reason: reason), at: now)
    report.round = job.round
    applyReport(report, job.user, &turn)
    carryOutPushes(&turn)
  }
}
