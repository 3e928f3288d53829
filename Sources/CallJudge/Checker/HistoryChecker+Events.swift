internal import CallCore

/// Whether an app with webhooks learns of each of its calls, and of each registration that is gone: what the stream has for
/// a call are its facts, in order of their first appearance.
extension HistoryChecker {
  /// The stream took a message. Readers use the first of each event.
  mutating func learned(_ events: [AppEvent]) throws(HistoryViolation) {
    for event in events {
      if let gone = event.gone {
        try learnedEnd(gone, Who(event.callee.user, gone.device.text))
        continue
      }
      let facts = calls[event.call, default: Facts()]
      let difference = Self.difference(event, facts)
      try require(
        difference == nil, .learnsOfEachCall, event.call,
        "\(event.kind.type) has another \(difference ?? "")")
      guard !facts.events.contains(event.kind) else { continue }
      let isInOrder = AppEventKind.allCases.allSatisfy {
        $0.rawValue < event.kind.rawValue || !facts.events.contains($0)
      }
      try require(
        isInOrder, .learnsOfEachCall, event.call, "\(event.kind.type) comes behind a later one")
      calls[event.call]?.events.insert(AppEventKinds(event.kind))
      judged[.learnsOfEachCall, default: 0] += 1
    }
  }

  /// The stream has that a registration is about to go, or a token of one.
  private mutating func learnedEnd(
    _ gone: GoneRegistration, _ who: Who
  ) throws(HistoryViolation) {
    guard gone.fingerprint.isEmpty else { return }
    let wasAsked = registrations[who]?.mayGo(at: now) ?? false
    try require(
      gone.cause != .unregistered || wasAsked, .learnsOfEachCall, nil,
      "the app learns that \(who) unregistered, which it did not")
    endsTold.insert(who)
    judged[.learnsOfEachCall, default: 0] += 1
  }

  /// A registration came, or went. Its app has learned of an end before.
  mutating func learnsOfEnd(_ who: Who, present: Bool, before: Bool) throws(HistoryViolation) {
    guard hasWebhooks, present != before else { return }
    if !present {
      try require(
        endsTold.contains(who), .learnsOfEachCall, nil,
        "the registration of \(who) is gone, and its app did not learn of that")
    }
    endsTold.remove(who)
  }

  /// The point on which an event and the journal disagree.
  private static func difference(_ event: AppEvent, _ facts: Facts) -> String? {
    guard let placed = facts.placed, placed.subscriptions.contains(.webhooks) else {
      return "history"
    }
    if event.callee != placed.callee || event.caller != placed.caller { return "party" }
    if event.placedAt != placed.placedAt || event.video != placed.video { return "placing" }
    switch event.kind {
    case .placed: return event.at == placed.placedAt ? nil : "time"
    case .ringing:
      return event.by.map { facts.alerting.contains(facts.key(Who($0))) } ?? false ? nil : "device"
    case .answered:
      return event.by == facts.answered?.by && event.at == facts.answered?.at ? nil : "answer"
    case .ended, .missed:
      guard let ended = facts.ended, event.kind == .ended || ended.missed else { return "end" }
      if event.at != ended.at || event.by != ended.by || event.reason != ended.reason {
        return "end"
      }
      if event.missed != ended.missed || event.survivor != ended.survivor { return "end" }
      if event.diversions != facts.recordDiversions { return "way from user to user" }
      return event.answeredAt == facts.answered?.at ? nil : "answer"
    case .gone: return "subject"
    }
  }

  func missingEvent(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard facts.ended != nil, let missing = facts.unlearned.first else { return nil }
    return HistoryViolation(
      .learnsOfEachCall, "it ended, and its app did not learn \(missing.type)", call: call)
  }
}

extension HistoryChecker.Facts {
  /// The events of it that the stream does not have, of an app with webhooks.
  var unlearned: [AppEventKind] {
    guard placed?.subscriptions.contains(.webhooks) ?? false else { return [] }
    return AppEventKind.allCases.filter { kind in
      let hasHappened =
        switch kind {
        case .placed: placed != nil
        case .ringing: hasRung
        case .answered: answered != nil
        case .ended: ended != nil
        case .missed: ended?.missed ?? false
        case .gone: false
        }
      return hasHappened && !events.contains(kind)
    }
  }
}
