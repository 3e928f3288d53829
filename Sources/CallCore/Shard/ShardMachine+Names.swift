/// Display names of users, as the app's server sets them. The store has them beside the user's rules; the sessions of
/// the user have copies, since the edge writes the caller's name into each call that it places.
///
/// Whenever a session attaches or is announced, it says which name it has, and the shard corrects it if that differs.
/// Edges announce their sessions again every half a minute, so a change that a session missed, or a late message of a
/// former owner, shows no longer than that. Nothing is acknowledged and nothing kept for it.
extension ShardMachine {
  /// The app's server sets the user's name. An empty one, also one of which nothing can be shown, removes it.
  mutating func set(name: String, _ command: Command, _ turn: inout Turn) {
    var rules = newestRules(of: command.user) ?? UserRules()
    // The edge has cleaned it; it may be of another version.
    rules.name = DisplayName.shown(name)
    store(rules, command, .app(.name(rules.name)), &turn)
  }

  /// The name that the store has of a user; empty: none.
  func name(of key: UserKey) -> String { users[key]?.rules?.name ?? "" }

  /// A session begins, or is announced.
  /// - Parameter known: the name that it has; nil: its edge is of a version without names.
  func correctName(_ known: String?, _ command: Command, _ turn: inout Turn) {
    guard let known else { return }
    let name = name(of: command.user)
    guard !name.hasBytes(of: known) else { return }
    turn.perform(.showName(command.session, name), .relaxed)
  }

  /// The user has another name now: its sessions get it.
  func showName(of key: UserKey, _ turn: inout Turn) {
    guard let user = users[key] else { return }
    let name = user.rules?.name ?? ""
    for session in user.devices.compactMap(\.session) {
      turn.perform(.showName(session, name), .relaxed)
    }
  }
}
