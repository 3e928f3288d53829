import CallClient
import CallCore
import CallWire
import Testing

/// A device leaves an edge that goes away, and is attached all the time.
@Suite struct ClientMoveTests {
  let call = CallID(high: 1, low: 2)
  static let goAway = ServerFrame.notice(
    Notice(kind: .goAway, message: "", retryAfterMilliseconds: 3000))

  /// A device that got `goAway` and has opened its next connection, and the attach that it sends there.
  private func moving(_ device: inout Device) -> ClientFrame {
    device.attach()
    device.hear(Self.goAway)
    device.machine.noteContact(now: device.now)
    device.pass(.milliseconds(3400))
    device.machine.opened(on: .next, &device.turn)
    let said = device.take().compactMap {
      if case .sendNext(let frame) = $0 { frame } else { nil as ClientFrame? }
    }
    return said[0]
  }

  private func hearNext(_ device: inout Device, _ frame: ServerFrame) {
    device.machine.received(
      frame, on: .next, &device.turn)
  }

  private func closeNext(_ device: inout Device) {
    device.machine.closed(on: .next, &device.turn)
  }

  @Test func attachesElsewhereBeforeItLeaves() {
    var device = Device()
    device.attach()
    device.hear(Self.goAway)
    #expect(device.take().count == 1, "the notice, and nothing is closed")
    device.pass(.milliseconds(2999))
    #expect(device.take().isEmpty, "it comes when it was asked to")
    device.pass(.milliseconds(400))
    #expect(device.take() == [.connectNext(edge: 1)])
    device.machine.opened(on: .next, &device.turn)
    guard case .sendNext(let attach)? = device.take().first else {
      Issue.record("no attach")
      return
    }
    #expect(device.machine.isAttached)
    hearNext(&device, .reply(id: attach.id, .attached(.sample)))
    #expect(device.take() == [.switchOver, .event(.attached(.sample, again: true))])
    #expect(device.machine.isAttached)
    #expect(!device.machine.isMoving)
  }

  @Test func theSessionThatItReplacesItselfIsNoReasonToStop() {
    var device = Device()
    let attach = moving(&device)
    device.hear(.notice(Notice(kind: .sessionReplaced, message: "")))
    #expect(device.take().contains(.switchOver))
    #expect(device.machine.state != .stopped)
    device.hear(.reply(id: attach.id, .attached(.sample)))
    #expect(device.machine.isAttached)
    #expect(device.take().events == [.attached(.sample, again: true)])
  }

  @Test func anotherCopyStillThrowsItOut() {
    var device = Device()
    device.attach()
    device.hear(Self.goAway)
    device.hear(.notice(Notice(kind: .sessionReplaced, message: "")))
    #expect(device.machine.state == .stopped)
  }

  /// The other edge gave its shard up, which took the attach a moment later.
  @Test func aMoveThatFailedAndCountedAfterAllIsNoReasonToStop() {
    var device = Device()
    let attach = moving(&device)
    hearNext(&device, .reply(id: attach.id, .error(CallError(.tryAgain))))
    #expect(device.take().contains(.closeNext))
    #expect(device.machine.isAttached)
    device.hear(.notice(Notice(kind: .sessionReplaced, message: "")))
    #expect(device.take().contains(.close))
    guard case .waiting(let until) = device.machine.state else {
      Issue.record("it does not come back")
      return
    }
    #expect(!device.machine.isMoving)
    device.pass(until - device.now)
    device.open()
    let again = device.take().frames[0]
    device.hear(.reply(id: again.id, .attached(.sample)))
    #expect(device.machine.isAttached)
  }

