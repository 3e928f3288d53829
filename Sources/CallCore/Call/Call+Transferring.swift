/// How a side of an answered call is handed over to another user (R26).
///
/// A transfer is a diversion of a call that goes on: the same rules find the other user's devices, ring them and stop
/// them. Until one of them answers, nothing changes for the two sides. Then the side moves to it, as in a pull.
extension Call {
  /// A device hands its side over.
  /// - Parameters:
  ///   - number: the device's own number for the command.
  ///   - session: where the command came from.
  mutating func transfer(
    _ request: TransferRequest, number: UInt64, by role: Role, _ party: Party,
    on session: SessionRef, _ turn: inout Turn
  ) -> Reply {
    if isRepeat(request, number: number, by: role, party, turn) { return .call(state(for: role)) }
    if let refusal = refusal(of: request, by: role, turn) { return .error(refusal) }
    guard !isTransferring else { return .error(CallError(.transferring)) }
    guard transfers.count < turn.limits.movesPerCall, moves.count < turn.limits.movesPerCall else {
      return .error(turn.limits.tooManyMoves)
    }
    var start = DivertedFacts(
      from: party.user, to: [request.to], reason: .transferred, by: party, at: turn.now,
      deadline: turn.now + turn.limits.ringTimeout)
    (start.device, start.consulted, start.request) = (request.device, request.consulted, number)
    commit(.diverted(start), .urgent, &turn)
    if isTransferring { transfers[transfers.count - 1].session = session }
    visitGuests(&turn)
    return .call(state(for: role))
  }

  /// Whether a command asks again for a transfer, because its reply was lost (R9). Once that transfer is over, only the
  /// command's number distinguishes a repetition from a new attempt. The number counts only for a short time, since an
  /// app that is restarted begins with 1 again.
  private func isRepeat(
    _ request: TransferRequest, number: UInt64, by role: Role, _ party: Party,
    _ turn: borrowing Turn
  ) -> Bool {
    if let last = transfers.last, last.isSame(as: request, by: party) {
      switch last.outcome {
      case .pending: return true
      case .moved(let index): if move(awayFrom: role) == moves[index] { return true }
      case .failed: break
      }
    }
    return transfers.contains {
      $0.isSame(as: request, by: party) && number == $0.start.request
        && turn.now < $0.start.at + Self.repeatedWithin
    }
  }

  /// Longer than a client and its edge retransmit a command.
  static let repeatedWithin: Span = .seconds(60)

  private func refusal(
    of request: TransferRequest, by role: Role, _ turn: borrowing Turn
  ) -> CallError? {
    guard case .answered(let conversation) = stage else {
      return CallError(.wrongState, isRinging ? "Nobody has answered yet." : "The call is over.")
    }
    switch role {
    case .caller: break
    case .leg(let leg) where leg == conversation.winner: break
    default: return CallError(.notParty, "Only a device that has a side of the call transfers it.")
    }
    guard IdentifierRules.isUser(request.to) else { return CallError(.invalidCallee) }
    if request.consulted != nil, request.device == nil {
      return CallError(.invalidField, "Who was consulted is a device: name it.")
    }
    let users = [facts.caller.user, legs[conversation.winner].party.user]
    if users.contains(where: { $0.hasBytes(of: request.to) }) {
      return CallError(
        .wrongState, "This user is in the call: another device of it takes the call over by a pull."
      )
    }
    return nil
  }

  /// Cancels the transfer, so the side that hands the call over keeps it.
  /// - Parameters:
  ///   - number: the device's own number for the command.
  ///   - session: where the command came from.
  mutating func cancelTransfer(
    number: UInt64, by role: Role, _ party: Party, on session: SessionRef, _ turn: inout Turn
  ) -> Reply {
    if let transfer, !isOfFormerTransfer(number, by: party, on: session, transfer) {
      guard holder(ofCaller: transfer.ofCaller).isDevice(party.device, of: party.user) else {
        return .error(
          CallError(.notParty, "Only the side that transfers the call can cancel that."))
      }
      endTransfer(.cancelled, by: party, &turn)
    }
    return .call(state(for: role))
  }

