/// The users to whom a call went on. The call asks their shards for their devices, and carries out the answers.
extension Call {
  /// When a user's shard is to be asked next, or the call stops waiting for it, or for an answer to the call.
  var nextGuestDeadline: Timestamp {
    var next = Timestamp.distantFuture
    for guest in guests where isVisited(guest) {
      next = min(next, guest.askAt)
      guard isSearching else { continue }
      next = min(next, guest.noAnswerAt)
      // A guest whom the call has left has no timeouts: only its stop is outstanding.
      if guest.isAwaited, rings(guest.user) { next = min(next, guest.awaitedUntil) }
    }
    return next
  }

  /// Whether the call has to know the guest's devices: it rings them, it has left them and may owe a notice, pushes
  /// wait for an answer, one of them has answered, or one lacks a delivery and has to stop when it comes back.
  private func isVisited(_ guest: Guest) -> Bool {
    if guest.owesPushes { return true }
    if isSearching, rings(guest.user) || mayOweNotice(guest) { return true }
    let winner = winner
    return legs.indices.contains { leg in
      legs[leg].party.user.hasBytes(of: guest.user)
        && (leg == winner || !legs[leg].endpoint.outbox.isEmpty)
    }
  }

  /// Whether the call has left a user who gets a notice if the call stays unanswered. Another user may have the
  /// device's token by then, so the shard is asked repeatedly.
  private func mayOweNotice(_ guest: Guest) -> Bool {
    guard diversion(from: guest.user) != nil, !hasDeclined(guest.user) else { return false }
    return !guest.isKnown || guest.devices.contains { $0.registration?.takesNotices == true }
  }

  /// Asks all guests' shards again, because a new owner does not know other users' devices.
  mutating func askGuestsAnew(_ now: Timestamp) {
    for index in guests.indices {
      guests[index].awaitAnswer(at: now)
      // The former owner has notified their shards of this.
      guests[index].talking = talking(of: guests[index].user)
    }
  }

  /// Asks the shards of users for their devices.
  /// - Parameter urgency: the urgency of questions to shards that have answered before.
  mutating func visitGuests(urgency: Outcome.Urgency = .slow, _ turn: inout Turn) {
    guard turn.isServing else { return }
    // The interval grows with the number of users, so a large group causes no more questions than a few users.
    let rung = isSearching ? guests.count { rings($0.user) } : 0
    for index in guests.indices
    where guests[index].askAt <= turn.now && isVisited(guests[index]) {
      let isRung = isSearching && rings(guests[index].user)
      let interval =
        isRung
        ? max(Guest.ringingInterval, .milliseconds(Int64(50 * rung)))
        : Guest.restingInterval
      visit(index, next: turn.now + interval, guests[index].isAwaited ? .urgent : urgency, &turn)
    }
  }

  /// Asks the shards of some users at once, because a new owner of such a shard does not know of the call.
  mutating func visitAnew(_ turn: inout Turn, _ isConcerned: (String) -> Bool) {
    for index in guests.indices where isConcerned(guests[index].user) {
      guests[index].askAt = min(guests[index].askAt, turn.now)
    }
    visitGuests(urgency: .urgent, &turn)
  }

  /// Asks one shard. The question also says whether a device of the user has the call.
  private mutating func visit(
    _ index: Int, next: Timestamp, _ urgency: Outcome.Urgency, _ turn: inout Turn
  ) {
    let guest = guests[index]
    let isRung = isSearching && rings(guest.user)
    var request = VisitRequest(
      call: id, callee: facts.callee.user, caller: ringer.user,
      busyWhileInCall: guest.isMember ? true : busyWhileInCall)
    request.isMember = guest.isMember
    visitsAsked += 1
    request.number = (turn.epoch << 20) + visitsAsked
    if case .answered(let conversation) = stage, !isRung {
      request.answeredBy = legs[conversation.winner].party.device
      request.answeredAt = conversation.answer.at
      (request.caller, request.callerName) = (facts.caller.user, facts.caller.name)
    }
    let talking = talking(of: guest.user)
    request.isOver = !isRung && talking == nil
    if isRung {
      request.consulted = transfer?.start.consulted?.call
      request.ringsFor = min(facts.deadline, guest.noAnswerAt) - turn.now
    }
    request.round = round(ringing: guest.user)
    // Where only one device may ring, it does not wait for the first ones.
    request.wantsOthers = guest.wantsOthers || isRung && transfer?.start.device != nil
    (guests[index].askAt, guests[index].talking) = (next, talking)
    let user = UserKey(app: facts.callee.app, user: guest.user)
    // Every question follows an append, which fences a former owner that wakes up late.
    turn.perform(.visit(user, request), urgency)
  }

  /// The device of a user that has the callee's side of the answered call.
  private func talking(of user: String) -> DeviceID? {
    winner.flatMap { legs[$0].party.user.hasBytes(of: user) ? legs[$0].party.device : nil }
  }

  /// Notifies the shards of users for whom it has changed at once whether a device of theirs has the call. Their
  /// devices see whether the user is in a call.
  /// - Parameter ofCaller: the caller's side has moved, so the user on the other side sees another party there.
  mutating func notifyGuests(ofCaller: Bool = false, _ turn: inout Turn) {
    guard !guests.isEmpty, turn.isServing else { return }
    for index in guests.indices {
      let talking = talking(of: guests[index].user)
      guard guests[index].talking != talking || ofCaller && talking != nil else { continue }
      visit(index, next: turn.now + Guest.restingInterval, .urgent, &turn)
    }
  }

