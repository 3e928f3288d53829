import CallClient
import CallCore
import CallJudge
import CallSimulation
import CallWire
import Testing

/// Time, commands, registrations, signals, and the final state.
extension HistoryCheckerTests {
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

  /// The client reported the call as failed after its last retry, and the cluster takes the place then.
  @Test(arguments: [CallError.Code.tryAgain, .callIDTaken])
  func aPlaceThatWasGivenUpAndTaken(code: CallError.Code) {
    var bench = Bench()
    bench.say(alice, 1, place)
    bench.note(.told(alice, .replied(request: 1, place, .error(CallError(code)))))
    bench.say(bob1, 1, .call(CallAddress(call: call), .decline(.everywhere)))
    bench.journal(call, placed, ended(.declined, by: bob1))
    bench.hear(alice, .reply(id: 1, .call(state(.declined, by: bob1))))
    let found = bench.checker.finish([viewOfFailedCall]).map(\.rule)
    #expect(found == (code == .tryAgain ? [] : [.oneStory]))
  }

  /// The same without a reply in time: the client cancels the call. Then both replies come.
  @Test(arguments: [true, false]) func aPlaceThatWasWithdrawnAndTaken(wasGivenUp: Bool) {
    let cancel = ClientCommand.call(CallAddress(callee: "bob", call: call), .cancel)
    var bench = Bench()
    bench.checker.calendar.add(from: at(0), until: at(2))
    bench.say(alice, 1, place)
    bench.now = 1
    if wasGivenUp { bench.note(.told(alice, .gaveUp(request: 1, place))) }
    bench.say(alice, 2, cancel)
    bench.journal(call, placed)
    bench.hear(
      alice, .reply(id: 1, .call(CallState(call: call, callee: "bob", phase: .ringing))))
    bench.journal(call, ended(.cancelled, by: alice))
    bench.hear(alice, .reply(id: 2, .call(state(.cancelled, by: alice))))
    #expect(bench.found == nil)
    #expect(
      bench.checker.finish([viewOfFailedCall]).map(\.rule) == (wasGivenUp ? [] : [.oneStory]))
  }

  private var place: ClientCommand {
    .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call))
  }

  private var viewOfFailedCall: HistoryChecker.LastView {
    var machine = ClientMachine(.init(edges: ["e"], token: "t", device: "a1"))
    var turn = ClientMachine.Turn(now: at(0), random: SplitMix64(seed: 1))
    machine.start(&turn)
    machine.opened(&turn)
    machine.submit(place, &turn)
    machine.received(delivery(1, stop(.failed)), &turn)
    return HistoryChecker.LastView(
      who: alice, isAttached: true, calls: Array(machine.calls.values))
  }

  /// A restarted app does not have the place that its former process sent.
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