  /// Whether a cancel was sent before this transfer, for an earlier one (R9): the device had counted less far. Only an app
  /// that was restarted since counts less far and means this transfer; its session is the present one and not that of the
  /// transfer.
  private func isOfFormerTransfer(
    _ number: UInt64, by party: Party, on session: SessionRef, _ transfer: Transfer
  ) -> Bool {
    guard number < transfer.start.request, let by = transfer.start.by,
      by.isDevice(party.device, of: party.user)
    else { return false }
    let present = transfer.ofCaller ? caller.session : winner.flatMap { legs[$0].endpoint.session }
    return session != present || session == transfer.session
  }

  /// A device answers a transfer. The first one in the shard's order gets the side.
  mutating func answerTransfer(
    _ leg: Int, description: String, by command: Command, _ turn: inout Turn
  ) -> Reply {
    guard let transfer, isRung(.leg(leg)) else { return lateAnswer(leg) }
    guard moves.count < turn.limits.movesPerCall else { return .error(turn.limits.tooManyMoves) }
    let losers = legs.indices.filter {
      $0 != leg && isInRound($0) && legs[$0].state.mayStillRing
    }
    let move = MovedFacts(
      ofCaller: transfer.ofCaller, from: holder(ofCaller: transfer.ofCaller), to: legs[leg].party,
      at: turn.now, description: description,
      connectDeadline: turn.now + turn.limits.connectGrace)
    let early = legs[leg].signals.waiting
    commit(.moved(move), .urgent, &turn)
    for signal in early { handOver(signal, ofCaller: move.ofCaller, leg, &turn) }
    legs[leg].ringPush.deviceIsAwake()
    // The answer may have come on a session before the present one.
    if move.ofCaller {
      caller.begin(by: command)
    } else if legs[leg].endpoint.session == nil {
      legs[leg].endpoint.session = command.session
    }
    caller.sendKept(&turn)
    if let winner { legs[winner].endpoint.sendKept(&turn) }
    deliverMove(move, &turn)
    for loser in losers { stopDiverted(loser, &turn) }
    if hasRingPushUnderWay || losers.contains(where: { legs[$0].ringPush.mayRing }) {
      wantsPush = true
    }
    notifyGuests(ofCaller: move.ofCaller, &turn)
    requestReplacing(&turn)
    return .answer(won: true, state(for: move.ofCaller ? .caller : .leg(leg)))
  }

  /// Whether what a device says is about an earlier ringing: neither an invite nor a push for the present one has reached
  /// it. It may have learned meanwhile that the earlier ringing is over. With an answer it would have a side and not know
  /// it, and with a refusal it would never ring.
  func isOfEarlierRinging(_ leg: Int) -> Bool {
    isTransferring && isRung(.leg(leg)) && legs[leg].hadPart && !legs[leg].invitation.wasSent
      && !legs[leg].ringPush.isDecided
  }

  /// Commits a signal that a device sent before it took a side, with an index above those of the side's former device.
  private mutating func handOver(
    _ early: Signal, ofCaller: Bool, _ leg: Int, _ turn: inout Turn
  ) {
    let signals = ofCaller ? callerSignals : legs[leg].signals
    let signal = signals.next(early.request, early.kind, early.body)
    let device = ofCaller ? facts.caller.device : legs[leg].key
    commit(.signal(fromCaller: ofCaller, device, signal), .urgent, &turn)
  }

  /// Ends a transfer that no device took.
  /// - Parameter silent: the role whose device learns the end from the reply to its command, and gets no delivery.
  mutating func endTransfer(
    _ reason: EndReason, by: Party?, silent: Role? = nil, _ turn: inout Turn
  ) {
    let rung = legs.indices.filter { isInRound($0) && legs[$0].state.mayStillRing }
    commit(.transferEnded(TransferEnd(reason: reason, by: by, at: turn.now)), .urgent, &turn)
    allowTimeToConnect(turn)
    for leg in rung {
      if case .leg(leg) = silent {
        legs[leg].endpoint.clear()
      } else {
        stopDiverted(leg, &turn)
      }
    }
    wantsPush = true
    // The device that cancels gets a reply, and a call that ends delivers its end.
    guard reason != .cancelled, let ofCaller = transfers.last?.ofCaller else { return }
    if ofCaller, isCallerVacant { return endVacant(by: by, &turn) }
    sendKept(ofCaller: ofCaller, &turn)
  }

  /// Delivers that the first device rings.
  mutating func deliverRinging(by party: Party, _ turn: inout Turn) {
    guard let transfer else { return deliverToCaller(.ringing(by: party), &turn) }
    let news = TransferNews(to: transfer.target, number: UInt32(transfers.count), by: party)
    let toCaller = transfer.ofCaller && !isCallerVacant
    keepNews(news, ofCaller: toCaller, at: turn.now, epoch: turn.epoch)
    sendKept(ofCaller: toCaller, &turn)
  }

