import CallClient
import CallCore
import CallWire
import Testing

/// A call that is given up before anybody said whether it was placed is cancelled.
@Suite struct ClientWithdrawalTests {
  private let address = CallAddress(callee: "you", call: CallID(high: 7, low: 7))
  private var place: ClientCommand { .place(address, PlaceRequest(call: address.call)) }
  private var cancel: ClientCommand { .call(address, .cancel) }

  /// Answers a command by these errors in turn, at a live connection.
  private func refuse(_ request: UInt64?, _ codes: [CallError.Code], _ device: inout Device) {
    for code in codes {
      device.machine.noteContact(now: device.now)
      device.refuse(request, code)
      device.pass(.seconds(6))
    }
  }

  private func cancels(_ device: inout Device) -> Int { device.said().count { $0 == cancel } }

  /// A device whose `place` may have been carried out and has no more attempts: it cancels it.
  private func cancelling() -> Device {
    var device = Device.attached()
    let request = device.say(place)
    _ = device.take()
    refuse(request, [.tryAgain, .tryAgain, .tryAgain, .tryAgain], &device)
    #expect(cancels(&device) == 1)
    return device
  }

  @Test(
    "a place that may have been carried out is cancelled when it is given up, any other is not",
    arguments: [
      ([.tryAgain, .overloaded, .overloaded, .overloaded], 1),
      ([.overloaded, .overloaded, .overloaded, .overloaded], 0),
    ] as [([CallError.Code], Int)])
  func mayHaveBeenCarriedOut(codes: [CallError.Code], cancels count: Int) {
    var device = Device.attached()
    let request = device.say(place)
    _ = device.take()
    refuse(request, codes, &device)
    #expect(cancels(&device) == count)
    if count == 0 {
      #expect(device.machine.pendingCount == 0)
    } else {
      #expect(device.machine.calls[address.call]?.isEnded == true)
    }
  }

  /// No user expects that a device rings a minute late.
  @Test func aPlaceWithoutAReplyIsCancelledWhenTheDeviceWasAwayForLong() {
    var device = Device.attached()
    let request = device.say(place)!
    device.close()
    device.pass(.seconds(29))
    #expect(!device.take().events.contains(.gaveUp(request: request, place)))
    #expect(device.machine.nextDeadline.map { $0 <= device.now + .seconds(1) } == true)
    device.pass(.seconds(1))
    #expect(device.take().events.contains(.gaveUp(request: request, place)))
    #expect(device.machine.calls[address.call]?.isEnded == true)
    device.comeBack()
    let sent = device.said()
    #expect(sent.count { $0 == cancel } == 1)
    #expect(!sent.contains(place))
  }

  /// The app repeats the `place` of a call that was placed, and its device is away for longer than anybody expects a
  /// call to begin: the cluster has the call.
  @Test func aRepetitionThatIsGivenUpDoesNotEndAPlacedCall() {
    var device = Device.attached()
    device.havePlaced(address)
    let sent = device.say(place)!
    device.close()
    let unsent = device.say(place)!
    _ = device.take()
    device.pass(.seconds(30))
    let events = device.take().events
    for request in [sent, unsent] { #expect(events.contains(.gaveUp(request: request, place))) }
    #expect(device.machine.calls[address.call]?.phase == .placed)
    device.comeBack()
    #expect(device.said() == [.call(address, .resume)])
  }

  /// The repetition itself was never sent, but what it repeats may have taken effect.
  @Test func aRepetitionInheritsTheDoubt() {
    var device = Device.attached()
    device.say(place)
    device.close()
    device.say(place)
    device.pass(.seconds(30))
    #expect(device.machine.calls[address.call]?.isEnded == true)
    _ = device.take()
    device.comeBack()
    #expect(cancels(&device) == 1)
  }

  @Test func aTransferWithoutAReplyIsNotAskedForOnceMore() {
    var device = Device.attached()
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
    var device = Device.attached()
    let request = device.say(place)!
    for _ in 0..<4 {
      device.pass(.seconds(6))
      device.close()
      _ = device.take()
      device.comeBack()
    }
    #expect(device.said() == [place])
    device.pass(.seconds(7))
    #expect(device.take().events.contains(.gaveUp(request: request, place)))
  }

  @Test func aPlaceWithoutAnyAnswerIsCancelled() {
    var device = Device.attached()
    let request = device.say(place)!
    for _ in 0..<3 {
      device.passAlive(.seconds(7))
      #expect(device.take().events.isEmpty)
    }
    device.passAlive(.seconds(7))
    let actions = device.take()
    #expect(actions.events.contains(.gaveUp(request: request, place)))
    #expect(actions.frames.count { $0.command == cancel } == 1)
  }

  @Test func aPlaceThatWasUnderWayWhenTheConnectionBrokeIsDoubtful() {
    var device = Device.attached()
    let request = device.say(place)
    _ = device.take()
    device.close()
    device.comeBack()
    _ = device.take()
    refuse(request, [.overloaded, .overloaded, .overloaded, .overloaded], &device)
    #expect(cancels(&device) == 1)
  }

  @Test func aCallThatIsKnownToBePlacedIsTheAppsToEnd() {
    var device = Device.attached()
    let request = device.say(place)
    device.hear(address.call, 5, .ringing(by: Party(user: "you", device: "d9")))
    refuse(request, [.tryAgain, .tryAgain, .tryAgain, .tryAgain], &device)
    #expect(cancels(&device) == 0)
    #expect(device.machine.calls[address.call]?.phase == .ringing)
  }

  // MARK: The cancel

  @Test func theCancelIsRetransmittedUntilItIsAnswered() {
    var device = cancelling()
    for _ in 0..<10 {
      device.passAlive(.seconds(7))
      #expect(cancels(&device) == 1)
    }
    device.close()
    device.comeBack()
    device.refuse(sentCancel(&device), .unknownCall)
    #expect(device.machine.pendingCount == 0)
  }

  private func sentCancel(_ device: inout Device) -> UInt64? {
    device.take().frames.first { $0.command == cancel }?.id
  }

  /// Somebody answered between the last attempt and the cancel.
  @Test func aCallThatWasAnsweredMeanwhileIsHungUp() {
    var device = cancelling()
    device.pass(.seconds(7))
    let state = CallState(call: address.call, callee: address.callee, phase: .answered)
    device.reply(sentCancel(&device), .call(state))
    let hangUps = device.take().frames.filter { $0.command == .call(address, .hangUp) }
    #expect(hangUps.count == 1)
    device.reply(hangUps.first?.id, .done)
    #expect(device.machine.pendingCount == 0)
  }

  /// However many calls end: of one with a command that has no answer the callee's name is still known.
  @Test func aCallWithoutAnAnswerIsNotForgotten() {
    var device = cancelling()
    func endOthers(_ numbers: Range<UInt64>) {
      for number in numbers {
        device.hear(CallID(high: 1, low: number), 5, .stop(Stop(reason: .cancelled)))
      }
    }
    endOthers(100..<200)
    #expect(device.machine.address(address.call) == address)
    device.pass(.seconds(7))
    device.refuse(sentCancel(&device), .unknownCall)
    endOthers(200..<300)
    #expect(device.machine.calls[address.call] == nil)
    #expect(device.machine.calls.count <= 17)
  }

  @Test func theCancelEndsWhenNoCallCanRingAnyMore() {
    var device = cancelling()
    for _ in 0..<40 { device.passAlive(.seconds(7)) }
    #expect(device.machine.pendingCount == 0)
  }
}
