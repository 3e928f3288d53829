/// A call's record (`CallRecord`), made of what the shard keeps of an ended call anyway.
extension Call {
  /// The parts of an ended call that are still to be stored.
  /// - Parameter keeps: the parts that the cluster stores at all.
  func lacking(_ keeps: StoredParts) -> StoredParts {
    guard case .ended(let ending) = stage, !ending.isRecorded else { return [] }
    var wanted = keeps
    if !hasWebhooks { wanted.remove(.events) }
    // A call that gave way leaves no entry: the one that went on does.
    if !facts.subscriptions.contains(.history) || ending.facts.reason == .glare {
      wanted.remove(.history)
    }
    return wanted.subtracting(ending.stored)
  }

  /// Has the record and the entries stored that are to be and are not known to be. `commit` does so of events.
  func requestStoring(_ turn: inout Turn) {
    let lacking = lacking(turn.storedParts)
    if lacking.contains(.record) { turn.outcome.effects.append(.record(id)) }
    if lacking.contains(.history) { turn.outcome.effects.append(.history(.store(id))) }
  }

  mutating func noteStored(_ part: StoredParts) {
    guard case .ended(var ending) = stage else { return }
    ending.stored.formUnion(part)
    stage = .ended(ending)
  }

  mutating func applyRecorded() -> Bool {
    guard case .ended(var ending) = stage else { return false }
    ending.isRecorded = true
    stage = .ended(ending)
    return true
  }

  /// nil while it goes on.
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