  /// Asks the shards that are due, and stops waiting for shards that did not answer in time.
  mutating func tickGuests(_ turn: inout Turn) {
    visitGuests(&turn)
    guard isSearching else { return }
    var isOver = false
    for index in guests.indices
    where rings(guests[index].user) && guests[index].isAwaited
      && guests[index].awaitedUntil <= turn.now
    {
      (guests[index].isKnown, guests[index].awaitsOthers) = (true, false)
      isOver = true
    }
    if isOver { endIfNobodyIsLeft(&turn) }
  }

  /// The number of the ringing that rings a user: n for the n-th transfer, 0 for the first one or none.
  private func round(ringing user: String) -> UInt8 {
    isTransferring && rings(user) ? UInt8(clamping: transfers.count) : 0
  }

  /// Carries out the answer of a user's shard.
  ///
  /// An answer about an earlier ringing is ignored: another party may call in this one, and the user's rules may differ
  /// between callers.
  mutating func visited(
    _ user: String, _ answer: VisitAnswer, to request: VisitRequest, _ turn: inout Turn
  ) {
    guard let index = guest(user), request.round >= round(ringing: user) else { return }
    let isFirst = !guests[index].isKnown
    // A new owner also asks about users whom the call rings already.
    let isNew = isFirst && !legs.contains { $0.state.isLive && $0.party.user.hasBytes(of: user) }
    if answer.isComplete { guests[index].isKnown = true }
    if request.wantsOthers { guests[index].awaitsOthers = false }
    guests[index].holdsDevices = answer.devices.contains { $0.isHeld && $0.mayRing }
    (guests[index].isBusy, guests[index].isInCall) = (answer.isBusy, answer.isInCall)
    guests[index].devices = answer.devices.map { User.Device.named($0) }
    // More answers follow one that is not complete, and pushes are planned by then.
    let isAnswered = guests[index].answeredAt != Timestamp(microseconds: 0)
    guests[index].answeredAt = turn.now
    if !isAnswered { takeOverPushes(ofGuest: index, &turn) }
    if isFirst || guests[index].owesPushes { pushLate(ofGuest: index, &turn) }
    if isSearching, rings(user) {
      if let device = transfer?.start.device {
        return visitedOne(device, user, answer, &turn)
      }
      if isNew, let reason = answer.diverted, reason != .transferred {
        let targets = DivertTargets(answer.to, ringSlot: answer.ringSlot)
        if divert(reason, from: user, to: targets, &turn) { return }
        // The call's time was over before it could go on. It does not ring here, so this user has not missed it.
        if deadline(after: .seconds(0), turn) == nil { return }
      }
      if isFirst, answer.diverted == nil, !answer.to.isEmpty, !guests[index].isMember {
        guests[index].onNoAnswer = answer.to
        let cameAt = route.first { $0.to.contains { $0.hasBytes(of: user) } }?.at ?? turn.now
        var forwarding = Forwarding()
        forwarding.noAnswerAfter = answer.noAnswerAfter
        guests[index].noAnswerAt =
          cameAt + forwarding.noAnswerFor(ofRing: facts.deadline - cameAt, isFixed: isRingFixed)
      }
      ring(user, answer.devices, isFree: !answer.isBusy, &turn)
      loseSessions(of: user, answer.devices, &turn)
      endIfNobodyIsLeft(&turn)
    } else {
      for device in answer.devices {
        let party = Party(user: user, device: device.id, deviceName: device.name)
        guard let session = device.session, legIndex(party) != nil else { continue }
        attached(party, session, &turn)
      }
      loseSessions(of: user, answer.devices, &turn)
    }
  }

  /// Carries out an answer for a transfer to one device only. No other device rings, and no rule diverts it.
  private mutating func visitedOne(
    _ device: DeviceID, _ user: String, _ answer: VisitAnswer, _ turn: inout Turn
  ) {
    let isFree = !answer.isBusy && answer.diverted == nil
    let only = answer.devices.filter { $0.id == device }
    ring(user, only, isFree: isFree, &turn)
    loseSessions(of: user, answer.devices, &turn)
    endIfNobodyIsLeft(&turn)
  }

  /// Rings the devices that are new to the call, and those with a new session.
  /// - Parameter isFree: if false, no further device begins to ring, and those that ring go on.
  mutating func ring(
    _ user: String, _ devices: [VisitAnswer.Device], isFree: Bool = true, _ turn: inout Turn
  ) {
    for device in devices {
      let party = Party(user: user, device: device.id, deviceName: device.name)
      let known = legIndex(party)
      // In a transfer, a device may ring that had a part in the call before.
      let isNew = known.map { isTransferring && !isInRound($0) } ?? true
      if isNew {
        let most =
          guests.count > turn.limits.diversionTargets
          ? turn.limits.legsPerGroupCall : turn.limits.legsPerCallLifetime
        guard isFree, !device.isHeld, known != nil || legs.count < most else { continue }
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

  /// Drops the sessions of devices that are no longer attached.
  private mutating func loseSessions(
    of user: String, _ devices: [VisitAnswer.Device], _ turn: inout Turn
  ) {
    for leg in legs.indices where legs[leg].party.user.hasBytes(of: user) {
      guard let session = legs[leg].endpoint.session else { continue }
      let device = devices.first { $0.id == legs[leg].party.device }
      if device?.session == nil { calleeSessionLost(session, graceful: false, &turn) }
    }
  }

  /// A device of a user that the call rings or rang, as in the last answer of the user's shard.
  func device(of party: Party, _ callees: [User.Device]) -> User.Device? {
    let devices = guest(party.user).map { guests[$0].devices } ?? callees
    return devices.first { $0.id == party.device }
  }
}

extension User.Device {
  /// A function, since in an initialiser the observer of `registration` would not set `wakes`.
  fileprivate static func named(_ device: VisitAnswer.Device) -> Self {
    var known = Self(id: device.id)
    known.name = device.name
    known.session = device.session
    known.registration = device.registration
    return known
  }
}
