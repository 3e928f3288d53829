import CallClient
import CallCore
import CallWire
import Testing

@Suite struct ClientMachineCallTests {
  let call = CallID(high: 1, low: 2)
  private var received: CallAddress { CallAddress(call: call) }
  private var placed: CallAddress { CallAddress(callee: "you", call: call) }

  private func candidate(_ index: UInt64) -> Delivery.Event {
    .signal(Signal(index: index, kind: .candidate, body: ""))
  }

  private func items(_ versions: UInt64...) -> [AckItem] {
    versions.map { AckItem(call: received, version: $0) }
  }

  // MARK: Acknowledgements

  @Test func everyDeliveryIsAcknowledgedOnceABurstAndToldOnce() {
    var device = Device.attached()
    device.ring(call)
    device.ring(call)
    device.hear(call, 6, .stop(Stop(reason: .cancelled, by: .you, missed: true)))
    device.readCompleted()
    let actions = device.take()
    #expect(actions.callEvents.count == 2)
    #expect(actions.frames.isEmpty)
    #expect(device.acknowledged() == items(5, 5, 6))
    device.readCompleted()
    device.pass(.milliseconds(150))
    #expect(device.take().isEmpty)
  }

  @Test(
    "an acknowledgement travels with the next command, and what a device says of an invite is one",
    arguments: [(CallVerb.connected, [5, 6]), (.alerting, [6])] as [(CallVerb, [UInt64])])
  func withTheNextCommand(verb: CallVerb, versions: [UInt64]) {
    var device = Device.attached()
    device.ring(call)
    device.hear(call, 6, candidate(1))
    device.readCompleted()
    device.say(.call(received, verb))
    let acks = versions.map { AckItem(call: received, version: $0) }
    #expect(device.said() == [.ack(acks), .call(received, verb)])
    device.pass(.milliseconds(150))
    #expect(device.take().isEmpty)
  }

  @Test("a call of a former run is acknowledged once this run has said something about it")
  func acknowledgedOnceClaimed() {
    var device = Device.attached()
    let back = Delivery.Event.answered(Answered(by: .me))
    device.hear(call, 5, back)
    device.hear(call, 6, candidate(1))
    device.hear(call, 5, back)
    device.readCompleted()
    device.say(.call(received, .query))
    device.pass(.seconds(2))
    #expect(!device.said().contains { if case .ack = $0 { true } else { false } })
    device.say(.call(received, .connected))
    #expect(device.said() == [.ack(items(5, 6)), .call(received, .connected)])
    device.hear(call, 7, candidate(2))
    #expect(device.acknowledged() == items(7))
  }

  @Test("so is its end, though nobody has said anything") func endOfUnclaimed() {
    var device = Device.attached()
    device.hear(call, 5, .answered(Answered(by: .me)))
    device.hear(call, 6, .stop(Stop(reason: .hungUp, by: .you)))
    #expect(device.acknowledged() == items(5, 6))
  }

  @Test func manyAcknowledgementsDoNotWait() {
    var device = Device.attached()
    for version in 1...32 as ClosedRange<UInt64> { device.hear(call, version, candidate(version)) }
    device.readCompleted()
    #expect(device.take().frames.count == 1)
  }

  /// `after` keeps back what comes behind a lost delivery, so what is not newer was taken or is out of date.
  @Test func whatIsNotNewerIsAcknowledgedAndDropped() {
    var device = Device.attached()
    device.ring(call)
    device.hear(call, 9, candidate(2))
    device.readCompleted()
    _ = device.take()
    device.hear(call, 8, .stop(Stop(reason: .cancelled, by: .you)))
    device.readCompleted()
    #expect(device.take().callEvents.isEmpty)
    #expect(device.acknowledged() == items(5, 9, 8))
  }

  // MARK: What the app is told

