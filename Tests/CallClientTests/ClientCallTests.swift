import CallClient
import CallCore
import CallWire
import Testing

@Suite struct ClientMachineCallTests {
  let call = CallID(high: 1, low: 2)
  let caller = Party(user: "you", device: "x")
  var invite: Delivery.Event {
    .invite(Invite(caller: caller, deadline: Timestamp(microseconds: 31_000_000)))
  }

  @Test func everyDeliveryIsAcknowledgedOnceABurstAndToldOnce() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    device.hear(call, 5, invite)
    device.hear(call, 6, .stop(Stop(reason: .cancelled, by: caller, missed: true)))
    device.readCompleted()
    let actions = device.take()
    #expect(actions.callEvents.count == 2)
    #expect(actions.frames.isEmpty)
    device.pass(.milliseconds(150))
    let items = [5, 5, 6].map { AckItem(call: CallAddress(call: call), version: $0) }
    #expect(device.take().frames == [ClientFrame(id: 0, command: .ack(items))])
    device.readCompleted()
    device.pass(.milliseconds(150))
    #expect(device.take().isEmpty)
  }

  @Test func anAcknowledgementTravelsWithTheNextCommand() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    device.hear(call, 6, .signal(Signal(index: 1, kind: .candidate, body: "")))
    device.readCompleted()
    let address = CallAddress(call: call)
    device.say(.call(address, .connected))
    let items = [5, 6].map { AckItem(call: address, version: $0) }
    #expect(device.take().frames.map(\.command) == [.ack(items), .call(address, .connected)])
    device.pass(.milliseconds(150))
    #expect(device.take().isEmpty)
  }

  @Test func whatADeviceSaysOfAnInviteAcknowledgesIt() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    device.hear(call, 6, .signal(Signal(index: 1, kind: .candidate, body: "")))
    device.readCompleted()
    let address = CallAddress(call: call)
    device.say(.call(address, .alerting))
    let signal = AckItem(call: address, version: 6)
    #expect(device.take().frames.map(\.command) == [.ack([signal]), .call(address, .alerting)])
    device.pass(.milliseconds(150))
    #expect(device.take().isEmpty)
  }

  @Test("a call of a former run is acknowledged once this run has said something about it")
  func acknowledgedOnceClaimed() {
    var device = Device()
    device.attach()
    let address = CallAddress(call: call)
    let back = Delivery.Event.answered(Answered(by: Party(user: "me", device: "d1")))
    device.hear(call, 5, back)
    device.hear(call, 6, .signal(Signal(index: 1, kind: .candidate, body: "")))
    device.hear(call, 5, back)
    device.readCompleted()
    device.say(.call(address, .query))
    device.pass(.seconds(2))
    #expect(device.take().frames.filter(\.isAck).isEmpty)
    device.say(.call(address, .connected))
    let items = [5, 6].map { AckItem(call: address, version: $0) }
    #expect(device.take().frames.map(\.command) == [.ack(items), .call(address, .connected)])
    device.hear(call, 7, .signal(Signal(index: 2, kind: .candidate, body: "")))
    device.readCompleted()
    device.pass(.milliseconds(150))
    #expect(
      device.take().frames.map(\.command) == [.ack([AckItem(call: address, version: 7)])])
  }

  @Test("so is its end, though nobody has said anything") func endOfUnclaimed() {
    var device = Device()
    device.attach()
    device.hear(call, 5, .answered(Answered(by: Party(user: "me", device: "d1"))))
    device.hear(call, 6, .stop(Stop(reason: .hungUp, by: caller)))
    device.readCompleted()
    device.pass(.milliseconds(150))
    let items = [5, 6].map { AckItem(call: CallAddress(call: call), version: $0) }
    #expect(device.take().frames.map(\.command) == [.ack(items)])
  }

  @Test func manyAcknowledgementsDoNotWait() {
    var device = Device()
    device.attach()
    for version in 1...32 as ClosedRange<UInt64> {
      device.hear(call, version, .signal(Signal(index: version, kind: .candidate, body: "")))
    }
    device.readCompleted()
    #expect(device.take().frames.count == 1)
  }

  @Test func nothingRingsAfterTheEnd() {
    var device = Device()
    device.attach()
    device.hear(call, 6, .stop(Stop(reason: .cancelled, by: caller)))
    device.hear(call, 5, invite)
    device.hear(call, 7, .stop(Stop(reason: .unanswered)))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .cancelled, by: caller))])
  }

  @Test func otherContentUnderTheIDOfACallDoesNotEndIt() {
    var device = Device()
    device.attach()
    let call = CallID(high: 7, low: 7)
    let address = CallAddress(callee: "you", call: call)
    let first = device.say(.place(address, PlaceRequest(call: call)))
    let other = device.say(.place(address, PlaceRequest(call: call, description: "other")))
    device.hear(.reply(id: other!, .error(CallError(.callIDTaken))))
    #expect(device.machine.calls[call]?.isEnded == false)
    let state = CallState(call: call, callee: "you", phase: .placed, version: 1)
    device.hear(.reply(id: first!, .call(state)))
    #expect(device.machine.calls[call]?.phase == .placed)
    let third = device.say(.place(address, PlaceRequest(call: call, description: "third")))
    device.hear(.reply(id: third!, .error(CallError(.callIDTaken))))
    #expect(device.machine.calls[call]?.phase == .placed)
    // It may have been what would have taken the call up after an attach: that is made good.
    #expect(device.take().frames.contains { $0.command == .call(address, .resume) })
  }

  /// `after` keeps back what comes behind a lost delivery, so what is not newer was taken or is out of date.
  @Test func whatIsNotNewerIsAcknowledgedAndDropped() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    device.hear(call, 9, .signal(Signal(index: 2, kind: .candidate, body: "2")))
    device.readCompleted()
    _ = device.take()
    device.hear(call, 8, .stop(Stop(reason: .cancelled, by: caller)))
    device.readCompleted()
    #expect(device.take().callEvents.isEmpty)
    device.pass(.milliseconds(150))
    let items = [5, 9, 8].map { AckItem(call: CallAddress(call: call), version: $0) }
    #expect(device.take().frames == [ClientFrame(id: 0, command: .ack(items))])
  }

  @Test func theNewestDeviceThatRingsIsShown() {
    var device = Device()
    device.attach()
    device.say(.place(CallAddress(callee: "you", call: call), PlaceRequest(call: call)))
    _ = device.take()
    let other = Party(user: "you", device: "y")
    device.hear(call, 5, .ringing(by: caller))
    device.hear(call, 6, .ringing(by: other))
    #expect(device.take().callEvents == [.ringing(by: caller), .ringing(by: other)])
    device.hear(call, 7, .answered(Answered(by: other)))
    device.hear(call, 8, .ringing(by: caller))
    #expect(device.take().callEvents == [.answered(Answered(by: other))])
  }

  @Test func aReplySaysWhyNobodyCouldBeReached() {
    var device = Device()
    device.attach()
    let request = device.say(
      .place(CallAddress(callee: "you", call: call), PlaceRequest(call: call)))
    _ = device.take()
    var state = CallState(
      call: call, callee: "you", phase: .ended, version: 5, reason: .unreachable)
    state.unreachable = .noDevice
    device.hear(.reply(id: request!, .call(state)))
    let stop = Stop(reason: .unreachable, unreachable: .noDevice)
    #expect(device.take().callEvents == [.stopped(stop)])
  }

  @Test func aRepeatedInviteBringsTheCandidatesThatWereSentMeanwhile() {
    var device = Device()
    device.attach()
    func invite(_ indices: ClosedRange<UInt64>) -> Delivery.Event {
      .invite(
        Invite(
          caller: caller, deadline: Timestamp(microseconds: 60_000_000),
          signals: indices.map { Signal(index: $0, kind: .candidate, body: "\($0)") }))
    }
    device.hear(call, 5, invite(1...2))
    _ = device.take()
    device.close()
    device.comeBack()
    device.hear(call, 9, invite(1...4))
    #expect(
      device.take().callEvents
        == [3, 4].map { .signal(Signal(index: $0, kind: .candidate, body: "\($0)")) })
  }

  @Test func aWinnerIsNotToldThatItLost() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    let request = device.say(.call(CallAddress(call: call), .answer(description: "")))!
    _ = device.take()
    let state = CallState(call: call, callee: "me", phase: .answered, version: 6)
    device.hear(.reply(id: request, .answer(won: true, state)))
    device.hear(call, 6, .stop(Stop(reason: .answeredElsewhere, by: caller)))
    device.hear(call, 8, .stop(Stop(reason: .hungUp, by: caller)))
    #expect(
      device.take().callEvents == [.won(state), .stopped(Stop(reason: .hungUp, by: caller))])
  }

  @Test func aLoserHearsOnceWhoWon() {
    var device = Device()
    device.attach()
    device.hear(call, 5, invite)
    let request = device.say(.call(CallAddress(call: call), .answer(description: "")))!
    _ = device.take()
    let winner = Party(user: "me", device: "d2")
    device.hear(call, 7, .stop(Stop(reason: .answeredElsewhere, by: winner)))
    device.hear(
      .reply(
        id: request,
        .answer(
          won: false,
          CallState(
            call: call, callee: "me", phase: .ended, version: 7, reason: .answeredElsewhere,
            by: winner))))
    #expect(
      device.take().callEvents == [.stopped(Stop(reason: .answeredElsewhere, by: winner))])
  }

  @Test func aCallerThatComesBackResumesItsLiveCalls() {
    var device = Device()
    device.attach()
    let ended = CallID(high: 3, low: 4)
    for id in [call, ended] {
      let request = device.say(.place(CallAddress(callee: "you", call: id), PlaceRequest(call: id)))
      device.hear(
        .reply(id: request!, .call(CallState(call: id, callee: "you", phase: .placed, version: 1))))
    }
    device.hear(ended, 2, .stop(Stop(reason: .declined, by: caller)))
    device.close()
    device.comeBack()
    let frames = device.take().frames
    #expect(frames.map(\.command) == [.call(CallAddress(callee: "you", call: call), .resume)])
    device.hear(.reply(id: frames[0].id, .error(CallError(.unknownCall))))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .failed))])
  }

  @Test func endedCallsAreForgottenInTheEnd() {
    var device = Device()
    device.attach()
    for number in 0..<100 {
      let id = CallID(high: 9, low: UInt64(number))
      device.hear(id, 5, invite)
      device.hear(id, 6, .stop(Stop(reason: .unanswered, missed: true)))
    }
    #expect(device.machine.calls.count == 16)
  }

  /// Many calls ended while each waited for an answer; once they have it, the next end makes room for all.
  @Test func endedCallsThatHadToWaitAreForgottenTogether() {
    var device = Device()
    device.attach()
    func ring(_ number: Int) -> CallID {
      let id = CallID(high: 9, low: UInt64(number))
      device.hear(id, 5, invite)
      return id
    }
    var requests: [UInt64] = []
    for number in 0..<40 {
      let id = ring(number)
      requests.append(
        device.say(.call(CallAddress(callee: "me", call: id), .answer(description: "a")))!)
      device.hear(id, 6, .stop(Stop(reason: .answeredElsewhere)))
    }
    #expect(device.machine.calls.count == 40)
    for request in requests { device.hear(.reply(id: request, .error(CallError(.wrongState)))) }
    device.hear(ring(40), 6, .stop(Stop(reason: .unanswered, missed: true)))
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

extension ClientFrame {
  fileprivate var isAck: Bool { if case .ack = command { true } else { false } }
}
