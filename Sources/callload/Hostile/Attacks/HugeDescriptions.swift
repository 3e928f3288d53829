extension AttackContext {
  /// Descriptions go into the journal, and its file into memory.
  func sendHugeDescriptions() {
    let fleet = keepSessions { ("hostile-descriptions", "h\($0)") }
    var callee = 0
    paceAttack(fleet) { [self] session, _ in
      callee += 1
      return session.say(place(to: "nobody-\(callee)", descriptionBytes: 60_000))
    }
  }
}
