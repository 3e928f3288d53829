import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Hand-made histories, good ones and impossible ones: each rule refuses its own.
@Suite struct HistoryCheckerTests {
  let call = CallID(high: 1, low: 2)
  let alice = Who("alice", "a1")
  let bob1 = Who("bob", "b1")
  let bob2 = Who("bob", "b2")

  func party(_ who: Who) -> Party {
    Party(
      user: who.user, device: DeviceID(who.device), name: "\(who.user.uppercased()) of sim")
  }

  func delivery(_ version: UInt64, _ event: Delivery.Event) -> ServerFrame {
    .delivery(Delivery(call: call, callee: "bob", version: version, at: at(0), event: event))
  }

  func at(_ seconds: Int64) -> Timestamp { Timestamp(microseconds: seconds * 1_000_000) }

  func stop(_ reason: EndReason, by: Who? = nil) -> Delivery.Event {
    .stop(Stop(reason: reason, by: by.map(party), missed: reason.isMissedCall))
  }

  var invite: Delivery.Event {
    .invite(Invite(caller: party(alice), deadline: at(10)))
  }

  /// A history to judge.
  struct Bench {
    var checker = HistoryChecker()
    var now: Int64 = 0
    var found: HistoryRule?

    mutating func note(_ event: HistoryEvent) {
      let violation = checker.note(event, at: Timestamp(microseconds: now * 1_000_000))
      if found == nil { found = violation?.rule }
    }
    mutating func hear(_ who: Who, _ frame: ServerFrame) {
      note(.received(who, link: 1, frame))
    }
    mutating func say(_ who: Who, _ id: UInt64, _ command: ClientCommand) {
      note(.sent(who, link: 1, ClientFrame(id: id, command: command)))
    }
    mutating func journal(_ call: CallID, _ changes: JournalEntry.Change..., epoch: UInt64 = 1) {
      note(.journal(of: call, changes, at: Timestamp(microseconds: now * 1_000_000), epoch: epoch))
    }
  }

  var placed: JournalEntry.Change {
    .placed(
      PlacedFacts(
        callee: UserKey(app: "demo", user: "bob"), caller: party(alice), placedAt: at(0),
        deadline: at(10), video: false, description: "", headers: [],
        legs: [party(bob1), party(bob2)], fingerprint: 1))
  }

  func answered(_ who: Who) -> JournalEntry.Change {
    .answered(
      AnsweredFacts(by: party(who), at: at(1), description: "", connectDeadline: at(16)))
  }

  func ended(_ reason: EndReason, by: Who? = nil, at time: Int64 = 2) -> JournalEntry.Change {
    .ended(
      EndedFacts(
        reason: reason, by: by.map(party), at: at(time), missed: reason.isMissedCall))
  }

  func state(_ reason: EndReason, by: Who) -> CallState {
    CallState(call: call, callee: "bob", phase: .ended, reason: reason, by: party(by))
  }

  func judge(_ body: (inout Bench) -> Void) -> HistoryRule? {
    var bench = Bench()
    body(&bench)
    return bench.found
  }

