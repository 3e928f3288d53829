package import CallCore
package import CallWire

extension ClientMachine {
  struct Pending: Sendable {
    var id: UInt64
    var command: ClientCommand
    /// How often it was sent.
    var attempts = 0
    /// When it is retransmitted, or given up.
    var nextAt: Timestamp
    /// The cluster asked for a retry: the command waits for `nextAt`, or for the command before it
    /// in its stream.
    var isRefused = false
    /// An attempt got no conclusive reply, so it may have taken effect.
    var isDoubtful = false
    /// Retransmitted until this time; nil: `commandAttempts` times.
    var until: Timestamp?
    /// The time after which it must not take effect. Without a connection it is given up then; on one it is not
    /// retransmitted.
    var expiresAt = Timestamp.distantFuture

    var isUnsent: Bool { attempts == 0 && !isDoubtful && !isRefused }

    func places(_ call: CallID) -> Bool {
      if case .place(let address, _) = command { address.call == call } else { false }
    }

    /// The call, if the command is one of its stream of descriptions and candidates.
    var stream: CallID? {
      if case .call(let address, .signal) = command { address.call } else { nil }
    }
  }

  /// Sends a command and retransmits it until it is answered. It waits while the device is not
  /// attached.
  ///
  /// - Returns: the request's number; nil when `pendingMax` commands wait already.
  @discardableResult
  package mutating func submit(_ command: ClientCommand, _ turn: inout Turn) -> UInt64? {
    guard pending.count < configuration.pendingMax else { return nil }
    if case .call(let address, let verb) = command, verb != .query { claim(address.call) }
    return enqueue(command, &turn)
  }

  /// Sends a command of the machine's own: it resumes, ends or asks for a call, or renews the token. The app's
  /// commands may fill their queue in an outage, so these have as much room again; without them a call would
  /// ring for ever.
  @discardableResult
  mutating func enqueue(_ command: ClientCommand, _ turn: inout Turn) -> UInt64? {
    guard pending.count < 2 * configuration.pendingMax else { return nil }
    lastRequest += 1
    var entry = Pending(id: lastRequest, command: command, nextAt: .distantFuture)
    if command.endsOwnPart != nil { entry.until = turn.now + configuration.leavePatience }
    if command.expires { entry.expiresAt = turn.now + configuration.placePatience }
    switch command {
    // Resuming a call of a former run of the app makes it known here.
    case .place(let address, _), .call(let address, .resume):
      stayForCall(&turn)
      place(address)
      // The cluster ends a call whose caller does not come back, and no other command says that it is back.
      if case .call = command { entry.until = .distantFuture }
    default: break
    }
    if state == .attached, !isHeldBack(entry) { send(&entry, &turn) }
    pending.append(entry)
    return entry.id
  }

  /// The address under which this device refers to a call it knows.
  package func address(_ call: CallID) -> CallAddress {
    CallAddress(callee: calls[call]?.callee ?? "", call: call)
  }

  mutating func nextFrame(_ command: ClientCommand) -> ClientFrame {
    lastRequest += 1
    return ClientFrame(id: lastRequest, command: command)
  }

  private mutating func send(_ entry: inout Pending, _ turn: inout Turn) {
    if let call = entry.command.acknowledgedInvite {
      acks.removeAll { $0.isInvite && $0.item.call.call == call }
    }
    sendAcks(&turn)
    entry.attempts += 1
    entry.isRefused = false
    entry.nextAt = turn.now + configuration.commandTimeout
    turn.actions.append(.send(ClientFrame(id: entry.id, command: entry.command)))
  }

  /// While a `place` is unanswered, no other command about its call is sent: the `place` may have
  /// been lost with an edge or a shard's owner, and a command that overtakes it is about an unknown
  /// call. While a description or candidate waits for its retransmission, later ones wait behind
  /// it.
  private func isHeldBack(_ entry: Pending) -> Bool {
    guard let call = entry.command.address?.call else { return false }
    return pending.contains { other in
      guard other.id < entry.id else { return false }
      if case .place(let address, _) = other.command { return address.call == call }
      return other.isRefused && other.stream == call && entry.stream == call
    }
  }

  /// A `place` was answered or given up: sends the commands that waited for it alone. The app may have placed the call
  /// once more.
  private mutating func sendHeldBack(behind place: ClientCommand, _ turn: inout Turn) {
    guard case .place(let address, _) = place, state == .attached else { return }
    for index in pending.indices
    where pending[index].attempts == 0 && pending[index].command.address?.call == address.call
      && !isHeldBack(pending[index])
    {
      transmit(index, &turn)
    }
  }

  private mutating func transmit(_ index: Int, _ turn: inout Turn) {
    var entry = pending[index]
    send(&entry, &turn)
    pending[index] = entry
  }