  /// A deadline that `fire` cannot meet would make the driver fire again and again.
  @Test func acknowledgementsWaitUntilTheNextConnectionIsAttached() {
    var device = Device()
    let attach = moving(&device)
    let deadline = device.now + .seconds(30)
    let invite = Invite(caller: Party(user: "you", device: "p"), deadline: deadline)
    device.hear(call, 1, .invite(invite))
    device.readCompleted()
    #expect(device.machine.ackDeadline != nil)
    device.close()
    device.pass(.milliseconds(500))
    #expect(device.machine.state != .attached)
    #expect(device.machine.ackDeadline == nil)
    _ = device.take()
    device.hear(.reply(id: attach.id, .attached(.sample)))
    #expect(device.machine.ackDeadline.map { $0 <= device.now } == true)
    device.pass(.milliseconds(0))
    #expect(
      device.take().frames.map(\.command) == [
        .ack([AckItem(call: CallAddress(callee: "", call: call), version: 1)])
      ])
    #expect(device.machine.ackDeadline == nil)
  }

  @Test func whatIsUnderWayIsSaidAgainAndAnsweredOnce() {
    var device = Device()
    device.attach()
    device.hear(Self.goAway)
    device.machine.noteContact(now: device.now)
    device.pass(.milliseconds(3400))
    let request = device.say(.call(CallAddress(call: call), .alerting))!
    #expect(device.take().frames.map(\.id) == [request], "the old connection serves")
    device.machine.opened(on: .next, &device.turn)
    guard case .sendNext(let attach)? = device.take().first else {
      Issue.record("no attach")
      return
    }
    hearNext(&device, .reply(id: attach.id, .attached(.sample)))
    #expect(device.take().frames.map(\.id) == [request])
    device.hear(.reply(id: request, .done))
    device.hear(.reply(id: request, .done))
    #expect(device.take().events.count == 1)
  }

  @Test func callsThatItPlacedAreTakenUp() {
    var device = Device()
    device.attach()
    let request = device.say(.place(CallAddress(callee: "you", call: call), .init(call: call)))!
    device.hear(
      .reply(id: request, .call(CallState(call: call, callee: "you", phase: .placed, version: 1))))
    device.hear(Self.goAway)
    device.machine.noteContact(now: device.now)
    device.pass(.milliseconds(3400))
    device.machine.opened(on: .next, &device.turn)
    let said = device.take().compactMap {
      if case .sendNext(let frame) = $0 { frame } else { nil as ClientFrame? }
    }
    hearNext(&device, .reply(id: said[0].id, .attached(.sample)))
    #expect(
      device.take().frames.map(\.command) == [
        .call(CallAddress(callee: "you", call: call), .resume)
      ])
  }

  @Test func anEdgeThatTakesNothingMakesItTryTheOthersInTurn() {
    var device = Device()
    device.attach()
    device.hear(Self.goAway)
    device.machine.noteContact(now: device.now)
    device.pass(.milliseconds(3400))
    var tried = device.take().compactMap { action -> Int? in
      if case .connectNext(let edge) = action { edge } else { nil }
    }
    for _ in 0..<3 {
      closeNext(&device)
      device.machine.noteContact(now: device.now)
      device.pass(.seconds(2))
      tried += device.take().compactMap {
        if case .connectNext(let edge) = $0 { edge } else { nil as Int? }
      }
    }
    #expect(tried == [1, 2, 1, 2], "not the one that goes away")
    #expect(device.machine.isAttached)
  }

  @Test func aSilentEdgeIsGivenUp() {
    var device = Device()
    _ = moving(&device)
    device.machine.noteContact(now: device.now)
    device.pass(.seconds(10))
    #expect(device.take().contains(.closeNext))
    device.machine.noteContact(now: device.now)
    device.pass(.seconds(1))
    #expect(device.take().contains(.connectNext(edge: 2)))
  }

  @Test func theOldConnectionBreaksWhileTheNewOneAttaches() {
    var device = Device()
    let attach = moving(&device)
    device.close()
    #expect(device.take().contains(.switchOver))
    device.hear(.reply(id: attach.id, .attached(.sample)))
    #expect(device.machine.isAttached)
  }

  @Test func theOldConnectionBreaksBeforeItMoves() {
    var device = Device()
    device.attach()
    device.hear(Self.goAway)
    device.close()
    guard case .waiting(let until) = device.machine.state else {
      Issue.record("does not wait")
      return
    }
    #expect(until <= device.now + .seconds(1), "no need to wait for the time that was given")
    _ = device.take()
    device.pass(.seconds(1))
    #expect(device.take() == [.connect(edge: 1)])
  }

  @Test func whereTheOthersTakeNothingTheEdgeThatWentIsTriedAgain() {
    var device = Device()
    device.attach()
    device.hear(Self.goAway)
    device.close()
    _ = device.take()
    var tried: [Int] = []
    for _ in 0..<4 {
      guard case .waiting(let until) = device.machine.state else { break }
      device.pass(until - device.now)
      for case .connect(let edge) in device.take() { tried.append(edge) }
      device.close()
    }
    #expect(tried == [1, 2, 0, 1], "it may be back by then")
  }

  @Test func aCallThatADrainingEdgeRefusesIsPlacedElsewhere() {
    var device = Device()
    device.attach()
    let request = device.say(.place(CallAddress(callee: "you", call: call), .init(call: call)))!
    _ = device.take()
    device.hear(.reply(id: request, .error(CallError(.draining))))
    #expect(device.take().events.isEmpty)
    device.pass(.milliseconds(1))
    #expect(device.take() == [.connectNext(edge: 1)])
    device.machine.opened(on: .next, &device.turn)
    guard case .sendNext(let attach)? = device.take().first else {
      Issue.record("no attach")
      return
    }
    hearNext(&device, .reply(id: attach.id, .attached(.sample)))
    #expect(device.take().frames.map(\.id) == [request])
  }

  @Test func anotherEdgeThatGoesAwayTooIsLeftAlone() {
    var device = Device()
    let attach = moving(&device)
    hearNext(&device, .reply(id: attach.id, .error(CallError(.draining))))
    #expect(device.take().contains(.closeNext))
    device.machine.noteContact(now: device.now)
    device.pass(.seconds(1))
    #expect(device.take().contains(.connectNext(edge: 2)))
  }

  @Test func theFirstAttemptsAfterABreakAreSpread() {
    var waits: [Int64] = []
    for seed in 0..<200 as Range<UInt64> {
      var device = Device()
      device.turn.random = SplitMix64(seed: seed)
      device.attach()
      device.close()
      guard case .waiting(let until) = device.machine.state else { continue }
      waits.append((until - device.now).microseconds)
    }
    #expect(waits.count == 200)
    #expect(waits.allSatisfy { (0...1_000_000).contains($0) })
    for tenth in 0..<10 as Range<Int64> {
      let count = waits.count { $0 / 100_000 == tenth }
      #expect((5...40).contains(count), "in tenth \(tenth)")
    }
  }

  @Test func stoppingEndsBothConnections() {
    var device = Device()
    _ = moving(&device)
    device.machine.stop(&device.turn)
    let actions = device.take()
    #expect(actions.contains(.close))
    #expect(actions.contains(.closeNext))
  }
}
