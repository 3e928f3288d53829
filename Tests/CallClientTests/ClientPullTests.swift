import CallClient
import CallCore
import CallWire
import Testing

/// A device takes a call over from another one of its user, gives it up, or learns that the other side moved.
@Suite struct ClientPullTests {
  private let call = CallID(high: 1, low: 2)
  private let phone = Party(user: "me", device: "d2")

  private func answered(by: Party, version: UInt64 = 9) -> CallState {
    CallState(call: call, callee: "", phase: .answered, version: version, by: by)
  }

  private func stop(_ reason: EndReason) -> Delivery.Event {
    .stop(Stop(reason: reason, by: phone))
  }

  private let signal = Signal(index: 3, kind: .candidate, body: "c")

  /// - Parameter callee: empty: the device's own user was called.
  private func pull(
    _ device: inout Device, callee: String = "", won: Bool = true, _ state: CallState
  ) {
    let address = CallAddress(callee: callee, call: call)
    let request = device.say(.call(address, .pull(PullRequest(from: "d2"))))
    // Acknowledgements, which travel with it, have no number.
    #expect(device.take().frames.map(\.id).filter { $0 > 0 } == [request])
    device.reply(request, .answer(won: won, state))
  }

  private func lost(_ device: inout Device) {
    device.ring(call)
    device.hear(call, 6, stop(.answeredElsewhere))
    _ = device.take()
  }

  @Test("a device that lost takes the call over, and hears of its end", arguments: ["", "me"])
  func tookOver(callee: String) {
    var device = Device.attached()
    lost(&device)
    pull(&device, callee: callee, answered(by: .me))
    #expect(device.take().callEvents == [.won(answered(by: .me))])
    #expect(device.machine.calls[call]?.role == .callee)
    // Two stops of its part before: the retransmission of one that it knows, and one that was on its way.
    for version in [6, 8] as [UInt64] { device.hear(call, version, stop(.answeredElsewhere)) }
    let hold = Signal(index: 40, kind: .information, body: "hold")
    device.hear(call, 10, .signal(hold))
    device.hear(call, 11, .stop(Stop(reason: .hungUp, by: .you)))
    #expect(device.take().callEvents == [.signal(hold), .stopped(Stop(reason: .hungUp, by: .you))])
  }

  @Test("the caller's side: it resumes the call after a break") func resumes() {
    var device = Device.attached()
    pull(&device, callee: "you", answered(by: .you))
    #expect(device.machine.calls[call]?.role == .caller)
    _ = device.take()
    device.close()
    device.comeBack()
    #expect(device.said().contains(.call(CallAddress(callee: "you", call: call), .resume)))
  }

  @Test("the other side of a call to oneself is not the callee's") func toOneself() {
    var device = Device.attached()
    pull(&device, answered(by: Party(user: "me", device: "d3")))
    #expect(device.machine.calls[call]?.role == .caller)
  }

  @Test("what comes before the reply waits for its retransmission") func early() {
    var device = Device.attached()
    let address = CallAddress(callee: "you", call: call)
    let request = device.say(.call(address, .pull(PullRequest(from: "d2"))))
    _ = device.take()
    device.hear(call, 12, .signal(signal))
    #expect(device.take().callEvents.isEmpty)
    device.reply(request, .answer(won: true, answered(by: .you)))
    device.hear(call, 12, .signal(signal))
    #expect(device.take().callEvents == [.won(answered(by: .you)), .signal(signal)])
    #expect(device.acknowledged() == [AckItem(call: address, version: 12)])
  }

  @Test("a device that rings, since its stop is late, has the call and keeps it")
  func stillRinging() {
    var device = Device.attached()
    device.ring(call)
    _ = device.take()
    pull(&device, answered(by: .me))
    device.hear(call, 6, stop(.answeredElsewhere))
    #expect(device.take().callEvents == [.won(answered(by: .me))])
    #expect(device.machine.calls[call]?.phase == .answered)
  }

  @Test("one that did not get it has no call") func notWon() {
    var device = Device.attached()
    pull(&device, callee: "you", won: false, answered(by: .you))
    #expect(device.machine.calls[call] == nil && device.take().callEvents.isEmpty)
    lost(&device)
    pull(&device, won: false, answered(by: phone))
    #expect(device.machine.calls[call]?.isEnded == true && device.take().callEvents.isEmpty)
  }

  @Test("a repeated reply makes no second call") func repeated() {
    var device = Device.attached()
    pull(&device, callee: "you", answered(by: .you))
    device.hear(call, 12, .signal(signal))
    _ = device.take()
    pull(&device, callee: "you", answered(by: .you, version: 20))
    #expect(device.take().callEvents.isEmpty)
    device.hear(call, 13, .signal(signal))
    #expect(device.take().callEvents.isEmpty, "it has that one")
  }

  @Test("a device that had it is stopped, though it had won") func gaveUp() {
    var device = Device.attached()
    pull(&device, answered(by: .me))
    _ = device.take()
    device.hear(call, 9, stop(.answeredElsewhere))
    #expect(device.take().callEvents.isEmpty, "who has it did not lose it")
    device.hear(call, 13, stop(.moved))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .moved, by: phone))])
  }

  @Test("a move of the other side is news once, and an older one is none") func moves() {
    var device = Device.attached()
    device.place(CallAddress(callee: "you", call: call))
    device.hear(call, 5, .answered(Answered(by: .you)))
    _ = device.take()
    let moved = Moved(to: Party(user: "you", device: "y"), description: "offer", number: 2)
    for version in [6, 6, 1 << 20] as [UInt64] { device.hear(call, version, .moved(moved)) }
    device.hear(call, 1 << 20 | 1, .moved(Moved(to: .you, number: 1)))
    #expect(device.take().callEvents == [.moved(moved)])
    let transferred = Moved(to: Party(user: "dave", device: "y"), number: 3)
    device.hear(call, 1 << 20 | 2, .moved(transferred))
    #expect(device.take().callEvents == [.moved(transferred)])
  }

  @Test("one that did not learn that it lost the call takes it back; the late stop is void")
  func pulledBack() {
    var device = Device.attached()
    for version in [9, 14] as [UInt64] { pull(&device, answered(by: .me, version: version)) }
    _ = device.take()
    device.hear(call, 12, stop(.moved))
    #expect(device.take().callEvents.isEmpty)
    #expect(device.machine.calls[call]?.won == true)
    device.hear(call, 15, stop(.moved))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .moved, by: phone))])
  }
}
