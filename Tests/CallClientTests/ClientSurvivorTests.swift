import CallClient
import CallCore
import CallWire
import Testing

/// A call of this device gave way to a crossing one, of which the stop has only the id.
@Suite struct ClientSurvivorTests {
  let call = CallID(high: 1, low: 2)
  let survivor = CallID(high: 0, low: 1)
  let other = Party(user: "you", device: "x")

  /// A device whose call has just given way.
  private func device(invited: Bool = false) -> Device {
    var device = Device()
    device.attach()
    let address = CallAddress(callee: "you", call: call)
    let request = device.say(.place(address, PlaceRequest(call: call)))
    let state = CallState(call: call, callee: "you", phase: .placed, version: 1)
    device.hear(.reply(id: request!, .call(state)))
    if invited {
      device.hear(
        survivor, 5,
        .invite(Invite(caller: other, deadline: Timestamp(microseconds: 31_000_000))))
    }
    device.hear(
      .delivery(
        Delivery(
          call: call, callee: "you", version: 6, at: device.now,
          event: .stop(Stop(reason: .glare, survivor: survivor)))))
    _ = device.take()
    return device
  }

  private func queries(_ device: inout Device, in span: Span) -> Int {
    device.pass(span)
    return device.take().frames.count {
      $0.command == .call(CallAddress(call: survivor), .query)
    }
  }

  @Test func itAsksForACallWhoseInviteDoesNotCome() {
    var device = device()
    #expect(queries(&device, in: .seconds(4)) == 0)
    #expect(device.machine.nextDeadline.map { $0 <= device.now + .seconds(1) } == true)
    #expect(queries(&device, in: .seconds(1)) == 1)
    // The stop may come again: the call is known by now.
    device.hear(call, 7, .stop(Stop(reason: .glare, survivor: survivor)))
    #expect(queries(&device, in: .seconds(6)) == 0)
  }

  @Test func itDoesNotAskForACallThatItWasInvitedTo() {
    var device = device(invited: true)
    #expect(queries(&device, in: .seconds(6)) == 0)
  }
}