  /// Asks the shard of the call in which the target was asked before to end that one. A new owner asks again: an answer
  /// is not journalled, and asking twice does no harm.
  func requestReplacing(_ turn: inout Turn) {
    for transfer in transfers {
      guard let consulted = transfer.start.consulted, let by = transfer.start.by,
        case .moved(let index) = transfer.outcome
      else { continue }
      let until = moves[index].at + turn.limits.mergeTimeout
      guard turn.now < until else { continue }
      let request = ReplacedCall(call: consulted.call, survivor: id, user: by.user)
      let callee = UserKey(app: facts.callee.app, user: consulted.callee)
      turn.perform(.tell(callee, by.device, .replaced(request), until: until))
    }
  }

  // MARK: A vacant side

  // The app's server places a call between two users: `PlacedFacts.caller` names a user and no device, and the callee's
  // devices ring first. Once one of them has answered, the vacant side is transferred to that user, by the rules of
  // every transfer (R26). The device that answers there counts as having placed the call.

  /// Whether no device has the caller's side: nothing is delivered to it, and the call does not wait for its return.
  var isCallerVacant: Bool { facts.callerRings != nil && facts.caller.device.text.isEmpty }

  /// Rings the devices of the user for whom the caller's side is vacant, once the call is answered.
  ///
  /// This is decided together with the answer. A new owner that finds only the answer does the same.
  mutating func callForVacantSide(_ turn: inout Turn) {
    guard transfers.isEmpty else {
      // They have rung in vain.
      return endVacant(by: transfers.last?.failure?.by, &turn)
    }
    // The number of the ringing distinguishes pushes to the callee's other devices from those that follow.
    if hasRingPushUnderWay { withdrawRings(&turn) }
    let rings = facts.callerRings ?? turn.limits.ringTimeout
    let start = DivertedFacts(
      from: "", to: [facts.caller.user], reason: .transferred, by: facts.caller, at: turn.now,
      deadline: turn.now + rings)
    commit(.diverted(start), .urgent, &turn)
    visitGuests(&turn)
  }

  /// Ends the call because no device takes the vacant side.
  /// - Parameter by: the party that caused that; nil: a timeout did.
  mutating func endVacant(by: Party?, _ turn: inout Turn) {
    end(.hungUp, by: by ?? facts.caller, &turn)
  }

  /// The news that no device took the vacant side, which the waiting device gets before it is stopped; nil: the call
  /// ended otherwise.
  var vacancyNews: TransferNews? {
    guard isCallerVacant, let transfer = transfers.last, let end = transfer.failure,
      end.reason != .cancelled
    else { return nil }
    return TransferNews(
      to: transfer.target, number: UInt32(transfers.count), reason: end.reason, by: end.by)
  }

  // MARK: Facts

  mutating func applyTransferring(_ start: DivertedFacts) -> Bool {
    guard case .answered(let conversation) = stage, !isTransferring, let by = start.by else {
      return false
    }
    let winner = legs[conversation.winner].party
    let ofCaller = facts.caller.isDevice(by.device, of: by.user)
    guard ofCaller || winner.isDevice(by.device, of: by.user) else { return false }
    transfers.append(
      Transfer(
        ofCaller: ofCaller, stays: ofCaller ? winner : facts.caller, movesBefore: moves.count,
        diversions: [start]))
    isPushWithdrawn = false
    expectGuests(of: start)
    // The deadline of the first ringing, which was answered, may be later.
    facts.deadline = start.deadline
    timeline.note(
      .transferring, ofCaller ? CallTimeline.caller : UInt8(clamping: conversation.winner),
      at: start.at)
    return true
  }

  mutating func applyTransferEnded(
    _ end: TransferEnd, at now: Timestamp, epoch: UInt64
  ) -> Bool {
    guard let transfer else { return false }
    for leg in legs.indices where isInRound(leg) && legs[leg].state.mayStillRing {
      leave(leg, at: end.at)
    }
    transfers[transfers.count - 1].outcome = .failed(end)
    // The device that cancels gets a reply, and a call whose side stays vacant ends with the transfer.
    if end.reason != .cancelled, !(transfer.ofCaller && isCallerVacant) {
      let news = TransferNews(
        to: transfer.target, number: UInt32(transfers.count), reason: end.reason, by: end.by)
      keepNews(news, ofCaller: transfer.ofCaller, at: now, epoch: epoch)
    }
    timeline.note(.transferFailed, CallTimeline.call, at: end.at)
    return true
  }

