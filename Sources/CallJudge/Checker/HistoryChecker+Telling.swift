internal import CallCore
internal import CallWire

extension HistoryChecker {
  mutating func received(_ who: Who, _ link: Int, _ frame: ServerFrame) throws(HistoryViolation) {
    switch frame {
    case .notice(let notice):
      if notice.kind == .sessionReplaced { links[link]?.attachedAt = nil }
    case .delivery(let delivery): try delivered(who, delivery)
    case .ongoing(let ongoing): try toldOngoing(who, ongoing, on: link)
    case .history(let state) where sight.contains(.streams): try toldHistory(who, state, on: link)
    case .history, .relays: break
    case .reply(let id, let reply):
      if case .attached(let info) = reply {
        attached(who, on: link)
        if let ongoing = info.ongoing { try toldOngoing(who, ongoing, on: link) }
      }
      // While the device moves it sends a request on two links, and gets one reply.
      for link in links(of: who) { links[link]?.waiting[id] = nil }
      guard let question = asked[who]?[id] else { return }
      try repeated(who, id, question, reply)
      try replied(who, question, reply)
    }
  }

  // MARK: Replies

  private mutating func repeated(
    _ who: Who, _ id: UInt64, _ question: Asked, _ reply: ServerReply
  ) throws(HistoryViolation) {
    guard let first = question.firstReply else {
      if case .error(let error) = reply, error.code.rawValue >= 500 { return }
      asked[who]?[id]?.firstReply = reply
      return
    }
    let call = question.command.address?.call
    switch (first, reply) {
    case (.answer(let before, _), .answer(let now, _))
    where call.map { calls[$0]?.moves.isEmpty ?? true } ?? true:
      try require(
        before == now, .sameAnswer, call,
        "\(who) asked twice whether it won: \(before), then \(now)")
    case (.call, .error(let error)):
      // A device that lacks the reply may have ended the call meanwhile, or rings in it for who was to take its side.
      if case .call(_, .transfer) = question.command, let facts = call.flatMap({ calls[$0] }),
        facts.ended != nil || facts.transfers.count > 1
      {
        return
      }
      try require(error.code.rawValue >= 500, .sameAnswer, call, "\(who) asked again: \(error)")
    default: break
    }
  }

  mutating func replied(
    _ who: Who, _ question: Asked, _ reply: ServerReply
  ) throws(HistoryViolation) {
    if case .call(let address, .answer) = question.command {
      try replied(who, toAnswerOf: address.call, reply)
    }
    switch reply {
    case .done:
      if case .call(let address, .signal(_, let body)) = question.command {
        acceptedSignal(body, address.call)
      }
    case .rules(let told):
      if case .rules(.write(let rules)) = question.command {
        try toldRules(told, asked: rules, of: who.user)
      }
    case .error(let error): try refused(who, question, error)
    case .attached(let info):
      try attached(who, question, info)
      if let state = info.forCall,
        state.phase != .unknown || !mayBeUnknown(state.call, at: who)
      {
        try toldState(who, state, asked: question.at)
      }
    case .registered(let info):
      for device in info.removed {
        registrations[Who(who.user, device.text), default: Registered()].removalAskedAt = now
      }
      try registered(who)
      if case .register(let request) = question.command { confirmed(who, request) }
    case .call(let state):
      if case .place(let address, _) = question.command {
        accepted(address.call)
        noteCrossings(who)
      }
      try toldState(who, state, asked: question.at)
    case .answer(true, let state):
      if forgotten[state.call] != nil { return }
      if calls[state.call]?.tookOver(who) ?? false {
        calls[state.call]?.told[who, default: Told()].tookOver = true
      }
      if case .call(_, .pull(let request)) = question.command {
        try toldPulled(who, request, state.call)
      } else {
        try toldWon(who, state.call)
      }
    case .answer(false, let state): try toldState(who, state, asked: question.at)
    case .history(let page):
      if case .history(let command) = question.command {
        try toldHistory(page, command, of: who.user, since: question.at)
      }
    case .calls(let live):
      for state in live.placed + live.received { try toldState(who, state, asked: question.at) }
    }
  }

