internal import CallCore

/// The decisions about calls to users, by the store and by the confirmations to devices and the app's server.
extension HistoryChecker {
  struct Decided: Sendable {
    /// The newest that the store has.
    var stored: UserRules
    /// All that it had before.
    var former: [UserRules] = []
    /// When the newest was confirmed to somebody; nil: it was not.
    var toldAt: Timestamp?

    func ever(_ isSo: (UserRules) -> Bool) -> Bool { isSo(stored) || former.contains(where: isSo) }
  }

  /// The store has other rules of a user, or a name; nil: neither.
  mutating func decided(_ user: String, _ rules: UserRules?) {
    let (key, rules) = (userKey(user), rules ?? UserRules())
    noteName(rules.name, of: user)
    let known = decided[key]
    let former = (known?.former ?? []) + [known?.stored ?? UserRules()]
    decided[key] = Decided(stored: rules, former: former)
  }

  /// Somebody learns that a user's rules are stored.
  mutating func toldRules(
    _ rules: UserRules, asked: UserRules, of user: String
  ) throws(HistoryViolation) {
    guard sight.contains(.rules) else { return }
    let text = "\(Who(user, ""))'s rules"
    try require(
      rules.decisions == asked.decisions, .rulesKept, nil,
      "it is told that \(text) are stored, and they are others")
    guard let known = decided[userKey(user)] else {
      return try require(
        rules.isEmpty, .rulesKept, nil, "it is told that \(text) are stored; the store has none")
    }
    if known.stored.asTold == rules {
      if known.toldAt == nil { decided[userKey(user)]?.toldAt = now }
      return
    }
    try require(
      known.former.contains { $0.asTold == rules }, .rulesKept, nil,
      "it is told that \(text) are stored; the store has others")
  }

  func userKey(_ user: String) -> UserKey { UserKey(app: app.name, user: user) }

  /// The rules that have held for calls to a user since a time; nil: they may be others, for all that is known.
  func rules(of user: String, since time: Timestamp) -> UserRules? {
    guard sight.contains(.rules) else { return nil }
    guard let known = decided[userKey(user)] else { return UserRules() }
    guard let toldAt = known.toldAt, toldAt + bounds.ring <= time else { return nil }
    return known.stored
  }

  /// Whether a user's rules may ever have been such ones.
  func hadRules(_ user: String, _ isSo: (UserRules) -> Bool) -> Bool {
    decided[userKey(user)]?.ever(isSo) ?? !sight.contains(.rules)
  }

  /// How long a device of the callee may wait because others ring first.
  func stage(of who: Who) -> Span {
    guard let known = decided[userKey(who.user)] else { return .zero }
    let stages = (known.former + [known.stored]).filter {
      !$0.firstDevices.isEmpty && !$0.firstDevices.contains(DeviceID(who.device))
    }
    return stages.map { .seconds(Int64($0.firstSeconds) + 1) }.max() ?? .zero
  }
}

extension UserRules {
  /// The part that decides about calls, as devices get it.
  fileprivate var asTold: UserRules {
    var rules = self
    (rules.name, rules.group) = ("", nil)
    return rules.isEmpty ? UserRules() : rules
  }

  /// Without the time at which they were stored.
  fileprivate var decisions: UserRules {
    var rules = asTold
    rules.changedAt = Timestamp(microseconds: 0)
    return rules
  }
}
