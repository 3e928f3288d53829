internal import CallCore
internal import CallJudge

/// Races of what users decide (R27), of calls that the app's server places (R28), and of second calls and names (R29).
extension SimCoverage {
  func decided(_ user: String, _ rules: UserRules?) {
    self.rules[UserKey(app: SimOptions.app, user: user)] = rules
  }

  private func rules(of user: String) -> UserRules? {
    rules[UserKey(app: SimOptions.app, user: user)]
  }

  func placed(_ facts: PlacedFacts, _ call: CallID) {
    if facts.callerRings != nil { race("R28", call) }
    guard let rules = rules(of: facts.callee.user), rules.always == nil else { return }
    if rules.doNotDisturb != nil {
      race(rules.silences(facts.caller.user) ? "R27 silent" : "R27 excepted", call)
    }
    let first = facts.legs.count { rules.firstDevices.contains($0.device) }
    if first > 0, first == facts.legs.count { race("R27 first devices", call) }
  }

  /// A call goes on.
  func sentOn(_ facts: DivertedFacts, _ seen: Seen, _ record: JournalRecord, _ call: CallID) {
    switch facts.reason {
    case .always, .busy, .noAnswer, .unreachable, .doNotDisturb:
      race("R27 \(facts.reason.name)", call)
      if seen.diversions == 4 { race("R27 five times", call) }
      if facts.reason == .noAnswer, record.epoch > seen.epoch { race("R27 new owner", call) }
    case .hook, .declined, .group, .ringSlotOver, .transferred: break
    }
  }

  /// A device rings, and did not when the call came to its user.
  func joined(_ party: Party, _ seen: Seen, _ call: CallID) {
    guard seen.isRinging, let rules = rules(of: party.user) else { return }
    if party.user.hasBytes(of: seen.callee) {
      if !rules.firstDevices.isEmpty, !rules.firstDevices.contains(party.device) {
        race("R27 others", call)
      }
    } else if rules.always != nil {
      // All to whom the user has calls sent on were rung, or it went on often enough.
      race(seen.diversions < 5 ? "R27 circle" : "R27 too often", call)
    }
  }

  func invited(_ invite: Invite, _ call: CallID) {
    if invite.isSecondCall { race("R29 second call", call) }
    guard !invite.caller.name.isEmpty, SimOptions.displayName(invite.caller.user) == nil,
      !invite.caller.name.hasPrefix(SimHook.namePrefix),
      !invite.caller.device.text.isEmpty
    else { return }
    race("R29 stored name", call)
  }
}
