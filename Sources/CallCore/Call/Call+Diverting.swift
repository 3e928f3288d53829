/// How a ringing call goes on to other users. `Diversion.swift` has the words.
extension Call {
  func guest(_ user: String) -> Int? { guests.firstIndex { $0.user.hasBytes(of: user) } }

  /// How the call went on in the ringing that goes on, or else in its first one.
  var route: [DivertedFacts] {
    isTransferring ? transfers[transfers.count - 1].diversions : diversions
  }

  /// How the call left a user in that ringing; nil: it did not.
  func diversion(from user: String) -> DivertedFacts? {
    route.first { $0.from.hasBytes(of: user) }
  }

  /// Whether the call is answered, and a device of a user has the callee's side.
  func isTalking(_ user: String) -> Bool {
    winner.map { guests.isEmpty || legs[$0].party.user.hasBytes(of: user) } ?? false
  }

  /// From whom the call came to a user, which is the group for each of its members; empty: it was placed to the user.
  func divertedBy(of user: String) -> String { route.sender(to: user) }

  /// Whether the call rings the devices of a user, as far as it rings.
  func rings(_ user: String) -> Bool {
    if let transfer { return transfer.rang(user) && diversion(from: user) == nil }
    return diversions.isEmpty || (isParty(user) && diversion(from: user) == nil)
  }

  /// Whether one device of a user may ring: a transfer may be to one device only, and so may a call of the app's server.
  /// - Parameter key: by which the call names the device.
  func rings(_ user: String, _ key: DeviceID) -> Bool {
    guard rings(user) else { return false }
    guard let transfer else { return facts.mayRing(key) }
    return transfer.start.device.map { facts.key(user, $0) == key } ?? true
  }

  func isParty(_ user: String) -> Bool {
    user.hasBytes(of: facts.callee.user) || guest(user) != nil
  }

  /// Whether the shard of a user to whom the call was diverted has not said yet which devices there are.
  func awaitsGuests(at now: Timestamp) -> Bool {
    guests.contains { $0.isAwaited && now < $0.awaitedUntil && rings($0.user) }
  }

  // MARK: Decisions

  /// Lets the call go on to others.
  ///
  /// Users whom the call has rung already, or who placed it, are left out, so no call goes round in a circle.
  /// - Returns: false where nobody is left, or it went on too often.
  mutating func divert(
    _ reason: DivertReason, from user: String, to targets: DivertTargets, _ turn: inout Turn
  ) -> Bool {
    guard isSearching, turn.mayDivert, rings(user), hops < turn.limits.diversionsPerCall,
      isTransferring || facts.onlyDevice == nil,
      let deadline = deadline(
        after: max(turn.limits.ringTimeout, targets.ringSlot ?? .seconds(0)), turn)
    else { return false }
    let most = reason == .group ? CallGroup.usersMax : turn.limits.diversionTargets
    let fresh = fresh(targets.users, most)
    guard !fresh.isEmpty else { return false }
    var diverted = DivertedFacts(
      from: user, to: fresh, reason: reason, at: turn.now, deadline: deadline)
    if let each = targets.ringSlot {
      (diverted.to, diverted.queue) = ([fresh[0]], fresh)
      diverted.ringSlot = isRingFixed ? each.share(of: deadline - turn.now, for: fresh.count) : each
    }
    goOn(diverted, &turn)
    return true
  }

  /// Whether the call rings no longer than its caller has chosen. A transfer has its own time.
  var isRingFixed: Bool { facts.isRingFixed && !isTransferring }

  /// Until when a call that goes on rings; nil: its time is over.
  /// - Parameter ring: how long it is to ring at least, if nobody has chosen its time.
  func deadline(after ring: Span, _ turn: borrowing Turn) -> Timestamp? {
    guard isRingFixed else { return max(facts.deadline, turn.now + ring) }
    return facts.deadline > turn.now ? facts.deadline : nil
  }

  /// Those of the users to whom it may go on.
  private func fresh(_ users: [String], _ most: Int) -> [String] {
    var fresh: [String] = []
    // The app's server and the edge have checked the names. They make keys of legs, so they are checked here as well.
    for user in users.prefix(most)
    where IdentifierRules.isUser(user) && !isTaken(user)
      && !fresh.contains(where: { $0.hasBytes(of: user) })
    {
      fresh.append(user)
    }
    return fresh
  }

