public import CallCore
public import CallWire

extension ClientMachine {
  /// Sends a command and keeps it until it is answered. While the device is not attached it waits.
  ///
  /// - Returns: its request number; nil when too many wait for a reply.
  @discardableResult
  public mutating func submit(
    _ command: ClientCommand, now: Timestamp, into actions: inout [Action]
  ) -> UInt64? {
    guard pending.count < configuration.pendingMax else { return nil }
    switch command {
    // Taking up a call of a former run of the app makes it known here.
    case .place(let address, _), .call(let address, .resume): place(address)
    default: break
    }
    lastRequest += 1
    var entry = Pending(id: lastRequest, command: command, nextAt: .distantFuture)
    if state == .attached, !isHeldBack(entry) { send(&entry, now: now, into: &actions) }
    pending.append(entry)
    return entry.id
  }

  /// The address by which this device speaks of a call it knows.
  public func address(_ call: CallID) -> CallAddress {
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

  /// While a `place` is unanswered nothing else is said of its call: it may have been lost, with an
  /// edge or a shard's owner, and what comes before it is about a call that nobody knows. And while a
  /// description or candidate waits to be sent again, later ones wait behind it.
  private func isHeldBack(_ entry: Pending) -> Bool {
    guard let call = entry.command.address?.call else { return false }
    return pending.contains { other in
      guard other.id < entry.id else { return false }
      if case .place(let address, _) = other.command { return address.call == call }
      return other.isRefused && other.stream == call && entry.stream == call
    }
  }

  /// A `place` was answered, or given up: what waited for it is said.
  private mutating func sayHeldBack(
    behind place: ClientCommand, now: Timestamp, into actions: inout [Action]
  ) {
    guard case .place(let address, _) = place, state == .attached else { return }
    for index in pending.indices
    where pending[index].attempts == 0 && pending[index].command.address?.call == address.call {
      sendAgain(index, now: now, into: &actions)
    }
  }

  private mutating func sendAgain(_ index: Int, now: Timestamp, into actions: inout [Action]) {
    var entry = pending[index]
    send(&entry, now: now, into: &actions)
    pending[index] = entry
  }

  /// Retransmits what was not answered in time, and gives up what was said often enough.
  mutating func resendDue(now: Timestamp, into actions: inout [Action]) {
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
        sayHeldBack(behind: entry.command, now: now, into: &actions)
        sendStream(behind: entry, now: now, into: &actions)
      } else {
        sendAgain(index, now: now, into: &actions)
        sendStream(behind: pending[index], now: now, into: &actions)
        index += 1
      }
    }
  }

  /// Sends the descriptions and candidates that waited behind one of the same call.
  private mutating func sendStream(
    behind first: Pending, now: Timestamp, into actions: inout [Action]
  ) {
    guard let call = first.stream, state == .attached else { return }
    for index in pending.indices
    where pending[index].stream == call && pending[index].id > first.id
      && (pending[index].isRefused || pending[index].attempts == 0)
      && !isHeldBack(pending[index])
    {
      sendAgain(index, now: now, into: &actions)
    }
  }

  /// One of a stream was refused: later ones that are under way are refused as well, and are sent behind
  /// it.
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

  /// Attached: says what waits for a reply, or was never said.
  mutating func sayPending(now: Timestamp, into actions: inout [Action]) {
    for index in pending.indices {
      if pending[index].attempts > 0, !pending[index].isRefused { pending[index].isDoubtful = true }
      // What was lost with a connection does not count as an attempt.
      pending[index].attempts = 0
      pending[index].isRefused = false
      if !isHeldBack(pending[index]) { sendAgain(index, now: now, into: &actions) }
    }
  }

  /// Attached again: takes up the calls that this device placed.
  mutating func resumeCalls(now: Timestamp, into actions: inout [Action]) {
    for view in calls.values where view.role == .caller && !view.isEnded {
      let address = CallAddress(callee: view.callee, call: view.call)
      // A place that is still unanswered takes the call up by itself.
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
      // This edge takes no new calls: another does, and the command is said there.
      if error.code == .draining {
        noteGone(edge, now: now)
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
    sayHeldBack(behind: command, now: now, into: &actions)
    if entry.isRefused { sendStream(behind: entry, now: now, into: &actions) }
  }

  /// A place that is refused, of a call that lives: it was to take the call up after an attach, and
  /// did not.
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

// MARK: Calls

extension ClientMachine {
  private mutating func place(_ address: CallAddress) {
    guard calls[address.call] == nil else { return }
    calls[address.call] = CallView(
      call: address.call, callee: address.callee, role: .caller, phase: .unknown)
  }

  mutating func delivered(_ delivery: Delivery, into actions: inout [Action]) {
    let call = delivery.call
    // The one before it was lost. Neither is acknowledged, so both come again, in their order.
    guard delivery.after <= calls[call]?.lastTaken ?? 0 else { return }
    var view: CallView
    if let index = calls.index(forKey: call) {
      // In place, so that the view's arrays are not copied.
      let events = calls.values[index].take(delivery)
      emit(call, events, into: &actions)
      view = calls.values[index]
    } else {
      // An invite is the callee's. Everything else about an unknown call is of a call that this
      // device forgot, or of one that ended before it came: acknowledged, and told if it is an end.
      view = CallView(call: call, callee: "", role: .callee, phase: .unknown)
      let events = view.take(delivery)
      calls[call] = view
      emit(call, events, into: &actions)
    }
    let address = CallAddress(callee: view.role == .callee ? "" : view.callee, call: call)
    acks.append(
      PendingAck(
        item: AckItem(call: address, version: delivery.version),
        isInvite: delivery.event.isInvite))
    if view.isEnded { remember(call) }
  }

  func emit(_ call: CallID, _ events: [CallEvent], into actions: inout [Action]) {
    for event in events { actions.append(.event(.call(call, event))) }
  }

  private mutating func takeReply(
    _ command: ClientCommand, _ reply: ServerReply, into actions: inout [Action]
  ) {
    guard let address = command.address, let index = calls.index(forKey: address.call) else {
      return
    }
    var events: [CallEvent] = []
    switch reply {
    case .answer(let won, let state):
      events = calls.values[index].answerDecided(won: won, state)
    case .call(let state): events = calls.values[index].take(state)
    case .done:
      if let reason = command.endsOwnPart { calls.values[index].left(reason) }
    case .error(let error):
      // The device will hear nothing more of a call that never came to be, or is forgotten.
      switch command {
      // A refusal of the same id with other content says nothing of the call that has it: this device
      // may have placed it before its app was started again, and asks what became of it.
      case .place
      where calls.values[index].phase == .unknown && !isPlacing(address.call)
        && error.code != .callIDTaken:
        calls.values[index].left(.failed)
      case .call(_, .resume) where error.code == .unknownCall || error.code == .notParty:
        events = calls.values[index].take(
          CallState(call: address.call, callee: address.callee, phase: .unknown))
      default: break
      }
    case .attached, .registered, .calls: break
    }
    emit(address.call, events, into: &actions)
    if calls.values[index].isEnded { remember(address.call) }
  }

  func isPlacing(_ call: CallID) -> Bool {
    pending.contains {
      if case .place(let address, _) = $0.command { address.call == call } else { false }
    }
  }

  /// Keeps a bounded number of ended calls, and those for which a command has no answer yet: what the cluster
  /// still says of them is acknowledged under the callee's name.
  mutating func remember(_ call: CallID) {
    guard !endedCalls.contains(call) else { return }
    endedCalls.append(call)
    while endedCalls.count > configuration.endedCallsMax,
      let index = endedCalls.firstIndex(where: { !isAwaited($0) })
    {
      calls[endedCalls.remove(at: index)] = nil
    }
  }

  private func isAwaited(_ call: CallID) -> Bool {
    pending.contains { $0.command.address?.call == call }
  }
}

extension ClientCommand {
  /// The call that a command is about.
  public var address: CallAddress? {
    switch self {
    case .place(let address, _), .call(let address, _): address
    case .attach, .detach, .register, .unregister, .ack, .ping, .calls, .renew: nil
    }
  }

  /// The call whose invite a callee's device acknowledges by saying this.
  var acknowledgedInvite: CallID? {
    guard case .call(let address, let verb) = self else { return nil }
    return switch verb {
    case .alerting, .answer, .decline, .busy: address.call
    default: nil
    }
  }

  /// What the call ends as for the device that says this.
  var endsOwnPart: EndReason? {
    guard case .call(_, let verb) = self else { return nil }
    return switch verb {
    case .decline: .declined
    case .busy: .busy
    case .cancel: .cancelled
    case .hangUp: .hungUp
    default: nil
    }
  }
}

extension Delivery.Event {
  fileprivate var isInvite: Bool {
    if case .invite = self { true } else { false }
  }
}
