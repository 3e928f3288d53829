/// A call leaves behind its record (`CallRecord`), its events for webhooks and its entries in users' histories. All are
/// made of the state that the shard keeps anyway.
extension Call {
  /// The parts of an ended call that are still to be stored.
  /// - Parameter stored: the parts that the cluster stores at all.
  func lacking(_ stored: StoredParts) -> StoredParts {
    guard case .ended(let ending) = stage, !ending.isRecorded else { return [] }
    var wanted = stored
    if !hasWebhooks { wanted.remove(.events) }
    // A call that gave way leaves no entry: the one that went on does.
    if !facts.subscriptions.contains(.history) || ending.facts.reason == .glare {
      wanted.remove(.history)
    }
    return wanted.subtracting(ending.stored)
  }

  /// Requests that the record and the entries are stored, unless they are known to be. `commit` does so for events.
  func requestStoring(_ turn: inout Turn) {
    let lacking = lacking(turn.storedParts)
    if lacking.contains(.record) { turn.outcome.effects.append(.record(id)) }
    if lacking.contains(.history) { turn.outcome.effects.append(.history(.store(id))) }
  }

  mutating func noteStored(_ part: StoredParts) {
    changeEnding { $0.stored.formUnion(part) }
  }

  // MARK: The record

  /// The record; nil while the call goes on.
  var record: CallRecord? {
    guard case .ended(let ending) = stage else { return nil }
    var record = CallRecord(
      call: id, callee: facts.callee, caller: placer, video: facts.video,
      placedAt: facts.placedAt, end: ending.facts, eventsDropped: timeline.dropped)
    record.answer = ending.answer.map { .init(by: $0.by, at: $0.at, merged: $0.merged) }
    record.legs = legs.map { recordLeg($0, ending) }
    record.diversions = recordDiversions
    record.events.reserveCapacity(timeline.events.count)
    for (index, event) in timeline.events.enumerated() {
      record.events.append(
        CallRecord.Event(
          event.what, offset: event.offsetMicroseconds, who: recordWho(event.who),
          purpose: event.purpose, reason: timeline.reasons[index] ?? ""))
      let leg = Int(event.who)
      if record.legs.indices.contains(leg) { record.legs[leg].note(event, timeline.time(event)) }
    }
    return record
  }

  /// All diversions, but for the ringing of the vacant side of a call that the app's server placed.
  var recordDiversions: [CallRecord.Diversion] {
    var all = diversions.map(CallRecord.Diversion.init)
    for transfer in transfers {
      var own = transfer.diversions.map(CallRecord.Diversion.init)
      switch transfer.outcome {
      case .pending: break
      case .failed(let end): own[0].failed = end.reason
      case .moved(let index): own[0].takenBy = moves.indices.contains(index) ? moves[index].to : nil
      }
      all += own.filter { !$0.from.isEmpty }
    }
    return all
  }

  private func recordLeg(_ leg: Leg, _ ending: CallStage.Ending) -> CallRecord.Leg {
    let overAt = ending.answer?.at ?? ending.facts.at
    let (fate, endedAt): (LegFate, Timestamp) =
      switch leg.state {
      case .won: (.won, ending.facts.at)
      case .moved(let at): (.moved, at)
      case .declined(let at): (.declined, at ?? ending.facts.at)
      case .busy(let at): (.busy, at)
      case .gone(let at): (.gone, at)
      case .diverted(let at): (isDeclined(leg) ? .declined : .diverted, at)
      case .stopped, .waking, .delivered, .alerting: (.stopped, overAt)
      }
    return CallRecord.Leg(party: leg.party, fate: fate, endedAt: endedAt)
  }

  private func isDeclined(_ leg: Leg) -> Bool {
    legIndex(leg.key).flatMap { leftStop($0) }?.reason == .declined
  }

