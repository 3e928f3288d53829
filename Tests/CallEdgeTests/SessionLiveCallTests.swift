import CallCore
import CallEdge
import Testing

private let call = CallID(high: 1, low: 2)

/// The calls that a session has placed: remembered, bounded, reported at its end.
@Suite struct SessionLiveCallTests {
  private func attached() -> SessionMachine {
    SessionMachine.attached {
      $0.commandsBurst = 1000
      $0.commandsPendingPerSession = 1000
    }
  }

  @Test func callsPlacedFromHereAreReported() {
    var machine = SessionMachine.attached()
    let (ended, refused) = (CallID(high: 5, low: 5), CallID(high: 6, low: 6))
    let (resumed, cancelled) = (CallID(high: 7, low: 7), CallID(high: 8, low: 8))
    let lost = CallID(high: 9, low: 9)
    for id in [call, ended, refused, cancelled, lost] { machine.say(2, .place(id)) }
    machine.say(2, .resume, resumed, of: "eve")
    machine.deliver(.stop(Stop(reason: .busy)), of: ended)
    machine.reply(2, .place(PlaceRequest(call: refused)), .error(CallError(.tooManyCalls)))
    machine.reply(2, .call(cancelled, .cancel), .call(.of(cancelled, .ended)))
    // Whether this one is placed is not known: it is reported.
    machine.reply(2, .place(PlaceRequest(call: lost)), .error(CallError(.tryAgain)))
    let eve = UserKey(app: "demo", user: "eve")
    #expect(machine.callsPlaced == [bob: [call, lost], eve: [resumed]])
  }

  @Test func rememberedCallsAreBounded() {
    var machine = attached()
    for index in UInt64(0)..<40 { machine.say(2, .resume, CallID(high: 1, low: index)) }
    #expect(machine.callsPlaced[bob]?.map(\.low) == Array(24..<40))
  }

  @Test func aGatewayMayHaveManyLiveCalls() {
    var machine = SessionMachine.attached {
      $0.commandsBurst = 1000
      $0.commandsPendingPerSession = 1000
      $0.limits.liveCallsPerDevice = 300
    }
    for index in UInt64(0)..<300 {
      let id = CallID(high: 1, low: index)
      machine.say(index + 2, .place(id))
      machine.reply(index + 2, .place(PlaceRequest(call: id)), .call(.of(id, .placed)))
    }
    #expect(machine.callsPlaced[bob]?.count == 300)
  }

  @Test func theSixthLiveCallIsRefused() {
    var machine = SessionMachine.attached()
    for index in 0..<5 { machine.place(index, as: UInt64(index + 2)) }
    _ = machine.take()
    machine.place(5, as: 20)
    #expect(machine.turn.actions.count == 1)
    #expect(machine.take().contains(where: isError(20, .tooManyLiveCalls)))
    machine.place(3, as: 21)
    #expect(machine.take().count(where: \.isForward) == 1)
    machine.deliver(.stop(Stop(reason: .declined)), of: CallID(high: 1, low: 0))
    _ = machine.take()
    machine.place(5, as: 22)
    #expect(machine.take().count(where: \.isForward) == 1)
  }

  /// Calls that a shard did not take, or may not have taken, use up nothing.
  @Test(arguments: [CallError.Code.tryAgain, .overloaded, .draining, .internalError])
  func anOutageDoesNotUseUpTheCallsOfADevice(code: CallError.Code) {
    var machine = attached()
    for index in 0..<40 {
      machine.place(index, as: UInt64(index + 2))
      #expect(machine.take().count(where: \.isForward) == 1, "call \(index)")
      machine.reply(UInt64(index + 2), .placing(index), .error(CallError(code)))
      _ = machine.take()
    }
    #expect(!machine.session.isInCall(at: machine.turn.now))
    // Any of them may have been placed: what is remembered of them is reported, newest first.
    #expect(machine.callsPlaced[bob]?.map(\.low) == Array(24..<40))
  }

  @Test func aCallOfWhichSomethingIsHeardCounts() {
    var machine = attached()
    for index in 0..<5 {
      let call = CallID(high: 1, low: UInt64(index))
      machine.place(index, as: UInt64(index + 2))
      machine.reply(UInt64(index + 2), .placing(index), .error(CallError(.tryAgain)))
      if index < 3 {
        machine.deliver(.ringing(by: Party(user: "bob", device: "tablet")), of: call)
      } else {
        machine.placed(call, as: UInt64(index + 20))
      }
    }
    _ = machine.take()
    machine.place(5, as: 40)
    #expect(machine.take().contains(where: isError(40, .tooManyLiveCalls)))
    #expect(machine.session.isInCall(at: machine.turn.now))
  }

  /// The edge's own queue is full: the command has gone nowhere.
  @Test func whatWasNotSentIsForgotten() {
    var machine = attached()
    for index in 0..<20 {
      machine.place(index, as: UInt64(index + 2))
      #expect(machine.take().count(where: \.isForward) == 1, "call \(index)")
      machine.refuse(UInt64(index + 2), .placing(index), .overloaded)
      #expect(machine.take().contains(where: isError(UInt64(index + 2), .overloaded)))
    }
    // One that is there, or may be, is not forgotten because it could not be retransmitted.
    machine.place(30, as: 40)
    machine.reply(40, .placing(30), .error(CallError(.tryAgain)))
    machine.place(31, as: 41)
    for id in [UInt64(42), 43] {
      machine.place(Int(id) - 12, as: id)
      machine.refuse(id, .placing(Int(id) - 12), .overloaded)
    }
    #expect(machine.callsPlaced[bob]?.map(\.low) == [30, 31])
  }

