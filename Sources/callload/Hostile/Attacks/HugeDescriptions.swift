extension AttackContext {
  /// Descriptions go into the journal, and its file into memory.
  func sendHugeDescriptions() {
    let fleet = keepSessions { ("hostile-descriptions", "h\($0)") }
    var callee = 0
    paceAttack { [self] in
      guard let (_, session) = fleet.next(of: attack.facts.connections) else { return }
      callee += 1
      let command = place(to: "nobody-\(callee)", descriptionBytes: 60_000)
      if session.say(command) { account.attempts += 1 }
    }
  }
}
