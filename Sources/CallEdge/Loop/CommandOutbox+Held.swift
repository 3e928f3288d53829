package import CallCore

/// Commands that a hook decides about.
extension CommandOutbox {
  /// The command, if it still waits for the hook.
  package func held(session: UInt64, request: UInt64) -> Command? {
    let entry = pending[Key(session: session, request: request)]
    return entry?.isHeld == true ? entry?.command : nil
  }

  /// The hook has decided: the command leaves, and what waits behind it.
  /// - Parameters:
  ///   - refusal: why it is refused. Its shard may have the call nevertheless, since a hook may decide otherwise about
  ///     a repeated `place`; so it is asked, and the call goes on if it exists.
  ///   - change: makes the command what it leaves as.
  package mutating func release(
    session: UInt64, request: UInt64, refusal: CallError? = nil,
    _ change: (inout Command) -> Void = { _ in }
  ) {
    let key = Key(session: session, request: request)
    guard let entry = pending[key], entry.isHeld, let call = entry.command.body.call else { return }
    var command = entry.command
    change(&command)
    let decided = Pending(command, since: entry.since, order: entry.order)
    (decided.isHeld, decided.refusal) = (true, refusal)
    pending[key] = decided
    send(held.decide(session: session, call: call, request: request), of: session)
  }

  /// The session has ended: drops its held commands about the call.
  /// - Returns: how many commands were dropped.
  package mutating func dropHeld(of session: UInt64, call: CallID) -> Int {
    let requests = held.drop(session: session, call: call)
    for request in requests { _ = take(Key(session: session, request: request), freeing: false) }
    return requests.count
  }

  /// - Returns: false where the command need not wait.
  mutating func hold(_ key: Key, _ call: CallID?, _ awaitsHook: Bool) -> Bool {
    guard let call else { return false }
    if awaitsHook {
      held.hold(session: key.session, call: call, request: key.request)
    } else if !held.follow(session: key.session, call: call, request: key.request) {
      return false
    }
    pending[key]?.isHeld = true
    return true
  }

  /// Sends what waits no more.
  mutating func send(_ requests: [UInt64], of session: UInt64) {
    for request in requests {
      guard let entry = pending[Key(session: session, request: request)] else { continue }
      entry.isHeld = false
      add(entry.outgoing, urgent: true)
    }
  }
}

extension CommandOutbox.Pending {
  /// The command that is sent in its place.
  var outgoing: Command {
    guard refusal != nil, let call = command.body.call else { return command }
    var command = command
    command.body = .call(call, .resume)
    return command
  }
}