  @Test func nothingRingsAfterTheEnd() {
    var device = Device.attached()
    device.hear(call, 6, .stop(Stop(reason: .cancelled, by: .you)))
    device.ring(call)
    device.hear(call, 7, .stop(Stop(reason: .unanswered)))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .cancelled, by: .you))])
  }

  @Test func otherContentUnderTheIDOfACallDoesNotEndIt() {
    var device = Device.attached()
    let first = device.place(placed)
    device.refuse(device.place(placed, description: "other"), .callIDTaken)
    #expect(device.machine.calls[call]?.isEnded == false)
    let state = CallState(call: call, callee: "you", phase: .placed, version: 1)
    device.reply(first, .call(state))
    #expect(device.machine.calls[call]?.phase == .placed)
    device.refuse(device.place(placed, description: "third"), .callIDTaken)
    #expect(device.machine.calls[call]?.phase == .placed)
    // It may have been what would have taken the call up after an attach: that is made good.
    #expect(device.said().contains(.call(placed, .resume)))
  }

  @Test func theNewestDeviceThatRingsIsShown() {
    var device = Device.attached()
    device.place(placed)
    _ = device.take()
    let other = Party(user: "you", device: "y")
    device.hear(call, 5, .ringing(by: .you))
    device.hear(call, 6, .ringing(by: other))
    #expect(device.take().callEvents == [.ringing(by: .you), .ringing(by: other)])
    device.hear(call, 7, .answered(Answered(by: other)))
    device.hear(call, 8, .ringing(by: .you))
    #expect(device.take().callEvents == [.answered(Answered(by: other))])
  }

  @Test func aReplySaysWhyNobodyCouldBeReached() {
    var device = Device.attached()
    let request = device.place(placed)
    _ = device.take()
    var state = CallState(
      call: call, callee: "you", phase: .ended, version: 5, reason: .unreachable)
    state.unreachable = .noDevice
    device.reply(request, .call(state))
    let stop = Stop(reason: .unreachable, unreachable: .noDevice)
    #expect(device.take().callEvents == [.stopped(stop)])
  }

  @Test func aRepeatedInviteBringsTheCandidatesThatWereSentMeanwhile() {
    var device = Device.attached()
    func signals(_ indices: ClosedRange<UInt64>) -> [Signal] {
      indices.map { Signal(index: $0, kind: .candidate, body: "\($0)") }
    }
    var invite = Invite.sample(until: 60_000_000)
    invite.signals = signals(1...2)
    device.hear(call, 5, .invite(invite))
    _ = device.take()
    device.close()
    device.comeBack()
    invite.signals = signals(1...4)
    device.hear(call, 9, .invite(invite))
    #expect(device.take().callEvents == signals(3...4).map(CallEvent.signal))
  }

  @Test func aWinnerIsNotToldThatItLost() {
    var device = Device.attached()
    device.ring(call)
    let request = device.say(.call(received, .answer(description: "")))
    _ = device.take()
    let state = CallState(call: call, callee: "me", phase: .answered, version: 6)
    device.reply(request, .answer(won: true, state))
    device.hear(call, 6, .stop(Stop(reason: .answeredElsewhere, by: .you)))
    device.hear(call, 8, .stop(Stop(reason: .hungUp, by: .you)))
    #expect(device.take().callEvents == [.won(state), .stopped(Stop(reason: .hungUp, by: .you))])
  }

  @Test func aLoserHearsOnceWhoWon() {
    var device = Device.attached()
    device.ring(call)
    let request = device.say(.call(received, .answer(description: "")))
    _ = device.take()
    let winner = Party(user: "me", device: "d2")
    device.hear(call, 7, .stop(Stop(reason: .answeredElsewhere, by: winner)))
    let state = CallState(
      call: call, callee: "me", phase: .ended, version: 7, reason: .answeredElsewhere, by: winner)
    device.reply(request, .answer(won: false, state))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .answeredElsewhere, by: winner))])
  }

  @Test func aCallerThatComesBackResumesItsLiveCalls() {
    var device = Device.attached()
    let ended = CallID(high: 3, low: 4)
    for id in [call, ended] { device.havePlaced(CallAddress(callee: "you", call: id)) }
    device.hear(ended, 2, .stop(Stop(reason: .declined, by: .you)))
    device.close()
    device.comeBack()
    let frames = device.take().frames
    #expect(frames.map(\.command) == [.call(placed, .resume)])
    device.refuse(frames[0].id, .unknownCall)
    #expect(device.take().callEvents == [.stopped(Stop(reason: .failed))])
  }

  // MARK: A call that gave way to a crossing one, of which the stop has only the id

  @Test(arguments: [true, false]) func itAsksForTheOneThatGoesOn(isInvited: Bool) {
    let survivor = CallID(high: 0, low: 1)
    let gaveWay = Delivery.Event.stop(Stop(reason: .glare, survivor: survivor))
    var device = Device.attached()
    func queries(in span: Span) -> Int {
      device.pass(span)
      return device.said().count { $0 == .call(CallAddress(call: survivor), .query) }
    }
    device.havePlaced(placed)
    if isInvited { device.ring(survivor) }
    device.hear(call, 6, callee: "you", gaveWay)
    _ = device.take()
    guard !isInvited else { return #expect(queries(in: .seconds(6)) == 0) }
    #expect(queries(in: .seconds(4)) == 0)
    #expect(device.machine.nextDeadline.map { $0 <= device.now + .seconds(1) } == true)
    #expect(queries(in: .seconds(1)) == 1)
    // The stop may come again: the call is known by now.
    device.hear(call, 7, gaveWay)
    #expect(queries(in: .seconds(6)) == 0)
  }

  @Test(
    "one that stopped ringing here comes back with the device's own call",
    arguments: [EndReason.unanswered, .declined, .busy], [true, false])
  func itComesBack(_ reason: EndReason, isGlareFirst: Bool) {
    let survivor = CallID(high: 0, low: 1)
    var device = Device.attached()
    device.ring(survivor)
    device.hear(survivor, 6, .stop(Stop(reason: reason)))
    device.havePlaced(placed)
    _ = device.take()
    let glare = Stop(reason: .glare, survivor: survivor)
    if isGlareFirst { device.hear(call, 6, callee: "you", .stop(glare)) }
    var invite = Invite.sample()
    invite.merged = call
    let here = Party(user: "me", device: "x")
    device.hear(survivor, 8, .invite(invite))
    device.hear(survivor, 9, .answered(Answered(by: here)))
    if !isGlareFirst { device.hear(call, 6, callee: "you", .stop(glare)) }
    let won = CallState(
      call: survivor, callee: "", phase: .answered, version: 9, by: here)
    let news: [CallEvent] = [.invited(invite), .won(won)]
    #expect(
      device.take().callEvents
        == (isGlareFirst ? [.stopped(glare)] + news : news + [.stopped(glare)]))
    // It comes again with a new session, as long as the device has not said that media flow.
    device.hear(survivor, 12, .invite(invite))
    device.pass(.seconds(6))
    #expect(device.take().callEvents.isEmpty && device.said().isEmpty)
    #expect(device.machine.calls[survivor]?.won == true)
  }

  @Test("one that stopped ringing here may be over: the device asks", arguments: [true, false])
  func itMayBeOver(isCancelled: Bool) {
    let survivor = CallID(high: 0, low: 1)
    var device = Device.attached()
    device.ring(survivor)
    device.hear(survivor, 6, .stop(Stop(reason: isCancelled ? .cancelled : .unanswered)))
    device.havePlaced(placed)
    device.hear(call, 6, callee: "you", .stop(Stop(reason: .glare, survivor: survivor)))
    _ = device.take()
    device.pass(.seconds(6))
    let query = ClientCommand.call(CallAddress(callee: "", call: survivor), .query)
    let request = device.take().frames.first { $0.command == query }?.id
    #expect((request == nil) == isCancelled)
    guard let request else { return }
    let over = CallState(
      call: survivor, callee: "", phase: .ended, version: 6, reason: .unanswered)
    device.reply(request, .call(over))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .unanswered))])
  }

  // MARK: What is forgotten

  @Test func endedCallsAreForgottenInTheEnd() {
    var device = Device.attached()
    for number in 0..<100 as Range<UInt64> {
      let id = CallID(high: 9, low: number)
      device.ring(id)
      device.hear(id, 6, .stop(Stop(reason: .unanswered, missed: true)))
    }
    #expect(device.machine.calls.count == 16)
  }

  /// Many calls ended while each waited for an answer; once they have it, the next end makes room for all.
  @Test func endedCallsThatHadToWaitAreForgottenTogether() {
    var device = Device.attached()
    var requests: [UInt64?] = []
    for number in 0..<40 as Range<UInt64> {
      let id = CallID(high: 9, low: number)
      device.ring(id)
      requests.append(
        device.say(.call(CallAddress(callee: "me", call: id), .answer(description: "a"))))
      device.hear(id, 6, .stop(Stop(reason: .answeredElsewhere)))
    }
    #expect(device.machine.calls.count == 40)
    for request in requests { device.refuse(request, .wrongState) }
    device.ring(call)
    device.hear(call, 6, .stop(Stop(reason: .unanswered, missed: true)))
    #expect(device.machine.calls.count == 16)
  }

  @Test func callKitHearsItsReasons() {
    let expected: [(EndReason, Int)] = [
      (.answeredElsewhere, 4), (.declined, 5), (.cancelled, 2), (.unanswered, 3), (.busy, 3),
      (.unreachable, 1), (.hungUp, 2), (.failed, 1), (.glare, 4),
      (.moved, 4), (.transferred, 2),
    ]
    #expect(expected.count == EndReason.allCases.count)
    for (reason, number) in expected { #expect(Stop(reason: reason).callKitReason() == number) }
    #expect(Stop(reason: .declined).callKitReason(asCaller: true) == 2)
  }
}