  @Test func aGoodCallIsGood() {
    var bench = Bench()
    bench.say(alice, 1, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    bench.journal(call, placed)
    bench.hear(bob1, delivery(1, invite))
    bench.hear(bob2, delivery(2, invite))
    bench.hear(bob2, delivery(2, invite))
    bench.say(bob1, 5, .call(CallAddress(call: call), .answer(description: "")))
    bench.journal(call, answered(bob1))
    bench.hear(bob1, .reply(id: 5, .answer(won: true, state(.hungUp, by: alice))))
    bench.hear(bob2, delivery(3, stop(.answeredElsewhere, by: bob1)))
    bench.hear(alice, delivery(4, .answered(Answered(by: party(bob1)))))
    bench.say(alice, 2, .call(CallAddress(callee: "bob", call: call), .hangUp))
    bench.journal(call, ended(.hungUp, by: alice))
    bench.hear(bob1, delivery(5, stop(.hungUp, by: alice)))
    #expect(bench.found == nil)
    #expect(bench.checker.finish([]).isEmpty)
  }

  @Test func anEntryThatBreaksARuleHidesNoOtherOfItsRecord() {
    var bench = Bench()
    bench.journal(call, placed)
    let entries = [CallID(high: 9, low: 9), call].map {
      JournalEntry(call: $0, change: answered(bob1))
    }
    bench.note(
      .journalled(
        shard: 0,
        JournalRecord(epoch: 1, number: 2, writer: "c1/1", at: at(1), entries: entries)))
    #expect(bench.found == .nothingLost)
    bench.found = nil
    bench.hear(alice, delivery(1, .answered(Answered(by: party(bob1)))))
    #expect(bench.found == nil)
  }

  @Test func twoWinners() {
    let rule = judge {
      for (id, who) in [(UInt64(1), bob1), (2, bob2)] {
        $0.say(who, id, .call(CallAddress(call: call), .answer(description: "")))
        $0.hear(who, .reply(id: id, .answer(won: true, state(.hungUp, by: alice))))
      }
    }
    #expect(rule == .oneWinner)
  }

  @Test func aWinnerThatIsToldItLost() {
    let rule = judge {
      $0.hear(bob1, delivery(1, .answered(Answered(by: party(bob1)))))
      $0.hear(bob1, delivery(2, stop(.cancelled, by: alice)))
    }
    #expect(rule == .winnerStopped)
  }

  @Test func twoDifferentEnds() {
    let rule = judge {
      $0.hear(bob1, delivery(1, stop(.cancelled, by: alice)))
      $0.hear(bob1, delivery(2, stop(.unanswered)))
    }
    #expect(rule == .oneEnd)
  }

  @Test func twoStories() {
    #expect(
      judge {
        $0.hear(bob1, delivery(1, stop(.cancelled, by: alice)))
        $0.hear(bob2, delivery(2, stop(.unanswered)))
      } == .oneStory)
    #expect(
      judge {
        $0.journal(call, placed, ended(.unreachable))
        $0.hear(bob1, delivery(1, stop(.busy)))
      } == .oneStory)
    #expect(judge { $0.journal(call, placed, ended(.hungUp, by: alice)) } == .oneStory)
    #expect(judge { $0.journal(call, placed, ended(.unanswered, at: 9)) } == .oneStory)
  }

  @Test func whatNoRecordSays() {
    #expect(
      judge {
        $0.journal(call, placed)
        $0.hear(bob1, delivery(1, stop(.cancelled, by: alice)))
      } == .appendThenSpeak)
    #expect(
      judge {
        $0.journal(call, placed)
        $0.hear(alice, delivery(1, .answered(Answered(by: party(bob1)))))
      } == .appendThenSpeak)
    #expect(
      judge {
        $0.journal(CallID(high: 9, low: 9), placed)
        $0.hear(bob1, delivery(1, invite))
      } == .appendThenSpeak)
  }

  @Test func factsTwice() {
    #expect(judge { $0.journal(call, placed, placed) } == .oneRecord)
    #expect(judge { $0.journal(call, placed, answered(bob1), answered(bob2)) } == .oneRecord)
    #expect(
      judge { $0.journal(call, placed, ended(.unreachable), ended(.unreachable)) } == .oneRecord)
  }

  @Test func anEndThatNobodyCaused() {
    #expect(
      judge { $0.journal(call, placed, answered(bob1), ended(.hungUp, by: bob1)) }
        == .endsHaveCauses)
    #expect(judge { $0.journal(call, placed, ended(.declined, by: bob1)) } == .endsHaveCauses)
  }

  @Test func versions() {
    #expect(
      judge {
        $0.hear(bob1, delivery(1, invite))
        $0.hear(bob1, delivery(1, stop(.unanswered)))
      } == .versionsGrow)
    #expect(
      judge {
        $0.hear(bob1, delivery(5, invite))
        $0.hear(bob1, delivery(4, stop(.unanswered)))
      } == .versionsGrow)
  }

  @Test func ringingAfterTheEnd() {
    #expect(
      judge {
        $0.hear(bob1, delivery(1, stop(.unanswered)))
        $0.hear(bob1, delivery(2, invite))
      } == .noInviteAfterStop)
    #expect(
      judge {
        $0.journal(call, placed)
        $0.hear(
          bob1,
          .delivery(Delivery(call: call, callee: "bob", version: 1, at: at(30), event: invite)))
      } == .noLateInvite)
    let invited = CallEvent.invited(Invite(caller: party(alice), deadline: at(10)))
    #expect(
      judge {
        $0.note(.told(bob1, .call(call, .stopped(Stop(reason: .unanswered)))))
        $0.note(.told(bob1, .call(call, invited)))
      } == .noInviteAfterStop)
    #expect(
      judge { for _ in 0..<2 { $0.note(.told(bob1, .call(call, invited))) } } == .newsOnce)
  }
}

extension HistoryEvent {
  /// A record of the only shard.
  static func journal(
    of call: CallID, _ changes: [JournalEntry.Change], at time: Timestamp, epoch: UInt64 = 1
  ) -> Self {
    let entries = changes.map { JournalEntry(call: call, change: $0) }
    return .journalled(
      shard: 0,
      JournalRecord(epoch: epoch, number: 1, writer: "c1/1", at: time, entries: entries))
  }
}