  /// The user's own shard may not know of a call that went on to the user, or was transferred. Only the journal says of
  /// which ones that is true.
  private func mayBeUnknown(_ call: CallID, at who: Who) -> Bool {
    guard seesJournal, let facts = calls[call] else { return !seesJournal }
    return facts.isGuest(who.user)
  }

  /// When the cluster had a call for certain, and has it still.
  private func knownSince(_ call: CallID) -> Timestamp? {
    guard let facts = calls[call] else { return nil }
    return facts.placedAt ?? (facts.overAt == nil && isFollowed(call) ? facts.acceptedAt : nil)
  }

  private mutating func toldState(
    _ who: Who, _ state: CallState, asked: Timestamp
  ) throws(HistoryViolation) {
    let call = state.call
    guard forgotten[call] == nil else { return }
    if state.isOfCallThatLeft { calls[call]?.leftItsDevices = true }
    switch state.phase {
    case .placed, .ringing: break
    case .unknown:
      try require(
        knownSince(call) ?? asked >= asked, .nothingLost, call,
        "\(who) hears that the call is not known")
    case .answered: if let by = state.by { try toldAnswered(Who(by), call, teller: who) }
    case .ended:
      try toldSurvivor(who, state.reason, state.survivor, call)
      try toldEnd(
        who, CallEnd(reason: state.reason ?? .failed, by: state.by.map(Who.init)), call,
        version: nil)
      try toldMissed(
        who, state.reason ?? .failed, by: state.by.map(Who.init), missed: state.missed,
        isState: true, call)
    }
  }

  // MARK: Deliveries

  private mutating func delivered(_ who: Who, _ delivery: Delivery) throws(HistoryViolation) {
    let call = delivery.call
    if let former = forgotten[call] {
      return try require(
        !delivery.event.isInvite || !former.isOver || delivery.at < former.at, .noInviteAfterStop,
        call,
        "\(who) is told to ring long after the end")
    }
    let version = delivery.version
    let facts = calls[call, default: Facts()]
    var told = facts.told[who, default: Told()]
    if let before = told.events[version] {
      return try require(
        before == delivery.event, .versionsGrow, call,
        "\(who) hears two things as version \(version)")
    }
    try require(
      facts.placed != nil || !knowsJournal, .appendThenSpeak, call,
      "\(who) hears of a call that no record speaks of")
    if delivery.isOfCallThatLeft { calls[call, default: Facts()].leftItsDevices = true }
    let isLast = version > told.endVersion ?? .max
    try require(
      !isLast || delivery.event.isStop || !facts.transfers.isEmpty || !isFollowed(call),
      delivery.event.isInvite ? .noInviteAfterStop : .versionsGrow, call,
      "\(who) hears more of the call after its end")
    told.events[version] = delivery.event
    let before = told.highest
    told.highest = max(before, version)
    calls[call, default: Facts()].told[who] = told
    switch delivery.event {
    case .invite(let invite): try invited(who, invite, call, decided: delivery.at)
    case .ringing(let party):
      try require(
        facts.alerting.contains(facts.key(Who(party))) || !knowsJournal, .appendThenSpeak, call,
        "\(who) hears that \(Who(party)) alerts; no record says so")
    case .answered(let answered):
      if facts.journalCaller == who { calls[call]?.callerToldAt = now }
      try toldAnswered(Who(answered.by), call, teller: who)
    case .stop(let stop):
      let end = CallEnd(reason: stop.reason, by: stop.by.map(Who.init))
      if facts.isStale(end, of: who) { return }
      // Deliveries of a former owner may arrive after the next owner's. Only the journal says which stop is of a part that
      // a device had before it took the call over.
      try require(
        version >= before || version >> 20 != before >> 20 || !isFollowed(call), .versionsGrow,
        call,
        "\(who) hears the end as version \(version), after \(before)")
      try toldSurvivor(who, stop.reason, stop.survivor, call)
      try toldEnd(who, end, call, version: version)
      try toldMissed(
        who, stop.reason, by: end.by, missed: stop.missed, isState: false, call)
    case .moved(let moved): try toldMove(who, moved, call)
    case .transfer(let news): try toldOfTransfer(who, news, call)
    case .ringsUntil(let deadline):
      if !seesJournal { calls[call]?.rings(until: deadline) }
      try require(
        facts.deadlines.contains { $0.milliseconds == deadline.milliseconds } || !knowsJournal,
        .appendThenSpeak, call, "\(who) is told until when it rings; no record says so")
    case .signal(let signal):
      try require(
        told.signals[signal.index] ?? signal.body == signal.body || facts.tookOver(who)
          || !facts.transfers.isEmpty || !isFollowed(call),
        .signalsInPlace, call,
        "two signals of index \(signal.index)")
      calls[call]?.told[who]?.signals[signal.index] = signal.body
    }
  }

