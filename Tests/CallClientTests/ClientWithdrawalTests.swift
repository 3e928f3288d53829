import CallClient
import CallCore
import CallWire
import Testing

/// A call that is given up before anybody said whether it was placed is cancelled.
@Suite struct ClientWithdrawalTests {
  private let address = CallAddress(callee: "you", call: CallID(high: 7, low: 7))

  /// A device whose `place` is answered by these errors in turn, until it has no more attempts.
  private func device(answers codes: [CallError.Code]) -> (Device, sent: [ClientCommand]) {
    var device = Device()
    device.attach()
    let request = device.say(.place(address, PlaceRequest(call: address.call)))!
    _ = device.take()
    for code in codes {
      device.machine.noteContact(now: device.now)
      device.hear(.reply(id: request, .error(CallError(code))))
      device.pass(.seconds(6))
    }
    let sent = device.take().frames.map(\.command)
    return (device, sent)
  }

  private func cancels(_ commands: [ClientCommand]) -> Int {
    commands.count { if case .call(address, .cancel) = $0 { true } else { false } }
  }

  @Test func aPlaceThatMayHaveBeenCarriedOutIsCancelledWhenItIsGivenUp() {
    let (device, sent) = device(answers: [.tryAgain, .overloaded, .overloaded, .overloaded])
    #expect(cancels(sent) == 1)
    #expect(device.machine.calls[address.call]?.isEnded == true)
  }

  /// No user expects that a device rings a minute late.
  @Test func aPlaceWithoutAReplyIsCancelledWhenTheDeviceWasAwayForLong() {
    var device = Device()
    device.attach()
    let place = ClientCommand.place(address, PlaceRequest(call: address.call))
    let request = device.say(place)!
    device.close()
    device.pass(.seconds(29))
    #expect(!device.take().events.contains(.gaveUp(request: request, place)))
    #expect(device.machine.nextDeadline.map { $0 <= device.now + .seconds(1) } == true)
    device.pass(.seconds(1))
    #expect(device.take().events.contains(.gaveUp(request: request, place)))
    #expect(device.machine.calls[address.call]?.isEnded == true)
    device.comeBack()
    let sent = device.take().frames.map(\.command)
    #expect(cancels(sent) == 1)
    #expect(!sent.contains(place))
  }

  /// The app repeats the `place` of a call that was placed, and its device is away for longer than anybody expects a
  /// call to begin: the cluster has the call.
  @Test func aRepetitionThatIsGivenUpDoesNotEndAPlacedCall() {
    var device = Device()
    device.attach()
    let place = ClientCommand.place(address, PlaceRequest(call: address.call))
    let state = CallState(call: address.call, callee: address.callee, phase: .placed, version: 1)
    device.hear(.reply(id: device.say(place)!, .call(state)))
    let sent = device.say(place)!
    device.close()
    let unsent = device.say(place)!
    _ = device.take()
    device.pass(.seconds(30))
    let events = device.take().events
    #expect(events.contains(.gaveUp(request: sent, place)))
    #expect(events.contains(.gaveUp(request: unsent, place)))
    #expect(device.machine.calls[address.call]?.phase == .placed)
    device.comeBack()
    #expect(device.take().frames.map(\.command) == [.call(address, .resume)])
  }

  /// The repetition itself was never sent, but what it repeats may have taken effect.
  @Test func aRepetitionInheritsTheDoubt() {
    var device = Device()
    device.attach()
    let place = ClientCommand.place(address, PlaceRequest(call: address.call))
    device.say(place)
    device.close()
    device.say(place)
    device.pass(.seconds(30))
    #expect(device.machine.calls[address.call]?.isEnded == true)
    _ = device.take()
    device.comeBack()
    #expect(cancels(device.take().frames.map(\.command)) == 1)
  }

  @Test func aTransferWithoutAReplyIsNotAskedForOnceMore() {
    var device = Device()
    device.attach()
    let transfer = ClientCommand.call(address, .transfer(TransferRequest(to: "carl")))
    let request = device.say(transfer)!
    device.close()
    device.pass(.seconds(30))
    #expect(device.take().events.contains(.gaveUp(request: request, transfer)))
    device.comeBack()
    #expect(device.take().frames.isEmpty, "after the attach")
  }

  /// Attempts that were lost with connections do not count, but time passes.
  @Test func aPlaceIsNotRetransmittedAfterThatEither() {
    var device = Device()
    device.attach()
    let place = ClientCommand.place(address, PlaceRequest(call: address.call))
    let request = device.say(place)!
    for _ in 0..<4 {
      device.pass(.seconds(6))
      device.close()
      _ = device.take()
      device.comeBack()
    }
    #expect(device.take().frames.map(\.command) == [place])
    device.pass(.seconds(7))
    #expect(device.take().events.contains(.gaveUp(request: request, place)))
  }

