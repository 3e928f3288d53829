import CallClient
import CallCore
import CallWire
import Testing

/// A call rings where the cluster cannot say that it is over.
@Suite struct ClientRingingTests {
  let call = CallID(high: 1, low: 2)
  private var answer: ClientCommand { .call(CallAddress(call: call), .answer(description: "")) }

  /// A device that rings until 30 s by the cluster's clock, which is a second behind its own.
  private func ringing(_ grace: Span? = .seconds(5)) -> Device {
    var device = Device.attached(edges: ["a"]) { $0.ringGrace = grace }
    device.ring(call, until: 30_000_000)
    _ = device.take()
    return device
  }

  /// The same, and it has lost its connection.
  private func lostDevice(_ grace: Span? = .seconds(5)) -> Device {
    var device = ringing(grace)
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
    var device = ringing()
    let later = Timestamp(microseconds: 50_000_000)
    device.hear(call, 7, .ringsUntil(later))
    #expect(device.take().callEvents == [.ringsUntil(later)])
    device.close()
    #expect(fail(&device, until: 55_999_999).callEvents.isEmpty)
    #expect(fail(&device, until: 56_000_000).callEvents.count == 1)
  }

  @Test("R25: the caller is told, and one that comes after the answer is of no use")
  func theCallerIsTold() {
    var device = Device.attached()
    let request = device.place(CallAddress(callee: "you", call: call))
    _ = device.take()
    let later = Timestamp(microseconds: 50_000_000)
    device.hear(call, 7, .ringsUntil(later))
    #expect(device.machine.calls[call]?.deadline == nil, "the place has no reply yet")
    let state = CallState(call: call, callee: "you", phase: .placed, version: 1)
    device.reply(request, .call(state))
    device.hear(call, 9, .ringsUntil(later))
    #expect(device.machine.calls[call]?.deadline == later)
    device.hear(call, 10, .answered(Answered(by: .you)))
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
    device.ring(call, 1)
    #expect(device.take().callEvents == [.invited(.sample())])
    device.reply(attach?.id, .attached(.sample))
    _ = device.take()
    let stop = Stop(reason: .cancelled)
    device.hear(call, 2, .stop(stop))
    #expect(device.take().callEvents == [.stopped(stop)])
    #expect(device.machine.calls[call]?.isEnded == true)
  }

  @Test("an edge that tells times of another world does no harm", arguments: [Int64.min, 0, .max])
  func absurdTimes(serverTime: Int64) {
    for deadline in [Int64.min, 0, .max / 1000 * 1000, .max] {
      var device = Device(edges: ["a"])
      var info = AttachedInfo.sample
      info.serverTime = Timestamp(microseconds: serverTime)
      device.attach(info)
      device.ring(call, until: deadline)
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
    let said = device.say(answer)
    let request = try #require(said)
    let actions = fail(&device, until: 36_000_000)
    #expect(actions.events.contains(.gaveUp(request: request, answer)))
    device.comeBack()
    #expect(!device.take().frames.contains { $0.id == request })
  }

  @Test func anAnswerThatWinsLaterIsHungUp() {
    var device = lostDevice()
    _ = fail(&device, until: 36_000_000)
    device.comeBack()
    _ = device.take()
    for version: UInt64 in [6, 6, 7] { device.hear(call, version, .answered(Answered(by: .me))) }
    let actions = device.take()
    #expect(actions.callEvents.isEmpty)
    let hangUp = ClientCommand.call(CallAddress(call: call), .hangUp)
    #expect(actions.frames.count { $0.command == hangUp } == 1)
  }

  @Test func aCallThatWasAnsweredDoesNotRingOut() {
    var device = ringing()
    device.hear(call, 6, .answered(Answered(by: .me)))
    device.close()
    _ = device.take()
    #expect(fail(&device, until: 60_000_000).callEvents.isEmpty)
  }
}
