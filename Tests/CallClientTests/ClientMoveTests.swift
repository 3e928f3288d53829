import CallClient
import CallCore
import CallWire
import Testing

extension Device {
  /// The edges to which the device wants its next connection.
  var nextEdges: [Int] {
    turn.actions.compactMap { if case .connectNext(let edge) = $0 { edge } else { nil } }
  }

  /// Opens the next connection.
  /// - Returns: the attach that the device sends there.
  mutating func openNext() -> ClientFrame? {
    machine.opened(on: .next, &turn)
    for case .sendNext(let frame) in take() { return frame }
    return nil
  }

  mutating func hearNext(_ request: UInt64?, _ reply: ServerReply = .attached(.sample)) {
    machine.received(.reply(id: request ?? 0, reply), on: .next, &turn)
  }
}

/// A device leaves an edge that goes away, and is attached all the time.
@Suite struct ClientMoveTests {
  let call = CallID(high: 1, low: 2)
  private var placed: CallAddress { CallAddress(callee: "you", call: call) }
  static let goAway = ServerFrame.notice(
    Notice(kind: .goAway, message: "", retryAfterMilliseconds: 3000))
  private static let replaced = ServerFrame.notice(Notice(kind: .sessionReplaced, message: ""))

  /// Lets the time pass that the edge has given.
  private func leave(_ device: inout Device) {
    device.hear(Self.goAway)
    device.passAlive(.milliseconds(3400))
  }

  /// A device that got `goAway` and has opened its next connection, and the attach that it sends there.
  private func moving() -> (device: Device, attach: UInt64?) {
    var device = Device.attached()
    leave(&device)
    let attach = device.openNext()?.id
    return (device, attach)
  }

  @Test func attachesElsewhereBeforeItLeaves() {
    var device = Device.attached()
    device.hear(Self.goAway)
    #expect(device.take().count == 1, "the notice, and nothing is closed")
    device.pass(.milliseconds(2999))
    #expect(device.take().isEmpty, "it comes when it was asked to")
    device.pass(.milliseconds(400))
    #expect(device.take() == [.connectNext(edge: 1)])
    let attach = device.openNext()
    #expect(device.machine.isAttached)
    device.hearNext(attach?.id)
    #expect(device.take() == [.switchOver, .event(.attached(.sample, again: true))])
    #expect(device.machine.isAttached)
    #expect(!device.machine.isMoving)
  }

  @Test func theSessionThatItReplacesItselfIsNoReasonToStop() {
    var (device, attach) = moving()
    device.hear(Self.replaced)
    #expect(device.take().contains(.switchOver))
    #expect(device.machine.state != .stopped)
    device.reply(attach, .attached(.sample))
    #expect(device.machine.isAttached)
    #expect(device.take().events == [.attached(.sample, again: true)])
  }

  @Test func anotherCopyStillThrowsItOut() {
    var device = Device.attached()
    device.hear(Self.goAway)
    device.hear(Self.replaced)
    #expect(device.machine.state == .stopped)
  }

  /// The other edge gave its shard up, which took the attach a moment later.
  @Test func aMoveThatFailedAndCountedAfterAllIsNoReasonToStop() {
    var (device, attach) = moving()
    device.hearNext(attach, .error(CallError(.tryAgain)))
    #expect(device.take().contains(.closeNext))
    #expect(device.machine.isAttached)
    device.hear(Self.replaced)
    #expect(device.take().contains(.close))
    #expect(!device.machine.isMoving)
    device.passWait()
    _ = device.take()
    device.open()
    device.answerAttach()
    #expect(device.machine.isAttached)
  }

  /// A deadline that `fire` cannot meet would make the driver fire again and again.
  @Test func acknowledgementsWaitUntilTheNextConnectionIsAttached() {
    var (device, attach) = moving()
    device.ring(call, 1)
    device.readCompleted()
    #expect(device.machine.ackDeadline != nil)
    device.close()
    device.pass(.milliseconds(500))
    #expect(device.machine.state != .attached)
    #expect(device.machine.ackDeadline == nil)
    _ = device.take()
    device.reply(attach, .attached(.sample))
    #expect(device.machine.ackDeadline.map { $0 <= device.now } == true)
    device.pass(.milliseconds(0))
    #expect(device.said() == [.ack([AckItem(call: CallAddress(call: call), version: 1)])])
    #expect(device.machine.ackDeadline == nil)
  }

