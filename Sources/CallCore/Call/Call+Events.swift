/// A call's events for its app's webhooks, made of what the shard keeps of the call anyway.
extension Call {
  var hasWebhooks: Bool { facts.subscriptions.contains(.webhooks) }

  /// The events that a fact is, if it is decided now.
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

  /// Those of `kinds` that have happened, in order.
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
}
