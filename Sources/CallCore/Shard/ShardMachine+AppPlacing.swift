/// Calls that the app's server places between two users. `Call+Transferring.swift` says how they go on.
extension ShardMachine {
  /// - Parameter command: its user is the one whose devices ring first.
  mutating func placeForApp(_ command: Command, _ placing: AppPlacing, _ turn: inout Turn) {
    if let refusal = refusal(of: placing, to: command.callee) {
      return turn.reply(command, .error(refusal))
    }
    var command = command
    command.user = UserKey(app: command.user.app, user: placing.caller)
    place(command, placing.request, for: placing, &turn)
  }

  private func refusal(of placing: AppPlacing, to callee: UserKey) -> CallError? {
    guard mayTransfer else {
      return CallError(
        .unknownCommand,
        "The app's server places no call while a node of an earlier version is there.")
    }
    guard IdentifierRules.isUser(callee.user), IdentifierRules.isUser(placing.caller) else {
      return CallError(.invalidCallee)
    }
    guard !placing.caller.hasBytes(of: callee.user) else {
      return CallError(.wrongState, "The call is from a user to itself.")
    }
    return nil
  }
}
