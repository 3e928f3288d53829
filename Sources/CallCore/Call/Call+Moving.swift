/// How a side of an answered call moves to another device of its user ("call pull").
extension Call {
  /// A device takes a side over. The device that had it stops, and the other side gets the new description.
  /// - Parameters:
  ///   - party: the device that pulls, which is of the caller's user or of the callee's.
  ///   - command: the pull, with the session on which the device gets the call.
  mutating func pull(
    _ request: PullRequest, by party: Party, _ command: Command, _ turn: inout Turn
  ) -> Reply {
    guard case .answered(let conversation) = stage else {
      guard isRinging else { return pulled(by: party) }
      return .error(CallError(.wrongState, "Nobody has answered yet: answer the call instead."))
    }
    // A vacant side is taken by an answer.
    let isCallers = !isCallerVacant && facts.caller.isDevice(request.from, of: party.user)
    let isWinners = legs[conversation.winner].party.isDevice(request.from, of: party.user)
    guard isCallers || isWinners else {
      let lost = moves.last { $0.from.isDevice(request.from, of: party.user) }
      if let lost, has(party, otherSideThanCallers: lost.ofCaller),
        !moves.contains(where: { $0.isPull(request, by: party) })
      {
        return .error(Self.hasOtherSide)
      }
      tookCallersSide(party, by: command, &turn)
      return pulled(by: party)
    }
    if has(party, otherSideThanCallers: isCallers) { return .error(Self.hasOtherSide) }
    if request.from == party.device { return pulled(by: party) }
    let fingerprint = request.fingerprint(command.request)
    // The device that was named has pulled it back since, so a repetition would move it once more.
    let isRepeat = moves.contains {
      $0.isPull(request, by: party) && $0.command == fingerprint
        && turn.now < $0.at + Self.repeatedWithin
    }
    if isRepeat { return pulled(by: party) }
    guard moves.count < turn.limits.movesPerCall else { return .error(turn.limits.tooManyMoves) }
    guard isCallers || legIndex(party) != nil || legs.count < turn.limits.legsPerCallLifetime
    else { return .error(turn.limits.tooManyDevices) }
    move(request, fingerprint, ofCaller: isCallers, to: party, command, &turn)
    return pulled(by: party)
  }

  private static let hasOtherSide = CallError(
    .wrongState, "This device has the other side of the call.")

  /// In a call to oneself one user's devices have both sides.
  private func has(_ party: Party, otherSideThanCallers isCallers: Bool) -> Bool {
    let other = isCallers ? winner.map { legs[$0].party } : facts.caller
    return other?.isDevice(party.device, of: party.user) ?? false
  }

  private mutating func move(
    _ request: PullRequest, _ fingerprint: UInt64, ofCaller: Bool, to party: Party,
    _ command: Command, _ turn: inout Turn
  ) {
    guard let winner else { return }
    let from = ofCaller ? facts.caller : legs[winner].party
    var to = party
    if ofCaller { to.name = from.name }
    let move = MovedFacts(
      ofCaller: ofCaller, from: from, to: to, at: turn.now, description: request.description,
      connectDeadline: turn.now + turn.limits.connectGrace, command: fingerprint)
    commit(.moved(move), .urgent, &turn)
    guard let holder = self.winner else { return }
    if ofCaller {
      caller.begin(by: command)
      caller.sendKept(&turn)
      legs[holder].endpoint.sendKept(&turn)
    } else {
      legs[holder].endpoint.session = command.session
      legs[holder].ringPush.deviceIsAwake()
      legs[holder].endpoint.sendKept(&turn)
      caller.sendKept(&turn)
    }
    deliverMove(move, &turn)
    notifyGuests(ofCaller: ofCaller, &turn)
  }

  /// Stops the device that had the side.
  mutating func deliverMove(
    _ move: MovedFacts, decided: Timestamp? = nil, _ turn: inout Turn
  ) {
    let stop = move.stop
    if move.ofCaller {
      guard let index = formerCaller(move.from.user, move.from.device) else { return }
      let delivery = delivery(.stop(stop), at: decided ?? turn.now, epoch: turn.epoch)
      formerCallers[index].endpoint.clear()
      formerCallers[index].endpoint.deliver(delivery, &turn)
    } else if let leg = legIndex(move.from) {
      legs[leg].endpoint.clear()
      deliver(to: leg, .stop(stop), decided: decided, &turn)
    }
  }