  private func recordWho(_ who: UInt8) -> CallRecord.Who {
    switch who {
    case CallTimeline.call: return .call
    case CallTimeline.caller: return .caller
    case CallTimeline.firstNoticed...:
      let index = Int(who - CallTimeline.firstNoticed)
      return noticedDevices.indices.contains(index) ? .device(noticedDevices[index]) : .call
    default: return legs.indices.contains(Int(who)) ? .leg(Int(who)) : .call
    }
  }

  // MARK: Events for webhooks

  var hasWebhooks: Bool { facts.subscriptions.contains(.webhooks) }

  /// The kinds of events that a fact causes if it is decided now.
  func events(of change: JournalEntry.Change) -> AppEventKinds {
    switch change {
    case .placed: AppEventKinds(.placed)
    case .alerting: firstAlerting == nil && isRinging ? AppEventKinds(.ringing) : []
    case .answered: AppEventKinds(.answered)
    case .ended(let end):
      end.missed ? [AppEventKinds(.ended), AppEventKinds(.missed)] : AppEventKinds(.ended)
    case .legJoined, .moved, .diverted, .transferEnded, .legEnded, .connected, .signal, .callerLost,
      .winnerLost,
      .settled, .pushed, .recorded:
      []
    }
  }

  /// The kinds of events that have happened.
  var pastEvents: AppEventKinds {
    AppEventKinds(events(.all).map { AppEventKinds($0.kind) })
  }

  /// The events of these kinds that have happened, in order.
  func events(_ kinds: AppEventKinds) -> [AppEvent] {
    AppEventKind.allCases.compactMap { kinds.contains($0) ? event($0) : nil }
  }

  private func event(_ kind: AppEventKind) -> AppEvent? {
    switch kind {
    case .placed: return event(kind, at: facts.placedAt)
    case .ringing:
      guard let firstAlerting else { return nil }
      let leg = Int(firstAlerting.leg)
      let by = legs.indices.contains(leg) ? legs[leg].party : nil
      return event(kind, at: firstAlerting.at, by: by)
    case .answered: return answer.map { event(kind, at: $0.at, by: $0.by) }
    case .ended, .missed:
      guard case .ended(let ending) = stage, kind == .ended || ending.facts.missed else {
        return nil
      }
      var event = event(kind, at: ending.facts.at, by: ending.facts.by)
      event.answeredAt = ending.answer?.at
      event.reason = ending.facts.reason
      event.missed = ending.facts.missed
      event.survivor = ending.facts.survivor
      event.diversions = recordDiversions
      return event
    case .gone: return nil
    }
  }

  private func event(_ kind: AppEventKind, at: Timestamp, by: Party? = nil) -> AppEvent {
    AppEvent(
      call: id, kind: kind, at: at, callee: facts.callee, caller: placer, video: facts.video,
      placedAt: facts.placedAt, by: by)
  }

  // MARK: Histories

  typealias UsersEntry = (user: UserKey, entry: HistoryEntry)

  /// The call, if a user missed it and the store may lack its entries.
  /// - Parameter stored: as for `lacking`.
  func missedUnstored(_ stored: StoredParts, by user: UserKey) -> PlacedCall? {
    guard lacking(stored).contains(.history),
      let missed = historyEntries.first(where: { $0.user == user && $0.entry.isMissed })
    else { return nil }
    return PlacedCall(id, placedAt: missed.entry.placedAt)
  }

