import CallCore
import CallEdge
import Testing

private let start = Timestamp(microseconds: 1_000_000_000)

/// Descriptions and candidates of one call and session keep their order.
@Suite struct SignalStreamTests {
  private let call = CallID(high: 1, low: 1)

  private func signal(_ request: UInt64, of call: CallID? = nil, session: UInt64 = 1) -> Command {
    command(
      session: session, request: request,
      .call(call ?? self.call, .signal(.candidate, body: "c\(request)")))
  }

  private func sent(_ outbox: inout CommandOutbox) -> [[UInt64]] {
    outbox.flushed(all: true).flatMap(\.commands).map { [$0.request, $0.after] }
  }

  @Test func eachNamesTheUnansweredOneBeforeIt() {
    var outbox = outbox()
    let other = CallID(high: 1, low: 2)
    for request: UInt64 in [1, 2] { _ = outbox.submit(signal(request), now: start) }
    _ = outbox.submit(signal(3, of: other), now: start)
    _ = outbox.submit(signal(4, session: 2), now: start)
    _ = outbox.submit(command(request: 5, .call(call, .connected)), now: start)
    _ = outbox.submit(signal(6), now: start)
    #expect(sent(&outbox) == [[1, 0], [2, 1], [3, 0], [4, 0], [5, 0], [6, 2]])
    _ = outbox.replied(session: 1, request: 2)
    _ = outbox.submit(signal(7), now: start)
    #expect(sent(&outbox) == [[7, 6]])
    for request: UInt64 in [1, 6, 7] { _ = outbox.replied(session: 1, request: request) }
    _ = outbox.submit(signal(8), now: start)
    #expect(sent(&outbox) == [[8, 0]])
  }

  /// An outage: two are answered, the rest is lost, and what the device says behind it is not.
  @Test func whatIsRetransmittedTakesAlongWhatFollows() {
    var outbox = outbox()
    for request: UInt64 in 1...4 { _ = outbox.submit(signal(request), now: start) }
    _ = outbox.flushed()
    for request: UInt64 in [1, 2] { _ = outbox.replied(session: 1, request: request) }
    let later = start + .milliseconds(900)
    for request: UInt64 in 5...6 { _ = outbox.submit(signal(request), now: later) }
    #expect(sent(&outbox) == [[5, 4], [6, 5]])
    #expect(outbox.late(start + .seconds(1)).isEmpty)
    #expect(sent(&outbox) == [[3, 0], [4, 3], [5, 4], [6, 5]])
    // One reminder of a stream does for all of it.
    #expect(outbox.late(later + .seconds(1)).isEmpty)
    #expect(sent(&outbox).isEmpty)
    _ = outbox.replied(session: 1, request: 3)
    #expect(outbox.late(start + .seconds(2)).isEmpty)
    #expect(sent(&outbox) == [[4, 0], [5, 4], [6, 5]])
  }

  @Test func aStreamIsGivenUpAsOne() {
    var outbox = outbox()
    _ = outbox.submit(signal(1), now: start)
    for request: UInt64 in 2...3 { _ = outbox.submit(signal(request), now: start + .seconds(4)) }
    #expect(outbox.late(start + .seconds(5)).map(\.request) == [1, 2, 3])
    #expect(outbox.pendingCount == 0)
    // Signals that the device sends before it got the error come out of turn.
    let now = start + .milliseconds(5001)
    #expect(outbox.submit(signal(4), now: now) == .outOfTurn)
    #expect(outbox.submit(command(request: 5, .call(call, .connected)), now: now) == .accepted)
    #expect(outbox.submit(signal(6, session: 2), now: now) == .accepted, "another device's")
    for request: UInt64 in 1...2 {
      #expect(outbox.submit(signal(request), now: now) == .accepted)
    }
    #expect(outbox.submit(signal(4), now: now) == .outOfTurn, "3 was given up, too")
    for request: UInt64 in 3...4 {
      #expect(outbox.submit(signal(request), now: now) == .accepted)
    }
    _ = outbox.flushed(all: true)
  }

