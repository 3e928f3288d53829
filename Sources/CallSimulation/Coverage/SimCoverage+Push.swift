internal import CallCore
internal import CallJudge
internal import CallWire

extension SimCoverage {
  /// A provider got a push.
  /// - Parameter isDead: it does nothing with it.
  func pushed(_ job: PushJob, isDead: Bool) {
    world.count("provider.pushes")
    if !sent.insert(PushHistory.Key(job)).inserted { world.count("provider.sent again") }
    guard job.purpose == .ring, isDead else { return }
    calls[job.call]?.pushedInVain.insert(job.device.text)
  }

  func delivered(_ job: PushJob, to holder: Who) {
    guard job.purpose == .ring, let seen = calls[job.call] else { return }
    if !seen.isRinging { calls[job.call]?.pushedLate.insert(job.device.text) }
  }

  func attached(_ who: Who, _ state: CallState) {
    guard let seen = calls[state.call], state.phase == .ended, seen.callee.hasBytes(of: who.user)
    else {
      return
    }
    if seen.pushed.contains(who.device), state.reason == .cancelled { race("R3", state.call) }
    if seen.pushedLate.contains(who.device) { race("R4", state.call) }
  }

  func claimed(_ fingerprint: String, _ owner: Who?) {
    defer { if let owner { owners[fingerprint] = owner } }
    guard let owner, let former = owners[fingerprint], former != owner else { return }
    world.count("race.R13")
    let isWoken = calls.values.contains {
      $0.isRinging && $0.callee.hasBytes(of: former.user) && $0.pushed.contains(former.device)
    }
    if isWoken { world.count("race.R13 in mid-ring") }
  }

  func reported(_ who: Who, _ report: PushReport, _ registration: Registration?) {
    switch report.outcome {
    case .accepted: world.count("outcome.accepted")
    case .acceptedIn: world.count("outcome.acceptedIn")
    case .tokenRefused: world.count("outcome.tokenRefused")
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
