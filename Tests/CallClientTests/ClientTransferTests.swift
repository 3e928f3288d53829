import CallClient
import CallCore
import CallWire
import Testing

/// R26: a device hands its side of a call over, takes one, or rings once more in a call that was over for it.
@Suite struct ClientTransferTests {
  private let call = CallID(high: 1, low: 2)
  private let consulted = CallID(high: 3, low: 4)
  private let dave = Party(user: "dave", device: "y")

  private var address: CallAddress { CallAddress(callee: "", call: call) }
  private var handedOver: Stop { Stop(reason: .transferred, by: dave) }

  /// To take a side.
  private func invite(consulted: CallID? = nil) -> Invite {
    var invite = Invite.sample()
    invite.transferredBy = dave
    invite.consulted = consulted.map { ConsultedCall(call: $0, callee: "me") }
    return invite
  }

  private func state(by party: Party, version: UInt64 = 9) -> CallState {
    CallState(call: call, callee: "", phase: .answered, version: version, by: party)
  }

  private func answer(_ device: inout Device, _ address: CallAddress, _ state: CallState) {
    let request = device.say(.call(address, .answer(description: "offer")))
    device.reply(request, .answer(won: true, state))
  }

  /// The device has answered a call to its user.
  private func talking() -> Device {
    var device = Device.attached()
    device.ring(call)
    answer(&device, address, state(by: .me))
    _ = device.take()
    return device
  }

  @Test("who hands the call over is told what becomes of it, and then that it is over")
  func handsOver() {
    var device = talking()
    let transfer = ClientCommand.call(address, .transfer(TransferRequest(to: "dave")))
    let request = device.say(transfer)
    #expect(device.said().contains(transfer))
    device.reply(request, .call(state(by: .me)))
    #expect(device.take().callEvents.isEmpty)
    let news = TransferNews(to: "dave", number: 1, by: dave)
    device.hear(call, 10, .transfer(news))
    device.hear(call, 10, .transfer(news))
    #expect(device.take().callEvents == [.transfer(news)])
    #expect(device.machine.calls[call]?.won == true, "it talks on")
    device.hear(call, 11, .stop(handedOver))
    #expect(device.take().callEvents == [.stopped(handedOver)])
  }

