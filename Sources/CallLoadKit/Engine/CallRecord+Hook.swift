import CallCore
import CallJudge
import CallWire

/// Judges whether devices got the answer that the app's server had given in time.
extension CallRecord {
  /// The error with which a call is refused; nil: it is not.
  var refusalByHook: CallError.Code? {
    guard let hook = facts.hook else { return nil }
    if case .refuse(let refusal) = hook.terms { return refusal.code }
    return hook.terms.isNone && !hook.allowsWithoutAnswer ? .appAway : nil
  }

  /// The callee sees the name that the server has chosen, or none.
  mutating func examineHook(_ invite: Invite, to device: Int) {
    guard let hook = facts.hook, invite.transferredBy == nil else { return }
    let expected =
      switch hook.terms {
      case .name(let name), .slowName(let name): name
      case .allow, .refuse, .forward, .late, .broken: ""
      }
    if let code = refusalByHook {
      violate(
        .hookDisagrees, "\(name(of: device)) rang, and the app's server has said \(code.name)")
    } else if invite.caller.name != expected {
      violate(
        .hookDisagrees,
        "\(name(of: device)) was told the name \"\(invite.caller.name)\", and the app's server has "
          + "said \"\(expected)\"")
    }
  }

  /// The answer to a `place`.
  mutating func examineHook(_ error: CallError) {
    guard facts.hook != nil, !error.code.asksForRetry else { return }
    let isOfHook: [CallError.Code] = [
      .refusedByApp, .unknownUser, .userUnavailable, .appAway,
    ]
    guard error.code == refusalByHook else {
      if isOfHook.contains(error.code) { hookOddity = error.code }
      return
    }
    if case .refuse = facts.hook?.terms, error.message != HookTerms.sentence {
      violate(.hookDisagrees, "the caller was told \"\(error.message)\"")
    }
  }

  mutating func examineHook(_ timeline: FaultTimeline) {
    guard let hook = facts.hook else { return }
    // An edge that stood still had no answer in time, nor one whose connection broke.
    let until = trace.last?.at ?? facts.placedAt
    let isExcused = isDisturbed(facts.caller, from: facts.placedAt, to: until, timeline)
    if let code = hookOddity, !(isExcused && code == .appAway) {
      violate(
        .hookDisagrees,
        "the caller was told \(code.name), and the app's server has said "
          + hook.terms.text)
    } else if let code = refusalByHook, accepted, !isExcused {
      violate(.hookDisagrees, "the call was placed, and the app's server has said \(code.name)")
    }
  }
}
