import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories of answered calls that another device takes over.
extension HistoryCheckerTests {
  private var alice2: Who { Who("alice", "a2") }
  private var bob3: Who { Who("bob", "b3") }

  private func moved(
    _ from: Who, _ to: Who, ofCaller: Bool = false, at time: Int64 = 2
  ) -> JournalEntry.Change {
    .moved(
      MovedFacts(
        ofCaller: ofCaller, from: party(from), to: party(to), at: at(time), description: "",
        connectDeadline: at(time + 15)))
  }

  private func told(_ version: UInt64, _ to: Who, number: UInt32 = 1) -> ServerFrame {
    delivery(version, .moved(Moved(to: party(to), number: number)))
  }

  private func pull(_ bench: inout Bench, _ who: Who, _ id: UInt64, from: Who, won: Bool = true) {
    let request = PullRequest(from: DeviceID(from.device))
    bench.say(who, id, .call(CallAddress(callee: "bob", call: call), .pull(request)))
    let state = CallState(
      call: call, callee: "bob", phase: .answered, version: 9, by: party(who))
    bench.hear(who, .reply(id: id, .answer(won: won, state)))
  }

  private func talk(_ bench: inout Bench, isAnswerSeen: Bool = true) {
    bench.say(alice, 1, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    bench.journal(call, placed)
    bench.hear(bob1, delivery(1, invite))
    bench.hear(bob2, delivery(2, invite))
    if isAnswerSeen {
      bench.say(bob1, 5, .call(CallAddress(call: call), .answer(description: "")))
    }
    bench.journal(call, answered(bob1))
    bench.hear(bob2, delivery(3, stop(.answeredElsewhere, by: bob1)))
    bench.hear(alice, delivery(4, .answered(Answered(by: party(bob1)))))
  }

  @Test("moves of both sides, and back, in a good call") func goodMoves() {
    var bench = Bench()
    talk(&bench)
    bench.journal(call, moved(bob1, bob2))
    pull(&bench, bob2, 6, from: bob1)
    bench.hear(bob1, delivery(10, stop(.moved, by: bob2)))
    bench.hear(alice, told(11, bob2))
    // It was sent before the move, and comes after it.
    bench.hear(bob2, delivery(12, stop(.answeredElsewhere, by: bob1)))
    bench.journal(call, moved(alice, alice2, ofCaller: true))
    pull(&bench, alice2, 7, from: alice)
    bench.hear(alice, delivery(14, stop(.moved, by: alice2)))
    bench.hear(bob2, told(15, alice2, number: 2))
    bench.journal(call, moved(bob2, bob1))
    pull(&bench, bob1, 8, from: bob2)
    bench.hear(bob2, delivery(17, stop(.moved, by: bob1)))
    bench.hear(alice2, told(18, bob1, number: 3))
    bench.say(bob1, 9, .call(CallAddress(call: call), .hangUp))
    bench.journal(call, ended(.hungUp, by: bob1))
    bench.hear(alice2, delivery(19, stop(.hungUp, by: bob1)))
    #expect(bench.found == nil)
    #expect(bench.checker.finish([]).isEmpty)
  }

  @Test("a device that took the call over is told that it won when its answer comes late")
  func answerOfWhoHasIt() {
    for (who, found) in [(bob2, nil), (bob3, HistoryRule.oneWinner)] {
      var bench = Bench()
      talk(&bench)
      let won = CallState(
        call: call, callee: "bob", phase: .answered, version: 5, by: party(bob1))
      bench.hear(bob1, .reply(id: 5, .answer(won: true, won)))
      bench.journal(call, moved(bob1, bob2))
      pull(&bench, bob2, 6, from: bob1)
      bench.say(who, 7, .call(CallAddress(call: call), .answer(description: "")))
      let state = CallState(
        call: call, callee: "bob", phase: .answered, version: 9, by: party(bob2))
      bench.hear(who, .reply(id: 7, .answer(won: true, state)))
      #expect(bench.found == found)
    }
  }

  @Test("the former device is stopped, and an older delivery to it comes later") func lateAnswer() {
    let rule = judge {
      $0.journal(call, placed, answered(bob1))
      $0.say(bob1, 5, .call(CallAddress(call: call), .answer(description: "")))
      $0.journal(call, moved(bob1, bob2))
      pull(&$0, bob2, 6, from: bob1)
      $0.hear(bob1, delivery(2, stop(.moved, by: bob2)))
      $0.hear(bob1, delivery(1, .answered(Answered(by: party(bob1)))))
    }
    #expect(rule == nil)
  }

  @Test("a side moves from the device that has it, and while it is answered") func oneHolder() {
    let twice = judge {
      talk(&$0)
      $0.journal(call, moved(bob1, bob2), moved(bob1, bob3))
    }
    #expect(twice == .movesOnce)
    let early = judge { $0.journal(call, placed, moved(bob1, bob2)) }
    #expect(early == .movesOnce)
    let late = judge {
      talk(&$0)
      $0.say(alice, 2, .call(CallAddress(callee: "bob", call: call), .hangUp))
      $0.journal(call, ended(.hungUp, by: alice), moved(bob1, bob2))
    }
    #expect(late == .movesOnce)
    let wrongSide = judge {
      talk(&$0)
      $0.journal(call, moved(bob1, bob2, ofCaller: true))
    }
    #expect(wrongSide == .movesOnce)
  }

  @Test("who is told that it has the call took it over from the device that it named")
  func named() {
    let invented = judge {
      talk(&$0)
      pull(&$0, bob2, 6, from: bob1)
    }
    #expect(invented == .movesOnce)
    let fromAnother = judge {
      talk(&$0)
      $0.journal(call, moved(bob1, bob2), moved(bob2, bob3))
      pull(&$0, bob3, 6, from: bob1)
    }
    #expect(fromAnother == .movesOnce)
  }

  @Test("nobody is told of a move that is in no record") func invented() {
    let other = judge {
      talk(&$0)
      $0.hear(alice, told(5, bob2))
    }
    #expect(other == .appendThenSpeak)
    let former = judge {
      talk(&$0)
      $0.hear(bob1, delivery(5, stop(.moved, by: bob2)))
    }
    #expect(former == .appendThenSpeak)
    let wrong = judge {
      talk(&$0)
      $0.journal(call, moved(bob1, bob2))
      $0.hear(alice, told(5, bob3))
    }
    #expect(wrong == .appendThenSpeak)
  }

  @Test("a call ends by a device that has it") func endsByHolder() {
    let rule = judge {
      talk(&$0)
      $0.journal(call, moved(bob1, bob2))
      $0.say(bob1, 9, .call(CallAddress(call: call), .hangUp))
      $0.journal(call, ended(.hungUp, by: bob1))
    }
    #expect(rule == .endsHaveCauses)
  }

  @Test(
    "the other side learns of a move in time, unless something was wrong", arguments: [true, false])
  func movesAreTold(isCalm: Bool) {
    var bench = Bench()
    bench.note(.opened(alice, link: 1, edge: "e1"))
    bench.say(alice, 40, .attach(AttachRequest(token: "t")))
    bench.hear(
      alice,
      .reply(
        id: 40,
        .attached(
          AttachedInfo(
            session: "s", user: "alice", device: "a1", pingSeconds: 25, serverTime: at(0)))))
    bench.now = 20
    talk(&bench, isAnswerSeen: false)
    let placed = CallState(call: call, callee: "bob", phase: .placed)
    bench.hear(alice, .reply(id: 1, .call(placed)))
    bench.now = 30
    if !isCalm { bench.note(.trouble(node: "e1", from: at(29), until: at(31))) }
    bench.journal(call, moved(bob1, bob2, at: 30))
    bench.now = 33
    let rule = bench.checker.lateness(at: at(33))?.rule
    #expect(rule == (isCalm ? .movesTold : nil))
    bench.hear(alice, told(9, bob2))
    #expect(bench.checker.lateness(at: at(33)) == nil)
  }
}
