import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Histories made by hand, good ones and such as no correct cluster makes: each rule refuses its own.
@Suite struct HistoryCheckerTests {
  private let call = CallID(high: 1, low: 2)
  private let alice = Who("alice", "a1")
  private let bob1 = Who("bob", "b1")
  private let bob2 = Who("bob", "b2")

  private func party(_ who: Who) -> Party { Party(user: who.user, device: DeviceID(who.device)) }

  private func delivery(_ version: UInt64, _ event: Delivery.Event) -> ServerFrame {
    .delivery(Delivery(call: call, callee: "bob", version: version, at: at(0), event: event))
  }

  private func at(_ seconds: Int64) -> Timestamp { Timestamp(microseconds: seconds * 1_000_000) }

  private func stop(_ reason: EndReason, by: Who? = nil) -> Delivery.Event {
    .stop(Stop(reason: reason, by: by.map(party)))
  }

  private var invite: Delivery.Event {
    .invite(Invite(caller: party(alice), deadline: at(10)))
  }

  /// A history under judgement.
  private struct Bench {
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
      note(
        .journalled(
          shard: 0,
          JournalRecord(
            epoch: epoch, number: 1, writer: "c1", at: Timestamp(microseconds: now * 1_000_000),
            entries: changes.map { JournalEntry(call: call, change: $0) })))
    }
  }

  private var placed: JournalEntry.Change {
    .placed(
      PlacedFacts(
        callee: UserKey(app: "demo", user: "bob"), caller: party(alice), placedAt: at(0),
        deadline: at(10), video: false, description: "", headers: [],
        legs: [party(bob1), party(bob2)], fingerprint: 1))
  }

  private func answered(_ who: Who) -> JournalEntry.Change {
    .answered(
      AnsweredFacts(by: party(who), at: at(1), description: "", connectDeadline: at(16)))
  }

  private func ended(_ reason: EndReason, by: Who? = nil, at time: Int64 = 2) -> JournalEntry.Change
  {
    .ended(EndedFacts(reason: reason, by: by.map(party), at: at(time), missed: false))
  }

  private func state(_ reason: EndReason, by: Who) -> CallState {
    CallState(call: call, callee: "bob", phase: .ended, reason: reason, by: party(by))
  }

  private func judge(_ body: (inout Bench) -> Void) -> HistoryRule? {
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

  @Test func timersAndTheEnd() {
    var bench = Bench()
    bench.journal(call, placed)
    #expect(bench.checker.lateness(at: at(9)) == nil)
    #expect(bench.checker.lateness(at: at(30))?.rule == .timersOnTime)
    #expect(bench.checker.finish([]).map(\.rule) == [.callsEnd])
    var troubled = Bench()
    troubled.checker.calendar.add(from: at(5), until: at(25))
    troubled.journal(call, placed)
    #expect(troubled.checker.lateness(at: at(30)) == nil)
    #expect(troubled.checker.lateness(at: at(40))?.rule == .timersOnTime)
  }

  @Test func commandsWithoutAnAnswer() {
    var bench = Bench()
    bench.note(.opened(alice, link: 1))
    bench.say(alice, 1, .register(RegistrationRequest()))
    #expect(bench.checker.lateness(at: at(5)) == nil)
    #expect(bench.checker.lateness(at: at(9))?.rule == .commandsAnswered)
    bench.now = 9
    bench.note(.disturbed(link: 1))
    #expect(bench.checker.lateness(at: at(12)) == nil)
    bench.note(.closed(link: 1))
    #expect(bench.checker.lateness(at: at(100)) == nil)
  }

  @Test func anotherAnswerToTheSameQuestion() {
    let rule = judge {
      $0.say(bob1, 1, .call(CallAddress(call: call), .answer(description: "")))
      $0.hear(bob1, .reply(id: 1, .answer(won: false, state(.answeredElsewhere, by: bob2))))
      $0.hear(bob1, .reply(id: 1, .answer(won: true, state(.hungUp, by: alice))))
    }
    #expect(rule == .sameAnswer)
  }

  @Test func whatWasAcceptedIsForgotten() {
    let rule = judge {
      $0.journal(call, placed)
      $0.now = 3
      $0.say(alice, 1, .call(CallAddress(callee: "bob", call: call), .query))
      $0.hear(
        alice, .reply(id: 1, .call(CallState(call: call, callee: "bob", phase: .unknown))))
    }
    #expect(rule == .nothingLost)
  }

  @Test func registrations() {
    let registered = ServerReply.registered(
      RegisteredInfo(device: "b1", expiresAt: at(100)))
    #expect(
      judge {
        $0.journal(call, placed)
        $0.say(bob1, 1, .register(RegistrationRequest()))
        $0.hear(bob1, .reply(id: 1, registered))
      } == .registrationKept)
    #expect(
      judge {
        $0.say(bob1, 1, .register(RegistrationRequest()))
        $0.note(.stored(bob1, present: true))
        $0.hear(bob1, .reply(id: 1, registered))
        $0.note(.stored(bob1, present: false))
      } == .registrationKept)
    #expect(
      judge {
        $0.say(bob1, 1, .register(RegistrationRequest()))
        $0.note(.stored(bob1, present: true))
        $0.hear(bob1, .reply(id: 1, registered))
        $0.say(bob1, 2, .unregister(nil))
        $0.note(.stored(bob1, present: false))
      } == nil)
  }

  @Test func signals() {
    func signal(_ sender: Who, _ number: Int, index: UInt64) -> CallEvent {
      .signal(Signal(index: index, kind: .candidate, body: SignalText.write(sender, number)))
    }
    let place = ClientCommand.place(
      CallAddress(callee: "bob", call: call), PlaceRequest(call: call))
    #expect(
      judge {
        $0.say(alice, 1, place)
        for index in 1...2 as ClosedRange<UInt64> {
          $0.note(.told(bob1, .call(call, signal(alice, 1, index: index))))
        }
      } == .signalsInPlace)
    #expect(
      judge {
        $0.say(alice, 1, place)
        $0.journal(call, placed, answered(bob1))
        $0.note(.told(alice, .call(call, signal(bob2, 1, index: 1))))
      } == .signalsInPlace)
  }

  /// Its client asked often enough, and said that the call failed; the cluster takes it all the same.
  @Test(arguments: [CallError.Code.tryAgain, .callIDTaken])
  func aPlaceThatWasGivenUpAndTaken(code: CallError.Code) {
    let address = CallAddress(callee: "bob", call: call)
    let command = ClientCommand.place(address, PlaceRequest(call: call))
    var machine = ClientMachine(.init(edges: ["e"], token: "t", device: "a1"))
    var turn = ClientMachine.Turn(now: at(0), random: SplitMix64(seed: 1))
    machine.start(&turn)
    machine.opened(&turn)
    machine.submit(command, &turn)
    machine.received(delivery(1, stop(.failed)), &turn)
    var bench = Bench()
    bench.say(alice, 1, command)
    bench.note(.told(alice, .replied(request: 1, command, .error(CallError(code)))))
    bench.say(bob1, 1, .call(CallAddress(call: call), .decline(.everywhere)))
    bench.journal(call, placed, ended(.declined, by: bob1))
    bench.hear(alice, .reply(id: 1, .call(state(.declined, by: bob1))))
    let view = HistoryChecker.LastView(
      who: alice, isAttached: true, calls: Array(machine.calls.values))
    #expect(machine.calls[call]?.stop?.reason == .failed)
    let found = bench.checker.finish([view]).map(\.rule)
    #expect(found == (code == .tryAgain ? [] : [.oneStory]))
  }

  /// An app that was started again does not know that its place is under way.
  @Test(arguments: [true, false]) func aSignalBeforeThePlaceIsTaken(appBeganAnew: Bool) {
    let signal = ClientCommand.call(
      CallAddress(callee: "bob", call: call), .signal(.candidate, body: "alice/a1#1"))
    let rule = judge {
      $0.say(alice, 1, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
      if appBeganAnew { $0.note(.restarted(alice)) }
      $0.now = 1
      $0.say(alice, 2, signal)
      $0.now = 2
      $0.journal(call, placed)
      $0.hear(alice, .reply(id: 2, .error(CallError(.unknownCall))))
    }
    #expect(rule == (appBeganAnew ? nil : .noStrangeError))
  }

  @Test func errors() {
    #expect(
      judge {
        $0.say(bob1, 1, .call(CallAddress(call: call), .alerting))
        $0.hear(bob1, .reply(id: 1, .error(CallError(.internalError))))
      } == .noStrangeError)
    #expect(
      judge {
        $0.say(bob1, 1, .call(CallAddress(call: call), .alerting))
        $0.hear(bob1, .reply(id: 1, .error(CallError(.tryAgain))))
      } == nil)
  }

  @Test func whoRingsOnIsFound() {
    var machine = ClientMachine(.init(edges: ["e"], token: "t", device: "b1"))
    var turn = ClientMachine.Turn(now: at(0), random: SplitMix64(seed: 1))
    machine.start(&turn)
    machine.opened(&turn)
    machine.received(delivery(1, invite), &turn)
    var bench = Bench()
    bench.say(alice, 1, .call(CallAddress(callee: "bob", call: call), .cancel))
    bench.journal(call, placed, ended(.cancelled, by: alice))
    let view = HistoryChecker.LastView(
      who: bob1, isAttached: true, calls: Array(machine.calls.values))
    #expect(bench.checker.finish([view]).map(\.rule) == [.nobodyRingsOn])
  }
}
