import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories of two calls that cross: alice's call to bob, and bob's higher one to alice.
extension HistoryCheckerTests {
  private var high: CallID { CallID(high: 2, low: 2) }
  private var alice2: Who { Who("alice", "a2") }

  private var placedBack: JournalEntry.Change {
    .placed(
      PlacedFacts(
        callee: UserKey(app: "demo", user: "alice"), caller: party(bob1), placedAt: at(0),
        deadline: at(10), video: false, description: "", headers: [],
        legs: [party(alice), party(alice2)], fingerprint: 2))
  }

  private func gaveWay(to survivor: CallID? = nil, by: Who? = nil) -> JournalEntry.Change {
    .ended(
      EndedFacts(
        reason: .glare, by: party(by ?? alice), at: at(1), missed: false,
        survivor: survivor ?? call))
  }

  private func merged(_ who: Who) -> JournalEntry.Change {
    .answered(
      AnsweredFacts(
        by: party(who), at: at(1), description: "", connectDeadline: at(16), merged: high))
  }

  private func back(_ version: UInt64, _ stop: Stop) -> ServerFrame {
    .delivery(
      Delivery(call: high, callee: "alice", version: version, at: at(1), event: .stop(stop)))
  }

  private func cross(_ bench: inout Bench) {
    bench.say(alice, 1, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    bench.say(bob1, 1, .place(CallAddress(callee: "alice", call: high), PlaceRequest(call: high)))
    bench.journal(call, placed)
    bench.journal(high, placedBack)
    bench.hear(bob1, delivery(1, invite))
  }

  @Test func crossingCallsBecomeOne() {
    var bench = Bench()
    cross(&bench)
    bench.now = 1
    bench.journal(high, gaveWay())
    bench.hear(bob1, back(1, Stop(reason: .glare, by: party(alice), survivor: call)))
    bench.hear(alice2, back(2, Stop(reason: .answeredElsewhere, by: party(alice))))
    bench.journal(call, merged(bob1))
    bench.hear(bob1, delivery(2, .answered(Answered(by: party(bob1)))))
    bench.hear(bob2, delivery(3, stop(.answeredElsewhere, by: bob1)))
    #expect(bench.found == nil)
    #expect(bench.checker.lateness(at: at(8)) == nil)
  }

  @Test func theLowerOneGivesWay() {
    let rule = judge {
      cross(&$0)
      $0.journal(
        call,
        .ended(
          EndedFacts(
            reason: .glare, by: party(bob1), at: at(1), missed: false, survivor: high)))
    }
    #expect(rule == .oneStory)
  }

  @Test func aCallGivesWayToOneThatDoesNotCross() {
    let rule = judge {
      cross(&$0)
      $0.journal(high, gaveWay(to: high))
    }
    #expect(rule == .oneStory)
  }

  @Test func aDeviceTakesACallWithoutGivingUpItsOwn() {
    let rule = judge {
      cross(&$0)
      $0.journal(call, merged(bob1))
    }
    #expect(rule == .crossingsMerge)
  }

  @Test("of a call that was forgotten nothing is known", arguments: [true, false])
  func isForgotten(_ givesWay: Bool) {
    let rule = judge {
      cross(&$0)
      $0.checker.forget(givesWay ? call : high)
      if givesWay { $0.journal(high, gaveWay()) } else { $0.journal(call, merged(bob1)) }
    }
    #expect(rule == nil)
  }

  @Test func anotherDeviceTakesTheCall() {
    let rule = judge {
      cross(&$0)
      $0.journal(high, gaveWay())
      $0.journal(call, merged(bob2))
    }
    #expect(rule == .crossingsMerge)
  }

  @Test func nobodyIsToldWhichCallGoesOn() {
    let rule = judge {
      cross(&$0)
      $0.journal(high, gaveWay())
      $0.hear(bob1, back(1, Stop(reason: .glare, by: party(alice))))
    }
    #expect(rule == .crossingsMerge)
  }

  @Test(
    "who had refused a call that gave way may be told which one goes on, and no other",
    arguments: [true, false])
  func refusedBefore(isSurvivor: Bool) {
    let rule = judge {
      cross(&$0)
      $0.say(alice2, 2, .call(CallAddress(call: high), .busy))
      $0.journal(high, .legEnded("a2", .busy, at: nil))
      $0.journal(high, gaveWay())
      var state = CallState(
        call: high, callee: "alice", phase: .ended, version: 3, reason: .busy, by: party(alice2))
      state.survivor = isSurvivor ? call : high
      $0.hear(alice2, .reply(id: 2, .call(state)))
    }
    #expect(rule == (isSurvivor ? nil : .crossingsMerge))
  }

  @Test func whoPlacedTheSurvivorIsToldThatSomebodyAnswered() {
    let rule = judge {
      cross(&$0)
      $0.journal(high, gaveWay())
      $0.hear(alice, back(1, Stop(reason: .answeredElsewhere, by: party(alice))))
    }
    #expect(rule == .oneStory)
  }

  @Test func theSurvivorIsNobodys() {
    var bench = Bench()
    cross(&bench)
    bench.now = 1
    bench.journal(high, gaveWay())
    #expect(bench.checker.lateness(at: at(3))?.rule == .crossingsMerge)
  }

  @Test func bothRingOn() {
    var bench = Bench()
    cross(&bench)
    bench.hear(
      bob1, .reply(id: 1, .call(CallState(call: high, callee: "alice", phase: .placed))))
    #expect(bench.found == nil)
    #expect(bench.checker.lateness(at: at(3))?.rule == .crossingsMerge)
  }
}
