internal import CallCore
internal import CallWire

/// Pushes: who may get which, when, and how often.
extension HistoryChecker {
  mutating func push(_ event: PushEvent, _ now: Timestamp) throws(Violation) {
    switch event {
    case .registration(let who, let registration): try keep(who, registration, now)
    case .claim(let fingerprint, let owner):
      history.claims[fingerprint] = owner.map { ($0, now) }
    case .raced(let fingerprint): history.raced.insert(fingerprint)
    case .unheard(let who): history.unheard.insert(who)
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
    case .woken(let who, let call):
      history.woken[who, default: [:]][call] = now
    case .asked(let who, let call, let command):
      calls[call, default: Facts()].asked.insert("\(command.kind) \(who)")
    case .answered(let who, let command, let reply, let since):
      try replied(who, Asked(command: command, at: since), reply, now)
    }
  }

  // MARK: In the journal

  /// A push is decided: judged by what the journal held before.
  func mayPush(
    _ device: String, _ purpose: PushPurpose, _ facts: Facts, _ call: CallID, _ now: Timestamp
  ) throws(Violation) {
    func refuse(_ rule: Violation.Rule, _ reason: String) throws(Violation) -> Never {
      throw Violation(rule, "\(purpose.name) to \(device): \(reason)", call: call)
    }
    let before = facts.pushed[device] ?? []
    if before.contains(purpose) { try refuse(.pushedOnce, "decided twice") }
    let user = facts.placed?.callee.user ?? ""
    let isRefuser = facts.legEnds[device].map { $0 == .declinedHere || $0 == .busy } ?? false
    if purpose == .ring {
      guard facts.answered == nil, facts.ended == nil else {
        try refuse(.noPushAfterEnd, "decided after the call was over")
      }
      if isRefuser { try refuse(.noPushAfterEnd, "it had declined, or was busy") }
      return
    }
    if purpose == .missedNotice {
      try mayGiveNotice(device, facts, isRefuser, refuse)
    } else {
      try mayCleanUp(device, facts, isRefuser, refuse)
    }
    guard takes(purpose, Who(user, device), now) else {
      try refuse(.cleanUpsWhereWanted, "its registration takes none")
    }
  }

  private func mayCleanUp(
    _ device: String, _ facts: Facts, _ isRefuser: Bool,
    _ refuse: (Violation.Rule, String) throws(Violation) -> Never
  ) throws(Violation) {
    let before = facts.pushed[device] ?? []
    let user = facts.placed?.callee.user ?? ""
    guard facts.answered != nil || facts.ended != nil else {
      try refuse(.cleanUpsWhereWanted, "the call still rings")
    }
    guard before.contains(.ring) else {
      try refuse(.cleanUpsWhereWanted, "no push had made it ring")
    }
    if before.contains(where: \.isCleanUp) { try refuse(.pushedOnce, "a second clean-up") }
    if facts.answered?.by.device.text == device, facts.answered?.by.user.hasBytes(of: user) == true
    {
      try refuse(.cleanUpsWhereWanted, "it is the one that answered")
    }
    if isRefuser { try refuse(.cleanUpsWhereWanted, "it had declined, or was busy") }
    if let end = facts.ended, facts.answered == nil, end.by.map(Who.init) == Who(user, device) {
      try refuse(.cleanUpsWhereWanted, "it ended the call itself")
    }
  }

  private func mayGiveNotice(
    _ device: String, _ facts: Facts, _ isRefuser: Bool,
    _ refuse: (Violation.Rule, String) throws(Violation) -> Never
  ) throws(Violation) {
    guard let end = facts.ended else { try refuse(.noticesOfMissed, "the call is not over") }
    guard facts.answered == nil else { try refuse(.noticesOfMissed, "somebody answered") }
    switch end.reason {
    case .cancelled, .unanswered, .busy, .unreachable: break
    case .declined, .answeredElsewhere, .hungUp, .failed, .glare:
      try refuse(.noticesOfMissed, "it ended as \(end.reason.name)")
    }
    if isRefuser { try refuse(.noticesOfMissed, "it had declined, or was busy") }
    // Who declined for one device has seen the call.
    if facts.legEnds.values.contains(.declinedHere) || !end.missed {
      try refuse(.noticesOfMissed, "the user knows of the call")
    }
    if let placed = facts.placed, placed.caller.user.hasBytes(of: placed.callee.user),
      placed.caller.device.text == device
    {
      try refuse(.noticesOfMissed, "it placed the call itself")
    }
  }

  /// Whether a registration of the device takes such a push: the stored one, or one that was stored
  /// until a moment ago, since the shard may not have heard of the change.
  private func takes(_ purpose: PushPurpose, _ who: Who, _ now: Timestamp) -> Bool {
    guard knowsRegistrations else { return true }
    return (history.registrations[who] ?? []).contains { stored in
      if let until = stored.until, until + .seconds(10) < now { return false }
      let takes = stored.registration.capabilities
      return switch purpose {
      case .ring: true
      case .missed: takes.contains(.missed)
      case .answeredElsewhere: takes.contains(.answeredElsewhere)
      case .cancel: takes.contains(.cancel)
      case .ended: takes.contains(.ended)
      case .missedNotice: takes.contains(.missedNotice)
      }
    }
  }

