import CallClient
import CallCore
import CallWire
import Testing

/// Which calls the user is in, as its device learns it.
@Suite struct ClientOngoingTests {
  private static func call(_ number: UInt64) -> OngoingCall {
    OngoingCall(
      call: CallID(high: 1, low: number), callee: "me", isPlaced: false, device: "tablet",
      peer: "ann", since: Timestamp(microseconds: 1000))
  }

  private func info(_ ongoing: OngoingCalls?) -> AttachedInfo {
    var info = AttachedInfo.sample
    info.ongoing = ongoing
    return info
  }

  /// A device that has learned the user's calls; its app does not know them yet.
  private func attached(_ ongoing: OngoingCalls = OngoingCalls(version: 5)) -> Device {
    var device = Device(edges: ["a"]) { $0.wantsOngoing = true }
    device.start()
    device.open()
    device.answerAttach(.attached(info(ongoing)))
    return device
  }

  private func shown(_ device: inout Device) -> [[OngoingCall]] {
    device.take().events.compactMap { if case .ongoing(let calls) = $0 { calls } else { nil } }
  }

  private func acknowledged(_ device: inout Device) -> [UInt64] {
    device.readCompleted()
    device.pass(.seconds(1))
    return device.said().flatMap { command -> [UInt64] in
      guard case .ack(let items) = command else { return [] }
      return items.filter { $0.call.call == Acknowledgement.ongoingID }.map(\.version)
    }
  }

  @Test(arguments: [true, false]) func itAsksIfTheAppWants(asks: Bool) {
    var device = Device { $0.wantsOngoing = asks }
    device.start()
    device.open()
    let attach = device.said().compactMap {
      if case .attach(let request) = $0 { request } else { nil as AttachRequest? }
    }
    #expect(attach.map(\.wantsOngoing) == [asks])
  }

  @Test func theAppLearnsEachChangeOnce() {
    var device = attached(OngoingCalls(version: 5, calls: [Self.call(1)]))
    #expect(shown(&device) == [[Self.call(1)]])
    device.hear(.ongoing(OngoingCalls(version: 6, calls: [Self.call(1), Self.call(2)])))
    device.hear(.ongoing(OngoingCalls(version: 6, calls: [Self.call(1), Self.call(2)])))
    #expect(shown(&device) == [[Self.call(1), Self.call(2)]])
    // A new owner says the same.
    device.hear(.ongoing(OngoingCalls(version: 1 << 20, calls: [Self.call(1), Self.call(2)])))
    #expect(shown(&device).isEmpty)
    device.hear(.ongoing(OngoingCalls(version: 1 << 20 | 1)))
    #expect(shown(&device) == [[]])
  }

  @Test("R9: each frame is acknowledged, but those that are out of date")
  func acknowledgements() {
    var device = attached()
    _ = device.take()
    device.hear(.ongoing(OngoingCalls(version: 6, calls: [Self.call(1)])))
    device.hear(.ongoing(OngoingCalls(version: 6, calls: [Self.call(1)])))
    device.hear(.ongoing(OngoingCalls(version: 4, calls: [Self.call(2)])))
    device.hear(.ongoing(OngoingCalls(version: 7)))
    #expect(shown(&device) == [[Self.call(1)], []])
    #expect(acknowledged(&device) == [6, 6, 7])
  }

  @Test("R11: what the next connection says holds, whatever the last one said")
  func nextConnection() {
    var device = attached(OngoingCalls(version: 9, calls: [Self.call(1)]))
    _ = device.take()
    device.close()
    // It may have counted from the beginning.
    device.comeBack(info(OngoingCalls(version: 2, calls: [Self.call(1)])))
    #expect(shown(&device).isEmpty)
    device.hear(.ongoing(OngoingCalls(version: 3)))
    #expect(shown(&device) == [[]])
  }

  @Test func whereTheAppHasItNoMoreNoneIsShown() {
    var device = attached(OngoingCalls(version: 9, calls: [Self.call(1)]))
    _ = device.take()
    device.close()
    device.comeBack(info(nil))
    #expect(shown(&device) == [[]])
  }

  @Test func nothingIsTakenBeforeTheAttachIsAnswered() {
    var device = Device { $0.wantsOngoing = true }
    device.start()
    device.open()
    device.hear(.ongoing(OngoingCalls(version: 9, calls: [Self.call(1)])))
    #expect(shown(&device).isEmpty)
    #expect(acknowledged(&device).isEmpty)
  }
}