  /// Whether a user has a side of the call, or was rung already.
  func isTaken(_ user: String) -> Bool {
    if user.hasBytes(of: facts.caller.user) { return true }
    guard let transfer else { return isParty(user) }
    return transfer.rang(user) || winner.map { legs[$0].party.user.hasBytes(of: user) } ?? false
  }

  /// - Parameter silent: as of `leave`.
  mutating func goOn(_ diverted: DivertedFacts, silent: Int? = nil, _ turn: inout Turn) {
    leave(diverted, silent: silent, &turn)
    legsLostUntil = nil
    visitGuests(&turn)
  }

  /// How often it went on. The turns of a group's members are one time.
  private var hops: Int {
    route.count { !$0.to.isEmpty && $0.reason != .transferred && queue(of: $0.from) == nil }
  }

  /// Whether the call rings other users than this one, or is about to.
  func ringsOthers(than user: String, at now: Timestamp) -> Bool {
    guard !guests.isEmpty else { return false }
    return legs.contains { $0.state.isLive && !$0.party.user.hasBytes(of: user) }
      || guests.contains {
        $0.isAwaited && now < $0.awaitedUntil && rings($0.user) && !$0.user.hasBytes(of: user)
      }
  }

  /// A user declines, and the call rings on for others.
  /// - Parameter isSilent: the device learns it by the reply to its command.
  mutating func declineForUser(_ leg: Int, isSilent: Bool, _ turn: inout Turn) {
    let by = legs[leg].party
    let diverted = DivertedFacts(
      from: by.user, to: [], reason: .declined, by: by, at: turn.now, deadline: facts.deadline)
    leave(diverted, silent: isSilent ? leg : nil, &turn)
    endIfNobodyIsLeft(&turn)
  }

  /// - Parameter silent: the leg of the device that declined, if it learns it by the reply to its command.
  private mutating func leave(
    _ diverted: DivertedFacts, silent: Int? = nil, _ turn: inout Turn
  ) {
    let leaving = legs.indices.filter {
      isInRound($0) && legs[$0].state.mayStillRing
        && legs[$0].party.user.hasBytes(of: diverted.from)
    }
    let former = facts.deadline
    commit(.diverted(diverted), .urgent, &turn)
    for leg in leaving where leg != silent { stopDiverted(leg, &turn) }
    if facts.deadline != former { tellDeadline(&turn) }
    if leaving.contains(where: { legs[$0].ringPush.mayRing }) { wantsPush = true }
  }

  /// The call rings longer than was said to its caller and to the devices that ring on. Who hands a call over was not told
  /// how long it rings.
  private mutating func tellDeadline(_ turn: inout Turn) {
    if !isTransferring { deliverToCaller(.ringsUntil(facts.deadline), &turn) }
    for leg in legs.indices
    where isInRound(leg) && legs[leg].state.isLive && legs[leg].invitation.wasSent {
      deliver(to: leg, .ringsUntil(facts.deadline), &turn)
    }
  }

  /// Stops a device whose user the call has left.
  mutating func stopDiverted(_ leg: Int, _ turn: inout Turn) {
    guard case .diverted(let at) = legs[leg].state, let stop = leftStop(leg) else { return }
    self.stop(leg: leg, stop, decided: at, &turn)
  }

  /// The stop for a device that no longer rings although the call goes on: its user was left, or the transfer is over.
  func leftStop(_ leg: Int) -> Stop? {
    guard case .diverted = legs[leg].state else { return nil }
    let (party, round) = (legs[leg].party, Int(legs[leg].round))
    guard round > 0, transfers.indices.contains(round - 1) else {
      return diversions.first { $0.from.hasBytes(of: party.user) }
        .map { asTold($0.stop, to: party.user) }
    }
    let transfer = transfers[round - 1]
    if let diverted = transfer.diversions.first(where: { $0.from.hasBytes(of: party.user) }) {
      return asTold(diverted.stop, to: party.user)
    }
    switch transfer.outcome {
    case .pending: return nil
    case .failed(let end):
      let stop = Stop(reason: end.reason, by: end.by, missed: end.reason.isMissedCall)
      return asTold(stop, to: party.user)
    case .moved(let move): return Stop(reason: .answeredElsewhere, by: moves[move].to)
    }
  }

  /// For the devices of a user whom the call has left it is over, whatever became of it since.
  func refine(_ state: inout CallState, _ stop: Stop, at: Timestamp) {
    state.phase = .ended
    (state.reason, state.by, state.missed) = (stop.reason, stop.by, stop.missed)
    (state.at, state.deadline) = (at, nil)
    (state.survivor, state.unreachable) = (nil, nil)
  }