  /// The entries of the callee, the caller, and the users who answered in place of the callee, whom the call rang in
  /// vain, or to whom it was transferred. A call to oneself leaves one entry, as the caller's. A user for whom the
  /// app's server placed the call has an entry as if the call had been transferred there, and none if it never rang
  /// there. Empty while the call goes on.
  var historyEntries: [UsersEntry] {
    guard case .ended(let ending) = stage else { return [] }
    let (end, answer) = (ending.facts, ending.answer)
    var placed = HistoryEntry(
      call: id, callee: facts.callee.user, isPlaced: true, peer: facts.callee.user,
      device: placer.device, deviceName: placer.deviceName, placedAt: facts.placedAt,
      answeredAt: answer?.at, endedAt: end.at, reason: end.reason, video: facts.video,
      answeredBy: answererInPlace(answer))
    placed.wentTo = diversions.targets
    let placerKey = key(of: placer.user)
    var entries: [UsersEntry] = facts.callerRings == nil ? [(placerKey, placed)] : []
    var received = placed
    (received.isPlaced, received.wentTo) = (false, [])
    (received.peer, received.peerName) = (placer.user, placer.name)
    (received.device, received.deviceName) = (answer?.by.device, answer?.by.deviceName ?? "")
    if let answer, !answer.by.user.hasBytes(of: facts.callee.user) {
      var inPlace = received
      inPlace.divertedBy = divertedBy(of: answer.by.user)
      inPlace.answeredBy = ""
      entries.append((key(of: answer.by.user), inPlace))
    }
    received.isMissed = end.missed
    entries += entriesInVain(
      received, end, answer, besides: entries.map(\.user.user) + [facts.callee.user])
    if placerKey != facts.callee {
      leave(&received, facts.callee.user)
      entries.insert((facts.callee, received), at: 0)
    }
    return transfers.isEmpty ? entries : withTransfers(entries, end)
  }

  private func key(of user: String) -> UserKey { UserKey(app: facts.callee.app, user: user) }

  /// The user who answered in place of the callee; empty: there is none.
  private func answererInPlace(_ answer: AnsweredFacts?) -> String {
    guard let user = answer?.by.user, !user.hasBytes(of: facts.callee.user) else { return "" }
    return user
  }

  /// The entries of users to whom the call went on and who missed or declined it, or whom it rang until another user
  /// answered. They have one only if a device of theirs rang, or got a notice.
  private func entriesInVain(
    _ received: HistoryEntry, _ end: EndedFacts, _ answer: AnsweredFacts?, besides others: [String]
  ) -> [UsersEntry] {
    diversions.flatMap(\.to).compactMap { user in
      guard !others.contains(where: { $0.hasBytes(of: user) }), wasReached(user) else { return nil }
      var entry = received
      entry.divertedBy = divertedBy(of: user)
      if let answer { (entry.endedAt, entry.reason) = (answer.at, .answeredElsewhere) }
      (entry.answeredAt, entry.device, entry.deviceName) = (nil, nil, "")
      leave(&entry, user)
      let hasDeclined =
        self.hasDeclined(user) || diversion(from: user)?.reason == .declined
        || end.reason == .declined && end.by?.user.hasBytes(of: user) == true
      guard entry.isMissed || hasDeclined || answer != nil else { return nil }
      return (key(of: user), entry)
    }
  }

  /// Whether a device of a user to whom the call went on rang, or got a notice.
  private func wasReached(_ user: String) -> Bool {
    legs.contains { $0.party.user.hasBytes(of: user) }
      || noticedDevices.contains { $0.isOfGuest(user) }
      // Its shard has not said yet which devices are to get the notice.
      || guest(user).map { guests[$0].owesPushes } ?? false
  }

  /// Ends the entry of a user whom the call left at that time, with the reason that the user's devices got.
  private func leave(_ entry: inout HistoryEntry, _ user: String) {
    if hasDeclined(user) { entry.isMissed = false }
    // The user's own call gave way to this one, which had gone on before.
    if answer?.by.user.hasBytes(of: user) == true { return }
    guard let left = diversion(from: user) else { return }
    let stop = adapted(left.stop, to: user)
    (entry.reason, entry.endedAt) = (stop.reason, left.at)
    entry.isMissed = left.reason != .declined && (entry.isMissed || stop.missed)
    (entry.answeredAt, entry.device, entry.deviceName) = (nil, nil, "")
    (entry.wentOn, entry.wentTo) = (!left.to.isEmpty, [left].targets)
  }

  // MARK: Transfers in histories

