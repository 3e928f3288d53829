import CallClient
import CallCore
import CallWire
import Testing

@Suite struct ClientMachineConnectionTests {
  private static let call = CallID(high: 7, low: 7)

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
    device.reply(frames[0].id, .attached(.sample))
    #expect(device.take().events == [.attached(.sample, again: false)])
    #expect(device.machine.isAttached)
  }

  @Test("a device that wants credentials for TURN asks, and its app gets the first and later ones")
  func relays() {
    func credentials(_ password: String) -> RelayCredentials {
      RelayCredentials(
        urls: ["turn:turn.example"], username: "1:me", password: password,
        expiresAt: Timestamp(microseconds: 1_000_000))
    }
    var device = Device { $0.wantsRelays = true }
    device.start()
    device.open()
    let frames = device.take().frames
    let asks = frames.map { if case .attach(let it) = $0.command { it.wantsRelays } else { false } }
    #expect(asks == [true])
    var info = AttachedInfo.sample
    info.relays = credentials("one")
    device.reply(frames[0].id, .attached(info))
    device.hear(.relays(credentials("two")))
    let events = device.take().events
    #expect(events == [.attached(info, again: false), .relays(credentials("two"))])
  }

  // MARK: Waits

  @Test func goesToTheNextEdgeAfterAWaitThatGrows() {
    var device = Device()
    device.start()
    for (failures, edge) in [1, 2, 0, 1, 2].enumerated() {
      _ = device.take()
      device.close()
      device.expectWait(upTo: 250_000 << failures)
      #expect(device.take().contains(.connect(edge: edge)))
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
    ClientCommand.place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)),
    .call(CallAddress(callee: "me", call: call), .hangUp),
  ])
  func aDeviceInACallWaitsTwoSecondsAtMost(_ command: ClientCommand) {
    var device = Device.attached()
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

  // MARK: Ends

  @Test func aRefusedTokenIsNotTriedAgain() {
    var device = Device()
    device.start()
    device.open()
    device.refuse(device.take().frames[0].id, .expired)
    #expect(device.machine.state == .stopped)
    #expect(device.take() == [.close, .event(.refused(CallError(.expired)))])
    #expect(device.machine.nextDeadline == nil)
  }

  @Test func aReplacedSessionDoesNotFightBack() {
    var device = Device.attached()
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
    device.passWait()
    _ = device.take()
    device.open()
    device.answerAttach()
    #expect(device.machine.isAttached)
    while device.now < given + late {
      device.passAlive(min(.seconds(10), given + late - device.now))
    }
    _ = device.take()
    device.hear(.notice(Notice(kind: .sessionReplaced, message: "")))
    guard comesBack else {
      #expect(device.machine.state == .stopped)
      return
    }
    #expect(device.take().contains(.close))
    device.passWait()
    _ = device.take()
    device.open()
    device.answerAttach()
    #expect(device.machine.isAttached)
  }

  @Test("a device that was removed does not come back by itself; its app may start it again")
  func removed() {
    var device = Device.attached()
    device.close(4001)
    let error = CallError(.unknownDevice, "The device was removed.")
    #expect(device.take().events == [.refused(error)])
    #expect(device.machine.state == .stopped)
    #expect(device.machine.nextDeadline == nil)
    device.start()
    #expect(device.take() == [.connect(edge: 0)])
  }

  @Test func aDeviceThatWasTooFastWaitsForAMinute() {
    var device = Device.attached()
    device.close(4006)
    #expect(device.machine.state == .waiting(until: device.now + .seconds(60)))
  }

  @Test(arguments: [nil, 1006, 4002, 4003, 4005, 4007, 4010, 4011] as [UInt16?])
  func afterOtherCloseCodesItComesBackSoon(code: UInt16?) {
    var device = Device.attached()
    device.close(code)
    #expect(device.passWait() <= 1_000_000)
  }

  // MARK: Signs of life

  @Test func silenceBreaksTheConnection() {
    var device = Device.attached()
    device.pass(.seconds(60))
    #expect(device.machine.isAttached)
    device.passAlive(.seconds(60))
    #expect(device.machine.isAttached)
    device.pass(.seconds(3))
    #expect(!device.machine.isAttached)
    #expect(device.take().contains(.close))
  }

  @Test func aHeartbeatFindsADeadConnectionSooner() {
    var device = Device.attached { $0.heartbeat = .init() }
    device.pass(.seconds(19))
    #expect(device.take().frames.isEmpty)
    device.pass(.seconds(1))
    let pings = device.take().frames
    #expect(pings.map(\.command) == [.ping])
    // One is enough; and whatever comes says that the connection lives.
    device.pass(.seconds(4))
    #expect(device.take().isEmpty)
    device.turn.now = device.now + .milliseconds(500)
    device.reply(pings[0].id, .done)
    #expect(device.take().isEmpty)
    #expect(device.machine.nextDeadline == device.now + .seconds(20))
    device.pass(.seconds(20))
    #expect(device.said() == [.ping])
    #expect(device.machine.nextDeadline == device.now + .seconds(5))
    device.pass(.seconds(5))
    #expect(!device.machine.isAttached)
    #expect(device.take().contains(.close))
  }

  @Test func aDeviceThatWakesAsksAtOnce() {
    var device = Device.attached { $0.heartbeat = .init() }
    device.turn.now = device.now + .seconds(2)
    device.machine.woken(for: Self.call, &device.turn)
    #expect(device.said() == [.call(CallAddress(call: Self.call), .query), .ping])
    device.pass(.seconds(5))
    #expect(!device.machine.isAttached)
  }

  @Test func whoHearsSomethingSendsNoHeartbeat() {
    var device = Device.attached { $0.heartbeat = .init() }
    for _ in 0..<10 {
      device.pass(.seconds(15))
      device.machine.noteContact(now: device.now)
    }
    #expect(device.take().frames.isEmpty && device.machine.isAttached)
  }
}
