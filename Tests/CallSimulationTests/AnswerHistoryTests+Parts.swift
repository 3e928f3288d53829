import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Who may ring, for how long, and what ends a call that rings.
extension AnswerHistoryTests {
  private func diverted(
    _ reason: DivertReason, from user: String = "bob", to next: String = "carol", at time: Double,
    queue: [String] = []
  ) -> JournalEntry.Change {
    var diverted = DivertedFacts(
      from: user, to: [next], reason: reason, at: Self.at(time), deadline: Self.at(80))
    (diverted.queue, diverted.ringSlot) = (queue, .seconds(queue.isEmpty ? 0 : 10))
    return .diverted(diverted)
  }

  private func invite(from user: String = "", until time: Double = 50) -> Delivery.Event {
    var invite = Invite(caller: Self.party(alice), deadline: Self.at(time))
    invite.divertedBy = user
    return .invite(invite)
  }

  // MARK: Invites

  @Test("a device of a user whom the call does not ring") func strangers() {
    #expect(judge { $0.hear(carol, invite()) } == .noInviteAfterStop)
    #expect(judge { $0.hear(alice, invite()) } == .noInviteAfterStop)
    let guest = judge {
      $0.journal(diverted(.hook, at: 21))
      $0.hear(carol, invite(from: "bob", until: 80))
    }
    #expect(guest == nil)
  }

  @Test("an invite that was decided after the end, or only came then", arguments: [true, false])
  func decidedLate(isLate: Bool) {
    let rule = judge {
      $0.now = 25
      $0.say(alice, 9, .call(Self.address, .cancel))
      $0.end(.cancelled, by: alice)
      $0.now = 27
      $0.hear(bob1, invite(), decided: isLate ? 26 : 24)
    }
    #expect(rule == (isLate ? .noInviteAfterStop : nil))
  }

  // MARK: Refusals

  @Test("a call is busy although a device rings on", arguments: [true, false])
  func oneRingsOn(isThere: Bool) {
    let rule = judge {
      $0.now = 25
      if !isThere { $0.note(.closed(link: 2)) }
      $0.say(bob1, 9, .call(Self.address, .busy))
      $0.journal(.legEnded("b1", .busy, at: Self.at(25)))
      $0.end(.busy, by: bob1)
    }
    #expect(rule == (isThere ? .endsHaveCauses : nil))
  }

  // MARK: Turns

  private func ringInTurn(_ bench: inout Bench) {
    bench.now = 25
    bench.journal(
      diverted(.group, at: 25, queue: ["carol", "dave"]), .legJoined(Self.party(carol)))
    bench.hear(carol, invite(from: "bob", until: 80))
  }

  @Test("a member's turn is cut short", arguments: [30, 35.5]) func shortTurn(_ time: Double) {
    let rule = judge {
      ringInTurn(&$0)
      $0.now = time
      $0.journal(diverted(.ringSlotOver, from: "carol", to: "dave", at: time))
    }
    #expect(rule == (time < 35 ? .turnsInOrder : nil))
  }

  @Test("the next one's turn does not begin", arguments: [true, false])
  func nextTurn(isCalm: Bool) {
    let rule = judge {
      if !isCalm { $0.checker.calendar.add(from: Self.at(30), until: Self.at(31)) }
      ringInTurn(&$0)
      $0.look(at: 35)
      $0.look(at: 36)
    }
    #expect(rule == (isCalm ? .turnsInOrder : nil))
  }

  // MARK: Sides that are handed over

  private func talk(_ bench: inout Bench) {
    bench.answer(bob1, at: 25)
    bench.take(bob1)
    bench.tellWon(bob1)
    bench.now = 26
  }

  @Test("the user to whom a side is handed over does not ring", arguments: [true, false])
  func transferRings(isRung: Bool) {
    let rule = judge {
      talk(&$0)
      $0.say(bob1, 11, .call(Self.address, .transfer(TransferRequest(to: "carol"))))
      $0.reply(bob1, 11, .call($0.state(.answered, by: bob1)))
      $0.journal(
        .diverted(
          DivertedFacts(
            from: "bob", to: ["carol"], reason: .transferred, by: Self.party(bob1),
            at: Self.at(26), deadline: Self.at(56))),
        .legJoined(Self.party(carol)))
      if isRung {
        var invite = Invite(caller: Self.party(alice), deadline: Self.at(56))
        invite.transferredBy = Self.party(bob1)
        $0.hear(carol, .invite(invite))
      }
      $0.look(at: 30)
    }
    #expect(rule == (isRung ? nil : .attachedRing))
  }

  @Test("who takes a call over is told", arguments: [true, false]) func takers(isTold: Bool) {
    let rule = judge {
      talk(&$0)
      $0.say(bob2, 11, .call(Self.address, .pull(PullRequest(from: "b1"))))
      $0.journal(
        .moved(
          MovedFacts(
            ofCaller: false, from: Self.party(bob1), to: Self.party(bob2), at: Self.at(26),
            description: "", connectDeadline: Self.at(41))))
      if isTold { $0.reply(bob2, 11, .answer(won: true, $0.state(.answered, by: bob2))) }
      $0.hear(bob1, .stop(Stop(reason: .moved, by: Self.party(bob2))))
      $0.hear(alice, .moved(Moved(to: Self.party(bob2), number: 1)))
      $0.look(at: 29)
    }
    #expect(rule == (isTold ? nil : .winnersTold))
  }
}