  /// The signals that a device has in its socket when the first is given up are refused. Then the first come again, and
  /// one that the device sends before it reads of the refusals.
  @Test func aLaterOneDoesNotOvertakeThoseThatWereRefused() {
    var outbox = outbox()
    _ = outbox.submit(signal(1), now: start)
    _ = outbox.flushed(all: true)
    #expect(outbox.late(start + .seconds(5)).map(\.request) == [1])
    let now = start + .milliseconds(5001)
    #expect(outbox.submit(signal(2), now: now) == .outOfTurn)
    #expect(outbox.submit(signal(3), now: now) == .outOfTurn)
    #expect(outbox.submit(signal(1), now: now) == .accepted)
    #expect(outbox.submit(signal(4), now: now) == .outOfTurn)
    for request: UInt64 in 2...4 {
      #expect(outbox.submit(signal(request), now: now) == .accepted)
    }
    #expect(sent(&outbox) == [[1, 0], [2, 1], [3, 2], [4, 3]])
  }

  /// Several were refused and come again. One that the device sends for the first time waits for the last of them.
  @Test func aNewOneWaitsForAllThatWereRefused() {
    var outbox = outbox()
    _ = outbox.submit(signal(1), now: start)
    _ = outbox.flushed(all: true)
    #expect(outbox.late(start + .seconds(5)).map(\.request) == [1])
    let now = start + .milliseconds(5001)
    for request: UInt64 in 2...4 {
      #expect(outbox.submit(signal(request), now: now) == .outOfTurn)
    }
    for request: UInt64 in 1...3 {
      #expect(outbox.submit(signal(request), now: now) == .accepted)
      #expect(outbox.submit(signal(request + 4), now: now) == .outOfTurn)
    }
    for request: UInt64 in 4...7 {
      #expect(outbox.submit(signal(request), now: now) == .accepted)
    }
    #expect(outbox.signalGaps == 0)
    #expect(sent(&outbox).map { $0[0] } == [1, 2, 3, 4, 5, 6, 7])
  }

  /// A flood of those that are refused is not remembered without end.
  @Test func soManyThatWereRefusedAreRemembered() {
    var outbox = outbox()
    _ = outbox.submit(signal(1), now: start)
    #expect(outbox.late(start + .seconds(5)).map(\.request) == [1])
    let now = start + .milliseconds(5001)
    for request: UInt64 in 2...1000 {
      #expect(outbox.submit(signal(request), now: now) == .outOfTurn)
    }
    for request: UInt64 in 1...256 {
      #expect(outbox.submit(signal(request), now: now) == .accepted)
      _ = outbox.replied(session: 1, request: request)
    }
    #expect(outbox.submit(signal(1000), now: now) == .accepted, "257 was not remembered")
  }

  /// A device that gives the first one up is not kept waiting for ever.
  @Test func aGapIsForgotten() {
    var outbox = outbox()
    for request: UInt64 in 1...2 { _ = outbox.submit(signal(request), now: start) }
    #expect(outbox.late(start + .seconds(5)).map(\.request) == [1, 2])
    #expect(outbox.signalGaps == 1)
    #expect(outbox.submit(signal(3), now: start + .milliseconds(9999)) == .outOfTurn)
    #expect(outbox.submit(signal(3), now: start + .seconds(10)) == .accepted)
    #expect(outbox.signalGaps == 0 && outbox.signalGapsForgotten == 0)
  }

  @Test func tooManyGapsAreForgottenAndCounted() {
    var outbox = outbox { $0.pendingMax = 100_000 }
    for index: UInt64 in 1...10_001 {
      let call = CallID(high: 2, low: index)
      #expect(outbox.submit(signal(index, of: call), now: start) == .accepted)
    }
    #expect(outbox.late(start + .seconds(5)).count == 10_001)
    #expect(outbox.signalGaps == 1 && outbox.signalGapsForgotten == 10_000)
  }

  @Test func aSessionsStreamsGoWithIt() {
    var outbox = outbox()
    for request: UInt64 in 1...2 { _ = outbox.submit(signal(request), now: start) }
    _ = outbox.flushed(all: true)
    _ = outbox.sweep(now: start + .seconds(1), isLive: { _ in false }, giveUp: { _ in })
    #expect(outbox.pendingCount == 0)
    _ = outbox.submit(signal(3), now: start + .seconds(1))
    #expect(sent(&outbox) == [[3, 0]])
  }
}
