package import CallCore
internal import CallWire

/// Rules of time, and of the final state.
extension HistoryChecker {
  /// Looks for what is late. The cost grows with the number of live calls.
  package mutating func lateness(at now: Timestamp) -> HistoryViolation? {
    self.now = now
    learnNames()
    for (id, link) in links {
      for (request, since) in link.waiting where since + bounds.answer < now {
        let command = asked[link.who]?[request]?.command
        links[id]?.waiting[request] = nil
        return HistoryViolation(
          .commandsAnswered,
          "\(link.who) waits for the answer to \(command?.kind ?? "?") (link \(id))",
          call: command?.address?.call)
      }
    }
    var still: [CallID] = []
    for call in live {
      guard let facts = calls[call] else { continue }
      if let violation = overdue(call, facts) ?? notRung(call, facts)
        ?? notRungElsewhere(call, facts) ?? notToldOfMove(call, facts)
        ?? notToldOfTransfer(call, facts) ?? consultedGoesOn(call, facts)
        ?? secondNotRung(call, facts) ?? owed(call, facts) ?? endUntold(call, facts)
        ?? ringsOn(call, facts)
      {
        return violation
      }
      let over = facts.endedAt ?? facts.endToldAt
      if over.map({ now <= $0 + bounds.ring }) ?? true { still.append(call) }
    }
    live = still
    return unmergedCrossing() ?? wokenInVain() ?? delayedJob() ?? wrongOngoing()
  }

  /// The first thing that the call owes a device by now and has not done; nil: there is none.
  private mutating func owed(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    if let violation = answerIgnored(call, facts) { return violation }
    if let violation = winnerUntold(call, facts) { return violation }
    if let violation = takerUntold(call, facts) { return violation }
    if let violation = lostSignal(call, facts) { return violation }
    if let violation = turnOverdue(call, facts) { return violation }
    return notRungForTransfer(call, facts)
  }

  /// Whether a call rings: with members of a group in turn that takes long.
  package var isRinging: Bool {
    live.contains { call in
      guard let facts = calls[call] else { return false }
      guard seesJournal else { return facts.overAt == nil && now < facts.toldDeadline ?? now }
      guard facts.placed != nil, facts.ended == nil else { return false }
      return facts.answered == nil || facts.pendingTransfer != nil
    }
  }

  package func hasEnded(since time: Timestamp) -> Bool {
    calls.values.contains { ($0.endedAt ?? $0.endToldAt).map { $0 >= time } ?? false }
  }

  private func overdue(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard let (deadline, what, slack) = deadline(facts) else { return nil }
    let end = facts.endedAt ?? now
    let due = deadline + bounds.skew
    guard due < end else { return nil }
    let story = "\(what) passed, and the call lives \(seconds(end - deadline)) s after it"
    let takeover = bounds.takeover + slack
    if let calm = calendar.calm(for: takeover, from: due, now: end), calm < end {
      return HistoryViolation(.timersOnTime, story, call: call)
    }
    let before = due - (bounds.calmBefore + slack)
    let inTime = due + bounds.timerLateness
    guard inTime < end, calendar.isCalm(from: before, until: inTime) else { return nil }
    return HistoryViolation(.timersOnTime, "\(story) in a calm cluster", call: call)
  }

  /// By when the call must have ended according to the journal, and how much later if a fault delayed its
  /// notifications.
  private func deadline(_ facts: Facts) -> (Timestamp, String, slack: Span)? {
    // A missing side has at least this time from the next owner's start.
    let grace = Span.seconds(5)
    guard let placed = facts.placed else { return nil }
    guard let answer = facts.answered else {
      if let until = facts.lostUntil.caller, until < placed.deadline {
        return (until, "the caller's grace", grace)
      }
      return (placed.deadline, "the ring timeout", .zero)
    }
    if facts.isVacant {
      return facts.pendingTransfer.map { ($0.deadline, "the second user's ring timeout", .zero) }
    }
    // Until a transfer is over, the side that is handed over need neither connect nor come back.
    if let transfer = facts.pendingTransfer {
      return (transfer.deadline, "the ring timeout of a transfer", .zero)
    }
    if !facts.isConnected {
      return (facts.connectDeadline, "the connect grace", answer.connectDeadline - answer.at)
    }
    var lost = [facts.lostUntil.caller, facts.lostUntil.winner].compactMap { $0 }.max()
    if let last = facts.transfers.last?.endedAt, let until = lost { lost = max(until, last) }
    // The later of the two: the other side may have returned since.
    return lost.map { ($0, "the resume grace", grace) }
  }