  private var knowsRegistrations: Bool { !history.registrations.isEmpty }

  // MARK: Between shard, queue, gateway and provider

  private mutating func added(_ job: PushJob, _ decided: Timestamp) throws(Violation) {
    let key = PushHistory.Key(job)
    func refuse(_ rule: Violation.Rule, _ reason: String) throws(Violation) -> Never {
      throw Violation(rule, "\(job.purpose.name) to \(key.who): \(reason)", call: job.call)
    }
    guard let facts = calls[job.call], facts.pushed[key.who.device]?.contains(job.purpose) ?? false
    else { try refuse(.appendThenSpeak, "no record says that it was decided") }
    guard history.jobs.updateValue(job.deadline, forKey: key) == nil else {
      try refuse(.pushedOnce, "the work queue has a second job for it")
    }
    if job.purpose == .ring, let over = facts.overAt, over + .milliseconds(1) < decided {
      try refuse(.noPushAfterEnd, "decided after the call was over")
    }
    // Who took a token away from a registration that its shard does not know of could not know it either.
    if !history.unheard.contains(key.who),
      let owner = otherOwner(of: job.token, than: key.who, decided)
    {
      try refuse(.tokensHaveOneOwner, "the token is \(owner)'s since before it was decided")
    }
  }

  private mutating func sent(
    _ job: PushJob, _ process: Int, _ gatewayTime: Timestamp
  ) throws(Violation) {
    let key = PushHistory.Key(job)
    history.waiting[key] = nil
    func refuse(_ rule: Violation.Rule, _ reason: String) throws(Violation) -> Never {
      throw Violation(rule, "\(job.purpose.name) to \(key.who): \(reason)", call: job.call)
    }
    guard let deadline = history.jobs[key] else {
      try refuse(.appendThenSpeak, "sent, and never in the work queue")
    }
    guard gatewayTime < deadline else { try refuse(.pushInTime, "sent after its deadline") }
    guard history.senders[key, default: []].insert(process).inserted else {
      try refuse(.pushedOnce, "sent twice by one gateway")
    }
  }

  /// A job that waits though its provider, the gateways and the cluster are well, and were for a while:
  /// something else holds it up.
  func delayedJob(_ now: Timestamp) -> Violation? {
    let stretch = Span(
      microseconds: bounds.calmBefore.microseconds + bounds.handOver.microseconds)
    for (key, job) in history.waiting where job.since + bounds.handOver < now {
      let before = Timestamp(microseconds: job.since.microseconds - bounds.calmBefore.microseconds)
      let calendars = [calendar, history.gateways, history.lanes[job.lane] ?? FaultCalendar()]
      guard
        calendars.allSatisfy({ $0.calm(for: stretch, from: before, now: now) == before + stretch })
      else { continue }
      return Violation(
        .nobodyIsDelayed, "\(key.purpose.name) to \(key.who) waits, and nothing is wrong",
        call: key.call)
    }
    return nil
  }

  // MARK: Woken devices

  /// A device that was woken for a call hears of it.
  mutating func heardOf(_ call: CallID, _ who: Who) { history.woken[who]?[call] = nil }

  mutating func unsteady(_ who: Who?, _ now: Timestamp) {
    if let who, history.woken[who] != nil { history.unsteady[who] = now }
  }

  /// Somebody who was woken, has a connection, and has not been told in good time.
  func wokenInVain(_ now: Timestamp) -> Violation? {
    for (who, waiting) in history.woken where !(linksOf[who]?.isEmpty ?? true) {
      for (call, since) in waiting {
        let from = max(since, history.unsteady[who] ?? since)
        guard let calm = calendar.calm(for: bounds.takeover, from: from, now: now), calm < now
        else { continue }
        return Violation(.wokenAreTold, "\(who) was woken and hears nothing", call: call)
      }
    }
    return nil
  }

  func stillWoken() -> [Violation] {
    history.woken.sorted { $0.key.description < $1.key.description }.flatMap { who, waiting in
      waiting.keys.sorted { $0.description < $1.description }.map {
        Violation(.wokenAreTold, "\(who) was woken and never heard of the call", call: $0)
      }
    }
  }

  // MARK: Attaching for a call

  /// One answer for the call that the device attached for, and the right one.
  func attached(
    _ who: Who, _ question: Asked, _ info: AttachedInfo
  ) throws(Violation) {
    guard case .attach(let request) = question.command, let call = request.forCall else { return }
    func refuse(_ reason: String) throws(Violation) -> Never {
      throw Violation(.attachAnswered, "\(who) attached for a call: \(reason)", call: call)
    }
    guard let state = info.forCall, state.call == call else { try refuse("nothing of it is said") }
    guard let facts = calls[call] else { return }
    switch state.phase {
    case .placed, .ringing:
      if let over = facts.overAt, over < question.at { try refuse("it rings, though it was over") }
    case .answered:
      guard facts.answered.map({ Who($0.by) }) == who || facts.caller == who else {
        try refuse("it is its own, though another answered")
      }
    case .ended:
      if state.reason == nil { try refuse("it ended, and nothing says why") }
    case .unknown: break
    }
  }
}
