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
  package mutating func submit(
    _ command: ClientCommand, now: Timestamp, into actions: inout [Action]
  ) -> UInt64? {
    guard pending.count < configuration.pendingMax else { return nil }
    switch command {
    // Resuming a call of a former run of the app makes it known here.
    case .place(let address, _), .call(let address, .resume): place(address)
    default: break
    }
    lastRequest += 1
    var entry = Pending(id: lastRequest, command: command, nextAt: .distantFuture)
    if state == .attached, !isHeldBack(entry) { send(&entry, now: now, into: &actions) }
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

  private mutating func send(
    _ entry: inout Pending, now: Timestamp, into actions: inout [Action]
  ) {
    if let call = entry.command.acknowledgedInvite {
      acks.removeAll { $0.isInvite && $0.item.call.call == call }
    }
    sendAcks(into: &actions)
    entry.attempts += 1
    entry.isRefused = false
    entry.nextAt = now + configuration.commandTimeout
    actions.append(.send(ClientFrame(id: entry.id, command: entry.command)))
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

  /// A `place` was answered or given up: sends the commands that waited for it.
  private mutating func sendHeldBack(
    behind place: ClientCommand, now: Timestamp, into actions: inout [Action]
  ) {
    guard case .place(let address, _) = place, state == .attached else { return }
    for index in pending.indices
    where pending[index].attempts == 0 && pending[index].command.address?.call == address.call {
      transmit(index, now: now, into: &actions)
    }
  }

  private mutating func transmit(_ index: Int, now: Timestamp, into actions: inout [Action]) {
    var entry = pending[index]
    send(&entry, now: now, into: &actions)
    pending[index] = entry
  }

  /// Retransmits commands that were not answered in time, and gives up those without attempts left.
  mutating func retransmitDue(now: Timestamp, into actions: inout [Action]) {
    var index = 0
    while index < pending.count {
      guard pending[index].nextAt <= now else {
        index += 1
        continue
      }
      if !pending[index].isRefused { pending[index].isDoubtful = true }
      if !mayRetransmit(pending[index], now: now) {
        let entry = pending.remove(at: index)
        actions.append(.event(.gaveUp(request: entry.id, entry.command)))
        withdraw(entry, now: now, into: &actions)
        sendHeldBack(behind: entry.command, now: now, into: &actions)
        sendStream(behind: entry, now: now, into: &actions)
      } else {
        transmit(index, now: now, into: &actions)
        sendStream(behind: pending[index], now: now, into: &actions)
        index += 1
      }
    }
  }

  /// Sends the descriptions and candidates that waited behind another one of the same call.
  private mutating func sendStream(
    behind first: Pending, now: Timestamp, into actions: inout [Action]
  ) {
    guard let call = first.stream, state == .attached else { return }
    for index in pending.indices
    where pending[index].stream == call && pending[index].id > first.id
      && (pending[index].isRefused || pending[index].attempts == 0)
      && !isHeldBack(pending[index])
    {
      transmit(index, now: now, into: &actions)
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
  mutating func sendPending(now: Timestamp, into actions: inout [Action]) {
    for index in pending.indices {
      if pending[index].attempts > 0, !pending[index].isRefused { pending[index].isDoubtful = true }
      // A transmission that was lost with a connection does not count as an attempt.
      pending[index].attempts = 0
      pending[index].isRefused = false
      if !isHeldBack(pending[index]) { transmit(index, now: now, into: &actions) }
    }
  }

  /// Attached again: resumes the calls that this device placed.
  mutating func resumeCalls(now: Timestamp, into actions: inout [Action]) {
    for view in calls.values where view.role == .caller && !view.isEnded {
      let address = CallAddress(callee: view.callee, call: view.call)
      // A `place` that is still unanswered resumes the call by itself.
      let placing = pending.contains {
        if case .place(address, _) = $0.command { true } else { false }
      }
      if !placing { submit(.call(address, .resume), now: now, into: &actions) }
    }
  }

  mutating func replied(
    _ id: UInt64, _ reply: ServerReply, now: Timestamp,
    random: inout some RandomNumberGenerator, into actions: inout [Action]
  ) {
    guard let index = pending.firstIndex(where: { $0.id == id }) else { return }
    if case .error(let error) = reply, error.code == .tryAgain { pending[index].isDoubtful = true }
    if case .error(let error) = reply, Self.asksForRetry(error.code),
      mayRetransmit(pending[index], now: now)
    {
      let floor = max(
        Int64(error.retryAfterMilliseconds), 200 << Int64(min(pending[index].attempts, 6)))
      let wait = floor + Int64.random(in: 0...floor / 2, using: &random)
      pending[index].nextAt = now + .milliseconds(wait)
      pending[index].isRefused = true
      holdStream(index)
      // This edge takes no new calls: the device moves to one that does, and retransmits the
      // command there.
      if error.code == .draining {
        noteDraining(edge, now: now)
        beginMove(after: Span(microseconds: 0), now: now, random: &random)
      }
      return
    }
    let entry = pending.remove(at: index)
    let command = entry.command
    actions.append(.event(.replied(request: id, command, reply)))
    takeReply(command, reply, into: &actions)
    hangUpWithdrawn(entry, reply, now: now, into: &actions)
    if case .place(let address, _) = command, case .error(let error) = reply {
      takeUpAfterRefusal(address, now: now, into: &actions)
      if Self.asksForRetry(error.code) { withdraw(entry, now: now, into: &actions) }
    }
    sendHeldBack(behind: command, now: now, into: &actions)
    if entry.isRefused { sendStream(behind: entry, now: now, into: &actions) }
  }

  /// A `place` that was to resume a live call after an attach was refused: resumes it explicitly.
  private mutating func takeUpAfterRefusal(
    _ address: CallAddress, now: Timestamp, into actions: inout [Action]
  ) {
    guard let view = calls[address.call], !view.isEnded, !isPlacing(address.call) else { return }
    submit(.call(address, .resume), now: now, into: &actions)
  }

  private static func asksForRetry(_ code: CallError.Code) -> Bool {
    switch code {
    case .tryAgain, .overloaded, .draining, .rateLimited: true
    default: false
    }
  }
}
