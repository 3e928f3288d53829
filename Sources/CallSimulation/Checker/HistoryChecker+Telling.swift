internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

extension HistoryChecker {
  mutating func received(_ who: Who, _ link: Int, _ frame: ServerFrame) throws(HistoryViolation) {
    switch frame {
    case .notice(let notice):
      if notice.kind == .sessionReplaced { links[link]?.attachedAt = nil }
    case .delivery(let delivery): try delivered(who, delivery)
    case .ongoing(let ongoing): try toldOngoing(who, ongoing, on: link)
    case .history(let state): try toldHistory(who, state, on: link)
    case .reply(let id, let reply):
      if case .attached(let info) = reply {
        attached(who, on: link)
        if let ongoing = info.ongoing { try toldOngoing(who, ongoing, on: link) }
      }
      // While the device moves it sends a request on two links, and gets one reply.
      for link in linksOf[who] ?? [] { links[link]?.waiting[id] = nil }
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
      try require(error.code.rawValue >= 500, .sameAnswer, call, "\(who) asked again: \(error)")
    default: break
    }
  }

  mutating func replied(
    _ who: Who, _ question: Asked, _ reply: ServerReply
  ) throws(HistoryViolation) {
    switch reply {
    case .done, .rules: break
    case .error(let error): try refused(who, question, error)
    case .attached(let info):
      try attached(who, question, info)
      // Of a call that went on to the user, the user's own shard may not know.
      if let state = info.forCall,
        state.phase != .unknown || !(calls[state.call]?.wentOn(to: who.user) ?? false)
      {
        try toldState(who, state, asked: question.at)
      }
    case .registered(let info):
      for device in info.removed {
        registrations[Who(who.user, device.text), default: Registered()].removalAskedAt = now
      }
      try registered(who)
      if case .register(let request) = question.command { heard(who, request) }
    case .call(let state):
      if case .place(let address, _) = question.command {
        calls[address.call]?.accepted = true
        noteCrossings(who)
      }
      try toldState(who, state, asked: question.at)
    case .answer(true, let state):
      if case .call(_, .pull(let request)) = question.command {
        try toldPulled(who, request, state.call)
      } else {
        try toldWon(who, state.call)
      }
    case .answer(false, let state): try toldState(who, state, asked: question.at)
    case .history: break
    case .calls(let live):
      for state in live.placed + live.received { try toldState(who, state, asked: question.at) }
    }
  }

  private mutating func toldState(
    _ who: Who, _ state: CallState, asked: Timestamp
  ) throws(HistoryViolation) {
    let call = state.call
    switch state.phase {
    case .placed, .ringing: break
    case .unknown:
      try require(
        calls[call]?.placedAt ?? asked >= asked, .nothingLost, call,
        "\(who) hears that the call is not known")
    case .answered: if let by = state.by { try toldAnswered(Who(by), call, teller: who) }
    case .ended:
      try toldSurvivor(who, state.reason, state.survivor, call)
      try toldEnd(
        who, CallEnd(reason: state.reason ?? .failed, by: state.by.map(Who.init)), call,
        version: nil)
    }
  }

  // MARK: Deliveries

  private mutating func delivered(_ who: Who, _ delivery: Delivery) throws(HistoryViolation) {
    let call = delivery.call
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
    let isLast = version > told.endVersion ?? .max
    try require(
      !isLast || delivery.event.isStop,
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
      // Deliveries of a former owner may arrive after the next owner's.
      try require(
        version >= before || version >> 20 != before >> 20, .versionsGrow, call,
        "\(who) hears the end as version \(version), after \(before)")
      try toldSurvivor(who, stop.reason, stop.survivor, call)
      try toldEnd(who, end, call, version: version)
    case .moved(let moved): try toldMove(who, moved, call)
    case .signal(let signal):
      try require(
        told.signals[signal.index] ?? signal.body == signal.body, .signalsInPlace, call,
        "two signals of index \(signal.index)")
      calls[call]?.told[who]?.signals[signal.index] = signal.body
    }
  }

  private mutating func invited(
    _ who: Who, _ invite: Invite, _ call: CallID, decided: Timestamp
  ) throws(HistoryViolation) {
    calls[call]?.told[who]?.invited = true
    noteCrossings(who)
    var deadline = calls[call]?.placed?.deadline ?? invite.deadline
    // Who takes a call because its own one gave way gets the invite for the description in it.
    let taken = calls[call]?.answered.flatMap { $0.merged != nil && Who($0.by) == who ? $0 : nil }
    if let taken, invite.deadline.milliseconds != deadline.milliseconds {
      deadline = max(deadline, taken.connectDeadline)
    }
    let known = (calls[call]?.deadlines ?? []) + [deadline]
    try require(
      known.contains { $0.milliseconds == invite.deadline.milliseconds }, .oneStory, call,
      "\(who) hears of another deadline")
    try invitedElsewhere(who, invite, call)
    try require(
      !SimOptions.onlyPlaces(who) || taken != nil, .placersDoNotRing, call,
      "\(who) is told to ring")
    try require(
      invite.caller.name == SimOptions.displayName(invite.caller.user), .oneStory, call,
      "\(who) sees the caller as \"\(invite.caller.name)\"")
    try require(
      invite.pushData == SimOptions.pushData(call), .oneStory, call,
      "\(who) is given other data than the caller gave")
    // By the cluster's clocks: a device may read its deliveries late, after it slept.
    try require(
      decided <= invite.deadline + .seconds(4), .noLateInvite, call,
      "\(who) is told to ring after the deadline")
  }

