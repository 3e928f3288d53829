import CallClient
import CallCore
import CallWire
import Testing

/// A device takes a call over from another one of its user, gives it up, or learns that the other side moved.
@Suite struct ClientPullTests {
  private let call = CallID(high: 1, low: 2)
  private let phone = Party(user: "me", device: "d2")
  private let me = Party(user: "me", device: "d1")
  private let other = Party(user: "you", device: "x")

  private func answered(by: Party, version: UInt64 = 9) -> CallState {
    CallState(call: call, callee: "", phase: .answered, version: version, by: by)
  }

  /// - Parameter callee: empty: the device's own user was called.
  private func pull(_ device: inout Device, callee: String, won: Bool, _ state: CallState) {
    let address = CallAddress(callee: callee, call: call)
    let request = device.say(.call(address, .pull(PullRequest(from: "d2"))))
    // Acknowledgements, which travel with it, have no number.
    #expect(device.take().frames.map(\.id).filter { $0 > 0 } == [request])
    device.hear(.reply(id: request ?? 0, .answer(won: won, state)))
  }

  private func lost(_ device: inout Device) {
    device.hear(
      call, 5,
      .invite(Invite(caller: other, deadline: Timestamp(microseconds: 31_000_000))))
    device.hear(call, 6, .stop(Stop(reason: .answeredElsewhere, by: phone)))
    _ = device.take()
  }

  @Test("a device that lost takes the call over, and hears of its end", arguments: ["", "me"])
  func tookOver(callee: String) {
    var device = Device()
    device.attach()
    lost(&device)
    pull(&device, callee: callee, won: true, answered(by: me))
    #expect(device.take().callEvents == [.won(answered(by: me))])
    #expect(device.machine.calls[call]?.role == .callee)
    // Two stops of its part before: the retransmission of one that it knows, and one that was on its way.
    device.hear(call, 6, .stop(Stop(reason: .answeredElsewhere, by: phone)))
    device.hear(call, 8, .stop(Stop(reason: .answeredElsewhere, by: phone)))
    device.hear(call, 10, .signal(Signal(index: 40, kind: .information, body: "hold")))
    device.hear(call, 11, .stop(Stop(reason: .hungUp, by: other)))
    let events = device.take().callEvents
    #expect(
      events == [
        .signal(Signal(index: 40, kind: .information, body: "hold")),
        .stopped(Stop(reason: .hungUp, by: other)),
      ])
  }

  @Test("the caller's side: it resumes the call after a break") func resumes() {
    var device = Device()
    device.attach()
    pull(&device, callee: "you", won: true, answered(by: other))
    #expect(device.machine.calls[call]?.role == .caller)
    _ = device.take()
    device.close()
    device.comeBack()
    let address = CallAddress(callee: "you", call: call)
    #expect(device.take().frames.map(\.command).contains(.call(address, .resume)))
  }

  @Test("the other side of a call to oneself is not the callee's") func toOneself() {
    var device = Device()
    device.attach()
    pull(&device, callee: "", won: true, answered(by: Party(user: "me", device: "d3")))
    #expect(device.machine.calls[call]?.role == .caller)
  }

  @Test("what comes before the reply waits for its retransmission") func early() {
    var device = Device()
    device.attach()
    let address = CallAddress(callee: "you", call: call)
    let request = device.say(.call(address, .pull(PullRequest(from: "d2"))))
    _ = device.take()
    let signal = Signal(index: 3, kind: .candidate, body: "c")
    device.hear(call, 12, .signal(signal))
    #expect(device.take().callEvents.isEmpty)
    device.hear(.reply(id: request ?? 0, .answer(won: true, answered(by: other))))
    device.hear(call, 12, .signal(signal))
    #expect(device.take().callEvents == [.won(answered(by: other)), .signal(signal)])
    device.readCompleted()
    device.pass(.milliseconds(150))
    let items = [AckItem(call: address, version: 12)]
    #expect(device.take().frames.map(\.command) == [.ack(items)])
  }

  @Test("a device that rings, since its stop is late, has the call and keeps it")
  func stillRinging() {
    var device = Device()
    device.attach()
    let deadline = Timestamp(microseconds: 31_000_000)
    device.hear(call, 5, .invite(Invite(caller: other, deadline: deadline)))
    _ = device.take()
    pull(&device, callee: "", won: true, answered(by: me))
    device.hear(call, 6, .stop(Stop(reason: .answeredElsewhere, by: phone)))
    #expect(device.take().callEvents == [.won(answered(by: me))])
    #expect(device.machine.calls[call]?.phase == .answered)
  }

  @Test("one that did not get it has no call") func notWon() {
    var device = Device()
    device.attach()
    pull(&device, callee: "you", won: false, answered(by: other))
    #expect(device.machine.calls[call] == nil && device.take().callEvents.isEmpty)
    lost(&device)
    pull(&device, callee: "", won: false, answered(by: phone))
    #expect(device.machine.calls[call]?.isEnded == true && device.take().callEvents.isEmpty)
  }

  @Test("a repeated reply makes no second call") func repeated() {
    var device = Device()
    device.attach()
    pull(&device, callee: "you", won: true, answered(by: other))
    device.hear(call, 12, .signal(Signal(index: 3, kind: .candidate, body: "c")))
    _ = device.take()
    pull(&device, callee: "you", won: true, answered(by: other, version: 20))
    #expect(device.take().callEvents.isEmpty)
    device.hear(call, 13, .signal(Signal(index: 3, kind: .candidate, body: "c")))
    #expect(device.take().callEvents.isEmpty, "it has that one")
  }

  @Test("a device that had it is stopped, though it had won") func gaveUp() {
    var device = Device()
    device.attach()
    pull(&device, callee: "", won: true, answered(by: me))
    _ = device.take()
    device.hear(call, 9, .stop(Stop(reason: .answeredElsewhere, by: phone)))
    #expect(device.take().callEvents.isEmpty, "who has it did not lose it")
    device.hear(call, 13, .stop(Stop(reason: .moved, by: phone)))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .moved, by: phone))])
    #expect(Stop(reason: .moved).callKitReason() == 4)
  }

  @Test("a move of the other side is news once, and an older one is none") func moves() {
    var device = Device()
    device.attach()
    device.say(.place(CallAddress(callee: "you", call: call), PlaceRequest(call: call)))
    device.hear(call, 5, .answered(Answered(by: other)))
    _ = device.take()
    let moved = Moved(to: Party(user: "you", device: "y"), description: "offer", number: 2)
    device.hear(call, 6, .moved(moved))
    device.hear(call, 6, .moved(moved))
    device.hear(call, 1 << 20, .moved(moved))
    device.hear(call, 1 << 20 | 1, .moved(Moved(to: other, number: 1)))
    #expect(device.take().callEvents == [.moved(moved)])
    device.hear(call, 1 << 20 | 2, .moved(Moved(to: other, number: 3)))
    #expect(device.take().callEvents == [.moved(Moved(to: other, number: 3))])
  }

  @Test("one that did not learn that it lost the call takes it back; the late stop is void")
  func pulledBack() {
    var device = Device()
    device.attach()
    pull(&device, callee: "", won: true, answered(by: me))
    pull(&device, callee: "", won: true, answered(by: me, version: 14))
    _ = device.take()
    device.hear(call, 12, .stop(Stop(reason: .moved, by: phone)))
    #expect(device.take().callEvents.isEmpty)
    #expect(device.machine.calls[call]?.won == true)
    device.hear(call, 15, .stop(Stop(reason: .moved, by: phone)))
    #expect(device.take().callEvents == [.stopped(Stop(reason: .moved, by: phone))])
  }
}
