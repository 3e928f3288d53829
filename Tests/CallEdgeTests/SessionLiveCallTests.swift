import CallCore
import CallEdge
import CallWire
import Testing

private let bob = UserKey(app: "demo", user: "bob")
private let call = CallID(high: 1, low: 2)

/// The calls that a session has placed: remembered, bounded, reported at its end.
@Suite struct SessionLiveCallTests {
  @Test func callsPlacedFromHereAreReported() throws {
    var machine = SessionMachine.attached()
    let ended = CallID(high: 5, low: 5)
    let refused = CallID(high: 6, low: 6)
    let resumed = CallID(high: 7, low: 7)
    let cancelled = CallID(high: 8, low: 8)
    let lost = CallID(high: 9, low: 9)
    for id in [call, ended, refused, cancelled, lost] {
      machine.say(2, .place(CallAddress(callee: "bob", call: id), PlaceRequest(call: id)))
    }
    machine.say(2, .call(CallAddress(callee: "eve", call: resumed), .resume))
    _ = machine.session.willDeliver(
      Delivery(
        call: ended, callee: "bob", version: 1, at: SessionMachine.start,
        event: .stop(Stop(reason: .busy))))
    machine.reply(
      2, .place(PlaceRequest(call: refused)), .error(CallError(.tooManyCalls)))
    machine.reply(
      2, .call(cancelled, .cancel), .call(CallState(call: cancelled, callee: "bob", phase: .ended)))
    // Whether this one is placed is not known: it is reported.
    machine.reply(2, .place(PlaceRequest(call: lost)), .error(CallError(.tryAgain)))
    let farewell = machine.session.takeEnd()
    let calls = try #require(farewell).calls
    #expect(calls == [bob: [call, lost], UserKey(app: "demo", user: "eve"): [resumed]])
  }

  @Test func rememberedCallsAreBounded() throws {
    var machine = SessionMachine.attached { $0.commandsPendingPerSession = 1000 }
    for index in 0..<40 {
      let id = CallID(high: 1, low: UInt64(index))
      machine.say(2, .call(CallAddress(callee: "bob", call: id), .resume))
    }
    let farewell = machine.session.takeEnd()
    let calls = try #require(farewell).calls
    #expect(calls[bob]?.map(\.low) == Array(24..<40))
  }

  @Test func theSixthLiveCallIsRefused() {
    var machine = SessionMachine.attached()
    func place(_ index: Int, as id: UInt64) {
      let call = CallID(high: 1, low: UInt64(index))
      machine.say(id, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
    }
    for index in 0..<5 { place(index, as: UInt64(index + 2)) }
    _ = machine.take()
    place(5, as: 20)
    #expect(machine.turn.actions.count == 1)
    #expect(machine.take().contains(where: isError(20, .tooManyLiveCalls)))
    place(3, as: 21)
    #expect(machine.take().count(where: { if case .forward = $0 { true } else { false } }) == 1)
    _ = machine.session.willDeliver(
      Delivery(
        call: CallID(high: 1, low: 0), callee: "bob", version: 1, at: SessionMachine.start,
        event: .stop(Stop(reason: .declined))))
    _ = machine.take()
    place(5, as: 22)
    #expect(machine.take().count(where: { if case .forward = $0 { true } else { false } }) == 1)
  }

  /// Calls that a shard did not take, or may not have taken, use up nothing.
  @Test(arguments: [CallError.Code.tryAgain, .overloaded, .draining, .internalError])
  func anOutageDoesNotUseUpTheCallsOfADevice(code: CallError.Code) throws {
    var machine = SessionMachine.attached { $0.commandsBurst = 1000 }
    for index in 0..<40 {
      machine.place(index, as: UInt64(index + 2))
      #expect(machine.take().count(where: \.isForward) == 1, "call \(index)")
      machine.reply(UInt64(index + 2), .placing(index), .error(CallError(code)))
      _ = machine.take()
    }
    #expect(!machine.session.isInCall(at: machine.turn.now))
    // Any of them may have been placed: what is remembered of them is reported, newest first.
    let farewell = machine.session.takeEnd()
    #expect(try #require(farewell).calls[bob]?.map(\.low) == Array(24..<40))
  }

  @Test func aCallOfWhichSomethingIsHeardCounts() {
    var machine = SessionMachine.attached { $0.commandsBurst = 1000 }
    for index in 0..<5 {
      machine.place(index, as: UInt64(index + 2))
      machine.reply(UInt64(index + 2), .placing(index), .error(CallError(.tryAgain)))
      if index < 3 {
        let rings = Delivery(
          call: CallID(high: 1, low: UInt64(index)), callee: "bob", version: 1,
          at: SessionMachine.start,
          event: .ringing(by: Party(user: "bob", device: "tablet")))
        _ = machine.session.willDeliver(rings)
      } else {
        machine.place(index, as: UInt64(index + 20))
        let state = CallState(
          call: CallID(high: 1, low: UInt64(index)), callee: "bob", phase: .ringing)
        machine.reply(UInt64(index + 20), .placing(index), .call(state))
      }
    }
    _ = machine.take()
    machine.place(5, as: 40)
    #expect(machine.take().contains(where: isError(40, .tooManyLiveCalls)))
    #expect(machine.session.isInCall(at: machine.turn.now))
  }

  /// The edge's own queue is full: the command has gone nowhere.
  @Test func whatWasNotSentIsForgotten() throws {
    var machine = SessionMachine.attached { $0.commandsBurst = 1000 }
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
    let farewell = machine.session.takeEnd()
    #expect(try #require(farewell).calls[bob]?.map(\.low) == [30, 31])
  }

  /// Two commands for one call, of which one is refused.
  @Test func aRefusedRepetitionTakesNothingBack() throws {
    var machine = SessionMachine.attached()
    machine.place(0, as: 2)
    machine.place(0, as: 3)
    machine.reply(3, .placing(0), .error(CallError(.descriptionTooLarge)))
    machine.place(0, as: 2)
    machine.session.wasRepeated(.placing(0))
    #expect(machine.session.isInCall(at: machine.turn.now))
    let state = CallState(call: CallID(high: 1, low: 0), callee: "bob", phase: .ringing)
    machine.reply(2, .placing(0), .call(state))
    #expect(machine.session.isInCall(at: machine.turn.now))
    machine.reply(4, .call(CallID(high: 1, low: 0), .query), .error(CallError(.unknownCall)))
    #expect(!machine.session.isInCall(at: machine.turn.now))
    let farewell = machine.session.takeEnd()
    #expect(try #require(farewell).calls.isEmpty)
  }

  /// Calls that live are not pushed out by attempts that came to nothing.
  @Test func doubtfulCallsAreForgottenFirst() throws {
    var machine = SessionMachine.attached { $0.commandsBurst = 1000 }
    machine.place(0, as: 2)
    let state = CallState(call: CallID(high: 1, low: 0), callee: "bob", phase: .ringing)
    machine.reply(2, .placing(0), .call(state))
    for index in 1..<40 {
      machine.place(index, as: UInt64(index + 2))
      machine.reply(UInt64(index + 2), .placing(index), .error(CallError(.tryAgain)))
    }
    let farewell = machine.session.takeEnd()
    #expect(try #require(farewell).calls[bob]?.map(\.low) == [0] + Array(25..<40))
  }
}
