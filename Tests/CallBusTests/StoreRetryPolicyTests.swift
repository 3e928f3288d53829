import CallBus
import CallCore
import Testing

@Suite struct StoreRetryPolicyTests {
  private func policy(_ limit: Span, _ onRetry: @escaping @Sendable (BusError) -> Void = { _ in })
    -> StoreRetryPolicy
  {
    StoreRetryPolicy(
      clock: ClusterClock(wallMicroseconds: 0), limit: limit, pause: .milliseconds(1),
      onRetry: onRetry)
  }

  @Test func whatMayPassIsAskedAgain() async throws {
    var left: [BusError] = [.timeout, .noResponders, .notReady("elects")]
    let told = Inbox<BusError>(capacity: 8)
    let retry = policy(.seconds(60)) { told.offer($0) }
    let value = try await retry {
      if !left.isEmpty { throw left.removeFirst() }
      return 7
    }
    #expect(value == 7)
    #expect(await told.next(until: .now) == [.timeout, .noResponders, .notReady("elects")])
  }

  @Test(arguments: [BusError.failed("another configuration"), .closed])
  func whatStaysIsSaidAtOnce(error: BusError) async {
    var asked = 0
    let retry = policy(.seconds(60))
    await #expect(throws: error) {
      try await retry {
        asked += 1
        throw error
      }
    }
    #expect(asked == 1)
  }

  @Test func itEnds() async {
    let retry = policy(.milliseconds(5))
    await #expect(throws: BusError.timeout) { try await retry { throw BusError.timeout } }
  }
}