  /// A new owner looks the callee's rules up again.
  mutating func restore(_ forwarding: Forwarding) {
    guard diversions.isEmpty else { return }
    apply(forwarding)
  }

  /// The callee's rules for this call, which begins to ring.
  mutating func apply(_ forwarding: Forwarding) {
    self.forwarding = forwarding
    let (placedAt, deadline, isFixed) = (facts.placedAt, facts.deadline, facts.isRingFixed)
    changeRinging {
      if !forwarding.onNoAnswer.isEmpty {
        $0.noAnswerAt =
          placedAt + forwarding.noAnswerFor(ofRing: deadline - placedAt, isFixed: isFixed)
      }
      if !forwarding.firstDevices.isEmpty {
        $0.othersAt =
          placedAt + forwarding.firstFor(ofRing: deadline - placedAt, isFixed: isFixed)
      }
    }
  }

  /// The call goes on from users who did not answer in time, if the rules say so. At the deadline this comes before the
  /// end.
  mutating func divertUnanswered(_ turn: inout Turn) {
    guard isSearching else { return }
    if case .ringing(let ringing) = stage, ringing.noAnswerAt <= turn.now {
      changeRinging { $0.noAnswerAt = .distantFuture }
      _ = divertFromCallee(.noAnswer, &turn)
    }
    for index in guests.indices where guests[index].noAnswerAt <= turn.now {
      guests[index].noAnswerAt = .distantFuture
      let (user, next) = (guests[index].user, guests[index].onNoAnswer)
      if queue(of: user) != nil {
        _ = callNext(after: user, .turn, &turn)
      } else {
        _ = divert(.noAnswer, from: user, to: DivertTargets(next), &turn)
      }
    }
  }

  /// The callee did not answer in time, is busy, or cannot be reached: the callee's rules may say who is called instead.
  mutating func divertFromCallee(_ reason: DivertReason, _ turn: inout Turn) -> Bool {
    let users: [String] =
      switch reason {
      case .busy, .doNotDisturb: forwarding.onBusy
      case .unreachable: forwarding.onUnreachable
      case .noAnswer: forwarding.onNoAnswer
      case .always, .hook, .declined, .group, .turn, .transferred: []
      }
    let targets = DivertTargets(users)
    return isRinging && !users.isEmpty
      && divert(reason, from: facts.callee.user, to: targets, &turn)
  }

  mutating func applyDiverted(_ diverted: DivertedFacts) -> Bool {
    if diverted.reason == .transferred { return applyTransferring(diverted) }
    guard isSearching, rings(diverted.from) else { return false }
    for leg in legs.indices
    where isInRound(leg) && legs[leg].state.mayStillRing
      && legs[leg].party.user.hasBytes(of: diverted.from)
    {
      leave(leg, at: diverted.at)
    }
    if isTransferring {
      transfers[transfers.count - 1].diversions.append(diverted)
    } else {
      diversions.append(diverted)
    }
    expectGuests(of: diverted)
    facts.deadline = max(facts.deadline, diverted.deadline)
    if diverted.from.hasBytes(of: facts.callee.user) {
      changeRinging { ($0.noAnswerAt, $0.othersAt) = (.distantFuture, .distantFuture) }
    }
    let decliner = diverted.by.flatMap { legIndex($0) }
    timeline.note(
      decliner == nil ? .diverted : .declined,
      decliner.map { UInt8(clamping: $0) } ?? CallTimeline.call, at: diverted.at)
    return true
  }

  /// A device rings no more, although the call goes on.
  mutating func leave(_ leg: Int, at time: Timestamp) {
    legs[leg].state = .diverted(at: time)
    legs[leg].endpoint.clear()
    legs[leg].signals.dropWaiting()
    legs[leg].ringPush.unschedule()
  }

  /// The shards of these users are to be asked. Some may have been before, in an earlier ringing.
  mutating func expectGuests(of diverted: DivertedFacts) {
    for user in diverted.to where isTransferring || !isParty(user) {
      var guest = Guest(user: user, at: diverted.at)
      let queue = queue(of: user)
      guest.isMember = diverted.reason == .group || queue != nil
      if let queue { guest.noAnswerAt = diverted.at + queue.ringSlot }
      if let known = self.guest(user) { guests[known] = guest } else { guests.append(guest) }
    }
  }
}
