import CallClient
import CallCore
import CallWire
import Testing

/// Descriptions and candidates go out, and are taken in, in their order.
@Suite struct ClientSignalOrderTests {
  private let call = CallID(high: 9, low: 9)

  private func candidate(_ number: Int) -> ClientCommand {
    .call(CallAddress(callee: "bob", call: call), .signal(.candidate, body: "c\(number)"))
  }

  private func ids(_ device: inout Device) -> [UInt64] {
    device.take().frames.filter { if case .call(_, .signal) = $0.command { true } else { false } }
      .map(\.id)
  }

  private func send(_ numbers: ClosedRange<Int>, _ device: inout Device) -> [UInt64] {
    numbers.map { device.say(candidate($0)) ?? 0 }
  }

  private let again = ServerReply.error(CallError(.tryAgain))

  private func attached() -> Device {
    var device = Device()
    device.attach()
    return device
  }

  @Test func whatWasRefusedIsSentBeforeLaterOnes() {
    var device = attached()
    let first = send(1...3, &device)
    #expect(ids(&device) == first)
    for id in first { device.hear(.reply(id: id, again)) }
    let later = device.say(candidate(4)) ?? 0
    #expect(ids(&device).isEmpty, "it waits behind the others")
    device.pass(.seconds(1))
    #expect(ids(&device) == first + [later])
  }

  @Test func whatIsUnderWayBehindARefusedOneIsSentAgain() {
    var device = attached()
    let first = send(1...3, &device)
    _ = device.take()
    // Only the first one's refusal has arrived; the others follow.
    device.hear(.reply(id: first[0], again))
    device.hear(.reply(id: first[2], again))
    device.hear(.reply(id: first[1], again))
    device.pass(.seconds(1))
    #expect(ids(&device) == first)
    for id in first { device.hear(.reply(id: id, .done)) }
    #expect(device.machine.pendingCount == 0)
  }

  @Test func oneThatIsAnsweredWhileItWaitsLetsTheOthersGo() {
    var device = attached()
    let first = send(1...2, &device)
    _ = device.take()
    device.hear(.reply(id: first[0], again))
    // Its former copy was taken after all.
    device.hear(.reply(id: first[0], .done))
    #expect(ids(&device) == [first[1]])
  }

  @Test func otherCallsGoOn() {
    var device = attached()
    let id = device.say(candidate(1)) ?? 0
    device.hear(.reply(id: id, again))
    _ = device.take()
    let other = CallAddress(callee: "bob", call: CallID(high: 9, low: 10))
    let next = device.say(.call(other, .signal(.candidate, body: "x"))) ?? 0
    #expect(ids(&device) == [next])
  }

  @Test func afterABreakAllGoOutInOrder() {
    var device = attached()
    let all = send(1...3, &device)
    device.hear(.reply(id: all[1], again))
    _ = device.take()
    device.close()
    device.comeBack()
    #expect(ids(&device) == all)
  }

  // MARK: Deliveries

  private func delivery(
    _ version: UInt64, after: UInt64, _ body: String, _ kind: SignalKind = .candidate
  ) -> ServerFrame {
    var delivery = Delivery(
      call: call, callee: "me", version: version, at: Timestamp(microseconds: 0),
      event: .signal(Signal(index: version, kind: kind, body: body)))
    delivery.after = after
    return .delivery(delivery)
  }

  private func bodies(_ device: inout Device) -> [String] {
    device.take().callEvents.compactMap {
      if case .signal(let signal) = $0 { signal.body } else { nil }
    }
  }

  @Test func whatComesBeforeItsPredecessorIsLeftToComeAgain() {
    var device = attached()
    device.hear(
      call, 1, .invite(Invite(caller: Party(user: "ann", device: "a1"), deadline: device.now)))
    _ = device.take()
    device.hear(delivery(2, after: 1, "c1"))
    device.hear(delivery(4, after: 3, "c3"))
    #expect(bodies(&device) == ["c1"])
    device.readCompleted()
    device.pass(.milliseconds(150))
    let acks = device.take().frames.compactMap { frame -> [UInt64]? in
      if case .ack(let items) = frame.command { items.map(\.version) } else { nil }
    }
    #expect(acks == [[1, 2]], "what was not taken is not acknowledged")
    device.hear(delivery(3, after: 0, "c2"))
    device.hear(delivery(4, after: 3, "c3"))
    #expect(bodies(&device) == ["c2", "c3"])
  }

  @Test func aDeliveryOfACallThatIsNotKnownWaitsForTheInvite() {
    var device = attached()
    device.hear(delivery(2, after: 1, "c1"))
    #expect(device.machine.calls.isEmpty)
    device.hear(
      call, 1, .invite(Invite(caller: Party(user: "ann", device: "a1"), deadline: device.now)))
    device.hear(delivery(2, after: 1, "c1"))
    #expect(bodies(&device) == ["c1"])
  }

  /// It does not reach the app. It is acknowledged all the same, or nothing behind it would arrive.
  @Test func aSignalOfALaterKindIsAcknowledgedAndNoNews() {
    var device = attached()
    device.hear(delivery(5, after: 0, "?", .unknown))
    device.hear(delivery(6, after: 5, "6", .information))
    device.readCompleted()
    device.pass(.seconds(1))
    let actions = device.take()
    let news = Signal(index: 6, kind: .information, body: "6")
    #expect(actions.callEvents == [.signal(news)])
    let acknowledged = actions.frames.flatMap { frame in
      if case .ack(let items) = frame.command { items.map(\.version) } else { [UInt64]() }
    }
    #expect(acknowledged == [5, 6])
  }
}
