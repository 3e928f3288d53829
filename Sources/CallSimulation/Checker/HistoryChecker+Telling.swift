internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

extension HistoryChecker {
  mutating func received(
    _ who: Who, _ link: Int, _ frame: ServerFrame, _ now: Timestamp
  ) throws(HistoryViolation) {
    switch frame {
    case .notice(let notice):
      if notice.kind == .sessionReplaced { links[link]?.attachedAt = nil }
    case .delivery(let delivery): try delivered(who, delivery, now)
    case .reply(let id, let reply):
      if case .attached = reply { attached(who, on: link, now) }
      // Said on two links, while the device moves, it is answered on one.
      for link in linksOf[who] ?? [] { links[link]?.waiting[id] = nil }
      guard let question = asked[who]?[id] else { return }
      try repeated(who, id, question, reply)
      try replied(who, question, reply, now)
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
    case (.answer(let before, _), .answer(let now, _)) where before != now:
      throw HistoryViolation(
        .sameAnswer, "\(who) asked twice whether it won: \(before), then \(now)", call: call)
    case (.call, .error(let error)) where error.code.rawValue < 500:
      throw HistoryViolation(.sameAnswer, "\(who) asked again: \(error)", call: call)
    default: break
    }
  }

  mutating func replied(
    _ who: Who, _ question: Asked, _ reply: ServerReply, _ now: Timestamp
  ) throws(HistoryViolation) {
    switch reply {
    case .done: break
    case .error(let error): try refused(who, question, error)
    case .attached(let info):
      try attached(who, question, info)
      if let state = info.forCall { try toldState(who, state, asked: question.at) }
    case .registered(let info):
      for device in info.removed {
        registrations[Who(who.user, device.text), default: Registered()].removalAskedAt = now
      }
      try registered(who, now)
      if case .register(let request) = question.command { heard(who, request) }
    case .call(let state):
      if case .place(let address, _) = question.command { calls[address.call]?.accepted = true }
      try toldState(who, state, asked: question.at)
    case .answer(true, let state): try toldWon(who, state.call)
    case .answer(false, let state): try toldState(who, state, asked: question.at)
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
      if let placedAt = calls[call]?.placedAt, placedAt < asked {
        throw HistoryViolation(.nothingLost, "\(who) hears that the call is not known", call: call)
      }
    case .answered:
      guard let by = state.by.map(Who.init) else { return }
      if by == who { try toldWon(who, call) } else { try toldAnswer(by, call, teller: who) }
    case .ended:
      try toldEnd(
        who, CallEnd(reason: state.reason ?? .failed, by: state.by.map(Who.init)), call,
        version: nil)
    }
  }

  // MARK: Deliveries

  private mutating func delivered(
    _ who: Who, _ delivery: Delivery, _ now: Timestamp
  ) throws(HistoryViolation) {
    let call = delivery.call
    let version = delivery.version
    let facts = calls[call, default: Facts()]
    var told = facts.told[who, default: Told()]
    if let before = told.events[version] {
      guard before == delivery.event else {
        throw HistoryViolation(
          .versionsGrow, "\(who) hears two things as version \(version)", call: call)
      }
      return
    }
    if knowsJournal, facts.placed == nil {
      throw HistoryViolation(
        .appendThenSpeak, "\(who) hears of a call that no record speaks of", call: call)
    }
    if let last = told.endVersion, version > last, !delivery.event.isStop {
      let rule: HistoryRule = delivery.event.isInvite ? .noInviteAfterStop : .versionsGrow
      throw HistoryViolation(rule, "\(who) hears more of the call after its end", call: call)
    }
    told.events[version] = delivery.event
    let before = told.highest
    told.highest = max(before, version)
    calls[call, default: Facts()].told[who] = told
    switch delivery.event {
    case .invite(let invite): try invited(who, invite, call, decided: delivery.at)
    case .ringing(let party):
      if knowsJournal, !facts.alerting.contains(party.device.text) {
        throw HistoryViolation(
          .appendThenSpeak, "\(who) hears that \(Who(party)) alerts; no record says so", call: call)
      }
    case .answered(let answered):
      if Who(answered.by) == who {
        try toldWon(who, call)
      } else {
        try toldAnswer(Who(answered.by), call, teller: who)
      }
    case .stop(let stop):
      // What a former owner said may still be on its way when the next one speaks.
      if version < before, version >> 20 == before >> 20 {
        throw HistoryViolation(
          .versionsGrow, "\(who) hears the end as version \(version), after \(before)", call: call)
      }
      try toldEnd(
        who, CallEnd(reason: stop.reason, by: stop.by.map(Who.init)), call, version: version)
    case .signal(let signal):
      if let body = told.signals[signal.index], body != signal.body {
        throw HistoryViolation(.signalsInPlace, "two signals of index \(signal.index)", call: call)
      }
      calls[call]?.told[who]?.signals[signal.index] = signal.body
    }
  }

