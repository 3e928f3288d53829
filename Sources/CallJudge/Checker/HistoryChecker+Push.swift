internal import CallCore
internal import CallWire

/// Rules of pushes: their recipients, their times and their number.
extension HistoryChecker {
  mutating func push(_ event: PushEvent) throws(HistoryViolation) {
    switch event {
    case .registration(let who, let registration): try keep(who, registration)
    case .claim(let fingerprint, let owner):
      history.claims[fingerprint] = owner.map { ($0, now) }
    case .raced(let fingerprint): history.raced.insert(fingerprint)
    case .unconfirmed(let who): history.unconfirmed.insert(who)
    case .wants(let who, let request):
      for token in [request.voipToken, request.alertToken].compactMap(\.self) {
        history.wanted[token.fingerprint, default: []].insert(who)
      }
    case .report(let who, let report): reported(who, report)
    case .trouble(let lane?, let until):
      history.lanes[lane, default: FaultCalendar()].add(from: now, until: until)
    case .trouble(nil, let until): history.gateways.add(from: now, until: until)
    case .job(let job, let lane, let decided):
      try added(job, decided)
      history.waiting[PushHistory.Key(job)] = (lane, now)
    case .done(let job): history.waiting[PushHistory.Key(job)] = nil
    case .sent(let job, let process, let time): try sent(job, process, time)
    case .gone(let fingerprint): history.saidGone.insert(fingerprint)
    case .silence(let job):
      try require(
        false, .sleepersAreRung, job.call,
        "\(PushHistory.Key(job)): its provider would have taken it before the deadline")
    case .woken(let who, let call):
      history.woken[who, default: [:]][call] = now
    case .asked(let who, let call, let command):
      calls[call, default: Facts()].note(command, by: who)
    case .answered(let who, let command, let reply, let since):
      try replied(who, Asked(command: command, at: since), reply)
    }
  }

  // MARK: In the journal

  func mayPush(
    _ device: String, _ purpose: PushPurpose, _ facts: Facts, _ call: CallID
  ) throws(HistoryViolation) {
    let what = "\(purpose.name) to \(device)"
    let before = facts.pushed[DeviceID(device).inASCII] ?? []
    try require(!before.contains(purpose), .pushedOnce, call, "\(what): decided twice")
    try require(
      !purpose.isCleanUp || !before.contains(where: \.isCleanUp), .pushedOnce, call,
      "\(what): a second clean-up")
    // A transfer rings while the call is answered, and each has pushes of its own.
    if facts.transferRang(facts.who(device).user) {
      return try require(
        purpose != .ring || facts.pendingTransfer != nil, .noPushAfterEnd, call,
        "\(what): nobody rings")
    }
    let isNotice = purpose == .missedNotice
    try require(
      !isNotice || facts.ended != nil, .noticesOfMissed, call, "\(what): the call is not over")
    guard let objection = evidence(device, facts).objection(to: purpose) else { return }
    let rule: HistoryRule =
      switch objection {
      case .rangTooLate: .noPushAfterEnd
      case .notTaken: .cleanUpsWhereWanted
      case .toWinner, .unwanted: isNotice ? .noticesOfMissed : .cleanUpsWhereWanted
      }
    try require(false, rule, call, "\(what): \(objection.text)")
  }

  private func evidence(_ device: String, _ facts: Facts) -> PushEvidence {
    let who = facts.who(device)
    var evidence = PushEvidence()
    evidence.isOver = facts.answered != nil || facts.ended != nil
    evidence.isAnswered = facts.answered != nil
    evidence.endReason = facts.ended?.reason
    evidence.userKnows =
      facts.hasDeclined(who.user) || facts.ended.map { !$0.missed } ?? false
    evidence.takes = takes(who, facts)
    evidence.wasRung = facts.pushed[DeviceID(device).inASCII]?.contains(.ring) ?? false
    evidence.isWinner = facts.journalWinner == who
    evidence.isCaller = facts.journalCaller == who
    let isRefuser =
      facts.legEnds[DeviceID(device).inASCII].map { $0 == .declinedHere || $0 == .busy } ?? false
    // Where a call gave way, the device named placed the other one, and may ring for this one.
    let ended = facts.ended.flatMap { $0.reason == .glare ? nil : $0.by }
    evidence.endedItsPart = isRefuser || ended.map(Who.init) == who
    if let left = facts.left(who.user) { evidence.leave(left, by: who) }
    return evidence
  }

  /// The capabilities of the device's registrations: of the stored one, and of those that were stored less
  /// than 10 s ago, since the shard may not have noticed the change; nil if no registration was seen. The shard of a
  /// call that went on knows other users' registrations as they were when it did.
  private func takes(_ who: Who, _ facts: Facts) -> PushCapabilities? {
    guard !history.registrations.isEmpty else { return nil }
    let known = facts.isGuest(who.user) ? facts.placedAt ?? now : now
    return (history.registrations[who] ?? [])
      .filter { stored in stored.until.map { known <= $0 + .seconds(10) } ?? true }
      .reduce(into: []) { $0.formUnion($1.registration.capabilities) }
  }

  // MARK: Between shard, queue, gateway and provider

