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
    do throws(CallError) {
      // The edge has checked them; it may be of another version.
      try rules.check(of: command.user.user)
      try rules.checkTimes(now: turn.now)
    } catch {
      return turn.reply(command, .error(error))
    }
    var rules = rules
    // As the wire has it, so that everybody sees the same.
    rules.changedAt = Timestamp(microseconds: turn.now.milliseconds * 1000)
    var said = rules
    if rules.isEmpty { said = UserRules() }
    // Whether the user is a group, and its name, are the app's server's decisions.
    let newest = newestRules(of: command.user)
    (rules.group, rules.name) = (newest?.group, newest?.name ?? "")
    store(rules, command, .rules(said), &turn)
  }

  /// The app's server makes the user a group, or none. Its rules are kept.
  mutating func set(_ group: CallGroup?, _ command: Command, _ turn: inout Turn) {
    do throws(CallError) {
      try group?.check(of: command.user.user)
    } catch {
      return turn.reply(command, .error(error))
    }
    var rules = newestRules(of: command.user) ?? UserRules()
    rules.group = group
    store(rules, command, group.map { .app(.group($0)) } ?? .done, &turn)
  }

  /// The rules that are on their way to the store, or else the stored ones.
  func newestRules(of key: UserKey) -> UserRules? {
    let newest = pendingStores.filter { $0.value.what.isRules(of: key) }.max { $0.key < $1.key }
    if case .rules(key, let rules, _) = newest?.value.what { return rules }
    return users[key]?.rules
  }

  /// - Parameter answer: the reply once the store has them.
  mutating func store(
    _ rules: UserRules, _ command: Command, _ answer: Reply, _ turn: inout Turn
  ) {
    let reply = PendingReply(command)
    // Retransmitted while the first is on its way: one reply follows.
    if let reply, isPending(reply) { return }
    guard pendingClaims.count + pendingStores.count < limits.registrationsWaiting else {
      return turn.reply(
        command, .error(CallError(.tryAgain, retryAfterMilliseconds: 1000)))
    }
    let token = nextToken()
    let stored = rules.isEmpty ? nil : rules
    pendingStores[token] = PendingStore(what: .rules(command.user, stored, answer), reply: reply)
    turn.perform(.storeRules(command.user, stored, token: token))
  }

  /// The store has the rules, or has removed them.
  mutating func applyStored(rules: UserRules?, of key: UserKey, _ turn: inout Turn) {
    let isRenamed = !name(of: key).hasBytes(of: rules?.name ?? "")
    defer { if isRenamed { showName(of: key, &turn) } }
    if let rules {
      users[key, default: User()].rules = rules
    } else if users[key]?.rules != nil {
      users[key]?.rules = nil
      tidy(key)
    }
  }

  /// Takes in the rules of the shard's users, once, before any command.
  public mutating func restore(rules: [UserKey: UserRules]) {
    for (key, rules) in rules { users[key, default: User()].rules = rules }
  }
}

extension PendingStore.What {
  fileprivate func isRules(of key: UserKey) -> Bool {
    if case .rules(key, _, _) = self { true } else { false }
  }
}