  @Test func whatIsUnderWayIsSaidAgainAndAnsweredOnce() {
    var device = Device.attached()
    leave(&device)
    let request = device.say(.call(CallAddress(call: call), .alerting))!
    #expect(device.take().frames.map(\.id) == [request], "the old connection serves")
    device.hearNext(device.openNext()?.id)
    #expect(device.take().frames.map(\.id) == [request])
    device.reply(request, .done)
    device.reply(request, .done)
    #expect(device.take().events.count == 1)
  }

  @Test func callsThatItPlacedAreTakenUp() {
    var device = Device.attached()
    device.havePlaced(placed)
    leave(&device)
    device.hearNext(device.openNext()?.id)
    #expect(device.said() == [.call(placed, .resume)])
  }

  @Test func anEdgeThatTakesNothingMakesItTryTheOthersInTurn() {
    var device = Device.attached()
    leave(&device)
    var tried = device.nextEdges
    _ = device.take()
    for _ in 0..<3 {
      device.machine.closed(on: .next, &device.turn)
      device.passAlive(.seconds(2))
      tried += device.nextEdges
      _ = device.take()
    }
    #expect(tried == [1, 2, 1, 2], "not the one that goes away")
    #expect(device.machine.isAttached)
  }

  @Test func aSilentEdgeIsGivenUp() {
    var device = moving().device
    device.passAlive(.seconds(10))
    #expect(device.take().contains(.closeNext))
    device.passAlive(.seconds(1))
    #expect(device.take().contains(.connectNext(edge: 2)))
  }

  @Test func theOldConnectionBreaksWhileTheNewOneAttaches() {
    var (device, attach) = moving()
    device.close()
    #expect(device.take().contains(.switchOver))
    device.reply(attach, .attached(.sample))
    #expect(device.machine.isAttached)
  }

  @Test("the old connection breaks before it moves: the others first, then the one that went away")
  func brokenBefore() {
    var device = Device.attached()
    device.hear(Self.goAway)
    device.close()
    _ = device.take()
    var tried: [Int] = []
    for attempt in 0..<4 {
      let wait = device.passWait()
      #expect(attempt > 0 || wait <= 1_000_000, "no need to wait for the time that was given")
      for case .connect(let edge) in device.take() { tried.append(edge) }
      device.close()
    }
    #expect(tried == [1, 2, 0, 1], "it may be back by then")
  }

  @Test func aCallThatADrainingEdgeRefusesIsPlacedElsewhere() {
    var device = Device.attached()
    let request = device.place(placed)!
    _ = device.take()
    device.refuse(request, .draining)
    #expect(device.take().events.isEmpty)
    device.pass(.milliseconds(1))
    #expect(device.take() == [.connectNext(edge: 1)])
    device.hearNext(device.openNext()?.id)
    #expect(device.take().frames.map(\.id) == [request])
  }

  @Test func anotherEdgeThatGoesAwayTooIsLeftAlone() {
    var (device, attach) = moving()
    device.hearNext(attach, .error(CallError(.draining)))
    #expect(device.take().contains(.closeNext))
    device.passAlive(.seconds(1))
    #expect(device.take().contains(.connectNext(edge: 2)))
  }

  @Test func theFirstAttemptsAfterABreakAreSpread() {
    var waits: [Int64] = []
    for seed in 0..<200 as Range<UInt64> {
      var device = Device()
      device.turn.random = SplitMix64(seed: seed)
      device.attach()
      device.close()
      waits.append(device.passWait())
    }
    #expect(waits.allSatisfy { (0...1_000_000).contains($0) })
    for tenth in 0..<10 as Range<Int64> {
      let count = waits.count { $0 / 100_000 == tenth }
      #expect((5...40).contains(count), "in tenth \(tenth)")
    }
  }

  @Test func stoppingEndsBothConnections() {
    var device = moving().device
    device.machine.stop(&device.turn)
    let actions = device.take()
    #expect(actions.contains(.close))
    #expect(actions.contains(.closeNext))
  }
}
