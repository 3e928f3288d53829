extension AttackContext {
  /// Calls that end at once still cost a decision and a record each.
  func floodPlaces() {
    let fleet = keepSessions { ("hostile-places-\($0 % 10)", "p\($0)") }
    var callee = 0
    paceAttack(fleet) { [self] session, _ in
      callee += 1
      return session.say(place(to: "nobody-\(callee)"))
    }
  }
}
