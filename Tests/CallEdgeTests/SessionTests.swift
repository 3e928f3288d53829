import CallCore
import CallEdge
import CallWire
import Foundation
import Testing

private let call = CallID(high: 1, low: 2)

@Suite struct SessionEndTests {
  @Test func detachIsGraceful() throws {
    var machine = SessionMachine.attached()
    machine.say(2, .detach)
    #expect(machine.take() == [.reply(2, .done), .close(.normal)])
    let taken = machine.session.takeEnd()
    let farewell = try #require(taken)
    #expect(farewell.isGraceful && farewell.device == "phone")
    #expect(farewell.user == ann)
    let another = machine.session.takeEnd()
    #expect(another == nil)
  }

  @Test(arguments: [(UInt16(1000), true), (1001, false), (nil, false)] as [(UInt16?, Bool)])
  func onlyANormalClosureIsAGoodbye(code: UInt16?, graceful: Bool) {
    var machine = SessionMachine.attached()
    machine.session.receivedClose(code: code, &machine.turn)
    #expect(machine.take() == [.close(.normal), .abort])
    let farewell = machine.session.takeEnd()
    #expect(farewell?.isGraceful == graceful)
  }

  @Test(arguments: [
    (Notice.Kind.sessionReplaced, CloseReason.sessionReplaced), (.deviceRemoved, .deviceRemoved),
    (.goAway, .goAway), (.tokenTaken, .deviceRemoved),
  ])
  func clusterMayCloseASession(kind: Notice.Kind, reason: CloseReason) {
    var machine = SessionMachine.attached()
    let notice = Notice(kind: kind, message: "m")
    machine.session.asked(toClose: notice, &machine.turn)
    #expect(machine.take() == [.notice(notice), .close(reason)])
    let stop = Delivery(
      call: call, callee: "ann", version: 1, at: SessionMachine.start,
      event: .stop(Stop(reason: .cancelled)))
    let isTaken = machine.session.willDeliver(stop)
    #expect(!isTaken)
    // The peer's answer to the close ends the socket.
    machine.session.receivedClose(code: 4002, &machine.turn)
    #expect(machine.take() == [.abort])
  }

  @Test func aBrokenSocketIsNotGracefulAndWhoNeverAttachedIsNotMissed() {
    var machine = SessionMachine.attached()
    let farewell = machine.session.takeEnd()
    #expect(farewell?.isGraceful == false)
    var other = SessionMachine(claims: .of())
    let none = other.session.takeEnd()
    #expect(none == nil && other.session.announcement == nil)
  }

  @Test func silentDeviceIsDeadAfterTwoPings() {
    var machine = SessionMachine.attached()
    machine.pass(.milliseconds(12_499))
    #expect(machine.take().isEmpty)
    machine.pass(.milliseconds(12_501))
    #expect(machine.take() == [.ping])
    // Anything heard keeps it alive.
    for _ in 0..<10 {
      machine.session.receivedBytes()
      machine.pass(.seconds(25))
      #expect(machine.take() == [.ping])
    }
    machine.pass(.seconds(25))
    #expect(machine.take() == [.ping])
    machine.pass(.seconds(25))
    #expect(machine.take() == [.close(.pingTimeout), .abort])
  }

  /// As all devices of an edge do when it ends: what came together must not be pinged together.
  @Test func sessionsThatAttachAtOnceArePingedOneAfterTheOther() {
    var machines = (1...1000).map { SessionMachine.attached(number: $0 << 8 | 3) }
    var pings: [Int] = []
    for _ in 0..<250 {
      var count = 0
      for index in machines.indices {
        machines[index].pass(.milliseconds(100))
        count += machines[index].take().count { $0 == .ping }
      }
      pings.append(count)
    }
    #expect(pings.reduce(0, +) == 1000)
    #expect(pings[..<124].allSatisfy { $0 == 0 })
    // 1,000 in 12.5 s are eight in a tenth of a second.
    #expect(pings.allSatisfy { $0 <= 16 }, "\(pings)")
  }

  @Test func eachSessionIsLookedAtOnceInASweep() {
    var slots = TimerWheel<Int>(slotCount: 10)
    for index in 1...100 { slots.add(UInt64(index) << 8, index) }
    slots.remove(50 << 8)
    let ticks = (5..<15).map { slots.due(at: $0) }
    #expect(ticks.map(\.count).allSatisfy { 9...10 ~= $0 })
    #expect(ticks.joined().sorted() == Array(1...100).filter { $0 != 50 })
  }

