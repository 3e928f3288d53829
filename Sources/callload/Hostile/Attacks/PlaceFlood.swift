extension AttackContext {
  /// Calls that end at once still cost a decision and a record each.
  func floodPlaces() {
    let fleet = keepSessions { ("hostile-places-\($0 % 10)", "p\($0)") }
    var callee = 0
    paceAttack { [self] in
      guard let (_, session) = fleet.next(of: attack.facts.connections) else { return }
      callee += 1
      if session.say(place(to: "nobody-\(callee)")) { account.attempts += 1 }
    }
  }
}