  /// Stops every device that has given a side up. A new owner does not know which of them have been stopped.
  mutating func deliverMoves(_ turn: inout Turn) {
    for index in formerCallers.indices where !hasSide(formerCallers[index].party) {
      deliver(move(awayFrom: .formerCaller(index)), &turn)
    }
    for leg in legs.indices
    where !hasSide(legs[leg].party)
      && formerCaller(legs[leg].party.user, legs[leg].party.device) == nil
    {
      deliver(move(awayFrom: .leg(leg)), &turn)
    }
  }

  /// In a call to oneself a device that has given one side up may have the other one.
  private func hasSide(_ party: Party) -> Bool {
    facts.caller.isDevice(party.device, of: party.user)
      || winner.map { legs[$0].party.isDevice(party.device, of: party.user) } ?? false
  }

  private mutating func deliver(_ move: MovedFacts?, _ turn: inout Turn) {
    if let move { deliverMove(move, decided: move.at, &turn) }
  }

  /// The command by which a device took the caller's side is repeated. The first reply may have been lost with its
  /// session, and a device that does not know yet that it has this side resumes nothing. So the side goes to the session
  /// of the repetition.
  /// - Parameter command: a pull or an answer.
  mutating func tookCallersSide(_ party: Party, by command: Command, _ turn: inout Turn) {
    guard !isEnded, let taken = moves.last(where: \.ofCaller),
      taken.isTransfer == !command.body.isPull, taken.to.isDevice(party.device, of: party.user)
    else { return }
    callerAttached(by: command, &turn)
  }

  private func pulled(by party: Party) -> Reply {
    let isCaller = facts.caller.isDevice(party.device, of: party.user)
    if isCaller { return .answer(won: !isEnded, state(for: .caller)) }
    let user = UserKey(app: facts.callee.app, user: party.user)
    let role = role(of: user, party.device)
    guard case .leg(let leg) = role else { return .answer(won: false, state(for: role)) }
    return .answer(won: !isEnded && legs[leg].state == .won, state(for: role))
  }

  // MARK: The facts

  mutating func applyMoved(_ move: MovedFacts, at now: Timestamp, epoch: UInt64) -> Bool {
    guard case .answered(let conversation) = stage else { return false }
    var winner = conversation.winner
    // Signals from before the answer were delivered, or are for a device that no longer has the call.
    callerSignals.dropWaiting()
    legs[winner].signals.dropWaiting()
    for index in moves.indices where moves[index].ofCaller == move.ofCaller {
      moves[index].description = ""
    }
    moves.append(move)
    if move.isTransfer { endTransfer(by: move) }
    if move.ofCaller {
      moveCaller(move, at: now, epoch: epoch)
    } else {
      winner = moveWinner(conversation.winner, to: move.to, at: move.at)
      for waiting in legs[conversation.winner].endpoint.drain() {
        guard let event = waiting.event.after(move) else { continue }
        legs[winner].endpoint.keep(delivery(event, at: now, epoch: epoch))
      }
    }
    changeConversation { $0.move(move, winner: winner) }
    timeline.note(
      .moved, move.ofCaller ? CallTimeline.caller : UInt8(clamping: winner), at: move.at)
    let moved = Moved(to: move.to, description: move.description, number: UInt32(moves.count))
    let delivery = delivery(.moved(moved), at: now, epoch: epoch)
    if move.ofCaller {
      legs[winner].endpoint.replaceMoved(by: delivery)
    } else if !isCallerVacant {
      caller.replaceMoved(by: delivery)
    }
    return true
  }

  private mutating func moveCaller(_ move: MovedFacts, at now: Timestamp, epoch: UInt64) {
    let party = move.to
    // The device may have rung, or had the other side in a call to oneself. From now on it is not a leg.
    if let leg = legIndex(party) {
      legs[leg].endpoint.clear()
      legs[leg].state = .moved(at: move.at)
    }
    formerCallers.removeAll { $0.party.isDevice(party.device, of: party.user) }
    let waiting = caller.drain().compactMap { $0.event.after(move) }
    if !move.fillsVacancy {
      formerCallers.append(FormerCaller(party: facts.caller, endpoint: caller))
    }
    facts.caller = party
    caller = Endpoint()
    for event in waiting { caller.keep(delivery(event, at: now, epoch: epoch)) }
    // The device numbers its requests for itself.
    callerSignals.forgetRequests()
  }

