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

  /// From whom the call came to a user; empty: it was placed to the user.
  func divertedBy(of user: String) -> String {
    diversions.first { $0.to.contains { $0.hasBytes(of: user) } }?.from ?? ""
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
    _ reason: DivertReason, from user: String, to users: [String], _ turn: inout Turn
  ) -> Bool {
    guard isRinging, turn.mayDivert, rings(user),
      diversions.count(where: { !$0.to.isEmpty }) < turn.limits.diversionsPerCall
    else { return false }
    var fresh: [String] = []
    for user in users.prefix(turn.limits.diversionTargets)
    where !isParty(user) && !user.hasBytes(of: facts.caller.user)
      && !fresh.contains(where: { $0.hasBytes(of: user) })
    {
      fresh.append(user)
    }
    guard !fresh.isEmpty else { return false }
    let diverted = DivertedFacts(
      from: user, to: fresh, reason: reason, at: turn.now,
      deadline: max(facts.deadline, turn.now + turn.limits.ringTimeout))
    leave(diverted, &turn)
    changeRinging { $0.legsLostUntil = nil }
    visitGuests(&turn)
    return true
  }

  /// Whether the call rings other users than this one, or is about to.
  func ringsOthers(than user: String, at now: Timestamp) -> Bool {
    guard !guests.isEmpty else { return false }
    return legs.contains { $0.state.isLive && !$0.party.user.hasBytes(of: user) }
      || guests.contains {
        !$0.isKnown && now < $0.awaitedUntil && rings($0.user) && !$0.user.hasBytes(of: user)
      }
  }

  /// A user declines, and the call rings on for others.
  /// - Parameter silent: the device learns it by the reply to its command.
  mutating func declineForUser(_ leg: Int, isSilent: Bool, _ turn: inout Turn) {
    let by = legs[leg].party
    let diverted = DivertedFacts(
      from: by.user, to: [], reason: .declined, by: by, at: turn.now, deadline: facts.deadline)
    leave(diverted, silent: isSilent ? leg : nil, &turn)
    timeline.note(.declined, UInt8(clamping: leg), at: turn.now)
    endIfNobodyIsLeft(&turn)
  }

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
    let placedAt = facts.placedAt
    changeRinging {
      if !forwarding.onNoAnswer.isEmpty { $0.noAnswerAt = placedAt + forwarding.noAnswerAfter }
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

  /// The callee did not answer in time, is busy, or cannot be reached: the callee's rules may say who is called instead.
  mutating func divertFromCallee(_ reason: DivertReason, _ turn: inout Turn) -> Bool {
    let users: [String] =
      switch reason {
      case .busy, .doNotDisturb: forwarding.onBusy
      case .unreachable: forwarding.onUnreachable
      case .noAnswer: forwarding.onNoAnswer
      case .always, .hook, .declined: []
      }
    return !users.isEmpty && divert(reason, from: facts.callee.user, to: users, &turn)
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
      guests.append(Guest(user: user, at: diverted.at))
    }
    facts.deadline = max(facts.deadline, diverted.deadline)
    timeline.note(.diverted, CallTimeline.call, at: diverted.at)
    return true
  }

  // MARK: Guests

  /// When a user's shard is to be asked next, or something is due because it did not answer, or nobody did.
  var nextGuestDeadline: Timestamp {
    var next = Timestamp.distantFuture
    for guest in guests where isVisited(guest) {
      next = min(next, guest.askAt)
      guard isRinging else { continue }
      next = min(next, guest.noAnswerAt)
      if !guest.isKnown { next = min(next, guest.awaitedUntil) }
    }
    return next
  }

  /// Those that the call rings, the one who answered, and those with a device that lacks a delivery, which has to stop
  /// when it comes back.
  private func isVisited(_ guest: Guest) -> Bool {
    if isRinging, rings(guest.user) { return true }
    let winner = winner
    return legs.indices.contains { leg in
      legs[leg].party.user.hasBytes(of: guest.user)
        && (leg == winner || !legs[leg].endpoint.outbox.isEmpty)
    }
  }

  /// A new owner knows nothing of other users' devices.
  mutating func askGuestsAnew(_ now: Timestamp) {
    for index in guests.indices { guests[index].awaitAnswer(at: now) }
  }

  /// Asks the shards of users for their devices.
  mutating func visitGuests(_ turn: inout Turn) {
    guard turn.isServing else { return }
    for index in guests.indices
    where guests[index].askAt <= turn.now && isVisited(guests[index]) {
      var request = VisitRequest(
        call: id, callee: facts.callee.user, caller: facts.caller.user,
        busyWhileInCall: busyWhileInCall)
      if case .answered(let conversation) = stage {
        request.answeredBy = legs[conversation.winner].party.device
        request.answeredAt = conversation.answer.at
      }
      let interval = isRinging ? Guest.ringingInterval : Guest.answeredInterval
      guests[index].askAt = turn.now + interval
      let user = UserKey(app: facts.callee.app, user: guests[index].user)
      // Every question leaves behind an append, so that a former owner that wakes up late asks nothing.
      turn.perform(.visit(user, request), guests[index].isKnown ? .slow : .urgent)
    }
  }

  /// Does what is due because of the users to whom the call was diverted.
  mutating func tickGuests(_ turn: inout Turn) {
    visitGuests(&turn)
    guard isRinging else { return }
    var isOver = false
    for index in guests.indices where rings(guests[index].user) {
      if !guests[index].isKnown, guests[index].awaitedUntil <= turn.now {
        guests[index].isKnown = true
        isOver = true
      }
      guard guests[index].noAnswerAt <= turn.now else { continue }
      guests[index].noAnswerAt = .distantFuture
      let guest = guests[index]
      _ = divert(.noAnswer, from: guest.user, to: guest.forwarding.onNoAnswer, &turn)
    }
    if isOver { endIfNobodyIsLeft(&turn) }
  }

  /// A user's shard has answered.
  mutating func visited(_ user: String, _ answer: VisitAnswer, _ turn: inout Turn) {
    guard let index = guest(user) else { return }
    let isFirst = !guests[index].isKnown
    if answer.isComplete { guests[index].isKnown = true }
    guests[index].isBusy = answer.isBusy
    guests[index].devices = answer.devices.map { User.Device($0) }
    if isFirst { takeOverPushes(ofGuest: index, &turn) }
    switch stage {
    case .ringing where rings(user):
      if isFirst, let reason = answer.diverted {
        if divert(reason, from: user, to: answer.to, &turn) { return }
      }
      if isFirst, answer.diverted == nil, !answer.to.isEmpty {
        guests[index].forwarding.onNoAnswer = answer.to
        guests[index].noAnswerAt = turn.now + answer.noAnswerAfter
      }
      if !answer.isBusy { ring(user, answer.devices, &turn) }
      loseSessions(of: user, answer.devices, &turn)
      endIfNobodyIsLeft(&turn)
    case .ringing, .answered, .ended:
      for device in answer.devices {
        let party = Party(user: user, device: device.id, deviceName: device.name)
        guard let session = device.session, legIndex(party) != nil else { continue }
        attached(party, session, &turn)
      }
      loseSessions(of: user, answer.devices, &turn)
    }
  }

  /// Rings the devices that can be rung: those that are new to the call, and those with a new session.
  mutating func ring(_ user: String, _ devices: [VisitAnswer.Device], _ turn: inout Turn) {
    for device in devices {
      let party = Party(user: user, device: device.id, deviceName: device.name)
      let isNew = legIndex(party) == nil
      if isNew {
        guard legs.count < turn.limits.legsPerCallLifetime else { return }
        commit(.legJoined(party), .urgent, &turn)
      }
      guard let leg = legIndex(party) else { continue }
      if device.registration?.ringToken != nil, turn.mayPush {
        legs[leg].ringPush.becamePossible()
      }
      if let session = device.session {
        attached(party, session, &turn)
      } else if isNew {
        planPush(leg, at: turn.now, turn)
      }
    }
  }

  /// Whose session is there no more.
  private mutating func loseSessions(
    of user: String, _ devices: [VisitAnswer.Device], _ turn: inout Turn
  ) {
    for leg in legs.indices where legs[leg].party.user.hasBytes(of: user) {
      guard let session = legs[leg].endpoint.session else { continue }
      let device = devices.first { $0.id == legs[leg].party.device }
      if device?.session == nil { calleeSessionLost(session, graceful: false, &turn) }
    }
  }

  /// A device of a user that the call rings, or rang, as its shard said last.
  func device(of party: Party, _ callees: [User.Device]) -> User.Device? {
    let devices = guest(party.user).map { guests[$0].devices } ?? callees
    return devices.first { $0.id == party.device }
  }
}

extension User.Device {
  fileprivate init(_ device: VisitAnswer.Device) {
    self.init(id: device.id)
    name = device.name
    session = device.session
    registration = device.registration
  }
}
