/// How a ringing call goes on to other users. `Diversion.swift` has the values.
extension Call {
  func guest(_ user: String) -> Int? { guests.firstIndex { $0.user.hasBytes(of: user) } }

  /// The diversions of the present ringing, or of the first one if none goes on.
  var route: [DivertedFacts] {
    isTransferring ? transfers[transfers.count - 1].diversions : diversions
  }

  /// The diversion by which the call left a user in that ringing; nil: it did not leave the user.
  func diversion(from user: String) -> DivertedFacts? {
    route.first { $0.from.hasBytes(of: user) }
  }

  /// Whether the call is answered, and a device of a user has the callee's side.
  func isTalking(_ user: String) -> Bool {
    winner.map { guests.isEmpty || legs[$0].party.user.hasBytes(of: user) } ?? false
  }

  /// The user from whom the call came to a user, or the group from which it came; empty: it was placed to the user.
  func divertedBy(of user: String) -> String { route.sender(to: user) }

  /// Whether the call rings the devices of a user, as far as it rings.
  func rings(_ user: String) -> Bool {
    if let transfer { return transfer.rang(user) && diversion(from: user) == nil }
    return diversions.isEmpty || (isParty(user) && diversion(from: user) == nil)
  }

  /// Whether one device of a user may ring: a transfer, or a call of the app's server, may be to one device only.
  /// - Parameter key: the call's key for the device.
  func rings(_ user: String, _ key: DeviceID) -> Bool {
    guard rings(user) else { return false }
    guard let transfer else { return facts.mayRing(key) }
    return transfer.start.device.map { facts.key(user, $0) == key } ?? true
  }

  func isParty(_ user: String) -> Bool {
    user.hasBytes(of: facts.callee.user) || guest(user) != nil
  }

  /// Whether the call still waits for the shard of a user to whom it was diverted to name the user's devices.
  func awaitsGuests(at now: Timestamp) -> Bool {
    guests.contains { $0.isAwaited && now < $0.awaitedUntil && rings($0.user) }
  }

  // MARK: Decisions

  /// Lets the call go on to others.
  ///
  /// Leaves out users whom the call has rung already and the one who placed it, so no call goes round in a circle.
  /// - Returns: false where no user is left, or the call went on too often.
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
  /// - Parameter ring: how long it is to ring at least, unless its time is fixed.
  func deadline(after ring: Span, _ turn: borrowing Turn) -> Timestamp? {
    guard isRingFixed else { return max(facts.deadline, turn.now + ring) }
    return facts.deadline > turn.now ? facts.deadline : nil
  }

  /// The users among `users` to whom the call may go on.
  private func fresh(_ users: [String], _ most: Int) -> [String] {
    var fresh: [String] = []
    // The app's server and the edge have checked the names. They become part of legs' keys, so they are checked again.
    for user in users.prefix(most)
    where IdentifierRules.isUser(user) && !isInvolved(user)
      && !fresh.contains(where: { $0.hasBytes(of: user) })
    {
      fresh.append(user)
    }
    return fresh
  }

  /// Whether a user has a side of the call, or has been rung.
  func isInvolved(_ user: String) -> Bool {
    if user.hasBytes(of: facts.caller.user) { return true }
    guard let transfer else { return isParty(user) }
    return transfer.rang(user) || winner.map { legs[$0].party.user.hasBytes(of: user) } ?? false
  }

  /// - Parameter silent: as for `leave`.
  mutating func goOn(_ diverted: DivertedFacts, silent: Int? = nil, _ turn: inout Turn) {
    leave(diverted, silent: silent, &turn)
    legsLostUntil = nil
    visitGuests(&turn)
  }

  /// How often the call went on. All ring slots of a group's members count as one time.
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
  /// - Parameter isSilent: the device learns it from the reply to its command.
  mutating func declineForUser(_ leg: Int, isSilent: Bool, _ turn: inout Turn) {
    let by = legs[leg].party
    let diverted = DivertedFacts(
      from: by.user, to: [], reason: .declined, by: by, at: turn.now, deadline: facts.deadline)
    leave(diverted, silent: isSilent ? leg : nil, &turn)
    endIfNobodyIsLeft(&turn)
  }

