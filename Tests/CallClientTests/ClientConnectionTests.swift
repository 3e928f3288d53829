import CallClient
import CallCore
import CallWire
import Testing

@Suite struct ClientMachineConnectionTests {
  @Test func attachesWithTokenAndDevice() {
    var device = Device()
    device.start()
    #expect(device.take() == [.connect(edge: 0)])
    device.open()
    let frames = device.take().frames
    #expect(frames.count == 1)
    guard case .attach(let attach)? = frames.first?.command else {
      Issue.record("no attach")
      return
    }
    #expect(attach.token == "t")
    #expect(attach.device == "d1")
    device.hear(.reply(id: frames[0].id, .attached(.sample)))
    #expect(device.take().events == [.attached(.sample, again: false)])
    #expect(device.machine.isAttached)
  }

  @Test func goesToTheNextEdgeAfterAWaitThatGrows() {
    var device = Device()
    device.start()
    var waits: [Int64] = []
    for edge in [1, 2, 0, 1, 2] {
      _ = device.take()
      device.close()
      guard case .waiting(let until) = device.machine.state else {
        Issue.record("does not wait")
        return
      }
      waits.append((until - device.now).microseconds)
      device.pass(until - device.now)
      #expect(device.take().contains(.connect(edge: edge)))
    }
    for (index, wait) in waits.enumerated() {
      let ceiling = Int64(250_000) << Int64(index)
      #expect(wait >= ceiling / 2 && wait <= ceiling)
    }
  }

  /// Thousands of devices that want to connect at once, and all try again soon, keep edges busy with attempts that
  /// have been given up.
  @Test func anAttemptWithoutAnAnswerIsFollowedByALongerWait() {
    var device = Device()
    device.start()
    for failures in 0..<8 {
      if failures % 3 == 1 { device.open() }
      device.pass(.seconds(10))
      device.expectWait(upTo: min(1_000_000 << failures, 15_000_000))
    }
  }

  /// The call would end without it: a caller has 15 s while it rings, each side 60 s once it is answered.
  @Test(arguments: [
    ClientCommand.place(
      CallAddress(callee: "bob", call: CallID(high: 7, low: 7)),
      PlaceRequest(call: CallID(high: 7, low: 7))),
    .call(CallAddress(callee: "me", call: CallID(high: 7, low: 7)), .hangUp),
  ])
  func aDeviceInACallWaitsTwoSecondsAtMost(_ command: ClientCommand) {
    var device = Device()
    device.attach()
    device.say(command)
    device.close()
    device.pass(.seconds(1))
    for failures in 0..<60 {
      if failures < 8, failures % 2 == 1 { device.pass(.seconds(10)) } else { device.close() }
      device.expectWait(upTo: min(250_000 << min(failures, 8), 2_000_000))
    }
    // The call is over by now, whatever the device believes.
    device.close()
    device.expectWait(upTo: 15_000_000)
  }

  @Test func aRefusedTokenIsNotTriedAgain() {
    var device = Device()
    device.start()
    device.open()
    let id = device.take().frames[0].id
    device.hear(.reply(id: id, .error(CallError(.expired))))
    #expect(device.machine.state == .stopped)
    #expect(device.take() == [.close, .event(.refused(CallError(.expired)))])
    #expect(device.machine.nextDeadline == nil)
  }

  @Test func aReplacedSessionDoesNotFightBack() {
    var device = Device()
    device.attach()
    device.hear(.notice(Notice(kind: .sessionReplaced, message: "")))
    #expect(device.machine.state == .stopped)
  }

  /// An attach that was given up may be under way for as long as its edge is cut off from the cluster. The
  /// session that it replaces then is the device's own.
  @Test(arguments: [(Span.seconds(20), true), (.seconds(119), true), (.seconds(121), false)])
  func anAttachThatComesLateThrowsNobodyOut(late: Span, comesBack: Bool) {
    var device = Device()
    device.start()
    device.open()
    let given = device.now
    device.pass(.seconds(10))
    guard case .waiting(let until) = device.machine.state else {
      Issue.record("it does not give the attach up")
      return
    }
    device.pass(until - device.now)
    _ = device.take()
    device.open()
    let id = device.take().frames[0].id
    device.hear(.reply(id: id, .attached(.sample)))
    #expect(device.machine.isAttached)
    while device.now < given + late {
      device.machine.noteContact(now: device.now)
      device.pass(min(.seconds(10), given + late - device.now))
    }
    _ = device.take()
    device.hear(.notice(Notice(kind: .sessionReplaced, message: "")))
    guard comesBack else {
      #expect(device.machine.state == .stopped)
      return
    }
    #expect(device.take().contains(.close))
    guard case .waiting(let again) = device.machine.state else {
      Issue.record("it does not come back")
      return
    }
    device.pass(again - device.now)
    device.open()
    let second = device.take().frames[0].id
    device.hear(.reply(id: second, .attached(.sample)))
    #expect(device.machine.isAttached)
  }

  @Test func silenceBreaksTheConnection() {
    var device = Device()
    device.attach()
    device.pass(.seconds(60))
    #expect(device.machine.isAttached)
    device.machine.noteContact(now: device.now)
    device.pass(.seconds(60))
    #expect(device.machine.isAttached)
    device.pass(.seconds(3))
    #expect(!device.machine.isAttached)
    #expect(device.take().contains(.close))
  }

  @Test func aHeartbeatFindsADeadConnectionSooner() {
    var device = Device()
    device.machine = ClientMachine(Device.configuration { $0.heartbeat = .init() })
    device.attach()
    device.pass(.seconds(19))
    #expect(device.take().frames.isEmpty)
    device.pass(.seconds(1))
    let pings = device.take().frames
    #expect(pings.map(\.command) == [.ping])
    // One is enough; and whatever comes says that the connection lives.
    device.pass(.seconds(4))
    #expect(device.take().isEmpty)
    device.turn.now = device.now + .milliseconds(500)
    device.hear(.reply(id: pings[0].id, .done))
    #expect(device.take().isEmpty)
    #expect(device.machine.nextDeadline == device.now + .seconds(20))
    device.pass(.seconds(20))
    #expect(device.take().frames.map(\.command) == [.ping])
    #expect(device.machine.nextDeadline == device.now + .seconds(5))
    device.pass(.seconds(5))
    #expect(!device.machine.isAttached)
    #expect(device.take().contains(.close))
  }

  @Test func aDeviceThatWakesAsksAtOnce() {
    var device = Device()
    device.machine = ClientMachine(Device.configuration { $0.heartbeat = .init() })
    device.attach()
    device.turn.now = device.now + .seconds(2)
    let call = CallID(high: 1, low: 2)
    device.machine.woken(for: call, &device.turn)
    #expect(
      device.take().frames.map(\.command) == [.call(CallAddress(call: call), .query), .ping])
    device.pass(.seconds(5))
    #expect(!device.machine.isAttached)
  }

  @Test func whoHearsSomethingSendsNoHeartbeat() {
    var device = Device()
    device.machine = ClientMachine(Device.configuration { $0.heartbeat = .init() })
    device.attach()
    for _ in 0..<10 {
      device.pass(.seconds(15))
      device.machine.noteContact(now: device.now)
    }
    #expect(device.take().frames.isEmpty && device.machine.isAttached)
  }
}