  private mutating func added(_ job: PushJob, _ decided: Timestamp) throws(HistoryViolation) {
    let key = PushHistory.Key(job)
    let facts = calls[job.call]
    try require(
      facts?.decided(job) ?? false, .appendThenSpeak, job.call,
      "\(key): no record says that it was decided")
    try require(
      history.jobs.updateValue(job.deadline, forKey: key) == nil, .pushedOnce, job.call,
      "\(key): the work queue has a second job for it")
    let over =
      (job.purpose == .ring && job.round == 0 ? facts?.overAt : nil) ?? .distantFuture
    try require(
      decided - .milliseconds(1) <= over, .noPushAfterEnd, job.call,
      "\(key): decided after the call was over")
    // A shard that lacks a registration cannot be notified that it lost a token.
    // And the shard of a call that went on knows the registrations of other users as their shards said last.
    let isGuest = facts?.isGuest(key.who.user) ?? false
    let known =
      isGuest ? decided + Span(microseconds: -bounds.takeover.microseconds) : decided
    if !history.unconfirmed.contains(key.who),
      let owner = otherOwner(of: job.token, than: key.who, known)
    {
      try require(
        false, .tokensHaveOneOwner, job.call,
        "\(key): the token is \(owner)'s since before it was decided")
    }
  }

  private mutating func sent(
    _ job: PushJob, _ process: Int, _ gatewayTime: Timestamp
  ) throws(HistoryViolation) {
    let key = PushHistory.Key(job)
    history.waiting[key] = nil
    let deadline = history.jobs[key]
    try require(
      deadline != nil, .appendThenSpeak, job.call, "\(key): sent, and never in the work queue")
    try require(
      gatewayTime < deadline ?? gatewayTime, .pushInTime, job.call,
      "\(key): sent after its deadline")
    try require(
      history.senders[key, default: []].insert(process).inserted, .pushedOnce, job.call,
      "\(key): sent twice by one gateway")
  }

  /// A job that waits although its provider, the gateways and the cluster had no fault for a while.
  func delayedJob() -> HistoryViolation? {
    let stretch = bounds.calmBefore + bounds.handOver
    for (key, job) in history.waiting where job.since + bounds.handOver < now {
      let before = job.since - bounds.calmBefore
      let calendars = [calendar, history.gateways, history.lanes[job.lane] ?? FaultCalendar()]
      guard
        calendars.allSatisfy({ $0.calm(for: stretch, from: before, now: now) == before + stretch })
      else { continue }
      return HistoryViolation(
        .nobodyIsDelayed, "\(key) waits, and nothing is wrong", call: key.call)
    }
    return nil
  }

  // MARK: Woken devices

  /// A device was notified of a call.
  mutating func notified(_ call: CallID, _ who: Who) { history.woken[who]?[call] = nil }

  mutating func unsteady(_ who: Who?) {
    if let who, history.woken[who] != nil { history.unsteady[who] = now }
  }

  /// A device that has ended a call, perhaps by HTTP, knows of the end.
  private func hasEnded(_ call: CallID, _ who: Who) -> Bool {
    calls[call]?.ended?.by.map(Who.init) == who
  }

  /// A woken device with a connection that was not notified in time.
  func wokenInVain() -> HistoryViolation? {
    for (who, waiting) in history.woken where !links(of: who).isEmpty {
      for (call, since) in waiting {
        if hasEnded(call, who) { continue }
        let from = max(since, history.unsteady[who] ?? since)
        guard let calm = calendar.calm(for: bounds.takeover, from: from, now: now), calm < now
        else { continue }
        return HistoryViolation(.wokenAreTold, "\(who) was woken and hears nothing", call: call)
      }
    }
    return nil
  }

  func stillWoken() -> [HistoryViolation] {
    history.woken.inOrder.flatMap { who, waiting in
      waiting.keys.filter { !hasEnded($0, who) }.sorted { $0.description < $1.description }.map {
        HistoryViolation(.wokenAreTold, "\(who) was woken and never heard of the call", call: $0)
      }
    }
  }

  // MARK: Attaching for a call

  /// The reply has the right state of the call that the device attached for.
  func attached(_ who: Who, _ question: Asked, _ info: AttachedInfo) throws(HistoryViolation) {
    guard case .attach(let request) = question.command, let call = request.forCall else { return }
    let what = "\(who) attached for a call"
    guard let state = info.forCall, state.call == call else {
      throw HistoryViolation(.attachAnswered, "\(what): nothing of it is said", call: call)
    }
    guard let facts = calls[call] else { return }
    switch state.phase {
    case .placed, .ringing:
      try require(
        facts.overAt ?? .distantFuture >= question.at || facts.isGuest(who.user) || !seesJournal,
        .attachAnswered, call,
        "\(what): it rings, though it was over")
    case .answered:
      try require(
        facts.journalWinner == who || facts.caller == who || facts.tookOver(who) || !seesJournal,
        .attachAnswered, call,
        "\(what): it is its own, though another answered")
    case .ended:
      try require(
        state.reason != nil, .attachAnswered, call, "\(what): it ended, and nothing says why")
    case .unknown: break
    }
  }
}

extension HistoryChecker.Facts {
  /// Whether the journal has the decision to push. One record may decide the clean-up of a device and that a transfer rings
  /// it again, and the clean-up is seen after that.
  fileprivate func decided(_ job: PushJob) -> Bool {
    let key = key(Who(job))
    if pushed[key]?.contains(job.purpose) ?? false { return true }
    return Int(job.round) < transfers.count && pushedBefore[key]?.contains(job.purpose) ?? false
  }
}
