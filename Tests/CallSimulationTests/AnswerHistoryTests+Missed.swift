import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Who has missed a call.
extension AnswerHistoryTests {
  private func cancel(_ bench: inout Bench, missed: Bool = true) {
    bench.say(alice, 9, .call(Self.address, .cancel))
    bench.end(.cancelled, by: alice, missed: missed)
  }

  private func stop(_ reason: EndReason, by who: Who? = nil, missed: Bool) -> Delivery.Event {
    .stop(Stop(reason: reason, by: who.map(Self.party), missed: missed))
  }

  private func goOn(_ bench: inout Bench, _ reason: DivertReason) {
    // Nobody was told of these rules, so they are not judged.
    bench.note(.decided(user: "bob", UserRules(onNoAnswer: .init(users: ["carol"]))))
    bench.journal(
      .diverted(
        DivertedFacts(
          from: "bob", to: ["carol"], reason: reason, at: Self.at(25), deadline: Self.at(50))))
  }

  @Test("a call that is cancelled is missed by the callee and not by its caller")
  func missedByTheCallee() {
    var bench = Bench()
    cancel(&bench)
    bench.hear(bob1, stop(.cancelled, by: alice, missed: true))
    bench.hear(alice, stop(.cancelled, by: alice, missed: false))
    #expect(bench.found == nil)
    #expect(bench.checker.judged[.missedRightly] == 2)
    for (who, missed) in [(bob1, false), (alice, true)] {
      let rule = judge {
        cancel(&$0)
        $0.hear(who, stop(.cancelled, by: alice, missed: missed))
      }
      #expect(rule == .missedRightly)
    }
  }

  @Test("the journal says so") func missedInTheJournal() {
    #expect(judge { cancel(&$0, missed: false) } == .missedRightly)
    let declined = judge {
      $0.say(bob1, 9, .call(Self.address, .decline(.everywhere)))
      $0.end(.declined, by: bob1, missed: true)
    }
    #expect(declined == .missedRightly)
  }

  @Test("who declined on one device has not missed it", arguments: [true, false])
  func declinedHere(missed: Bool) {
    let rule = judge {
      $0.say(bob1, 9, .call(Self.address, .decline(.here)))
      $0.journal(.legEnded("b1", .declinedHere, at: Self.at(21)))
      cancel(&$0, missed: false)
      $0.hear(bob2, stop(.cancelled, by: alice, missed: missed))
    }
    #expect(rule == (missed ? .missedRightly : nil))
  }

  @Test("who lost or was in the call has not missed it") func answered() {
    for missed in [true, false] {
      let rule = judge {
        $0.answer(bob1, at: 25)
        $0.take(bob1)
        $0.hear(bob2, stop(.answeredElsewhere, by: bob1, missed: missed))
      }
      #expect(rule == (missed ? .missedRightly : nil))
    }
  }

  @Test(
    "a call that goes on is missed by who did not answer, unless it was not meant to ring there")
  func wentOn() {
    for (reason, missed) in [(DivertReason.noAnswer, true), (.hook, false)] {
      for told in [true, false] {
        let rule = judge {
          goOn(&$0, reason)
          $0.hear(bob1, stop(.unanswered, missed: told))
        }
        #expect(rule == (told == missed ? nil : .missedRightly))
      }
    }
  }

  @Test("of several users each one misses it") func guests() {
    for missed in [true, false] {
      let rule = judge {
        goOn(&$0, .noAnswer)
        $0.journal(.legJoined(Self.party(carol)))
        cancel(&$0)
        $0.hear(carol, stop(.cancelled, by: alice, missed: missed))
      }
      #expect(rule == (missed ? nil : .missedRightly))
    }
  }

  @Test("a state says the same", arguments: [true, false]) func states(missed: Bool) {
    let rule = judge {
      cancel(&$0)
      $0.say(bob1, 10, .call(Self.address, .query))
      var state = $0.state(.ended, .cancelled, by: alice)
      state.missed = missed
      $0.reply(bob1, 10, .call(state))
    }
    #expect(rule == (missed ? nil : .missedRightly))
  }
}