  private mutating func invited(
    _ who: Who, _ invite: Invite, _ call: CallID, decided: Timestamp
  ) throws(HistoryViolation) {
    calls[call]?.told[who]?.invited = true
    calls[call]?.told[who]?.invitedAt = now
    if !seesJournal { calls[call]?.rings(until: invite.deadline) }
    if let by = invite.transferredBy { return try invitedToTransfer(who, invite, by, call) }
    if invite.isSecondSide, let facts = calls[call] {
      return try invitedToSecondSide(who, invite, call, facts)
    }
    noteCrossings(who)
    var deadline = calls[call]?.placed?.deadline ?? invite.deadline
    // Who takes a call because its own one gave way gets the invite for the description in it.
    let taken = calls[call]?.answered.flatMap { $0.merged != nil && Who($0.by) == who ? $0 : nil }
    if let taken, invite.deadline.milliseconds != deadline.milliseconds {
      deadline = max(deadline, taken.connectDeadline)
    }
    try require(
      invite.merged == nil || invite.merged == taken?.merged || !knowsJournal, .crossingsMerge,
      call,
      "\(who) has it in place of another call, and no record says so")
    let known = (calls[call]?.deadlines ?? []) + [deadline]
    try require(
      known.contains { $0.milliseconds == invite.deadline.milliseconds }, .oneStory, call,
      "\(who) hears of another deadline")
    try mayBeInvited(who, call, decided: decided, hasCall: taken != nil)
    try invitedElsewhere(who, invite, call)
    try require(
      !app.onlyPlaces(who) || taken != nil || !seesJournal, .placersDoNotRing, call,
      "\(who) is told to ring")
    let caller = calls[call]?.placed?.caller ?? invite.caller
    try require(
      invite.caller.user.hasBytes(of: caller.user) && invite.caller.name.hasBytes(of: caller.name),
      .oneStory, call, "\(who) sees \(invite.caller.user) as \"\(invite.caller.name)\"")
    try toldSecondCall(who, invite.isSecondCall, calls[call, default: Facts()], call)
    try require(
      invite.pushData == app.pushData(call), .oneStory, call,
      "\(who) is given other data than the caller gave")
    // By the cluster's clocks: a device may read its deliveries late, after it slept.
    try require(
      decided <= invite.deadline + .seconds(4), .noLateInvite, call,
      "\(who) is told to ring after the deadline")
  }
}

/// Further rules for invites, beside those of versions and deadlines.
extension HistoryChecker {
  /// An invite to the first ringing is for a device of a user whom the call rings, and was decided while it rang.
  ///
  /// The journal has the ways, the answer and the end before a device hears of them, and an owner decides no invite behind
  /// an answer or an end; the times are by the owners' clocks. A device that has the call without having answered it gets
  /// its invite later.
  /// - Parameter hasCall: whether it is such a device.
  mutating func mayBeInvited(
    _ who: Who, _ call: CallID, decided: Timestamp, hasCall: Bool
  ) throws(HistoryViolation) {
    guard let facts = calls[call], let placed = facts.placed else { return }
    judged[.noInviteAfterStop, default: 0] += 1
    let isParty = placed.callee.user.hasBytes(of: who.user) || facts.wentOn(to: who.user)
    try require(
      isParty && who != facts.journalCaller, .noInviteAfterStop, call,
      "\(who) is told to ring, and has no part in the call")
    guard !hasCall, let over = facts.answered?.at ?? facts.ended?.at else { return }
    try require(
      decided <= over + bounds.skew, .noInviteAfterStop, call,
      "\(who) is told to ring by what was decided after the call had stopped ringing")
  }
}

extension Delivery.Event {
  var isStop: Bool { if case .stop = self { true } else { false } }
  var isInvite: Bool { if case .invite = self { true } else { false } }
}