  /// Two commands for one call, of which one is refused.
  @Test func aRefusedRepetitionTakesNothingBack() {
    let first = CallID(high: 1, low: 0)
    var machine = SessionMachine.attached()
    machine.place(0, as: 2)
    machine.place(0, as: 3)
    machine.reply(3, .placing(0), .error(CallError(.descriptionTooLarge)))
    machine.place(0, as: 2)
    machine.session.wasRepeated(.placing(0))
    #expect(machine.session.isInCall(at: machine.turn.now))
    machine.reply(2, .placing(0), .call(.of(first, .ringing)))
    #expect(machine.session.isInCall(at: machine.turn.now))
    machine.reply(4, .call(first, .query), .error(CallError(.unknownCall)))
    #expect(!machine.session.isInCall(at: machine.turn.now))
    #expect(machine.callsPlaced.isEmpty)
  }

  /// Calls that live are not pushed out by attempts that came to nothing.
  @Test func doubtfulCallsAreForgottenFirst() {
    var machine = attached()
    machine.placed(CallID(high: 1, low: 0))
    for index in 1..<40 {
      machine.place(index, as: UInt64(index + 2))
      machine.reply(UInt64(index + 2), .placing(index), .error(CallError(.tryAgain)))
    }
    #expect(machine.callsPlaced[bob]?.map(\.low) == [0] + Array(25..<40))
  }
}

private let one = CallID(high: 1, low: 1)
private let two = CallID(high: 1, low: 2)
private let b1 = Party(user: "bob", device: "b1")

/// A session reports to its user's shard the answered calls that its device placed.
@Suite struct TalkingTests {
  private func attached() -> SessionMachine {
    SessionMachine.attached { $0.limits.busyWhileInCall = true }
  }

  private func deliver(_ event: Delivery.Event, of call: CallID, to machine: inout SessionMachine) {
    machine.deliver(event, of: call)
    if machine.session.mayReportTalking { machine.session.reportTalking(&machine.turn) }
  }

  private func answered(_ call: CallID, in machine: inout SessionMachine) {
    machine.placed(call, as: call.low + 1)
    deliver(.answered(Answered(by: b1)), of: call, to: &machine)
  }

  @Test func itTellsWhatIsAnsweredAndWhatIsOver() {
    var machine = attached()
    machine.placed(one, as: 2)
    machine.placed(two, as: 3)
    #expect(machine.takeReports().isEmpty)
    for call in [one, two] { deliver(.answered(Answered(by: b1)), of: call, to: &machine) }
    deliver(.stop(Stop(reason: .hungUp)), of: one, to: &machine)
    #expect(
      machine.takeReports() == [
        Talking(number: 1, calls: [one]), Talking(number: 2, calls: [one, two]),
        Talking(number: 3, calls: [two]),
      ])
    machine.say(9, .hangUp, two)
    machine.reply(9, .call(two, .hangUp), .done)
    #expect(machine.takeReports() == [Talking(number: 4, calls: [])])
  }

  @Test func aCallThatRingsIsNoTalk() {
    var machine = attached()
    machine.placed(one)
    deliver(.ringing(by: b1), of: one, to: &machine)
    deliver(.stop(Stop(reason: .declined)), of: one, to: &machine)
    #expect(machine.takeReports().isEmpty)
  }

  @Test(
    "second calls that ring say that they are such ones where the app has chosen so",
    arguments: [(nil, false), (.allow, true), (.busy, true)] as [(SecondCalls?, Bool)])
  func secondCallsThatRing(choice: SecondCalls?, isTold: Bool) {
    var machine = SessionMachine.attached(apps: .of(AppTerms(secondCalls: choice))) {
      $0.limits.busyWhileInCall = false
    }
    answered(one, in: &machine)
    #expect(machine.takeReports() == (isTold ? [Talking(number: 1, calls: [one])] : []))
  }

  @Test func whatFailsIsToldAgain() {
    var machine = attached()
    answered(one, in: &machine)
    let report = Talking(number: 1, calls: [one])
    #expect(machine.takeReports() == [report])
    // A new owner is told with the session.
    #expect(machine.announced?.talking == report)
    machine.reply(1 << 63 | 1, .talking(report), .error(CallError(.tryAgain)))
    #expect(machine.takeReports().isEmpty)
    machine.pass(.seconds(1))
    let again = Talking(number: 2, calls: [one])
    #expect(machine.takeReports() == [again])
    machine.reply(1 << 63 | 2, .talking(again), .done)
    machine.pass(.seconds(1))
    // And the device hears nothing of it.
    #expect(machine.take().isEmpty)
  }

  /// After the end the shard still counts what the session before this one has said.
  @Test(
    arguments: [
      (.resume, .answered, [one]), (.resume, .ended, []), (.hangUp, .ended, []),
    ] as [(CallVerb, CallPhase, [CallID])])
  func whoComesBackSaysWhetherItIsInItsCall(verb: CallVerb, phase: CallPhase, calls: [CallID]) {
    var machine = attached()
    machine.say(3, verb, one)
    var state = CallState.of(one, phase)
    if phase == .ended { state.reason = .hungUp }
    machine.reply(3, .call(one, verb), .call(state))
    #expect(machine.takeReports() == [Talking(number: 1, calls: calls)])
  }
}
