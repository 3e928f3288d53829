internal import CallCore

/// What the journal may hold: each fact once, in an order that makes sense.
extension HistoryChecker {
  mutating func journalled(
    _ entry: JournalEntry, _ record: JournalRecord, _ shard: Int, _ now: Timestamp
  ) throws(Violation) {
    let call = entry.call
    var facts = calls[call, default: Facts()]
    defer { calls[call] = facts }
    func refuse(_ rule: Violation.Rule, _ reason: String) throws(Violation) -> Never {
      throw Violation(rule, reason, call: call)
    }
    if case .placed(let placed) = entry.change {
      guard facts.placed == nil else { try refuse(.oneRecord, "placed twice in the journal") }
      facts.placed = placed
      facts.placedAt = now
      facts.epoch = record.epoch
      facts.shard = shard
      live.append(call)
      if !witnesses(facts).isEmpty { judged[.unreachableAttached, default: 0] += 1 }
      return
    }
    guard facts.placed != nil else {
      try refuse(.nothingLost, "the journal speaks of a call that it does not hold")
    }
    if record.epoch != facts.epoch { facts.mayBeLost = true }
    switch entry.change {
    case .placed, .legJoined, .signal, .settled: break
    case .pushed(let device, let purpose):
      try mayPush(device.text, purpose, facts, call, now)
      facts.pushed[device.text, default: []].insert(purpose)
    case .alerting(let device): facts.alerting.insert(device.text)
    case .answered(let answer):
      guard facts.answered == nil else { try refuse(.oneRecord, "answered twice in the journal") }
      guard facts.ended == nil else { try refuse(.oneRecord, "answered after its end") }
      facts.answered = answer
      facts.answeredAt = now
    case .legEnded(let device, let end, _): facts.legEnds[device.text] = end
    case .connected(let caller):
      if caller { facts.connected.caller = true } else { facts.connected.winner = true }
    case .callerLost(let until):
      facts.lostUntil.caller = until
      facts.mayBeLost = true
    case .winnerLost(let until):
      facts.lostUntil.winner = until
      facts.mayBeLost = true
    case .ended(let end):
      guard facts.ended == nil else { try refuse(.oneRecord, "ended twice in the journal") }
      if let why = mistake(in: end, facts) { try refuse(.oneStory, why) }
      guard hasCause(end, facts) else {
        try refuse(.endsHaveCauses, "\(end.reason.name), and nobody asked for it")
      }
      if let why = unreachableThoughAttached(end, facts, record, now) {
        try refuse(.unreachableAttached, why)
      }
      facts.ended = end
      facts.endedAt = now
    }
  }

  /// Whether somebody did what the end says.
  private func hasCause(_ end: EndedFacts, _ facts: Facts) -> Bool {
    let who = end.by.map(Who.init)
    switch end.reason {
    case .declined: return facts.asked(who, "decline")
    case .busy: return who == nil || facts.asked(who, "busy")
    case .cancelled: return facts.asked(who, "cancel", "hangUp") || facts.mayBeLost
    case .hungUp: return facts.asked(who, "hangUp") || facts.mayBeLost
    case .answeredElsewhere, .unanswered, .unreachable, .failed, .glare: return true
    }
  }

  /// Why a call could not end like this; nil when it could.
  private func mistake(in end: EndedFacts, _ facts: Facts) -> String? {
    switch end.reason {
    case .hungUp, .failed:
      return facts.answered == nil ? "\(end.reason.name), though nobody had answered" : nil
    case .unanswered:
      if facts.answered != nil { return "unanswered after it was answered" }
      guard let deadline = facts.placed?.deadline else { return nil }
      let early = end.at + bounds.skew < deadline
      return early ? "unanswered before its deadline" : nil
    case .cancelled, .declined, .busy, .unreachable:
      return facts.answered == nil ? nil : "\(end.reason.name) after it was answered"
    case .answeredElsewhere: return "a call cannot end as answered elsewhere"
    case .glare: return nil
    }
  }
}
