import CallClient
import CallCore
import CallWire
import Testing

/// A call rings where the cluster cannot say that it is over.
@Suite struct ClientRingingTests {
  let call = CallID(high: 1, low: 2)
  let caller = Party(user: "you", device: "x")

  /// A device that rings for 30 s more, and has lost its connection.
  private func lostDevice(_ grace: Span? = .seconds(5)) -> Device {
    var device = Device()
    device.machine = ClientMachine(Device.configuration { $0.ringGrace = grace })
    device.attach()
    // The cluster's clock is a second behind this one.
    device.hear(
      call, 5, .invite(Invite(caller: caller, deadline: Timestamp(microseconds: 30_000_000))))
    device.close()
    _ = device.take()
    return device
  }

  private func fail(_ device: inout Device, until time: Int64) -> [ClientMachine.Action] {
    var actions: [ClientMachine.Action] = []
    while let next = device.machine.nextDeadline, next.microseconds <= time {
      device.pass(next - device.now)
      device.close()
      actions += device.take()
    }
    return actions
  }

  @Test("R25: the call goes on to others and rings here for longer than its invite said")
  func itRingsOn() {
    var device = Device()
    device.machine = ClientMachine(Device.configuration { $0.ringGrace = .seconds(5) })
    device.attach()
    device.hear(
      call, 5, .invite(Invite(caller: caller, deadline: Timestamp(microseconds: 30_000_000))))
    _ = device.take()
    let later = Timestamp(microseconds: 50_000_000)
    device.hear(call, 7, .ringsUntil(later))
    #expect(device.take().callEvents == [.ringsUntil(later)])
    device.close()
    #expect(fail(&device, until: 55_999_999).callEvents.isEmpty)
    #expect(fail(&device, until: 56_000_000).callEvents.count == 1)
  }

  @Test("R25: the caller is told, and one that comes after the answer is of no use")
  func theCallerIsTold() {
    var device = Device()
    device.attach()
    let request = device.say(
      .place(CallAddress(callee: "you", call: call), PlaceRequest(call: call)))
    _ = device.take()
    let later = Timestamp(microseconds: 50_000_000)
    device.hear(call, 7, .ringsUntil(later))
    #expect(device.machine.calls[call]?.deadline == nil, "the place has no reply yet")
    let state = CallState(call: call, callee: "you", phase: .placed, version: 1)
    device.hear(.reply(id: request!, .call(state)))
    device.hear(call, 9, .ringsUntil(later))
    #expect(device.machine.calls[call]?.deadline == later)
    device.hear(call, 10, .answered(Answered(by: caller)))
    device.hear(call, 11, .ringsUntil(Timestamp(microseconds: 60_000_000)))
    #expect(device.machine.calls[call]?.deadline == later)
    #expect(device.machine.calls[call]?.phase == .answered)
  }

  @Test func itStopsAtItsDeadlineAndAGrace() {
    var device = lostDevice()
    #expect(fail(&device, until: 35_999_999).callEvents.isEmpty)
    #expect(device.machine.calls[call]?.isEnded == false)
    let actions = fail(&device, until: 36_000_000)
    #expect(actions.callEvents == [.stopped(Stop(reason: .unanswered, missed: true))])
    #expect(device.machine.calls[call]?.endedLocally == true)
  }

  @Test("a call whose invite comes before the reply to the first attach is the same call after it")
  func invitedBeforeTheReply() {
    var device = Device()
    device.start()
    device.open()
    let attach = device.take().frames.first
    let invite = Invite(
      caller: Party(user: "you", device: "d2"), deadline: Timestamp(microseconds: 60_000_000))
    device.hear(call, 1, .invite(invite))
    #expect(device.take().callEvents == [.invited(invite)])
    device.hear(.reply(id: attach?.id ?? 0, .attached(.sample)))
    _ = device.take()
    let stop = Stop(reason: .cancelled)
    device.hear(call, 2, .stop(stop))
    #expect(device.take().callEvents == [.stopped(stop)])
    #expect(device.machine.calls[call]?.isEnded == true)
  }