  private mutating func moveWinner(_ former: Int, to party: Party, at: Timestamp) -> Int {
    if facts.isToOneself {
      formerCallers.removeAll { $0.party.isDevice(party.device, of: party.user) }
    }
    legs[former].state = .moved(at: at)
    let leg = legIndex(party) ?? legs.count
    if leg == legs.count { legs.append(Leg(party: party, key: facts.key(of: party))) }
    legs[leg].state = .won
    legs[leg].endpoint.clear()
    legs[leg].signals.follow(legs[former].signals)
    return leg
  }

  // MARK: Devices that had a side

  func formerCaller(_ user: String, _ device: DeviceID) -> Int? {
    formerCallers.firstIndex { $0.party.isDevice(device, of: user) }
  }

  /// The last move of this side away from a device.
  private func lastMove(from party: Party, ofCaller: Bool) -> MovedFacts? {
    moves.last { $0.ofCaller == ofCaller && $0.from.isDevice(party.device, of: party.user) }
  }

  /// Whether the device that has the caller's side took it, and may have rung before, by this owner or a former one.
  var callerMayHaveRung: Bool {
    let user = facts.caller.user
    return legIndex(facts.caller) != nil
      || !moves.isEmpty && (user.hasBytes(of: facts.callee.user) || guest(user) != nil)
  }

  /// The move by which a device lost its side of the call; nil: it had none, or has it.
  func move(awayFrom role: Role) -> MovedFacts? {
    switch role {
    case .formerCaller(let index): lastMove(from: formerCallers[index].party, ofCaller: true)
    case .leg(let leg):
      if case .moved = legs[leg].state {
        lastMove(from: legs[leg].party, ofCaller: false)
      } else {
        nil
      }
    case .caller, .calleeDevice, .stranger: nil
    }
  }

  /// The party that placed the call, before any move.
  var placer: Party { moves.first(where: \.ofCaller)?.from ?? facts.caller }

  /// A device that had the caller's side is back.
  mutating func formerCallerAttached(_ index: Int, _ session: SessionRef, _ turn: inout Turn) {
    let isNew = formerCallers[index].endpoint.attach(session)
    formerCallerAttached(index, isNew: isNew, &turn)
  }

  mutating func formerCallerAttached(_ index: Int, by command: Command, _ turn: inout Turn) {
    guard let isNew = formerCallers[index].endpoint.attach(by: command) else { return }
    formerCallerAttached(index, isNew: isNew, &turn)
  }

  private mutating func formerCallerAttached(_ index: Int, isNew: Bool, _ turn: inout Turn) {
    if !isNew {
      formerCallers[index].endpoint.retransmitExhausted(&turn)
    } else if turn.isServing {
      formerCallers[index].endpoint.retransmitAll(&turn)
    }
  }
}

extension CallStage.Conversation {
  /// A side has another device, which is attached and not connected yet.
  /// - Parameter winner: the leg that has the callee's side now.
  fileprivate mutating func move(_ move: MovedFacts, winner: Int) {
    connectDeadline = max(connectDeadline, move.connectDeadline)
    if move.ofCaller {
      callerLostUntil = nil
      isCallerConnected = false
    } else {
      self.winner = winner
      (winnerLostUntil, winnerSilentUntil) = (nil, nil)
      isWinnerConnected = false
    }
  }
}

extension MovedFacts {
  /// Whether a device took a side over from the one that it names.
  fileprivate func isPull(_ request: PullRequest, by party: Party) -> Bool {
    to.isDevice(party.device, of: party.user) && from.isDevice(request.from, of: party.user)
  }
}

extension Command.Body {
  fileprivate var isPull: Bool {
    if case .call(_, .pull) = self { true } else { false }
  }
}

extension PlacedFacts {
  var isToOneself: Bool { caller.user.hasBytes(of: callee.user) }
}

extension Delivery.Event {
  /// The part of a delivery that still concerns the device that takes a side over; nil: none. Descriptions and
  /// candidates belong to the media of the device that had the side.
  fileprivate func after(_ move: MovedFacts) -> Delivery.Event? {
    switch self {
    // An information for one user is not meant for another one.
    case .signal(let signal):
      return signal.kind == .information && !move.isTransfer ? self : nil
    case .moved(var moved):
      moved.description = ""
      return .moved(moved)
    // This news is for the side, whichever device has it.
    case .transfer: return move.isTransfer ? nil : self
    case .invite, .ringing, .ringsUntil, .answered, .stop: return nil
    }
  }
}