  /// Data that waits is kept for a while, and a message that is far too large may be sent to its end.
  @Test(arguments: [CloseReason.slowConsumer, .messageTooLarge, .protocolError])
  func whoIsClosedAtOnceHasTimeToReadWhy(reason: CloseReason) {
    var machine = SessionMachine.attached()
    machine.session.end(reason, &machine.turn)
    #expect(machine.take() == [.close(reason)])
    guard reason != .protocolError else { return }
    // Bytes that follow cannot be understood, and say nothing.
    machine.session.end(.protocolError, &machine.turn)
    machine.pass(.seconds(9))
    #expect(machine.take() == [])
    machine.pass(.seconds(1))
    #expect(machine.take() == [.abort])
  }

  @Test(arguments: [false, true]) func announcementIsTheAttachAgain(onlyPlaces: Bool) {
    var machine = SessionMachine(claims: .of())
    machine.attach(
      AttachRequest(device: "phone", deviceName: "Ann's phone", onlyPlaces: onlyPlaces))
    let attach = Attach(
      deviceName: "Ann's phone", announce: true, attachedAt: SessionMachine.start,
      onlyPlaces: onlyPlaces, userName: "")
    #expect(machine.session.announcement == .attach(attach))
    machine.say(2, .detach)
    #expect(machine.session.announcement == nil)
  }
}

@Suite struct CloseCodeTests {
  @Test func everyCodeStandsInTheTable() throws {
    let path = URL(filePath: #filePath).appending(path: "../../../docs/device-protocol.md")
    let text = try String(contentsOf: path.standardized, encoding: .utf8)
    let table = try #require(text.components(separatedBy: "## Close codes\n").last)
    for reason in CloseReason.allCases {
      #expect(table.contains("\n| \(reason.rawValue) |"), "missing: \(reason.rawValue)")
    }
  }
}

private let query = ClientCommand.call(CallAddress(call: call), .query)

@Suite struct BadFrameTests {
  @Test(arguments: [CallError.Code.malformedFrame, .frameTooLarge, .wrongFrameType])
  func badFramesAreAnsweredAndTheSessionStays(code: CallError.Code) {
    var machine = SessionMachine.attached()
    for id in 0..<9 { machine.bad(code, id: UInt64(id)) }
    let answers = machine.take()
    #expect(answers.count == 9)
    for (id, answer) in answers.enumerated() { #expect(isError(UInt64(id), code)(answer)) }
    #expect(machine.session.isAttached)
    machine.say(20, query)
    #expect(machine.take() == [.forward(request: 20, callee: ann, .call(call, .query))])
  }

  @Test func theTenthClosesTheSession() {
    var machine = SessionMachine.attached()
    for _ in 0..<10 { machine.bad(.malformedFrame) }
    #expect(machine.take().last == .close(.tooManyBadFrames))
    // From then on nothing is answered.
    machine.bad(.malformedFrame)
    machine.say(3, query)
    machine.reply(2, .call(call, .query), .done)
    #expect(machine.take().isEmpty)
  }

  /// A user who misdials, or an SDK that knows commands which this edge does not.
  @Test(arguments: [
    CallError.Code.unknownCommand, .invalidField, .invalidCallee, .descriptionTooLarge,
    .informationTooLarge, .pushDataTooLarge, .headersTooLarge, .unknownDialect, .unknownCapability,
    .invalidDevice, .invalidPushToken,
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
    machine.say(62, query)
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
    for id in UInt64(2)...72 { machine.say(id, .signal(.candidate, body: "c"), call, of: "") }
    #expect(machine.take().contains(where: isError(72, .rateLimited)))
    machine.say(73, verb, call, of: "")
    #expect(machine.take().contains(where: isForwarded))
    // Not without end.
    for id in UInt64(74)..<200 { machine.say(id, verb, call, of: "") }
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
    machine.say(2, query)
    machine.bad(code)
    #expect(machine.take().last == .close(.tooManyBadFrames))
  }

  @Test func pingIsAnsweredByTheEdgeAlone() {
    var machine = SessionMachine.attached()
    machine.say(2, .ping)
    #expect(machine.take() == [.reply(2, .done)])
  }
}
