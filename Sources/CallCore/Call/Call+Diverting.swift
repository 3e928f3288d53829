/// How a ringing call goes on to other users. `Diversion.swift` has the words.
extension Call {
  func guest(_ user: String) -> Int? { guests.firstIndex { $0.user.hasBytes(of: user) } }

  /// How the call left a user; nil: it did not.
  func diversion(from user: String) -> DivertedFacts? {
    diversions.first { $0.from.hasBytes(of: user) }
  }

  /// Whether the call is answered, and a device of a user has the callee's side.
  func isTalking(_ user: String) -> Bool {
    winner.map { guests.isEmpty || legs[$0].party.user.hasBytes(of: user) } ?? false
  }

  /// From whom the call came to a user, which is the group for each of its members; empty: it was placed to the user.
  func divertedBy(of user: String) -> String {
    let diverted = queue(of: user) ?? diversions.first { $0.to.contains { $0.hasBytes(of: user) } }
    return diverted?.from ?? ""
  }

  /// Whether the call rings the devices of a user, as far as it rings.
  func rings(_ user: String) -> Bool {
    diversions.isEmpty || (isParty(user) && diversion(from: user) == nil)
  }

  func isParty(_ user: String) -> Bool {
    user.hasBytes(of: facts.callee.user) || guest(user) != nil
  }

  /// Whether the shard of a user to whom the call was diverted has not said yet which devices there are.
  func awaitsGuests(at now: Timestamp) -> Bool {
    guests.contains { !$0.isKnown && now < $0.awaitedUntil && rings($0.user) }
  }

  // MARK: Decisions

  /// Lets the call go on to others.
  ///
  /// Whoever was rung already, or placed the call, is left out: so no call goes round in a circle.
  /// - Returns: false where nobody is left, or it went on too often.
  mutating func divert(
    _ reason: DivertReason, from user: String, to targets: DivertTargets, _ turn: inout Turn
  ) -> Bool {
    guard isRinging, turn.mayDivert, rings(user), hops < turn.limits.diversionsPerCall else {
      return false
    }
    let most = reason == .group ? CallGroup.usersMax : turn.limits.diversionTargets
    let fresh = fresh(targets.users, most)
    guard !fresh.isEmpty else { return false }
    var diverted = DivertedFacts(
      from: user, to: fresh, reason: reason, at: turn.now,
      deadline: max(facts.deadline, turn.now + turn.limits.ringTimeout))
    if let each = targets.turn {
      (diverted.to, diverted.queue, diverted.turn) = ([fresh[0]], fresh, each)
    }
    goOn(diverted, &turn)
    return true
  }

  /// Those of the users to whom it may go on.
  private func fresh(_ users: [String], _ most: Int) -> [String] {
    var fresh: [String] = []
    // The app's server and the edge have checked the names. They make keys of legs, so they are checked here as well.
    for user in users.prefix(most)
    where IdentifierRules.isUser(user) && !isParty(user)
      && !user.hasBytes(of: facts.caller.user) && !fresh.contains(where: { $0.hasBytes(of: user) })
    {
      fresh.append(user)
    }
    return fresh
  }

  /// - Parameter silent: as of `leave`.
  mutating func goOn(_ diverted: DivertedFacts, silent: Int? = nil, _ turn: inout Turn) {
    leave(diverted, silent: silent, &turn)
    changeRinging { $0.legsLostUntil = nil }
    visitGuests(&turn)
  }

  /// How often it went on. The turns of a group's members are one time.
  private var hops: Int { diversions.count { !$0.to.isEmpty && queue(of: $0.from) == nil } }

  /// Whether the call rings other users than this one, or is about to.
  func ringsOthers(than user: String, at now: Timestamp) -> Bool {
    guard !guests.isEmpty else { return false }
    return legs.contains { $0.state.isLive && !$0.party.user.hasBytes(of: user) }
      || guests.contains {
        !$0.isKnown && now < $0.awaitedUntil && rings($0.user) && !$0.user.hasBytes(of: user)
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
      legs[$0].state.mayStillRing && legs[$0].party.user.hasBytes(of: diverted.from)
    }
    commit(.diverted(diverted), .urgent, &turn)
    for leg in leaving where leg != silent { stopDiverted(leg, &turn) }
    if leaving.contains(where: { legs[$0].ringPush.mayRing }) { wantsPush = true }
  }

  /// Stops a device whose user the call has left.
  mutating func stopDiverted(_ leg: Int, _ turn: inout Turn) {
    guard case .diverted(let at) = legs[leg].state,
      let diverted = diversion(from: legs[leg].party.user)
    else { return }
    stop(leg: leg, diverted.stop, decided: at, &turn)
  }

  /// For the devices of a user whom the call has left it is over, whatever became of it since.
  func refine(_ state: inout CallState, leftBy diverted: DivertedFacts) {
    let stop = diverted.stop
    state.phase = .ended
    (state.reason, state.by, state.missed) = (stop.reason, stop.by, stop.missed)
    (state.at, state.deadline) = (diverted.at, nil)
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
    let (placedAt, deadline) = (facts.placedAt, facts.deadline)
    changeRinging {
      if !forwarding.onNoAnswer.isEmpty {
        $0.noAnswerAt = min(placedAt + forwarding.noAnswerAfter, deadline)
      }
      if !forwarding.firstDevices.isEmpty { $0.othersAt = placedAt + forwarding.firstFor }
    }
  }

  /// Whether a device of the callee is to wait until the first ones have rung alone.
  func waitsForFirst(_ party: Party) -> Bool {
    guard case .ringing(let ringing) = stage, ringing.othersAt != .distantFuture else {
      return false
    }
    return party.user.hasBytes(of: facts.callee.user)
      && !forwarding.firstDevices.contains(party.device)
  }

  /// The first devices had their time, or none of them is left.
  mutating func wantOthers() {
    changeRinging { $0.othersAt = .distantFuture }
    wantsOthers = true
  }

  /// Whoever did not answer in time: the call goes on, if the rules say so. At the deadline that comes before the end.
  mutating func divertUnanswered(_ turn: inout Turn) {
    guard case .ringing(let ringing) = stage else { return }
    if ringing.noAnswerAt <= turn.now {
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
      case .always, .hook, .declined, .group, .turn: []
      }
    let targets = DivertTargets(users)
    return !users.isEmpty && divert(reason, from: facts.callee.user, to: targets, &turn)
  }

  mutating func applyDiverted(_ diverted: DivertedFacts) -> Bool {
    guard isRinging, rings(diverted.from) else { return false }
    for leg in legs.indices
    where legs[leg].state.mayStillRing && legs[leg].party.user.hasBytes(of: diverted.from) {
      legs[leg].state = .diverted(at: diverted.at)
      legs[leg].endpoint.clear()
      legs[leg].signals.dropWaiting()
      legs[leg].ringPush.unschedule()
    }
    diversions.append(diverted)
    for user in diverted.to where !isParty(user) {
      var guest = Guest(user: user, at: diverted.at)
      let queue = queue(of: user)
      guest.isMember = diverted.reason == .group || queue != nil
      if let queue { guest.noAnswerAt = diverted.at + queue.turn }
      guests.append(guest)
    }
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
}
