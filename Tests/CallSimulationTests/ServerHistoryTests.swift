import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories of calls that the app's server places between two users (R28), of second calls, and of names that
/// the server sets (R29).
extension HistoryCheckerTests {
  private var carol: Who { Who("carol", "c1") }

  /// Carol's side, while it is vacant.
  private var vacant: Party { Party(user: "carol", device: "", name: "Dr. Carol") }

  private var errand: AppErrand {
    var body = HTTPBodies.PlaceCall(call: call, from: "bob", to: "carol")
    body.callerName = "Dr. Carol"
    return .place(body)
  }

  private func placed(for caller: Party) -> JournalEntry.Change {
    guard case .placed(var facts) = placed else { return placed }
    facts.caller = caller
    facts.callerRings = .seconds(30)
    return .placed(facts)
  }

  private func second(_ user: String = "carol") -> JournalEntry.Change {
    .diverted(
      DivertedFacts(
        from: "", to: [user], reason: .transferred, by: vacant, at: at(1), deadline: at(31)))
  }

  private var taken: JournalEntry.Change {
    .moved(
      MovedFacts(
        ofCaller: true, from: vacant, to: party(carol), at: at(4), description: "",
        connectDeadline: at(19)))
  }

  /// Bob has answered.
  private func wait(_ bench: inout Bench) {
    bench.note(.server(.asked(errand)))
    bench.journal(call, placed(for: vacant))
    bench.hear(bob1, delivery(1, .invite(Invite(caller: vacant, deadline: at(10)))))
    bench.say(bob1, 5, .call(CallAddress(call: call), .answer(description: "")))
    bench.journal(call, answered(bob1), second())
  }

  private var rung: Delivery.Event {
    var invite = Invite(caller: party(bob1), deadline: at(31))
    invite.isSecondSide = true
    return .invite(invite)
  }

  @Test("the first user answers, the second one as well, and one of them hangs up")
  func placedByServer() {
    var bench = Bench()
    wait(&bench)
    let state = CallState(call: call, callee: "bob", phase: .answered, version: 2)
    let told = AppCall(state: state, caller: vacant, placedAt: at(0))
    bench.note(.server(.answered(errand, .call(told))))
    bench.journal(call, .legJoined(party(carol)))
    bench.hear(carol, delivery(3, rung))
    bench.say(carol, 1, .call(CallAddress(callee: "bob", call: call), .answer(description: "")))
    bench.journal(call, taken)
    bench.hear(
      carol,
      .reply(
        id: 1,
        .answer(
          won: true,
          CallState(call: call, callee: "bob", phase: .answered, version: 4, by: party(bob1)))))
    bench.hear(bob1, delivery(5, .moved(Moved(to: party(carol), number: 1))))
    bench.say(carol, 2, .call(CallAddress(callee: "bob", call: call), .hangUp))
    bench.journal(call, ended(.hungUp, by: carol))
    bench.hear(bob1, delivery(6, stop(.hungUp, by: carol)))
    #expect(bench.found == nil)
    #expect(bench.checker.finish([]).isEmpty)
  }

