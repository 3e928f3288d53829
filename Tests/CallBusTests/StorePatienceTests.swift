import CallBus
import CallCore
import Testing

@Suite struct StorePatienceTests {
  private func patience(_ limit: Span, _ waits: @escaping @Sendable (BusError) -> Void = { _ in })
    -> StorePatience
  {
    StorePatience(
      clock: ClusterClock(wallMicroseconds: 0), limit: limit, pause: .milliseconds(1), waits: waits)
  }

  @Test func whatMayPassIsAskedAgain() async throws {
    var left: [BusError] = [.timeout, .noResponders, .notReady("elects")]
    let told = Inbox<BusError>(capacity: 8)
    let patiently = patience(.seconds(60)) { told.offer($0) }
    let value = try await patiently {
      if !left.isEmpty { throw left.removeFirst() }
      return 7
    }
    #expect(value == 7)
    #expect(await told.next(until: .now) == [.timeout, .noResponders, .notReady("elects")])
  }

  @Test(arguments: [BusError.failed("another configuration"), .closed, .wrongSequence])
  func whatStaysIsSaidAtOnce(error: BusError) async {
    var asked = 0
    let patiently = patience(.seconds(60))
    await #expect(throws: error) {
      try await patiently {
        asked += 1
        throw error
      }
    }
    #expect(asked == 1)
  }

  @Test func itEnds() async {
    let patiently = patience(.milliseconds(5))
    await #expect(throws: BusError.timeout) {
      try await patiently { throw BusError.timeout }
    }
  }
}