  private mutating func invited(
    _ who: Who, _ invite: Invite, _ call: CallID, decided: Timestamp
  ) throws(HistoryViolation) {
    calls[call]?.told[who]?.invited = true
    if let placed = calls[call]?.placed,
      placed.deadline.milliseconds != invite.deadline.milliseconds
    {
      throw HistoryViolation(.oneStory, "\(who) hears of another deadline", call: call)
    }
    // By the cluster's clocks: a device that slept reads what lay in wait for it.
    if decided > invite.deadline + .seconds(4) {
      throw HistoryViolation(.noLateInvite, "\(who) is told to ring after the deadline", call: call)
    }
  }

  // MARK: Who won, and how it ended

  private mutating func toldWon(_ who: Who, _ call: CallID) throws(HistoryViolation) {
    let facts = calls[call, default: Facts()]
    if let winner = facts.winner, winner != who {
      throw HistoryViolation(.oneWinner, "\(winner) and \(who) are told that they won", call: call)
    }
    if let end = facts.told[who]?.end, !end.reason.followsAnswer {
      throw HistoryViolation(
        .winnerStopped, "\(who) won after it was told \(end.reason.name)", call: call)
    }
    if let end = facts.end, !end.reason.followsAnswer {
      throw HistoryViolation(
        .oneStory, "\(who) won a call that ended as \(end.reason.name)", call: call)
    }
    calls[call, default: Facts()].winner = who
    calls[call]?.told[who, default: Told()].won = true
    try toldAnswer(who, call, teller: who)
  }

  private mutating func toldAnswer(
    _ by: Who, _ call: CallID, teller: Who
  ) throws(HistoryViolation) {
    let facts = calls[call, default: Facts()]
    if knowsJournal, facts.answered.map({ Who($0.by) }) != by {
      throw HistoryViolation(
        .appendThenSpeak, "\(teller) hears that \(by) answered; the journal does not say so",
        call: call)
    }
    if let known = facts.answeredBy, known != by {
      throw HistoryViolation(
        .oneWinner, "\(teller) hears that \(by) answered; others that \(known) did", call: call)
    }
    if let end = facts.end, !end.reason.followsAnswer {
      throw HistoryViolation(
        .oneStory, "\(teller) hears that \(by) answered a call that ended as \(end.reason.name)",
        call: call)
    }
    calls[call, default: Facts()].answeredBy = by
  }

  private mutating func toldEnd(
    _ who: Who, _ end: CallEnd<Who>, _ call: CallID, version: UInt64?
  ) throws(HistoryViolation) {
    let facts = calls[call, default: Facts()]
    let told = facts.told[who, default: Told()]
    func refuse(_ rule: HistoryRule, _ reason: String) throws(HistoryViolation) -> Never {
      throw HistoryViolation(rule, "\(who): \(reason)", call: call)
    }
    // The end of its own part: the call may go on.
    if end.by == who, facts.legEnds[who.device] != nil, end.reason.isOwnPart { return }
    if told.won, !end.reason.followsAnswer {
      try refuse(.winnerStopped, "won, and is told \(end.reason.name)")
    }
    if let before = told.end, before != end {
      try refuse(.oneEnd, "was told \(before.reason.name), and now \(end.reason.name)")
    }
    if end.reason == .answeredElsewhere {
      guard let by = end.by else { try refuse(.oneStory, "answered elsewhere by nobody") }
      guard by != who else { try refuse(.oneStory, "answered elsewhere by itself") }
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

  private mutating func toldCallEnd(
    _ who: Who, _ end: CallEnd<Who>, _ call: CallID, _ facts: Facts
  ) throws(HistoryViolation) {
    func refuse(_ rule: HistoryRule, _ reason: String) throws(HistoryViolation) -> Never {
      throw HistoryViolation(rule, "\(who): \(reason)", call: call)
    }
    if knowsJournal {
      guard let truth = facts.ended else {
        try refuse(.appendThenSpeak, "is told \(end.reason.name); no record says that it ended")
      }
      guard truth.reason == end.reason, truth.by.map(Who.init) == end.by else {
        try refuse(.oneStory, "is told \(end.reason.name); the journal says \(truth.reason.name)")
      }
    }
    if let known = facts.end, known != end {
      try refuse(.oneStory, "is told \(end.reason.name), others \(known.reason.name)")
    }
    if !end.reason.followsAnswer, let by = facts.answeredBy {
      try refuse(.oneStory, "is told \(end.reason.name) of a call that \(by) answered")
    }
    calls[call, default: Facts()].end = end
  }
}

extension Delivery.Event {
  var isStop: Bool { if case .stop = self { true } else { false } }
  var isInvite: Bool { if case .invite = self { true } else { false } }
}