  @Test("a call that no server placed has no second side") func noSecondSide() {
    #expect(
      judge {
        $0.journal(call, placed)
        $0.hear(bob1, delivery(1, rung))
      } == .appendThenSpeak)
  }

  @Test("the second user does not answer, declines, or the first one hangs up") func inVain() {
    #expect(
      judge {
        wait(&$0)
        let failed = TransferEnd(reason: .unanswered, at: at(31))
        $0.journal(
          call, .transferEnded(failed),
          .ended(.init(reason: .hungUp, by: vacant, at: at(31), missed: false)))
      } == nil)
    #expect(
      judge {
        wait(&$0)
        $0.say(carol, 1, .call(CallAddress(callee: "bob", call: call), .decline(.everywhere)))
        let failed = TransferEnd(reason: .declined, by: party(carol), at: at(3))
        $0.journal(call, .transferEnded(failed), ended(.hungUp, by: carol))
      } == nil)
    #expect(
      judge {
        wait(&$0)
        $0.journal(
          call, .transferEnded(TransferEnd(reason: .busy, at: at(3))), ended(.hungUp, by: bob1))
      } == .endsHaveCauses, "Bob did not hang up")
  }

  @Test("dave answers in her place, and the call is transferred to carol in vain: she missed dave")
  func rungAgain() {
    let dave = Who("dave", "d1")
    var bench = Bench()
    bench.checker.keepsHistory = true
    bench.note(.server(.asked(errand)))
    guard case .placed(var facts) = placed(for: vacant) else { return }
    facts.subscriptions = .history
    bench.journal(call, .placed(facts))
    bench.say(bob1, 5, .call(CallAddress(call: call), .answer(description: "")))
    bench.journal(
      call, answered(bob1), second(),
      .diverted(
        DivertedFacts(from: "carol", to: ["dave"], reason: .hook, at: at(1), deadline: at(31))),
      .legJoined(party(dave)))
    bench.say(dave, 1, .call(CallAddress(callee: "bob", call: call), .answer(description: "")))
    bench.journal(
      call,
      .moved(
        MovedFacts(
          ofCaller: true, from: vacant, to: party(dave), at: at(4), description: "",
          connectDeadline: at(19))))
    bench.say(bob1, 7, .call(CallAddress(call: call), .transfer(TransferRequest(to: "carol"))))
    bench.journal(
      call,
      .diverted(
        DivertedFacts(
          from: "bob", to: ["carol"], reason: .transferred, by: party(bob1), at: at(6),
          deadline: at(36))),
      .transferEnded(TransferEnd(reason: .unanswered, at: at(36))))
    bench.say(bob1, 8, .call(CallAddress(call: call), .hangUp))
    bench.journal(call, ended(.hungUp, by: bob1))
    let entry = HistoryEntry(
      call: call, callee: "bob", isPlaced: false, peer: "dave", placedAt: at(6), endedAt: at(36),
      reason: .unanswered, isMissed: true, divertedBy: "bob")
    bench.note(.remembered(UserKey(app: "demo", user: "carol"), 7, .entry(entry)))
    #expect(bench.found == nil)
  }

  @Test("it is between the users whom the server named") func placedAsAsked() {
    #expect(judge { $0.journal(call, placed(for: vacant)) } == .placedAsAsked)
    #expect(
      judge {
        $0.note(.server(.asked(errand)))
        $0.journal(call, placed(for: Party(user: "dave", device: "", name: "Dr. Carol")))
      } == .placedAsAsked)
    #expect(
      judge {
        $0.note(.server(.asked(errand)))
        $0.journal(call, placed(for: vacant), answered(bob1), second("dave"))
      } == .placedAsAsked)
    #expect(
      judge {
        $0.note(.server(.asked(errand)))
        $0.journal(call, placed(for: vacant), second())
      } == .placedAsAsked, "nobody has answered")
  }

  @Test("the app's server hears the truth, and what it is told is not lost") func serverTold() {
    let ringing = CallState(call: call, callee: "bob", phase: .placed)
    func told(_ state: CallState, by caller: Party? = nil) -> HistoryEvent {
      .server(
        .answered(errand, .call(AppCall(state: state, caller: caller ?? vacant, placedAt: at(0)))))
    }
    #expect(judge { $0.note(told(ringing)) } == nil, "no journal is known")
    #expect(
      judge {
        $0.note(.server(.asked(errand)))
        $0.journal(CallID(high: 9, low: 9), placed)
        $0.note(told(ringing))
      } == .appendThenSpeak)
    #expect(
      judge {
        wait(&$0)
        $0.note(told(state(.hungUp, by: bob1)))
      } == .oneStory)
    #expect(
      judge {
        wait(&$0)
        $0.note(told(ringing, by: party(alice)))
      } == .oneStory)
    #expect(
      judge {
        $0.note(.server(.answered(errand, .error(CallError(.forbidden)))))
      } == .noStrangeError)
  }

  @Test("the server's end has the server as its cause") func endedByServer() {
    var end = EndedFacts(reason: .cancelled, by: nil, at: at(2), missed: true)
    end.byApp = true
    #expect(judge { $0.journal(call, placed, .ended(end)) } == .endsHaveCauses)
    #expect(
      judge {
        $0.note(.server(.asked(.end(CallAddress(callee: "bob", call: call)))))
        $0.journal(call, placed, .ended(end))
      } == nil)
  }

  @Test("a second call says that it is one") func secondCalls() {
    func again(_ isSecond: Bool) -> JournalEntry.Change {
      guard case .placed(var facts) = placed else { return placed }
      facts.isCalleeInCall = isSecond
      return .placed(facts)
    }
    let other = CallID(high: 3, low: 3)
    #expect(
      judge {
        $0.journal(call, placed, answered(bob1))
        $0.journal(other, again(false))
      }
        == .secondCallTold)
    #expect(
      judge {
        $0.journal(call, placed, answered(bob1))
        $0.journal(other, again(true))
      } == nil)
    #expect(judge { $0.journal(call, again(true)) } == .secondCallTold)
    #expect(
      judge {
        $0.journal(other, placed, answered(bob1))
        $0.journal(call, again(true))
        $0.hear(bob2, delivery(1, invite))
      } == .secondCallTold)
  }

  @Test("a caller without a name in its token has the one that is stored") func storedNames() {
    let nameless = SimOptions.user(2)
    func placed(named name: String) -> JournalEntry.Change {
      guard case .placed(var facts) = self.placed else { return self.placed }
      facts.caller = Party(user: nameless, device: "d0", name: name)
      return .placed(facts)
    }
    func named(_ bench: inout Bench) {
      var rules = UserRules()
      rules.name = "Ann Lee"
      bench.note(.decided(user: nameless, rules))
      let errand = AppErrand.name("Ann Lee", of: nameless)
      bench.note(.server(.answered(errand, .name("Ann Lee"))))
    }
    #expect(judge { $0.journal(call, placed(named: "Ann Lee")) } == .namesShown)
    #expect(
      judge {
        named(&$0)
        $0.journal(call, placed(named: "Ann Lee"))
      } == nil)
    #expect(
      judge {
        $0.note(.server(.answered(.name("Ann Lee", of: nameless), .name("Ann Lee"))))
      } == .namesShown, "the store does not have it")
    #expect(
      judge {
        $0.journal(call, self.placed)
        var other = Invite(caller: party(alice), deadline: at(10))
        other.caller.name = "Bob"
        $0.hear(bob1, delivery(1, .invite(other)))
      } == .oneStory)
  }
}
