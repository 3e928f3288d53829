import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Signals that are accepted, and do not arrive.
extension AnswerHistoryTests {
  private func body(_ who: Who, _ number: Int) -> String { SignalText.write(who, number) }

  private func send(_ bench: inout Bench, _ who: Who, _ number: Int) {
    bench.say(
      who, UInt64(20 + number),
      .call(Self.address, .signal(.candidate, body: body(who, number))))
  }

  private func accept(_ bench: inout Bench, _ who: Who, _ number: Int) {
    bench.reply(who, UInt64(20 + number), .done)
  }

  private func hear(_ bench: inout Bench, _ who: Who, _ sender: Who, _ number: Int) {
    let signal = Signal(
      index: UInt64(number), kind: .candidate, body: body(sender, number))
    bench.note(.told(who, .call(Self.call, .signal(signal))))
  }

  /// Bob's first device answers at second 25.
  private func talk(_ bench: inout Bench) {
    bench.answer(bob1, at: 25)
    bench.take(bob1)
    bench.tellWon(bob1)
  }

  /// The call is over at once, so that nothing else is due.
  private func hangUp(_ bench: inout Bench) {
    bench.say(bob1, 9, .call(Self.address, .hangUp))
    bench.end(.hungUp, by: bob1)
    bench.look(at: 25.5)
  }

  @Test("signals of both sides that arrive, one of them sent again") func goodSignals() {
    var bench = Bench()
    talk(&bench)
    for number in 1...2 {
      for (sender, other) in [(alice, bob1), (bob1, alice)] {
        send(&bench, sender, number)
        hear(&bench, other, sender, number)
        send(&bench, sender, number)
        accept(&bench, sender, number)
      }
    }
    bench.look(at: 28)
    #expect(bench.found == nil)
    #expect(bench.checker.judged[.signalsArrive] == 4)
  }

  @Test("a later one arrives", arguments: [true, false]) func aGap(isAccepted: Bool) {
    let rule = judge {
      talk(&$0)
      for number in 1...2 { send(&$0, alice, number) }
      if isAccepted { accept(&$0, alice, 1) }
      hear(&$0, bob1, alice, 2)
      hangUp(&$0)
    }
    #expect(rule == (isAccepted ? .signalsArrive : nil))
  }

  @Test("what explains a gap", arguments: [0, 1, 2, 3]) func excusedGap(_ kind: Int) {
    let rule = judge {
      // A client gives up only during a fault.
      $0.checker.calendar.add(from: Self.at(19), until: Self.at(30))
      talk(&$0)
      for number in 1...2 { send(&$0, alice, number) }
      accept(&$0, alice, 1)
      switch kind {
      case 0: $0.note(.restarted(bob1))
      case 1:
        let command = ClientCommand.call(
          Self.address, .signal(.candidate, body: body(alice, 1)))
        $0.note(.told(alice, .gaveUp(request: 21, command)))
      case 2:
        $0.note(.restarted(alice))
        send(&$0, alice, 3)
        hear(&$0, bob1, alice, 3)
        return hangUp(&$0)
      default:
        $0.journal(
          .moved(
            MovedFacts(
              ofCaller: true, from: Self.party(alice), to: Self.party(Who("alice", "a2")),
              at: Self.at(26), description: "", connectDeadline: Self.at(40))))
      }
      hear(&$0, bob1, alice, 2)
      hangUp(&$0)
    }
    #expect(rule == nil)
  }

  @Test("the one that came too late is out of order") func swapped() {
    let rule = judge {
      talk(&$0)
      for number in 1...2 {
        send(&$0, alice, number)
        accept(&$0, alice, number)
      }
      hear(&$0, bob1, alice, 2)
      hear(&$0, bob1, alice, 1)
    }
    #expect(rule == .signalsInOrder)
  }

  @Test("none follows", arguments: [true, false]) func aLastOne(isCalm: Bool) {
    let rule = judge {
      if !isCalm { $0.note(.trouble(node: "e0", from: Self.at(18), until: Self.at(19))) }
      talk(&$0)
      send(&$0, bob1, 1)
      accept(&$0, bob1, 1)
      $0.look(at: 28)
    }
    #expect(rule == (isCalm ? .signalsArrive : nil))
  }

  @Test("the call ends first, or the signal was sent before the answer") func noneIsDue() {
    let over = judge {
      talk(&$0)
      send(&$0, bob1, 1)
      accept(&$0, bob1, 1)
      $0.say(bob1, 9, .call(Self.address, .hangUp))
      $0.now = 26
      $0.end(.hungUp, by: bob1)
      $0.look(at: 28)
    }
    #expect(over == nil)
    let early = judge {
      send(&$0, bob1, 1)
      accept(&$0, bob1, 1)
      talk(&$0)
      $0.look(at: 28)
    }
    #expect(early == nil)
  }
}
