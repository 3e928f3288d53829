import CallClient
import CallCore
import CallWire
import Testing

/// R26: a device hands its side of a call over, takes one, or rings once more in a call that was over for it.
@Suite struct ClientTransferTests {
  private let call = CallID(high: 1, low: 2)
  private let consulted = CallID(high: 3, low: 4)
  private let me = Party(user: "me", device: "d1")
  private let other = Party(user: "you", device: "x")
  private let dave = Party(user: "dave", device: "y")
  private let deadline = Timestamp(microseconds: 31_000_000)

  private var address: CallAddress { CallAddress(callee: "", call: call) }

  private func invite(consulted: CallID? = nil) -> Invite {
    var invite = Invite(caller: other, deadline: deadline)
    invite.transferredBy = dave
    invite.consulted = consulted.map { ConsultedCall(call: $0, callee: "me") }
    return invite
  }

  private func state(by party: Party, version: UInt64 = 9) -> CallState {
    CallState(call: call, callee: "", phase: .answered, version: version, by: party)
  }

  /// - Parameter callee: the user who was called, if not this device's own.
  private func hear(
    _ device: inout Device, _ version: UInt64, _ event: Delivery.Event, callee: String = "me"
  ) {
    device.hear(
      .delivery(
        Delivery(call: call, callee: callee, version: version, at: device.now, event: event)))
  }

  private func answer(_ device: inout Device, _ address: CallAddress, _ state: CallState) {
    let request = device.say(.call(address, .answer(description: "offer")))
    device.hear(.reply(id: request ?? 0, .answer(won: true, state)))
  }

  /// The device has answered a call to its user.
  private func talking() -> Device {
    var device = Device()
    device.attach()
    hear(&device, 5, .invite(Invite(caller: other, deadline: deadline)))
    answer(&device, address, state(by: me))
    _ = device.take()
    return device
  }

