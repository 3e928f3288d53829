internal import CallCore
internal import CallWire

/// The races in which a push has a part.
extension SimCoverage {
  /// A job is new in the work queue.
  func queued(_ job: PushJob) { world.count("queue.jobs") }

  /// A provider got a push.
  /// - Parameter isDead: it does nothing with it.
  func pushed(_ job: PushJob, isDead: Bool) {
    world.count("provider.pushes")
    if !sent.insert(PushHistory.Key(job)).inserted { world.count("provider.sent again") }
    guard job.purpose == .ring, isDead else { return }
    calls[job.call]?.pushedInVain.insert(job.device.text)
  }

  /// A push reached a phone.
  func delivered(_ job: PushJob, to holder: Who) {
    guard job.purpose == .ring, let seen = calls[job.call] else { return }
    if seen.isEnded || seen.answeredBy != nil {
      calls[job.call]?.pushedLate.insert(job.device.text)
    }
  }

  /// A device was invited over its session.
  func invited(_ call: CallID, _ who: Who) { calls[call]?.pushed.remove(who.device) }

  /// A device that attached for a call got its state.
  func attached(_ who: Who, _ state: CallState) {
    guard let seen = calls[state.call], state.phase == .ended, seen.callee.hasBytes(of: who.user)
    else {
      return
    }
    if seen.pushed.contains(who.device), state.reason == .cancelled { race("R3", state.call) }
    if seen.pushedLate.contains(who.device) { race("R4", state.call) }
  }

  /// A token has a new owner.
  func claimed(_ fingerprint: String, _ owner: Who?) {
    defer { if let owner { owners[fingerprint] = owner } }
    guard let owner, let former = owners[fingerprint], former != owner else { return }
    world.count("race.R13")
    let isRinging = calls.values.contains { seen in
      seen.callee.hasBytes(of: former.user) && seen.pushed.contains(former.device) && !seen.isEnded
        && seen.answeredBy == nil
    }
    if isRinging { world.count("race.R13 in mid-ring") }
  }

  /// A shard receives the outcome of a push.
  func reported(_ who: Who, _ report: PushReport, _ registration: Registration?) {
    switch report.outcome {
    case .accepted: world.count("outcome.accepted")
    case .rejected: world.count("outcome.rejected")
    case .expired: world.count("outcome.expired")
    case .failed: world.count("outcome.failed")
    case .tokenGone(let since):
      world.count("outcome.tokenGone")
      guard let registration, since ?? report.at < registration.registeredAt,
        registration.tokens.contains(where: { $0.fingerprint == report.fingerprint })
      else { return }
      world.count("race.R12")
    }
  }
}