  private func seconds(_ span: Span) -> String {
    let milliseconds = span.microseconds / 1000
    return "\(milliseconds / 1000).\(String(1000 + milliseconds % 1000).dropFirst())"
  }

  // MARK: The end

  /// The final state of a device.
  package struct LastView: Sendable {
    package var who: Who
    package var isAttached: Bool
    package var calls: [LastCall]

    package init(who: Who, isAttached: Bool, calls: [LastCall]) {
      self.who = who
      self.isAttached = isAttached
      self.calls = calls
    }
  }

  /// The final state of a call, as a device has it.
  package struct LastCall: Sendable {
    package var call: CallID
    package var isCaller: Bool
    package var phase: CallPhase
    package var won: Bool
    package var stop: Stop?

    package init(call: CallID, isCaller: Bool, phase: CallPhase, won: Bool, stop: Stop?) {
      self.call = call
      self.isCaller = isCaller
      self.phase = phase
      self.won = won
      self.stop = stop
    }
  }

  /// The rules that are broken after faults have ended and all had time to settle.
  package func finish(_ views: [LastView]) -> [HistoryViolation] {
    var found: [HistoryViolation] = []
    for (call, facts) in calls.inOrder where knowsJournal {
      if facts.placed == nil, facts.accepted {
        found.append(
          HistoryViolation(.nothingLost, "the caller was told it is placed; no record", call: call))
      } else if facts.placed != nil, facts.ended == nil {
        found.append(HistoryViolation(.callsEnd, "it never ended", call: call))
      }
    }
    for view in views {
      if !view.isAttached {
        found.append(HistoryViolation(.commandsAnswered, "\(view.who) could not come back"))
      }
      if let ended = shown[view.who]?.first(where: isShownTooLong) {
        found.append(
          HistoryViolation(
            .ongoingSeen, "\(view.who) still shows it, on \(ended.device)", call: ended.call))
      }
      for call in view.calls.sorted(by: { $0.call.description < $1.call.description }) {
        if let violation = unsettled(view.who, call) { found.append(violation) }
      }
    }
    found += tokensWithoutOwner() + stillWoken()
    for (call, facts) in calls.inOrder {
      if let violation = missing(of: call, facts) { found.append(violation) }
    }
    if keepsHistory, sight.contains(.streams) { found += staleHistories() }
    for (who, entry) in registrations.inOrder
    where entry.acknowledged && !entry.stored && sight.contains(.registrations) {
      found.append(HistoryViolation(.registrationKept, "the registration of \(who) is gone"))
    }
    return found
  }

  /// A call that a device of the user had placed is shown for some time after the device is lost.
  private func isShownTooLong(_ entry: OngoingCall) -> Bool {
    guard let facts = calls[entry.call], facts.ended != nil, let endedAt = facts.endedAt else {
      return false
    }
    let grace = bounds.takeover + bounds.takeover + resumeGrace
    return !(entry.isPlaced && facts.mayBeLost) || endedAt + grace < now
  }

  private func unsettled(_ who: Who, _ view: LastCall) -> HistoryViolation? {
    guard let facts = calls[view.call] else { return nil }
    guard view.phase == .ended else {
      // Its place was never answered, and never reached the journal.
      if facts.placed == nil, knowsJournal || !facts.accepted { return nil }
      if view.isCaller, view.phase == .unknown, !facts.accepted { return nil }
      let rule: HistoryRule = view.phase == .answered ? .callsEnd : .nobodyRingsOn
      return HistoryViolation(
        rule, "\(who) still believes it to be \(view.phase.name)", call: view.call)
    }
    guard let truth = facts.ended, let stop = view.stop else { return nil }
    if view.isCaller, facts.givenUp, stop.reason == .failed { return nil }
    // It may have taken its side back, and lack the reply.
    if stop.reason == .moved, facts.moves.contains(where: { Who($0.from) == who }) { return nil }
    if facts.holder(ofCaller: view.isCaller) != who {
      if stop.reason == .moved || stop.reason == .transferred { return nil }
      // It was to ring for it once more, before it had learned that its part was over.
      let end = CallEnd(reason: stop.reason, by: stop.by.map(Who.init))
      if facts.isEndOfTransfer(end, of: who) { return nil }
    }
    if view.isCaller || view.won {
      guard facts.accepted || !view.isCaller, stop.reason != truth.reason else { return nil }
      return HistoryViolation(
        .oneStory,
        "\(who) believes it ended as \(stop.reason.name); it ended as \(truth.reason.name)",
        call: view.call)
    }
    return nil
  }
}

extension Dictionary where Key: CustomStringConvertible {
  /// The same order in every run.
  package var inOrder: [Element] { sorted { $0.key.description < $1.key.description } }
}