  @Test("an edge that tells times of another world does no harm", arguments: [Int64.min, 0, .max])
  func absurdTimes(serverTime: Int64) {
    for deadline in [Int64.min, 0, .max / 1000 * 1000, .max] {
      var device = Device()
      device.machine = ClientMachine(Device.configuration { _ in })
      var info = AttachedInfo.sample
      info.serverTime = Timestamp(microseconds: serverTime)
      device.attach(info)
      device.hear(
        call, 5, .invite(Invite(caller: caller, deadline: Timestamp(microseconds: deadline))))
      device.close()
      let isOver = fail(&device, until: 60_000_000).callEvents.contains {
        if case .stopped = $0 { true } else { false }
      }
      if deadline >= .max / 1000 * 1000, serverTime == 0 { #expect(!isOver) }
    }
  }

  @Test func onlyTheClusterEndsItWithoutAGrace() {
    var device = lostDevice(nil)
    #expect(fail(&device, until: 100_000_000).callEvents.isEmpty)
    #expect(device.machine.calls[call]?.phase == .ringing)
  }

  @Test func anAttachedDeviceWaitsForTheCluster() {
    var device = lostDevice()
    device.comeBack()
    _ = device.take()
    for _ in 0..<4 {
      device.pass(.seconds(10))
      device.machine.noteContact(now: device.now)
    }
    #expect(device.take().callEvents.isEmpty)
  }

  @Test func anAnswerThatWaitsIsGivenUp() throws {
    var device = lostDevice()
    let said = device.say(.call(CallAddress(call: call), .answer(description: "")))
    let request = try #require(said)
    let actions = fail(&device, until: 36_000_000)
    let gaveUp = ClientEvent.gaveUp(
      request: request, .call(CallAddress(call: call), .answer(description: "")))
    #expect(actions.events.contains(gaveUp))
    device.comeBack()
    #expect(!device.take().frames.contains { $0.id == request })
  }

  @Test func anAnswerThatWinsLaterIsHungUp() {
    var device = lostDevice()
    _ = fail(&device, until: 36_000_000)
    device.comeBack()
    _ = device.take()
    let me = Party(user: "me", device: "d1")
    for version: UInt64 in [6, 6, 7] { device.hear(call, version, .answered(Answered(by: me))) }
    let actions = device.take()
    #expect(actions.callEvents.isEmpty)
    let sent = actions.frames.map(\.command)
    #expect(sent.filter { $0 == .call(CallAddress(call: call), .hangUp) }.count == 1)
  }

  @Test func aCallThatWasAnsweredDoesNotRingOut() {
    var device = Device()
    device.attach()
    device.hear(
      call, 5, .invite(Invite(caller: caller, deadline: Timestamp(microseconds: 30_000_000))))
    device.hear(call, 6, .answered(Answered(by: Party(user: "me", device: "d1"))))
    device.close()
    _ = device.take()
    #expect(fail(&device, until: 60_000_000).callEvents.isEmpty)
  }
}

/// Close codes tell a device whether it may come back.
@Suite struct ClientCloseCodeTests {
  @Test func aRemovedDeviceDoesNotComeBack() {
    var device = Device()
    device.attach()
    device.close(4001)
    let error = CallError(.unknownDevice, "The device was removed.")
    #expect(device.take().events == [.refused(error)])
    #expect(device.machine.state == .stopped)
    #expect(device.machine.nextDeadline == nil)
  }

  @Test func theAppMayStartARemovedDeviceAgain() {
    var device = Device()
    device.attach()
    device.close(4001)
    _ = device.take()
    device.start()
    #expect(device.take() == [.connect(edge: 0)])
  }

  @Test func aDeviceThatWasTooFastWaitsForAMinute() {
    var device = Device()
    device.attach()
    device.close(4006)
    #expect(device.machine.state == .waiting(until: device.now + .seconds(60)))
  }

  @Test(arguments: [nil, 1006, 4002, 4003, 4005, 4007, 4010, 4011] as [UInt16?])
  func afterOtherCodesItComesBackSoon(code: UInt16?) {
    var device = Device()
    device.attach()
    device.close(code)
    guard case .waiting(let until) = device.machine.state else {
      Issue.record("does not wait")
      return
    }
    #expect(until - device.now <= .seconds(1))
  }
}