  /// Retransmits commands that were not answered in time, and gives up those without attempts left.
  mutating func retransmitDue(_ turn: inout Turn) {
    var index = 0
    while index < pending.count {
      guard pending[index].nextAt <= turn.now else {
        index += 1
        continue
      }
      if !pending[index].isRefused { pending[index].isDoubtful = true }
      if !mayRetransmit(pending[index], now: turn.now) {
        let entry = pending.remove(at: index)
        turn.actions.append(.event(.gaveUp(request: entry.id, entry.command)))
        leave(by: entry.command)
        withdraw(entry, &turn)
        sendHeldBack(behind: entry.command, &turn)
        sendStream(behind: entry, &turn)
      } else {
        transmit(index, &turn)
        sendStream(behind: pending[index], &turn)
        index += 1
      }
    }
  }

  /// Sends the descriptions and candidates that waited behind another one of the same call.
  private mutating func sendStream(behind first: Pending, _ turn: inout Turn) {
    guard let call = first.stream, state == .attached else { return }
    for index in pending.indices
    where pending[index].stream == call && pending[index].id > first.id
      && (pending[index].isRefused || pending[index].attempts == 0)
      && !isHeldBack(pending[index])
    {
      transmit(index, &turn)
    }
  }

  /// One of a stream was refused: later ones in flight will be refused as well, and are
  /// retransmitted behind it.
  private mutating func holdStream(_ index: Int) {
    guard let call = pending[index].stream else { return }
    let isBehind = pending.contains {
      $0.stream == call && $0.id < pending[index].id && $0.isRefused
    }
    if isBehind { pending[index].nextAt = .distantFuture }
    for later in pending.indices
    where pending[later].stream == call && pending[later].id > pending[index].id {
      pending[later].isRefused = true
      pending[later].nextAt = .distantFuture
    }
  }

  /// Attached: sends all commands that wait for a reply.
  mutating func sendPending(_ turn: inout Turn) {
    for index in pending.indices {
      if pending[index].attempts > 0, !pending[index].isRefused { pending[index].isDoubtful = true }
      // A transmission that was lost with a connection does not count as an attempt.
      pending[index].attempts = 0
      pending[index].isRefused = false
      if !isHeldBack(pending[index]) { transmit(index, &turn) }
    }
  }

  /// Attached again: resumes the calls that this device placed.
  mutating func resumeCalls(_ turn: inout Turn) {
    for view in calls.values where view.role == .caller && !view.isEnded {
      let address = CallAddress(callee: view.callee, call: view.call)
      // A `place` that is still unanswered resumes the call by itself.
      let isUnderWay = pending.contains {
        switch $0.command {
        case .place(address, _), .call(address, .resume): true
        default: false
        }
      }
      if !isUnderWay { enqueue(.call(address, .resume), &turn) }
    }
  }

  mutating func replied(_ id: UInt64, _ reply: ServerReply, _ turn: inout Turn) {
    guard let index = pending.firstIndex(where: { $0.id == id }) else { return }
    if case .error(let error) = reply, error.code == .tryAgain { pending[index].isDoubtful = true }
    if case .error(let error) = reply, Self.asksForRetry(error.code),
      mayRetransmit(pending[index], now: turn.now)
    {
      let floor = max(
        Int64(error.retryAfterMilliseconds),
        Self.refusalBackoff.pause(after: pending[index].attempts).microseconds / 1000)
      let wait = floor + Int64.random(in: 0...floor / 2, using: &turn.random)
      pending[index].nextAt = turn.now + .milliseconds(wait)
      pending[index].isRefused = true
      holdStream(index)
      // This edge takes no new calls: the device moves to one that does, and retransmits the
      // command there.
      if error.code == .draining {
        noteDraining(edge, now: turn.now)
        beginMove(after: Span(microseconds: 0), &turn)
      }
      return
    }
    let entry = pending.remove(at: index)
    let command = entry.command
    turn.actions.append(.event(.replied(request: id, command, reply)))
    applyReply(command, reply, &turn)
    hangUpWithdrawn(entry, reply, &turn)
    if case .place(let address, _) = command, case .error(let error) = reply {
      resumeAfterRefusal(address, &turn)
      if Self.asksForRetry(error.code) { withdraw(entry, &turn) }
    }
    sendHeldBack(behind: command, &turn)
    if entry.isRefused { sendStream(behind: entry, &turn) }
  }

  /// A `place` that was to resume a live call after an attach was refused: resumes it explicitly.
  private mutating func resumeAfterRefusal(_ address: CallAddress, _ turn: inout Turn) {
    guard let view = calls[address.call], !view.isEnded, !isPlacing(address.call) else { return }
    enqueue(.call(address, .resume), &turn)
  }

  private static let refusalBackoff = Backoff(.milliseconds(200), to: .milliseconds(12_800))

  private static func asksForRetry(_ code: CallError.Code) -> Bool {
    switch code {
    case .tryAgain, .overloaded, .draining, .rateLimited: true
    default: false
    }
  }
}