  /// - Parameter silent: the leg of the device that declined, if that learns it from the reply to its command.
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
    if facts.deadline != former { announceDeadline(&turn) }
    if leaving.contains(where: { legs[$0].ringPush.mayRing }) { wantsPush = true }
  }

  /// Delivers the new deadline to the caller and to the devices that ring on. A device that hands a call over never
  /// learns the deadline, so it gets nothing.
  private mutating func announceDeadline(_ turn: inout Turn) {
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

  /// The stop for a device that no longer rings although the call goes on, because the call left its user or the
  /// transfer is over.
  func leftStop(_ leg: Int) -> Stop? {
    guard case .diverted = legs[leg].state else { return nil }
    let (party, round) = (legs[leg].party, Int(legs[leg].round))
    guard round > 0, transfers.indices.contains(round - 1) else {
      return diversions.first { $0.from.hasBytes(of: party.user) }
        .map { adapted($0.stop, to: party.user) }
    }
    let transfer = transfers[round - 1]
    if let diverted = transfer.diversions.first(where: { $0.from.hasBytes(of: party.user) }) {
      return adapted(diverted.stop, to: party.user)
    }
    switch transfer.outcome {
    case .pending: return nil
    case .failed(let end):
      let stop = Stop(reason: end.reason, by: end.by, missed: end.reason.isMissedCall)
      return adapted(stop, to: party.user)
    case .moved(let move): return Stop(reason: .answeredElsewhere, by: moves[move].to)
    }
  }

  /// Shows the call as over to the devices of a user whom it has left, whatever became of it since.
  func refine(_ state: inout CallState, _ stop: Stop, at: Timestamp) {
    state.phase = .ended
    (state.reason, state.by, state.missed) = (stop.reason, stop.by, stop.missed)
    (state.at, state.deadline) = (at, nil)
    (state.survivor, state.unreachable) = (nil, nil)
  }

  /// Restores the callee's rules at a new owner, which reads them again.
  mutating func restore(_ forwarding: Forwarding) {
    guard diversions.isEmpty else { return }
    apply(forwarding)
  }

  /// Applies the callee's rules to the call, which begins to ring.
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

  /// Diverts the call from users who did not answer in time, if the rules say so. At the deadline this comes first.
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
        _ = callNext(after: user, .ringSlotOver, &turn)
      } else {
        _ = divert(.noAnswer, from: user, to: DivertTargets(next), &turn)
      }
    }
  }

  /// Diverts the call to the users whom the callee's rules name for this reason.
  mutating func divertFromCallee(_ reason: DivertReason, _ turn: inout Turn) -> Bool {
    let users: [String] =
      switch reason {
      case .busy, .doNotDisturb: forwarding.onBusy
      case .unreachable: forwarding.onUnreachable
      case .noAnswer: forwarding.onNoAnswer
      case .always, .hook, .declined, .group, .ringSlotOver, .transferred: []
      }
    let targets = DivertTargets(users)
    return isRinging && !users.isEmpty
      && divert(reason, from: facts.callee.user, to: targets, &turn)
  }

  // MARK: Members of a group who ring one after the other

  // The journal has the whole order from the start, so a new owner continues where the former one was.

  /// The diversion that gave a user a ring slot as a member of a group; nil: the user has none.
  func queue(of user: String) -> DivertedFacts? { route.queue(of: user) }

  /// The member who rings after a user; nil: there is none.
  func next(after user: String) -> String? {
    guard rings(user) else { return nil }
    return queue(of: user)?.queue.first { !isInvolved($0) }
  }

  /// Rings the next member in place of this one.
  /// - Returns: false where no member is left.
  mutating func callNext(
    after user: String, _ reason: DivertReason, by: Party? = nil, silent: Int? = nil,
    _ turn: inout Turn
  ) -> Bool {
    guard isSearching, turn.mayDivert, let next = next(after: user), let queue = queue(of: user),
      let deadline = deadline(after: queue.ringSlot, turn)
    else { return false }
    goOn(
      DivertedFacts(
        from: user, to: [next], reason: reason, by: by, at: turn.now, deadline: deadline),
      silent: silent, &turn)
    return true
  }

  /// Rings the next member at once, because the present one cannot be reached.
  mutating func callNextMember(_ turn: inout Turn) -> Bool {
    guard let member = guests.last(where: { rings($0.user) && queue(of: $0.user) != nil }) else {
      return false
    }
    return callNext(after: member.user, .ringSlotOver, &turn)
  }

  // MARK: Facts

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

  /// A device stops ringing, although the call goes on.
  mutating func leave(_ leg: Int, at time: Timestamp) {
    legs[leg].state = .diverted(at: time)
    legs[leg].endpoint.clear()
    legs[leg].signals.dropWaiting()
    legs[leg].ringPush.unschedule()
  }

  /// Adds the users whose shards are to be asked. Some may be guests already, from an earlier ringing.
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

extension Span {
  /// The ring slot of each member if the whole time is fixed: at most this one, or an equal part of the time, but not
  /// less than a slot's minimum.
  func share(of ring: Span, for members: Int) -> Span {
    let part = Span(microseconds: ring.microseconds / Int64(max(1, members)))
    return min(self, max(part, .seconds(Int64(CallGroup.turnRange.lowerBound))))
  }
}
