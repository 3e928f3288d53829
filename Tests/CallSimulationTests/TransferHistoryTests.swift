import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories of answered calls of which a side is handed over to another user.
extension HistoryCheckerTests {
  private var carol: Who { Who("carol", "c1") }

  private func transfer(
    _ by: Who, to user: String = "carol", at time: Int64 = 2
  ) -> JournalEntry.Change {
    .diverted(
      DivertedFacts(
        from: by.user, to: [user], reason: .transferred, by: party(by), at: at(time),
        deadline: at(time + 30)))
  }

  private func taken(_ from: Who, _ to: Who, at time: Int64 = 4) -> JournalEntry.Change {
    .moved(
      MovedFacts(
        ofCaller: false, from: party(from), to: party(to), at: at(time), description: "",
        connectDeadline: at(time + 15)))
  }

  private func failed(
    _ reason: EndReason, by who: Who? = nil, at time: Int64 = 5
  ) -> JournalEntry.Change {
    .transferEnded(TransferEnd(reason: reason, by: who.map(party), at: at(time)))
  }

  private func ring(by transferor: Who) -> Delivery.Event {
    var invite = Invite(caller: party(alice), deadline: at(32))
    invite.transferredBy = party(transferor)
    return .invite(invite)
  }

  private func talk(_ bench: inout Bench, asks: Bool = true) {
    bench.say(alice, 1, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    bench.journal(call, placed)
    bench.hear(bob1, delivery(1, invite))
    bench.say(bob1, 5, .call(CallAddress(call: call), .answer(description: "")))
    bench.journal(call, answered(bob1))
    bench.hear(alice, delivery(4, .answered(Answered(by: party(bob1)))))
    guard asks else { return }
    let request = TransferRequest(to: "carol")
    bench.say(bob1, 6, .call(CallAddress(call: call), .transfer(request)))
  }

  private func answer(_ bench: inout Bench, _ who: Who, _ id: UInt64) {
    bench.say(who, id, .call(CallAddress(callee: "bob", call: call), .answer(description: "")))
    let state = CallState(
      call: call, callee: "bob", phase: .answered, version: 9, by: party(who))
    bench.hear(who, .reply(id: id, .answer(won: true, state)))
  }

  @Test("a transfer that is declined, one that succeeds, and the end, in a good call")
  func goodTransfers() {
    var bench = Bench()
    talk(&bench)
    bench.journal(call, transfer(bob1), .legJoined(party(carol)))
    bench.hear(carol, delivery(7, ring(by: bob1)))
    bench.say(carol, 1, .call(CallAddress(callee: "bob", call: call), .decline(.everywhere)))
    bench.journal(call, failed(.declined, by: carol))
    let news = TransferNews(to: "carol", number: 1, reason: .declined, by: party(carol))
    bench.hear(bob1, delivery(8, .transfer(news)))
    bench.say(bob1, 7, .call(CallAddress(call: call), .transfer(TransferRequest(to: "carol"))))
    bench.journal(call, transfer(bob1, at: 6), .legJoined(party(carol)))
    bench.hear(carol, delivery(9, ring(by: bob1)))
    bench.journal(call, taken(bob1, carol, at: 8))
    answer(&bench, carol, 2)
    bench.hear(bob1, delivery(10, stop(.transferred, by: carol)))
    bench.hear(alice, delivery(11, .moved(Moved(to: party(carol), number: 1))))
    bench.say(carol, 3, .call(CallAddress(callee: "bob", call: call), .hangUp))
    bench.journal(call, ended(.hungUp, by: carol))
    bench.hear(alice, delivery(12, stop(.hungUp, by: carol)))
    #expect(bench.found == nil)
    #expect(bench.checker.finish([]).isEmpty)
  }

  @Test(
    "a repeated transfer has the same answer, unless the side was handed on since",
    arguments: [true, false])
  func repeatedTransfer(isHandedOn: Bool) {
    let rule = judge {
      talk(&$0)
      $0.journal(call, transfer(bob1), .legJoined(party(carol)))
      let state = CallState(
        call: call, callee: "bob", phase: .answered, version: 6, by: party(bob1))
      $0.hear(bob1, .reply(id: 6, .call(state)))
      $0.hear(carol, delivery(7, ring(by: bob1)))
      $0.journal(call, taken(bob1, carol, at: 4))
      answer(&$0, carol, 2)
      if isHandedOn {
        let request = TransferRequest(to: "bob")
        $0.say(carol, 3, .call(CallAddress(callee: "bob", call: call), .transfer(request)))
        $0.journal(call, transfer(carol, to: "bob", at: 6), .legJoined(party(bob1)))
      }
      $0.hear(bob1, .reply(id: 6, .error(CallError(.notParty))))
    }
    #expect(rule == (isHandedOn ? nil : .sameAnswer))
  }

  @Test("a call is transferred by who has a side, to whom that device named, once at a time")
  func transferAsked() {
    let unasked = judge {
      talk(&$0, asks: false)
      $0.journal(call, transfer(bob1))
    }
    #expect(unasked == .transfersAsked)
    let misdirected = judge {
      talk(&$0)
      $0.journal(call, transfer(bob1, to: "dave"))
    }
    #expect(misdirected == .transfersAsked)
    let byAnother = judge {
      talk(&$0)
      $0.journal(call, transfer(bob2))
    }
    #expect(byAnother == .transfersAsked)
    let twice = judge {
      talk(&$0)
      $0.journal(call, transfer(bob1), transfer(bob1))
    }
    #expect(twice == .transfersAsked)
    let again = judge {
      talk(&$0)
      $0.journal(call, transfer(bob1), .legJoined(party(carol)))
      $0.hear(carol, delivery(7, ring(by: bob1)))
      $0.say(carol, 1, .call(CallAddress(callee: "bob", call: call), .decline(.everywhere)))
      $0.journal(call, failed(.declined, by: carol))
      let request = TransferRequest(to: "carol")
      $0.say(bob1, 6, .call(CallAddress(call: call), .transfer(request)))
      $0.journal(call, transfer(bob1, at: 6))
    }
    #expect(again == .transfersAsked, "a repeated command")
    let ending = judge {
      talk(&$0)
      $0.journal(call, failed(.unanswered))
    }
    #expect(ending == .transfersAsked)
  }

  @Test("a side is taken by a user whom the transfer rings") func transferTakers() {
    let uninvited = judge {
      talk(&$0)
      $0.journal(call, transfer(bob1), taken(bob1, Who("dave", "d1")))
    }
    #expect(uninvited == .movesOnce)
    let afterwards = judge {
      talk(&$0)
      $0.say(bob1, 7, .call(CallAddress(call: call), .cancelTransfer))
      $0.journal(call, transfer(bob1), failed(.cancelled, by: bob1), taken(bob1, carol))
    }
    #expect(afterwards == .movesOnce)
  }

  @Test("an end of a transfer has a cause, and a call's end ends it") func transferCauses() {
    let early = judge {
      talk(&$0)
      $0.journal(call, transfer(bob1), failed(.unanswered, at: 5))
    }
    #expect(early == .endsHaveCauses)
    let declined = judge {
      talk(&$0)
      $0.journal(call, transfer(bob1), failed(.declined, by: carol))
    }
    #expect(declined == .endsHaveCauses)
    let ringsOn = judge {
      talk(&$0)
      $0.say(alice, 2, .call(CallAddress(callee: "bob", call: call), .hangUp))
      $0.journal(call, transfer(bob1), ended(.hungUp, by: alice))
    }
    #expect(ringsOn == .nobodyRingsOn)
  }

  @Test("nobody is told of a transfer what no record says") func transferInvented() {
    let rung = judge {
      talk(&$0)
      $0.hear(carol, delivery(7, ring(by: bob1)))
    }
    #expect(rung == .appendThenSpeak)
    let news = judge {
      talk(&$0)
      $0.journal(call, transfer(bob1))
      let news = TransferNews(to: "carol", number: 1, reason: .busy)
      $0.hear(bob1, delivery(8, .transfer(news)))
    }
    #expect(news == .appendThenSpeak)
    let stopped = judge {
      talk(&$0)
      $0.journal(call, transfer(bob1))
      $0.hear(bob1, delivery(8, stop(.transferred, by: carol)))
    }
    #expect(stopped == .appendThenSpeak)
  }

  @Test("seed 98201006: a clean-up and the next ring of the same device in one record")
  func pushedAgain() {
    let key = DeviceID("carol\u{1f}c1")
    func judge(_ purpose: PushPurpose, _ round: UInt8) -> HistoryRule? {
      var bench = Bench()
      talk(&bench)
      bench.journal(call, transfer(bob1))
      bench.journal(call, .legJoined(party(carol)), .pushed(key, .ring))
      let other = Who("carol", "c2")
      bench.say(other, 3, .call(CallAddress(callee: "bob", call: call), .decline(.everywhere)))
      bench.journal(call, failed(.declined, by: other))
      bench.say(bob1, 7, .call(CallAddress(call: call), .transfer(TransferRequest(to: "carol"))))
      bench.journal(call, .pushed(key, .cancel), transfer(bob1, at: 6), .legJoined(party(carol)))
      var job = PushHistoryTests.job(purpose, carol)
      job.round = round
      bench.note(.push(.job(job, lane: "apns-production", decided: at(6))))
      return bench.found
    }
    #expect(judge(.cancel, 1) == nil)
    #expect(judge(.cancel, 2) == .appendThenSpeak)
    #expect(judge(.ring, 2) == .appendThenSpeak)
    #expect(judge(.missed, 1) == .appendThenSpeak)
  }

  @Test(
    "seed 98202758: the stop of an earlier part, after a transfer has let the device ring again")
  func staleStop() {
    let key = DeviceID("carol\u{1f}c1")
    func judge(declines: Bool) -> HistoryRule? {
      var bench = Bench()
      talk(&bench)
      bench.journal(call, transfer(bob1), .legJoined(party(carol)))
      bench.hear(carol, delivery(6, ring(by: bob1)))
      bench.say(carol, 3, .call(CallAddress(callee: "bob", call: call), .decline(.here)))
      if declines { bench.journal(call, .legEnded(key, .declinedHere, at: at(3))) }
      bench.journal(call, failed(.unanswered, at: 32))
      bench.say(bob1, 7, .call(CallAddress(call: call), .transfer(TransferRequest(to: "carol"))))
      bench.journal(call, transfer(bob1, at: 33), .legJoined(party(carol)))
      bench.hear(carol, delivery(7, stop(.declined, by: carol)))
      return bench.found
    }
    #expect(judge(declines: true) == nil)
    #expect(judge(declines: false) == .appendThenSpeak)
  }
}