  /// Adds the entries that transfers leave. A user to whom the call was transferred, or was to be, has one from then
  /// on. A user whom the transfer reached in between, and who missed or declined it, has one as well. For a user who
  /// handed the call over it ends then. Each user has one entry, even if other users had the call in between.
  func withTransfers(_ entries: [UsersEntry], _ end: EndedFacts) -> [UsersEntry] {
    var entries = entries
    for transfer in transfers {
      guard case .moved(let index) = transfer.outcome else { continue }
      addTaker(moves[index], transfer, end, &entries)
    }
    for transfer in transfers {
      for user in transfer.diversions.flatMap(\.to) { addMissed(transfer, user, end, &entries) }
    }
    for index in entries.indices {
      let user = entries[index].user.user
      let last = moves.last {
        $0.isTransfer && ($0.from.user.hasBytes(of: user) || $0.to.user.hasBytes(of: user))
      }
      guard let last, !last.fillsVacancy, last.from.user.hasBytes(of: user) else { continue }
      (entries[index].entry.endedAt, entries[index].entry.reason) = (last.at, .transferred)
    }
    return entries
  }

  /// Adds the entry of the user who took the side, in place of an entry of a call that the user had missed before.
  private func addTaker(
    _ move: MovedFacts, _ transfer: Transfer, _ end: EndedFacts, _ entries: inout [UsersEntry]
  ) {
    var entry = entry(of: transfer, for: move.to.user, end)
    (entry.device, entry.deviceName) = (move.to.device, move.to.deviceName)
    entry.answeredAt = move.at
    guard let known = index(of: move.to.user, entries) else {
      return entries.append((UserKey(app: facts.callee.app, user: move.to.user), entry))
    }
    if entries[known].entry.answeredAt == nil { entries[known].entry = entry }
  }

  /// Adds the entry of a user whom the transfer rang in vain. Who had the call, or had missed it before, keeps that entry.
  private func addMissed(
    _ transfer: Transfer, _ user: String, _ end: EndedFacts, _ entries: inout [UsersEntry]
  ) {
    let known = index(of: user, entries)
    let before = known.map { entries[$0].entry }
    guard before?.answeredAt == nil, before?.isMissed != true,
      let ended = self.end(of: transfer, for: user), before == nil || ended.stop.missed
    else { return }
    let isTarget = transfer.failure != nil && user.hasBytes(of: transfer.target)
    let hasDeclined =
      ended.stop.reason == .declined && ended.stop.by?.user.hasBytes(of: user) == true
    let concerns = ended.stop.missed || hasDeclined
    guard isTarget || wasReached(user) && concerns else { return }
    var entry = entry(of: transfer, for: user, end)
    (entry.endedAt, entry.reason, entry.isMissed) = (ended.at, ended.stop.reason, ended.stop.missed)
    if let known {
      entries[known].entry = entry
    } else {
      entries.append((UserKey(app: facts.callee.app, user: user), entry))
    }
  }

  private func entry(of transfer: Transfer, for user: String, _ end: EndedFacts) -> HistoryEntry {
    HistoryEntry(
      call: id, callee: facts.callee.user, isPlaced: false, peer: transfer.stays.user,
      peerName: transfer.stays.name, placedAt: transfer.start.at, endedAt: end.at,
      reason: end.reason, video: facts.video,
      divertedBy: transfer.start.from.isEmpty
        ? transfer.diversions.sender(to: user) : transfer.start.from)
  }

  private func index(of user: String, _ entries: [UsersEntry]) -> Int? {
    entries.firstIndex { $0.user.user.hasBytes(of: user) }
  }
}

extension CallRecord.Diversion {
  fileprivate init(_ facts: DivertedFacts) {
    self.init(
      from: facts.from, to: facts.to, reason: facts.reason, by: facts.by, at: facts.at)
  }
}

extension CallRecord.Leg {
  /// Each time is that of the first such event.
  fileprivate mutating func note(_ event: CallTimeline.Event, _ at: Timestamp) {
    switch event.what {
    case .pushed where event.purpose == .ring: pushedAt = pushedAt ?? at
    case .invited: invitedAt = invitedAt ?? at
    case .acknowledged: deliveredAt = deliveredAt ?? at
    case .alerting: alertedAt = alertedAt ?? at
    default: break
    }
  }
}