  @Test("the end of a transfer is told once, also if a new owner repeats it") func told() {
    var device = talking()
    let first = TransferNews(to: "dave", number: 1, reason: .busy, by: dave)
    device.hear(call, 10, .transfer(first))
    device.hear(call, 1 << 20, .transfer(first))
    #expect(device.take().callEvents == [.transfer(first)])
    #expect(device.machine.calls[call]?.won == true, "it has the call as before")
    // Late news of the first transfer is no news of the second one.
    let second = TransferNews(to: "erin", number: 2, reason: .unanswered)
    device.hear(call, 1 << 20 | 1, .transfer(TransferNews(to: "dave", number: 1, by: dave)))
    device.hear(call, 1 << 20 | 2, .transfer(TransferNews(to: "erin", number: 2, by: nil)))
    device.hear(call, 1 << 20 | 3, .transfer(second))
    #expect(
      device.take().callEvents
        == [.transfer(TransferNews(to: "erin", number: 2, by: nil)), .transfer(second)])
  }

  @Test("the callee's side: the call is addressed by the user who was called") func calleesSide() {
    var device = Device.attached()
    device.hear(call, 5, callee: "bob", .invite(invite()))
    #expect(device.take().callEvents == [.invited(invite())])
    let address = CallAddress(callee: "bob", call: call)
    #expect(device.machine.calls[call]?.callee == "bob")
    answer(&device, address, state(by: .me))
    #expect(device.take().callEvents == [.won(state(by: .me))])
    #expect(device.machine.calls[call]?.role == .callee)
    device.close()
    device.comeBack()
    #expect(!device.said().contains(.call(address, .resume)))
  }

  @Test("the caller's side: the device has placed the call from then on, and resumes it")
  func callersSide() {
    var device = Device.attached()
    device.hear(call, 5, callee: "you", .invite(invite()))
    let address = CallAddress(callee: "you", call: call)
    answer(&device, address, state(by: .you))
    #expect(device.machine.calls[call]?.role == .caller)
    #expect(device.take().callEvents == [.invited(invite()), .won(state(by: .you))])
    device.close()
    device.comeBack()
    let resume = device.take().frames.first { $0.command == .call(address, .resume) }
    #expect(resume != nil)
    device.reply(resume?.id, .call(state(by: .you)))
    // It may hand that side over in its turn.
    device.hear(call, 12, callee: "you", .stop(handedOver))
    #expect(device.take().callEvents == [.stopped(handedOver)])
    device.close()
    device.comeBack()
    #expect(!device.said().contains(.call(address, .resume)))
  }

  @Test("a device of the same name of another user is the other side") func sameName() {
    var device = Device.attached()
    device.hear(call, 5, callee: "you", .invite(invite()))
    let address = CallAddress(callee: "you", call: call)
    answer(&device, address, state(by: Party(user: "you", device: "d1")))
    #expect(device.machine.calls[call]?.role == .caller)
  }

  @Test("a device that was stopped rings once more, by a later invite only") func ringsOnceMore() {
    var device = talking()
    device.hear(call, 10, .stop(handedOver))
    #expect(device.take().callEvents.count == 1)
    device.hear(call, 8, .invite(invite()))
    device.hear(call, 11, .invite(.sample()))
    #expect(device.take().callEvents.isEmpty, "late, or of no transfer")
    #expect(device.machine.calls[call]?.isEnded == true)
    device.hear(call, 12, .invite(invite()))
    device.hear(call, 12, .invite(invite()))
    #expect(device.take().callEvents == [.invited(invite())])
    #expect(device.machine.calls[call]?.phase == .ringing)
    device.hear(call, 10, .stop(handedOver))
    #expect(device.take().callEvents.isEmpty, "that stop was known")
    answer(&device, address, state(by: .me, version: 13))
    #expect(device.take().callEvents == [.won(state(by: .me, version: 13))])
    device.hear(call, 14, .stop(Stop(reason: .hungUp, by: .you)))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .hungUp, by: .you))])
  }

  @Test("a device that rang for a side of a call of the app's server rings for the other one")
  func ringsForTheOtherSide() {
    var device = Device.attached()
    var invite = Invite.sample()
    device.hear(call, 5, .invite(invite))
    device.hear(call, 6, .stop(Stop(reason: .answeredElsewhere, by: dave)))
    _ = device.take()
    (invite.caller, invite.isSecondSide) = (dave, true)
    device.hear(call, 7, .invite(invite))
    #expect(device.take().callEvents == [.invited(invite)])
  }

  /// As it was away when the ringing ended. The same invite may come again, for the same ringing.
  @Test(
    "one that lacks the stop of an earlier ringing is stopped by the invite",
    arguments: [true, false])
  func lostStopOfARinging(isSecondSide: Bool) {
    var device = Device.attached()
    device.hear(call, 5, .invite(.sample()))
    #expect(device.take().callEvents == [.invited(.sample())])
    var second = Invite.sample()
    second.caller = dave
    second.isSecondSide = isSecondSide
    second.transferredBy = isSecondSide ? nil : Party(user: "carl", device: "x")
    device.hear(call, 7, .invite(second))
    device.hear(call, 7, .invite(second))
    device.hear(call, 8, .invite(second))
    let anew = [CallEvent.stopped(Stop(reason: .answeredElsewhere)), .invited(second)]
    #expect(device.take().callEvents == anew)
    #expect(device.machine.calls[call]?.phase == .ringing)
    device.hear(call, 6, .stop(Stop(reason: .answeredElsewhere, by: dave)))
    #expect(device.take().callEvents.isEmpty, "older than the invite")
  }

  @Test("a late reply about an earlier ringing does not end the present one")
  func lateReply() {
    var device = Device.attached()
    device.hear(call, 5, .invite(.sample()))
    let answer = device.say(.call(address, .answer(description: "")))
    device.hear(call, 6, .stop(Stop(reason: .answeredElsewhere, by: dave)))
    device.hear(call, 8, .invite(invite()))
    _ = device.take()
    let state = CallState(
      call: call, callee: "", phase: .ended, version: 6, reason: .answeredElsewhere, by: dave)
    device.reply(answer, .answer(won: false, state))
    #expect(device.take().callEvents.isEmpty)
    #expect(device.machine.calls[call]?.phase == .ringing)
  }

  @Test("one that lacks the stop of the side that it handed over is stopped by the invite")
  func lostStop() {
    var device = talking()
    device.hear(call, 8, .invite(invite()))
    #expect(device.take().callEvents.isEmpty, "older than its answer")
    device.hear(call, 12, .invite(invite()))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .transferred)), .invited(invite())])
    #expect(device.machine.calls[call]?.phase == .ringing)
    device.hear(call, 10, .stop(handedOver))
    #expect(device.take().callEvents.isEmpty, "older than the invite")
    #expect(device.machine.calls[call]?.phase == .ringing)
  }

  @Test("one that lacks that stop and the invite as well is stopped by the end of the ringing")
  func lostStopAndInvite() {
    let gone = [CallEvent.stopped(Stop(reason: .transferred))]
    let losses = [EndReason.cancelled, .unanswered, .declined, .busy, .answeredElsewhere]
    for reason in losses {
      var device = talking()
      device.hear(call, 9, .stop(Stop(reason: reason, by: .you)))
      #expect(device.take().callEvents.isEmpty, "not newer than its answer")
      #expect(device.machine.calls[call]?.won == true)
      device.hear(call, 20, .stop(Stop(reason: reason, by: .you)))
      device.hear(call, 20, .stop(Stop(reason: reason, by: .you)))
      #expect(device.take().callEvents == gone)
      #expect(device.machine.calls[call]?.isEnded == true)
      device.hear(call, 17, .invite(invite()))
      #expect(device.take().callEvents.isEmpty, "that ringing is over")
    }
  }

  @Test("so does a reply, and an answer that a new owner repeats is no later one")
  func lostStopAndInviteByReply() {
    var device = talking()
    func hangsUp(_ version: UInt64) {
      let request = device.say(.call(address, .hangUp))
      let state = CallState(
        call: call, callee: "", phase: .ended, version: version, reason: .cancelled, by: .you)
      device.reply(request, .call(state))
    }
    device.hear(call, 11, .answered(Answered(by: .me)))
    hangsUp(9)
    #expect(device.take().callEvents.isEmpty, "not newer than its answer")
    hangsUp(20)
    #expect(device.take().callEvents == [.stopped(Stop(reason: .transferred))])
    device.hear(call, 19, .stop(Stop(reason: .cancelled, by: .you)))
    #expect(device.take().callEvents.isEmpty)
    device.hear(call, 25, .invite(invite()))
    #expect(device.take().callEvents == [.invited(invite())], "it rings once more")
  }

  @Test("a second call under the id of a live one changes nothing of that")
  func anotherCallee() {
    var device = talking()
    device.hear(call, 20, callee: "carl", .invite(.sample()))
    device.hear(call, 21, callee: "carl", .stop(Stop(reason: .hungUp, by: .you)))
    #expect(device.take().callEvents.isEmpty)
    #expect(device.machine.address(call) == address)
    #expect(device.machine.calls[call]?.won == true)
    let carls = CallAddress(callee: "carl", call: call)
    #expect(device.acknowledged() == [20, 21].map { AckItem(call: carls, version: $0) })
  }

  @Test("so does one that had placed the call, and it is no caller before it answers")
  func callerRingsOnceMore() {
    var device = Device.attached()
    let address = CallAddress(callee: "you", call: call)
    device.place(address)
    device.hear(call, 5, callee: "you", .answered(Answered(by: .you)))
    device.hear(call, 6, callee: "you", .stop(handedOver))
    _ = device.take()
    device.hear(call, 9, callee: "you", .invite(invite()))
    #expect(device.take().callEvents == [.invited(invite())])
    #expect(device.machine.calls[call]?.role == .callee)
    answer(&device, address, state(by: .you))
    #expect(device.machine.calls[call]?.role == .caller)
  }

  // MARK: After consultation

  /// - Parameter isAnswered: whether this device has the call in which it is said to have been asked.
  private func asked(isAnswered: Bool?) -> [CallEvent] {
    var device = Device.attached()
    if let isAnswered {
      var invite = Invite.sample()
      invite.caller = dave
      device.hear(consulted, 5, .invite(invite))
      if isAnswered {
        let state = CallState(call: consulted, callee: "", phase: .answered, version: 6, by: .me)
        answer(&device, CallAddress(callee: "", call: consulted), state)
      }
    }
    _ = device.take()
    device.hear(call, 7, callee: "bob", .invite(invite(consulted: consulted)))
    return device.take().callEvents
  }

  @Test("only a device that is in the call in which it was asked sees that it answers at once")
  func isAsked() {
    #expect(asked(isAnswered: true) == [.invited(invite(consulted: consulted))])
    #expect(asked(isAnswered: false) == [.invited(invite())], "it rings there")
    #expect(asked(isAnswered: nil) == [.invited(invite())], "it knows no such call")
  }

  @Test("it may have placed the call in which it was asked, and has it no more once that is over")
  func asksBack() {
    var device = Device.attached()
    let address = CallAddress(callee: "dave", call: consulted)
    device.place(address)
    device.hear(call, 6, callee: "bob", .invite(invite(consulted: consulted)))
    #expect(device.take().callEvents == [.invited(invite())], "nobody has answered")

    device = Device.attached()
    device.place(address)
    device.hear(consulted, 5, .answered(Answered(by: dave)))
    _ = device.take()
    device.hear(call, 6, callee: "bob", .invite(invite(consulted: consulted)))
    #expect(device.take().callEvents == [.invited(invite(consulted: consulted))])

    let stop = Stop(reason: .transferred, by: dave, survivor: call)
    device.hear(consulted, 7, .stop(stop))
    #expect(device.take().callEvents == [.stopped(stop)])
  }
}
