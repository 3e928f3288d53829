/// The users to whom a call went on: their shards are asked for their devices, and what they say is carried out.
extension Call {
  /// When a user's shard is to be asked next, or something is due because it did not answer, or nobody did.
  var nextGuestDeadline: Timestamp {
    var next = Timestamp.distantFuture
    for guest in guests where isVisited(guest) {
      next = min(next, guest.askAt)
      guard isRinging else { continue }
      next = min(next, guest.noAnswerAt)
      // One whom the call left is only waited for by its stop.
      if !guest.isKnown, rings(guest.user) { next = min(next, guest.awaitedUntil) }
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
        busyWhileInCall: guests[index].isMember ? true : busyWhileInCall)
      request.isMember = guests[index].isMember
      if case .answered(let conversation) = stage {
        request.answeredBy = legs[conversation.winner].party.device
      }
      // A large group is asked as often as some users are.
      let interval =
        isRinging
        ? max(Guest.ringingInterval, .milliseconds(Int64(50 * guests.count)))
        : Guest.answeredInterval
      guests[index].askAt = turn.now + interval
      let user = UserKey(app: facts.callee.app, user: guests[index].user)
      // Every question leaves behind an append, so that a former owner that wakes up late asks nothing.
      turn.perform(.visit(user, request), guests[index].isKnown ? .slow : .urgent)
    }
  }

  /// Asks the shards whose turn it is, and waits no longer for those that did not answer.
  mutating func tickGuests(_ turn: inout Turn) {
    visitGuests(&turn)
    guard isRinging else { return }
    var isOver = false
    for index in guests.indices
    where rings(guests[index].user) && !guests[index].isKnown
      && guests[index].awaitedUntil <= turn.now
    {
      guests[index].isKnown = true
      isOver = true
    }
    if isOver { endIfNobodyIsLeft(&turn) }
  }

  /// A user's shard has answered.
  mutating func visited(_ user: String, _ answer: VisitAnswer, _ turn: inout Turn) {
    guard let index = guest(user) else { return }
    let isFirst = !guests[index].isKnown
    if answer.isComplete { guests[index].isKnown = true }
    (guests[index].isBusy, guests[index].isInCall) = (answer.isBusy, answer.isInCall)
    guests[index].devices = answer.devices.map { User.Device($0) }
    if isFirst { takeOverPushes(ofGuest: index, &turn) }
    switch stage {
    case .ringing where rings(user):
      if isFirst, let reason = answer.diverted {
        let targets = DivertTargets(answer.to, turn: answer.turn)
        if divert(reason, from: user, to: targets, &turn) { return }
      }
      if isFirst, answer.diverted == nil, !answer.to.isEmpty, !guests[index].isMember {
        guests[index].onNoAnswer = answer.to
        guests[index].noAnswerAt = min(turn.now + answer.noAnswerAfter, facts.deadline)
      }
      ring(user, answer.devices, isFree: !answer.isBusy, &turn)
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

  /// Rings the devices that are new to the call, and those with a new session.
  /// - Parameter isFree: else no device begins to ring, but those that ring already do so on.
  mutating func ring(
    _ user: String, _ devices: [VisitAnswer.Device], isFree: Bool = true, _ turn: inout Turn
  ) {
    for device in devices {
      let party = Party(user: user, device: device.id, deviceName: device.name)
      let isNew = legIndex(party) == nil
      if isNew {
        let most =
          guests.count > turn.limits.diversionTargets
          ? turn.limits.legsPerGroupCall : turn.limits.legsPerCallLifetime
        guard isFree, !device.isHeld, legs.count < most else { continue }
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
