import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let ann = UserKey(app: "demo", user: "ann")
private let call = CallID(high: 1, low: 2)

@Suite struct BadFrameTests {
  @Test(arguments: [
    CallError.Code.malformedFrame, .frameTooLarge, .unknownCommand, .wrongFrameType, .invalidField,
    .descriptionTooLarge, .informationTooLarge, .headersTooLarge, .invalidCallee,
  ])
  func badFramesAreAnsweredAndTheSessionStays(code: CallError.Code) {
    var machine = SessionMachine.attached()
    for id in 0..<9 { machine.bad(code, id: UInt64(id)) }
    let answers = machine.take()
    #expect(answers.count == 9)
    for (id, answer) in answers.enumerated() { #expect(isError(UInt64(id), code)(answer)) }
    #expect(machine.session.isAttached)
    machine.say(20, .call(CallAddress(call: call), .query))
    #expect(machine.take() == [.forward(request: 20, callee: ann, .call(call, .query))])
  }

  @Test func theTenthClosesTheSession() {
    var machine = SessionMachine.attached()
    for _ in 0..<10 { machine.bad(.malformedFrame) }
    #expect(machine.take().last == .close(.tooManyBadFrames))
    // From then on nothing is answered.
    machine.bad(.malformedFrame)
    machine.say(3, .call(CallAddress(call: call), .query))
    machine.reply(2, .call(call, .query), .done)
    #expect(machine.take().isEmpty)
  }

  /// A user who misdials, or an SDK that knows commands which this edge does not.
  @Test(arguments: [
    CallError.Code.unknownCommand, .invalidField, .invalidCallee, .descriptionTooLarge,
    .informationTooLarge, .pushDataTooLarge,
    .headersTooLarge, .unknownDialect, .unknownCapability, .invalidDevice, .invalidPushToken,
  ])
  func refusedFramesThatCouldBeReadCloseNothing(code: CallError.Code) {
    var machine = SessionMachine.attached()
    for id in 2..<500 {
      machine.turn.now = machine.turn.now + .milliseconds(50)
      machine.bad(code, id: UInt64(id))
      #expect(machine.turn.actions.count == 1)
      #expect(machine.take().contains(where: isError(UInt64(id), code)))
    }
    #expect(machine.session.isAttached)
  }

  /// They count as commands do, so that no device sends nonsense as fast as it can, and for ever.
  @Test func refusedFramesCountAgainstTheRate() {
    var machine = SessionMachine.attached()
    for id in 2...60 { machine.bad(.invalidCallee, id: UInt64(id)) }
    #expect(machine.take().allSatisfy { if case .reply = $0 { true } else { false } })
    machine.bad(.invalidCallee, id: 61)
    #expect(machine.take() == [.reply(61, .error(.tooFast))])
    machine.say(62, .call(CallAddress(call: call), .query))
    #expect(machine.take().contains(where: isError(62, .rateLimited)))
    for id in 63..<400 { machine.bad(.invalidCallee, id: UInt64(id)) }
    #expect(machine.take().last == .close(.tooManyCommands))
  }

  @Test(
    "what ends or answers a call passes behind a burst of candidates",
    arguments: [
      CallVerb.cancel, .hangUp, .decline(.here), .decline(.everywhere), .busy,
      .answer(description: ""),
    ])
  func endsPass(verb: CallVerb) {
    func isForwarded(_ action: DeviceSession.Action) -> Bool {
      if case .forward(_, _, .call(call, verb)) = action { true } else { false }
    }
    var machine = SessionMachine.attached()
    for id in 2...72 {
      machine.say(UInt64(id), .call(CallAddress(call: call), .signal(.candidate, body: "c")))
    }
    #expect(machine.take().contains(where: isError(72, .rateLimited)))
    machine.say(73, .call(CallAddress(call: call), verb))
    #expect(machine.take().contains(where: isForwarded))
    // Not without end.
    for id in 74..<200 { machine.say(UInt64(id), .call(CallAddress(call: call), verb)) }
    #expect(machine.take().count(where: isForwarded) < 60)
  }

  /// One that cannot be read is forgiven each minute; nine more in the same minute are not.
  @Test(arguments: [CallError.Code.malformedFrame, .frameTooLarge, .wrongFrameType])
  func unreadableFramesAreForgivenInTime(code: CallError.Code) {
    var machine = SessionMachine.attached()
    for _ in 0..<9 { machine.bad(code) }
    for _ in 0..<100 {
      machine.turn.now = machine.turn.now + .seconds(60)
      machine.bad(code)
    }
    #expect(machine.take().count == 109)
    #expect(machine.session.isAttached)
    machine.turn.now = machine.turn.now + .seconds(59)
    // Good frames between them do not help.
    machine.say(2, .call(CallAddress(call: call), .query))
    machine.bad(code)
    #expect(machine.take().last == .close(.tooManyBadFrames))
  }

  @Test func brokenProtocolClosesAtOnce() {
    var machine = SessionMachine.attached()
    machine.session.end(.protocolError, &machine.turn)
    #expect(machine.take() == [.close(.protocolError)])
  }
}

@Suite struct SessionHeartbeatTests {
  @Test func pingIsAnsweredByTheEdgeAlone() {
    var machine = SessionMachine.attached()
    machine.say(2, .ping)
    #expect(machine.take() == [.reply(2, .done)])
  }

  @Test func notBeforeTheAttach() {
    var machine = SessionMachine(claims: .of())
    machine.say(2, .ping)
    machine.say(3, .calls)
    #expect(
      machine.take() == [
        .reply(2, .error(CallError(.notAttached))), .reply(3, .error(CallError(.notAttached))),
      ])
  }

  @Test func pingsCountATenth() {
    var machine = SessionMachine.attached()
    for id in 2...591 { machine.say(UInt64(id), .ping) }
    #expect(machine.take().allSatisfy { if case .reply(_, .done) = $0 { true } else { false } })
    machine.say(592, .ping)
    #expect(machine.take().allSatisfy(isError(592, .rateLimited)))
  }
}
