import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let ann = UserKey(app: "demo", user: "ann")
private let call = CallID(high: 1, low: 2)

@Suite struct SessionEndTests {
  @Test func detachIsGraceful() throws {
    var machine = SessionMachine.attached()
    machine.say(2, .detach)
    #expect(machine.take() == [.reply(2, .done), .close(.normal)])
    let taken = machine.session.takeEnd()
    let farewell = try #require(taken)
    #expect(farewell.isGraceful && farewell.user == ann && farewell.device == "phone")
    let another = machine.session.takeEnd()
    #expect(another == nil)
  }

  @Test(arguments: [(UInt16(1000), true), (1001, false), (nil, false)] as [(UInt16?, Bool)])
  func onlyANormalClosureIsAGoodbye(code: UInt16?, graceful: Bool) {
    var machine = SessionMachine.attached()
    machine.session.receivedClose(code: code, &machine.turn)
    #expect(machine.take() == [.close(.normal), .abort])
    let farewell = machine.session.takeEnd()
    #expect(farewell?.isGraceful == graceful)
  }

  @Test func peersAnswerToOurCloseEndsTheSocket() {
    var machine = SessionMachine.attached()
    machine.session.asked(
      toClose: Notice(kind: .goAway, message: ""), &machine.turn)
    _ = machine.take()
    machine.session.receivedClose(code: 4002, &machine.turn)
    #expect(machine.take() == [.abort])
  }

  @Test(arguments: [
    (Notice.Kind.sessionReplaced, CloseReason.sessionReplaced), (.deviceRemoved, .deviceRemoved),
    (.goAway, .goAway),
    (.tokenTaken, .deviceRemoved),
  ])
  func clusterMayCloseASession(kind: Notice.Kind, reason: CloseReason) {
    var machine = SessionMachine.attached()
    let notice = Notice(kind: kind, message: "m")
    machine.session.asked(toClose: notice, &machine.turn)
    #expect(machine.take() == [.notice(notice), .close(reason)])
    let stop = Delivery(
      call: call, callee: "ann", version: 1, at: SessionMachine.start,
      event: .stop(Stop(reason: .cancelled)))
    let isTaken = machine.session.willDeliver(stop)
    #expect(!isTaken)
  }

  @Test func brokenSocketIsNotGraceful() {
    var machine = SessionMachine.attached()
    let farewell = machine.session.takeEnd()
    #expect(farewell?.isGraceful == false)
  }

  @Test func whoNeverAttachedIsNotMissed() {
    var machine = SessionMachine(claims: .of())
    let another = machine.session.takeEnd()
    #expect(another == nil)
  }

  @Test func silentDeviceIsDeadAfterTwoPings() {
    var machine = SessionMachine.attached()
    machine.pass(.milliseconds(12_499))
    #expect(machine.take().isEmpty)
    machine.pass(.milliseconds(12_501))
    #expect(machine.take() == [.ping])
    machine.pass(.seconds(25))
    #expect(machine.take() == [.ping])
    machine.pass(.seconds(25))
    #expect(machine.take() == [.close(.pingTimeout), .abort])
  }

  /// As all devices of an edge do when it ends: what came together must not be pinged together.
  @Test func sessionsThatAttachAtOnceArePingedOneAfterTheOther() {
    var machines = (1...1000).map { SessionMachine.attached(number: $0 << 8 | 3) }
    var pings: [Int] = []
    for _ in 0..<250 {
      var count = 0
      for index in machines.indices {
        machines[index].pass(.milliseconds(100))
        count += machines[index].take().count { $0 == .ping }
      }
      pings.append(count)
    }
    #expect(pings.reduce(0, +) == 1000)
    #expect(pings[..<124].allSatisfy { $0 == 0 })
    // 1,000 in 12.5 s are eight in a tenth of a second.
    #expect(pings.allSatisfy { $0 <= 16 }, "\(pings)")
  }

  @Test func eachSessionIsLookedAtOnceInASweep() {
    var slots = TimerWheel<Int>(slotCount: 10)
    for index in 1...100 { slots.add(UInt64(index) << 8, index) }
    slots.remove(50 << 8)
    let ticks = (5..<15).map { slots.due(at: $0) }
    #expect(ticks.map(\.count).allSatisfy { 9...10 ~= $0 })
    #expect(ticks.joined().sorted() == Array(1...100).filter { $0 != 50 })
  }

  @Test func anythingHeardKeepsASessionAlive() {
    var machine = SessionMachine.attached()
    for _ in 0..<10 {
      machine.pass(.seconds(25))
      #expect(machine.take() == [.ping])
      machine.session.receivedBytes()
    }
  }

  @Test func slowDeviceIsClosedAtOnce() {
    var machine = SessionMachine.attached()
    machine.session.end(.slowConsumer, &machine.turn)
    #expect(machine.take() == [.close(.slowConsumer)])
    // The data that waits is kept for a while.
    machine.pass(.seconds(9))
    #expect(machine.take() == [])
    machine.pass(.seconds(1))
    #expect(machine.take() == [.abort])
  }

  @Test func aMessageThatIsFarTooLargeMayBeSentToItsEnd() {
    var machine = SessionMachine.attached()
    machine.session.end(.messageTooLarge, &machine.turn)
    #expect(machine.take() == [.close(.messageTooLarge)])
    // Bytes that follow cannot be understood, and say nothing.
    machine.session.end(.protocolError, &machine.turn)
    machine.pass(.seconds(9))
    #expect(machine.take() == [])
    machine.pass(.seconds(1))
    #expect(machine.take() == [.abort])
  }

  @Test func announcementIsTheAttachAgain() {
    var machine = SessionMachine.attached()
    #expect(
      machine.session.announcement
        == .attach(
          Attach(
            deviceName: "Ann's phone", announce: true, attachedAt: SessionMachine.start,
            userName: "")))
    var placer = SessionMachine(claims: .of())
    placer.say(1, .attach(AttachRequest(device: "phone", onlyPlaces: true)))
    placer.reply(1, .attach(Attach()), .attached(forCall: nil))
    guard case .attach(let said)? = placer.session.announcement else {
      Issue.record("no announcement")
      return
    }
    #expect(said.onlyPlaces)
    machine.say(2, .detach)
    #expect(machine.session.announcement == nil)
    #expect(SessionMachine(claims: .of()).session.announcement == nil)
  }
}