  // MARK: Who won, and how it ended

  private mutating func toldWon(_ who: Who, _ call: CallID) throws(HistoryViolation) {
    let facts = calls[call, default: Facts()]
    let winner = facts.winner ?? who
    try require(winner == who, .oneWinner, call, "\(winner) and \(who) are told that they won")
    if let end = facts.told[who]?.end {
      try require(
        end.reason.followsAnswer, .winnerStopped, call,
        "\(who) won after it was told \(end.reason.name)")
    }
    calls[call, default: Facts()].winner = who
    calls[call]?.told[who, default: Told()].won = true
    try toldAnswer(who, call, teller: who)
  }

  private mutating func toldAnswered(
    _ by: Who, _ call: CallID, teller: Who
  ) throws(HistoryViolation) {
    if calls[call]?.moves.contains(where: { !$0.ofCaller && Who($0.to) == by }) ?? false { return }
    if by == teller { try toldWon(by, call) } else { try toldAnswer(by, call, teller: teller) }
  }

  private mutating func toldAnswer(
    _ by: Who, _ call: CallID, teller: Who
  ) throws(HistoryViolation) {
    let facts = calls[call, default: Facts()]
    let what = "\(teller) hears that \(by) answered"
    try require(
      facts.journalWinner == by || !knowsJournal, .appendThenSpeak, call,
      "\(what); the journal does not say so")
    let known = facts.answeredBy ?? by
    try require(known == by, .oneWinner, call, "\(what); others that \(known) did")
    if let end = facts.end {
      try require(
        end.reason.followsAnswer, .oneStory, call,
        "\(what) a call that ended as \(end.reason.name)")
    }
    calls[call, default: Facts()].answeredBy = by
  }

  private mutating func toldEnd(
    _ who: Who, _ end: CallEnd<Who>, _ call: CallID, version: UInt64?
  ) throws(HistoryViolation) {
    let facts = calls[call, default: Facts()]
    let told = facts.told[who, default: Told()]
    if facts.isStale(end, of: who) { return }
    if end.reason == .moved { return try toldMovedAway(who, end, call, version: version) }
    // The end of its own leg: the call may go on.
    if end.by == who, facts.legEnds[facts.key(who)] != nil, end.reason.isOwnPart { return }
    if try toldLeft(who, end, call, facts) { return }
    try require(
      !told.won || end.reason.followsAnswer, .winnerStopped, call,
      "\(who) won, and is told \(end.reason.name)")
    let before = told.end ?? end
    try require(
      before == end, .oneEnd, call,
      "\(who) was told \(before.reason.name), and now \(end.reason.name)")
    if end.reason == .answeredElsewhere, let truth = facts.ended, truth.reason == .glare {
      try require(
        end.by == truth.by.map(Who.init) && who != end.by && who != facts.journalCaller, .oneStory,
        call, "\(who) is told answered elsewhere of a call that gave way")
    } else if end.reason == .answeredElsewhere {
      let by = end.by ?? who
      try require(by != who, .oneStory, call, "\(who): answered elsewhere by itself, or nobody")
      try toldAnswer(by, call, teller: who)
    } else {
      try toldCallEnd(who, end, call, facts)
    }
    calls[call, default: Facts()].told[who, default: Told()].end = end
    if let version {
      let last = max(calls[call]?.told[who]?.endVersion ?? 0, version)
      calls[call]?.told[who]?.endVersion = last
    }
  }

  /// Who is told that a call gave way is told for which one.
  private func toldSurvivor(
    _ who: Who, _ reason: EndReason?, _ survivor: CallID?, _ call: CallID
  ) throws(HistoryViolation) {
    let truth = reason == .glare ? calls[call]?.ended?.survivor : nil
    try require(
      survivor == truth || !knowsJournal, .crossingsMerge, call,
      "\(who) is not told which call goes on")
  }

  private mutating func toldCallEnd(
    _ who: Who, _ end: CallEnd<Who>, _ call: CallID, _ facts: Facts
  ) throws(HistoryViolation) {
    let what = "\(who) is told \(end.reason.name)"
    try require(
      facts.ended != nil || !knowsJournal, .appendThenSpeak, call,
      "\(what); no record says that it ended")
    if let truth = facts.ended {
      try require(
        truth.reason == end.reason && truth.by.map(Who.init) == end.by, .oneStory, call,
        "\(what); the journal says \(truth.reason.name)")
    }
    let known = facts.end ?? end
    try require(known == end, .oneStory, call, "\(what), others \(known.reason.name)")
    try require(
      end.reason.followsAnswer || facts.answeredBy == nil, .oneStory, call,
      "\(what) of a call that was answered")
    calls[call, default: Facts()].end = end
  }
}

extension Delivery.Event {
  var isStop: Bool { if case .stop = self { true } else { false } }
  var isInvite: Bool { if case .invite = self { true } else { false } }
}