  @Test func aPlaceThatWasRefusedEachTimeIsNot() {
    let (device, sent) = device(answers: [.overloaded, .overloaded, .overloaded, .overloaded])
    #expect(cancels(sent) == 0)
    #expect(device.machine.pendingCount == 0)
  }

  @Test func aPlaceWithoutAnyAnswerIsCancelled() {
    var device = Device()
    device.attach()
    device.say(.place(address, PlaceRequest(call: address.call)))
    var gaveUp = false
    for _ in 0..<4 {
      device.machine.noteContact(now: device.now)
      device.pass(.seconds(7))
      let actions = device.take()
      if actions.events.contains(where: { if case .gaveUp = $0 { true } else { false } }) {
        gaveUp = true
        #expect(cancels(actions.frames.map(\.command)) == 1)
      }
    }
    #expect(gaveUp)
  }

  @Test func aPlaceThatWasUnderWayWhenTheConnectionBrokeIsDoubtful() {
    var device = Device()
    device.attach()
    let request = device.say(.place(address, PlaceRequest(call: address.call)))!
    _ = device.take()
    device.close()
    device.comeBack()
    _ = device.take()
    for _ in 0..<4 {
      device.machine.noteContact(now: device.now)
      device.hear(.reply(id: request, .error(CallError(.overloaded))))
      device.pass(.seconds(6))
    }
    #expect(cancels(device.take().frames.map(\.command)) == 1)
  }

  @Test func theCancelIsRetransmittedUntilItIsAnswered() {
    var (device, _) = device(answers: [.tryAgain, .tryAgain, .tryAgain, .tryAgain])
    for _ in 0..<10 {
      device.machine.noteContact(now: device.now)
      device.pass(.seconds(7))
      #expect(cancels(device.take().frames.map(\.command)) == 1)
    }
    device.close()
    device.comeBack()
    let frame = device.take().frames.first {
      if case .call(_, .cancel) = $0.command { true } else { false }
    }
    device.hear(.reply(id: frame!.id, .error(CallError(.unknownCall))))
    #expect(device.machine.pendingCount == 0)
  }

  /// Somebody answered between the last attempt and the cancel.
  @Test func aCallThatWasAnsweredMeanwhileIsHungUp() {
    var (device, sent) = device(answers: [.tryAgain, .tryAgain, .tryAgain, .tryAgain])
    #expect(cancels(sent) == 1)
    device.pass(.seconds(7))
    let cancel = device.take().frames.first {
      if case .call(_, .cancel) = $0.command { true } else { false }
    }
    let state = CallState(call: address.call, callee: address.callee, phase: .answered)
    device.hear(.reply(id: cancel!.id, .call(state)))
    let hangUps = device.take().frames.filter { $0.command == .call(address, .hangUp) }
    #expect(hangUps.count == 1)
    device.hear(.reply(id: hangUps[0].id, .done))
    #expect(device.machine.pendingCount == 0)
  }

  /// However many calls end: of one with a command that has no answer the callee's name is still known.
  @Test func aCallWithoutAnAnswerIsNotForgotten() {
    var (device, _) = device(answers: [.tryAgain, .tryAgain, .tryAgain, .tryAgain])
    for number in 100..<200 {
      let call = CallID(high: 1, low: UInt64(number))
      device.hear(call, 5, .stop(Stop(reason: .cancelled)))
    }
    #expect(device.machine.address(address.call) == address)
    device.pass(.seconds(7))
    let cancel = device.take().frames.first {
      if case .call(_, .cancel) = $0.command { true } else { false }
    }
    device.hear(.reply(id: cancel!.id, .error(CallError(.unknownCall))))
    for number in 200..<300 {
      let call = CallID(high: 1, low: UInt64(number))
      device.hear(call, 5, .stop(Stop(reason: .cancelled)))
    }
    #expect(device.machine.calls[address.call] == nil)
    #expect(device.machine.calls.count <= 17)
  }

  @Test func theCancelEndsWhenNoCallCanRingAnyMore() {
    var (device, _) = device(answers: [.tryAgain, .tryAgain, .tryAgain, .tryAgain])
    for _ in 0..<40 {
      device.machine.noteContact(now: device.now)
      device.pass(.seconds(7))
    }
    #expect(device.machine.pendingCount == 0)
  }

  @Test func aCallThatIsKnownToBePlacedIsTheAppsToEnd() {
    var device = Device()
    device.attach()
    let request = device.say(.place(address, PlaceRequest(call: address.call)))!
    device.hear(address.call, 5, .ringing(by: Party(user: "you", device: "d9")))
    for code in [CallError.Code.tryAgain, .tryAgain, .tryAgain, .tryAgain] {
      device.machine.noteContact(now: device.now)
      device.hear(.reply(id: request, .error(CallError(code))))
      device.pass(.seconds(6))
    }
    #expect(cancels(device.take().frames.map(\.command)) == 0)
    #expect(device.machine.calls[address.call]?.phase == .ringing)
  }
}
