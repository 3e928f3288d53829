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

  @Test func whatWasRefusedIsSentBeforeLaterOnes() {
    var device = Device.attached()
    let first = send(1...3, &device)
    #expect(ids(&device) == first)
    for id in first { device.refuse(id, .tryAgain) }
    let later = device.say(candidate(4)) ?? 0
    #expect(ids(&device).isEmpty, "it waits behind the others")
    device.pass(.seconds(1))
    #expect(ids(&device) == first + [later])
  }

  @Test func whatIsUnderWayBehindARefusedOneIsSentAgain() {
    var device = Device.attached()
    let first = send(1...3, &device)
    _ = device.take()
    // Only the first one's refusal has arrived; the others follow.
    device.refuse(first[0], .tryAgain)
    device.refuse(first[2], .tryAgain)
    device.refuse(first[1], .tryAgain)
    device.pass(.seconds(1))
    #expect(ids(&device) == first)
    for id in first { device.reply(id, .done) }
    #expect(device.machine.pendingCount == 0)
  }

  @Test func oneThatIsAnsweredWhileItWaitsLetsTheOthersGo() {
    var device = Device.attached()
    let first = send(1...2, &device)
    _ = device.take()
    device.refuse(first[0], .tryAgain)
    // Its former copy was taken after all.
    device.reply(first[0], .done)
    #expect(ids(&device) == [first[1]])
  }

  @Test func otherCallsGoOn() {
    var device = Device.attached()
    let id = device.say(candidate(1)) ?? 0
    device.refuse(id, .tryAgain)
    _ = device.take()
    let other = CallAddress(callee: "bob", call: CallID(high: 9, low: 10))
    let next = device.say(.call(other, .signal(.candidate, body: "x"))) ?? 0
    #expect(ids(&device) == [next])
  }

  @Test func afterABreakAllGoOutInOrder() {
    var device = Device.attached()
    let all = send(1...3, &device)
    device.refuse(all[1], .tryAgain)
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
    var device = Device.attached()
    device.ring(call, 1)
    _ = device.take()
    device.hear(delivery(2, after: 1, "c1"))
    device.hear(delivery(4, after: 3, "c3"))
    #expect(bodies(&device) == ["c1"])
    #expect(
      device.acknowledged()?.map(\.version) == [1, 2], "what was not taken is not acknowledged")
    device.hear(delivery(3, after: 0, "c2"))
    device.hear(delivery(4, after: 3, "c3"))
    #expect(bodies(&device) == ["c2", "c3"])
  }

  @Test func aDeliveryOfACallThatIsNotKnownWaitsForTheInvite() {
    var device = Device.attached()
    device.hear(delivery(2, after: 1, "c1"))
    #expect(device.machine.calls.isEmpty)
    device.ring(call, 1)
    device.hear(delivery(2, after: 1, "c1"))
    #expect(bodies(&device) == ["c1"])
  }

  /// It does not reach the app. It is acknowledged all the same, or nothing behind it would arrive.
  @Test func aSignalOfALaterKindIsAcknowledgedAndNoNews() {
    var device = Device.attached()
    device.hear(delivery(5, after: 0, "?", .unknown))
    device.hear(delivery(6, after: 5, "6", .information))
    let news = Signal(index: 6, kind: .information, body: "6")
    #expect(device.take().callEvents == [.signal(news)])
    #expect(device.acknowledged()?.map(\.version) == [5, 6])
  }
}