  @Test("who hands the call over is told what becomes of it, and then that it is over")
  func handsOver() {
    var device = talking()
    let request = device.say(.call(address, .transfer(TransferRequest(to: "dave"))))
    #expect(
      device.take().frames.map(\.command).contains(
        .call(address, .transfer(TransferRequest(to: "dave")))))
    device.hear(.reply(id: request ?? 0, .call(state(by: me))))
    #expect(device.take().callEvents.isEmpty)
    let news = TransferNews(to: "dave", number: 1, by: dave)
    hear(&device, 10, .transfer(news))
    hear(&device, 10, .transfer(news))
    #expect(device.take().callEvents == [.transfer(news)])
    #expect(device.machine.calls[call]?.won == true, "it talks on")
    let stop = Stop(reason: .transferred, by: dave)
    hear(&device, 11, .stop(stop))
    #expect(device.take().callEvents == [.stopped(stop)])
    #expect(stop.callKitReason() == 2)
  }

  @Test("the end of a transfer is told once, also if a new owner repeats it") func told() {
    var device = talking()
    let first = TransferNews(to: "dave", number: 1, reason: .busy, by: dave)
    hear(&device, 10, .transfer(first))
    hear(&device, 1 << 20, .transfer(first))
    #expect(device.take().callEvents == [.transfer(first)])
    #expect(device.machine.calls[call]?.won == true, "it has the call as before")
    // Late news of the first transfer is no news of the second one.
    let second = TransferNews(to: "erin", number: 2, reason: .unanswered)
    hear(&device, 1 << 20 | 1, .transfer(TransferNews(to: "dave", number: 1, by: dave)))
    hear(&device, 1 << 20 | 2, .transfer(TransferNews(to: "erin", number: 2, by: nil)))
    hear(&device, 1 << 20 | 3, .transfer(second))
    #expect(
      device.take().callEvents
        == [.transfer(TransferNews(to: "erin", number: 2, by: nil)), .transfer(second)])
  }

  @Test("the callee's side: the call is addressed by the user who was called") func calleesSide() {
    var device = Device()
    device.attach()
    hear(&device, 5, .invite(invite()), callee: "bob")
    #expect(device.take().callEvents == [.invited(invite())])
    let address = CallAddress(callee: "bob", call: call)
    #expect(device.machine.calls[call]?.callee == "bob")
    answer(&device, address, state(by: me))
    #expect(device.take().callEvents == [.won(state(by: me))])
    #expect(device.machine.calls[call]?.role == .callee)
    device.close()
    device.comeBack()
    #expect(!device.take().frames.map(\.command).contains(.call(address, .resume)))
  }

  @Test("the caller's side: the device has placed the call from then on, and resumes it")
  func callersSide() {
    var device = Device()
    device.attach()
    hear(&device, 5, .invite(invite()), callee: "you")
    let address = CallAddress(callee: "you", call: call)
    answer(&device, address, state(by: other))
    #expect(device.machine.calls[call]?.role == .caller)
    #expect(device.take().callEvents == [.invited(invite()), .won(state(by: other))])
    device.close()
    device.comeBack()
    let resume = device.take().frames.first { $0.command == .call(address, .resume) }
    #expect(resume != nil)
    device.hear(.reply(id: resume?.id ?? 0, .call(state(by: other))))
    // It may hand that side over in its turn.
    let stop = Stop(reason: .transferred, by: dave)
    hear(&device, 12, .stop(stop), callee: "you")
    #expect(device.take().callEvents == [.stopped(stop)])
    device.close()
    device.comeBack()
    #expect(!device.take().frames.map(\.command).contains(.call(address, .resume)))
  }

  @Test("a device of the same name of another user is the other side") func sameName() {
    var device = Device()
    device.attach()
    hear(&device, 5, .invite(invite()), callee: "you")
    answer(
      &device, CallAddress(callee: "you", call: call),
      state(by: Party(user: "you", device: "d1")))
    #expect(device.machine.calls[call]?.role == .caller)
  }

  @Test("a device that was stopped rings once more, by a later invite only") func ringsOnceMore() {
    var device = talking()
    hear(&device, 10, .stop(Stop(reason: .transferred, by: dave)))
    #expect(device.take().callEvents.count == 1)
    hear(&device, 8, .invite(invite()))
    hear(&device, 11, .invite(Invite(caller: other, deadline: deadline)))
    #expect(device.take().callEvents.isEmpty, "late, or of no transfer")
    #expect(device.machine.calls[call]?.isEnded == true)
    hear(&device, 12, .invite(invite()))
    hear(&device, 12, .invite(invite()))
    #expect(device.take().callEvents == [.invited(invite())])
    #expect(device.machine.calls[call]?.phase == .ringing)
    hear(&device, 10, .stop(Stop(reason: .transferred, by: dave)))
    #expect(device.take().callEvents.isEmpty, "that stop was known")
    answer(&device, address, state(by: me, version: 13))
    #expect(device.take().callEvents == [.won(state(by: me, version: 13))])
    hear(&device, 14, .stop(Stop(reason: .hungUp, by: other)))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .hungUp, by: other))])
  }

  @Test("one that lacks the stop of the side that it handed over is stopped by the invite")
  func lostStop() {
    var device = talking()
    hear(&device, 8, .invite(invite()))
    #expect(device.take().callEvents.isEmpty, "older than its answer")
    hear(&device, 12, .invite(invite()))
    #expect(
      device.take().callEvents == [.stopped(Stop(reason: .transferred)), .invited(invite())])
    #expect(device.machine.calls[call]?.phase == .ringing)
    hear(&device, 10, .stop(Stop(reason: .transferred, by: dave)))
    #expect(device.take().callEvents.isEmpty, "older than the invite")
    #expect(device.machine.calls[call]?.phase == .ringing)
  }

  @Test("one that lacks that stop and the invite as well is stopped by the end of the ringing")
  func lostStopAndInvite() {
    let gone = [CallEvent.stopped(Stop(reason: .transferred))]
    let losses = [EndReason.cancelled, .unanswered, .declined, .busy, .answeredElsewhere]
    for reason in losses {
      var device = talking()
      hear(&device, 9, .stop(Stop(reason: reason, by: other)))
      #expect(device.take().callEvents.isEmpty, "not newer than its answer")
      #expect(device.machine.calls[call]?.won == true)
      hear(&device, 20, .stop(Stop(reason: reason, by: other)))
      hear(&device, 20, .stop(Stop(reason: reason, by: other)))
      #expect(device.take().callEvents == gone)
      #expect(device.machine.calls[call]?.isEnded == true)
      hear(&device, 17, .invite(invite()))
      #expect(device.take().callEvents.isEmpty, "that ringing is over")
    }
  }

  @Test("so does a reply, and an answer that a new owner repeats is no later one")
  func lostStopAndInviteByReply() {
    var device = talking()
    func hangsUp(_ version: UInt64) {
      let request = device.say(.call(address, .hangUp))
      let state = CallState(
        call: call, callee: "", phase: .ended, version: version, reason: .cancelled, by: other)
      device.hear(.reply(id: request ?? 0, .call(state)))
    }
    hear(&device, 11, .answered(Answered(by: me)))
    hangsUp(9)
    #expect(device.take().callEvents.isEmpty, "not newer than its answer")
    hangsUp(20)
    #expect(device.take().callEvents == [.stopped(Stop(reason: .transferred))])
    hear(&device, 19, .stop(Stop(reason: .cancelled, by: other)))
    #expect(device.take().callEvents.isEmpty)
    hear(&device, 25, .invite(invite()))
    #expect(device.take().callEvents == [.invited(invite())], "it rings once more")
  }

  @Test("a second call under the id of a live one changes nothing of that")
  func anotherCallee() {
    var device = talking()
    hear(&device, 20, .invite(Invite(caller: other, deadline: deadline)), callee: "carl")
    hear(&device, 21, .stop(Stop(reason: .hungUp, by: other)), callee: "carl")
    #expect(device.take().callEvents.isEmpty)
    #expect(device.machine.address(call) == address)
    #expect(device.machine.calls[call]?.won == true)
    device.readCompleted()
    device.pass(.milliseconds(150))
    let carls = CallAddress(callee: "carl", call: call)
    let acks = [20, 21].map { AckItem(call: carls, version: $0) }
    #expect(device.take().frames.map(\.command) == [.ack(acks)])
  }

  @Test("so does one that had placed the call, and it is no caller before it answers")
  func callerRingsOnceMore() {
    var device = Device()
    device.attach()
    let address = CallAddress(callee: "you", call: call)
    device.say(.place(address, PlaceRequest(call: call)))
    hear(&device, 5, .answered(Answered(by: other)), callee: "you")
    hear(&device, 6, .stop(Stop(reason: .transferred, by: dave)), callee: "you")
    _ = device.take()
    hear(&device, 9, .invite(invite()), callee: "you")
    #expect(device.take().callEvents == [.invited(invite())])
    #expect(device.machine.calls[call]?.role == .callee)
    answer(&device, address, state(by: other))
    #expect(device.machine.calls[call]?.role == .caller)
  }

  @Test("the other side is another user") func moved() {
    var device = talking()
    let moved = Moved(to: dave, description: "offer", number: 1)
    hear(&device, 10, .moved(moved))
    #expect(device.take().callEvents == [.moved(moved)])
  }

  // MARK: After consultation

  /// - Parameter isAnswered: whether this device has the call in which it is said to have been asked.
  private func asked(isAnswered: Bool?) -> [CallEvent] {
    var device = Device()
    device.attach()
    if let isAnswered {
      device.hear(consulted, 5, .invite(Invite(caller: dave, deadline: deadline)))
      if isAnswered {
        let state = CallState(
          call: consulted, callee: "", phase: .answered, version: 6, by: me)
        answer(&device, CallAddress(callee: "", call: consulted), state)
      }
    }
    _ = device.take()
    hear(&device, 7, .invite(invite(consulted: consulted)), callee: "bob")
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
    var device = Device()
    device.attach()
    let address = CallAddress(callee: "dave", call: consulted)
    device.say(.place(address, PlaceRequest(call: consulted)))
    hear(&device, 6, .invite(invite(consulted: consulted)), callee: "bob")
    #expect(device.take().callEvents == [.invited(invite())], "nobody has answered")

    device = Device()
    device.attach()
    device.say(.place(address, PlaceRequest(call: consulted)))
    device.hear(consulted, 5, .answered(Answered(by: dave)))
    _ = device.take()
    hear(&device, 6, .invite(invite(consulted: consulted)), callee: "bob")
    #expect(device.take().callEvents == [.invited(invite(consulted: consulted))])

    device.hear(
      consulted, 7, .stop(Stop(reason: .transferred, by: dave, survivor: call)))
    #expect(
      device.take().callEvents == [
        .stopped(Stop(reason: .transferred, by: dave, survivor: call))
      ])
  }
}