  /// Ends a transfer because a device took the side: the others stop.
  mutating func endTransfer(by move: MovedFacts) {
    guard isTransferring else { return }
    let taker = legIndex(move.to)
    let rung = legs.indices.filter { isInRound($0) }
    for leg in rung where leg != taker && legs[leg].state.mayStillRing { leave(leg, at: move.at) }
    transfers[transfers.count - 1].outcome = .moved(moves.count - 1)
    guard let taker else { return }
    // The signals that the device sent before it answered become facts of their own.
    legs[taker].signals.dropWaiting()
    legs[taker].endpoint.clear()
  }

  /// Rings a device for a transfer. It may have had a part in the call before.
  mutating func ringAgain(_ leg: Int, _ party: Party) {
    legs[leg].ringAgain(UInt8(clamping: transfers.count), named: party.deviceName)
    formerCallers.removeAll { $0.party.isDevice(party.device, of: party.user) }
  }

  mutating func keepNews(
    _ news: TransferNews, ofCaller: Bool, at now: Timestamp, epoch: UInt64
  ) {
    let delivery = delivery(.transfer(news), at: now, epoch: epoch)
    if ofCaller {
      caller.replaceTransfer(by: delivery)
    } else if let winner {
      legs[winner].endpoint.replaceTransfer(by: delivery)
    }
  }

  mutating func sendKept(ofCaller: Bool, _ turn: inout Turn) {
    if ofCaller {
      caller.sendKept(&turn)
    } else if let winner {
      legs[winner].endpoint.sendKept(&turn)
    }
  }

  // MARK: Time

  var nextTransferDeadline: Timestamp {
    var next = facts.deadline
    if let until = legsLostUntil { next = min(next, until) }
    if !wantsPush {
      for leg in legs.indices where isRung(.leg(leg)) {
        next = min(next, legs[leg].ringPush.dueAt)
      }
    }
    return next
  }

  mutating func tickTransfer(_ turn: inout Turn) {
    guard isTransferring else { return }
    if facts.deadline <= turn.now {
      endTransfer(.unanswered, by: nil, &turn)
    } else if let until = legsLostUntil, until <= turn.now {
      endUnreached(&turn)
    } else if legs.indices.contains(where: {
      isRung(.leg($0)) && legs[$0].ringPush.dueAt <= turn.now
    }) {
      wantsPush = true
    }
  }

  // MARK: Parties

  /// The party that has a side now.
  func holder(ofCaller: Bool) -> Party {
    if ofCaller { return facts.caller }
    return winner.map { legs[$0].party } ?? facts.caller
  }

  /// The party on whose behalf devices ring. For a vacant side it is the side that waits.
  var ringer: Party {
    guard let transfer else { return facts.caller }
    return holder(ofCaller: transfer.ofCaller && !isCallerVacant)
  }

  /// The party that a device shows as the caller.
  /// - Parameter leg: nil: the device has no leg.
  func shownCaller(_ leg: Int?) -> Party { transfer(of: leg)?.stays ?? facts.caller }

  /// The invite of a device that may take a side. The device makes an offer of its own, so the invite has no
  /// description: earlier ones belong to media between the two sides.
  func invite(of leg: Int, for transfer: Transfer) -> Invite {
    let user = legs[leg].party.user
    var invite = Invite(
      caller: holder(ofCaller: !transfer.ofCaller), deadline: facts.deadline, video: facts.video)
    let from = divertedBy(of: user)
    if !from.hasBytes(of: transfer.start.from) { invite.divertedBy = from }
    if let guest = guest(user) { invite.isSecondCall = guests[guest].isInCall }
    invite.isSecondSide = transfer.ofCaller && isCallerVacant
    if !invite.isSecondSide { invite.transferredBy = holder(ofCaller: transfer.ofCaller) }
    invite.consulted = transfer.start.consulted
    return invite
  }
}

extension Transfer {
  /// Whether a command asks for this transfer.
  fileprivate func isSame(as request: TransferRequest, by party: Party) -> Bool {
    start.by?.device == party.device && start.by?.user.hasBytes(of: party.user) == true
      && target.hasBytes(of: request.to)
      && start.device == request.device && start.consulted == request.consulted
  }
}
