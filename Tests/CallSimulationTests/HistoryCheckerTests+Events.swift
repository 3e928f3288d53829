import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// An app with webhooks learns of each of its calls.
extension HistoryCheckerTests {
  private func event(
    _ kind: AppEventKind, _ change: (inout AppEvent) -> Void = { _ in }
  ) -> AppEvent {
    var event = AppEvent(
      call: call, kind: kind, at: at(0), callee: UserKey(app: "demo", user: "bob"),
      caller: party(alice), video: false, placedAt: at(0))
    switch kind {
    case .placed, .gone: break
    case .ringing: event.by = party(bob1)
    case .answered: (event.at, event.by) = (at(1), party(bob1))
    case .ended, .missed:
      (event.at, event.by, event.answeredAt) = (at(2), party(alice), at(1))
      event.reason = .hungUp
    }
    change(&event)
    return event
  }

  /// A call that bob1 answered and alice ended.
  private func followedCall(subscriptions: Subscriptions = .webhooks) -> Bench {
    var bench = Bench()
    bench.say(bob1, 5, .call(.init(call: call), .answer(description: "")))
    bench.say(alice, 2, .call(.init(callee: "bob", call: call), .hangUp))
    if case .placed(var facts) = placed {
      facts.subscriptions = subscriptions
      bench.journal(call, .placed(facts))
    }
    bench.journal(call, answered(bob1))
    bench.journal(call, ended(.hungUp, by: alice))
    return bench
  }

  @Test func anAppLearnsOfACall() {
    var bench = followedCall()
    #expect(bench.checker.finish([]).map(\.rule) == [.learnsOfEachCall])
    bench.note(.learned([event(.placed), event(.answered)]))
    #expect(bench.checker.finish([]).map(\.rule) == [.learnsOfEachCall])
    // A new owner stored them again.
    bench.note(.learned([event(.placed), event(.answered), event(.ended)]))
    #expect(bench.found == nil && bench.checker.finish([]).isEmpty)
  }

  @Test func anAppWithoutWebhooksLearnsNothing() {
    var bench = followedCall(subscriptions: [])
    #expect(bench.checker.finish([]).isEmpty)
    bench.note(.learned([event(.placed)]))
    #expect(bench.found == .learnsOfEachCall)
  }

  @Test func eventsOutOfOrder() {
    var bench = followedCall()
    bench.note(.learned([event(.answered), event(.placed)]))
    #expect(bench.found == .learnsOfEachCall)
  }

  @Test func eventsThatTellAnotherStory() {
    let lies: [AppEvent] = [
      event(.placed) { $0.caller.user = "mallory" }, event(.placed) { $0.video = true },
      event(.placed) { $0.at = at(3) }, event(.placed) { $0.call = CallID(high: 9, low: 9) },
      event(.ringing), event(.answered) { $0.by?.device = "b2" },
      event(.answered) { $0.at = at(2) }, event(.ended) { $0.reason = .failed },
      event(.ended) { $0.missed = true }, event(.ended) { $0.answeredAt = nil },
      event(.missed),
    ]
    for (index, lie) in lies.enumerated() {
      var bench = followedCall()
      bench.note(.learned([lie]))
      #expect(bench.found == .learnsOfEachCall, "lie \(index)")
    }
  }

  // MARK: Registrations

  private func end(_ cause: GoneCause) -> HistoryEvent {
    .learned([
      AppEvent(
        GoneRegistration(device: "b1", cause: cause, registeredAt: at(0)),
        of: UserKey(app: "demo", user: "bob"), at: at(1))
    ])
  }

  /// Bob's first device has a registration, and has asked for its end.
  private func registered(hasWebhooks: Bool = true) -> Bench {
    var bench = Bench()
    bench.checker.hasWebhooks = hasWebhooks
    bench.note(.stored(bob1, present: true))
    bench.say(bob1, 3, .unregister(nil))
    return bench
  }

  @Test("an app learns of a registration's end before it is gone") func registrationEnds() {
    for (isTold, hasWebhooks, rule) in [
      (true, true, nil), (false, true, .learnsOfEachCall), (false, false, nil),
    ] as [(Bool, Bool, HistoryRule?)] {
      var bench = registered(hasWebhooks: hasWebhooks)
      if isTold { bench.note(end(.unregistered)) }
      bench.note(.stored(bob1, present: false))
      #expect(bench.found == rule)
    }
    var again = registered()
    again.note(end(.unregistered))
    again.note(.stored(bob1, present: false))
    again.note(.stored(bob1, present: true))
    again.note(.stored(bob1, present: false))
    #expect(again.found == .learnsOfEachCall, "it has registered anew since")
    var bench = Bench()
    bench.note(.stored(bob2, present: true))
    bench.note(end(.unregistered))
    #expect(bench.found == .learnsOfEachCall, "nobody asked for it")
  }
}
