/// Rules of users: one key each in the store, beside the registrations. They are on no journal.
extension ShardMachine {
  mutating func rules(_ command: Command, _ request: RulesRequest, _ turn: inout Turn) {
    switch request {
    case .read:
      turn.reply(command, .rules(users[command.user]?.rules ?? UserRules()))
    case .write(let rules): write(rules, command, &turn)
    }
  }

  private mutating func write(_ rules: UserRules, _ command: Command, _ turn: inout Turn) {
    let reply = PendingReply(command)
    // Retransmitted while the first is on its way: one reply follows.
    if let reply, isPending(reply) { return }
    do throws(CallError) {
      // The edge has checked them; it may be of another version.
      try rules.check(of: command.user.user)
    } catch {
      return turn.reply(command, .error(error))
    }
    guard pendingClaims.count + pendingStores.count < limits.registrationsWaiting else {
      return turn.reply(
        command, .error(CallError(.tryAgain, retryAfterMilliseconds: 1000)))
    }
    var kept = rules
    // As the wire has it, so that everybody sees the same.
    kept.changedAt = Timestamp(microseconds: turn.now.milliseconds * 1000)
    let token = nextToken()
    let stored = rules.isEmpty ? nil : kept
    pendingStores[token] = PendingStore(what: .rules(command.user, stored), reply: reply)
    turn.perform(.storeRules(command.user, stored, token: token))
  }

  /// The store has the rules, or has removed them.
  mutating func take(rules: UserRules?, of key: UserKey) {
    if let rules {
      users[key, default: User()].rules = rules
    } else if users[key]?.rules != nil {
      users[key]?.rules = nil
      tidy(key)
    }
  }

  /// Takes in the rules of the shard's users, once, before `begin`.
  public mutating func restore(rules: [UserKey: UserRules]) {
    for (key, rules) in rules { users[key, default: User()].rules = rules }
  }
}
