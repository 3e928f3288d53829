import CallCore
import CallEdge
import Testing

private let start = Timestamp(microseconds: 1_000_000_000)

func command(
  session: UInt64 = 1, request: UInt64 = 1, callee: UserKey = ann,
  _ body: Command.Body = .call(CallID(high: 1, low: 1), .query)
) -> Command {
  Command(
    session: SessionRef(edge: 9, number: session), request: request, user: ann, device: "phone",
    callee: callee, body: body)
}

func outbox(_ change: (inout CommandOutbox.Rules) -> Void = { _ in }) -> CommandOutbox {
  var rules = CommandOutbox.Rules(
    shardCount: 64, pendingMax: 100, resendAfter: .seconds(1), timeout: .seconds(5))
  change(&rules)
  return CommandOutbox(rules: rules)
}

extension CommandOutbox {
  mutating func flushed(all: Bool = false) -> [(shard: Int, commands: [Command])] {
    var out: [(shard: Int, commands: [Command])] = []
    flush(all: all) { out.append(($0, $1)) }
    return out
  }

  /// The commands that leave.
  mutating func sent() -> [Command] { flushed().flatMap(\.commands) }

  mutating func late(_ now: Timestamp) -> [Command] {
    var out: [Command] = []
    _ = sweep(now: now, isLive: { _ in true }, giveUp: { out.append($0.command) })
    return out
  }
}

@Suite struct CommandOutboxTests {
  @Test func commandsOfOneTurnMakeOneBatchPerShard() {
    var outbox = outbox()
    for session in UInt64(1)...3 {
      #expect(outbox.submit(command(session: session), now: start) == .accepted)
      let other = command(session: session, request: 2, callee: bob)
      #expect(outbox.submit(other, now: start) == .accepted)
    }
    let batches = outbox.flushed()
    #expect(batches.map(\.shard) == [ann, bob].map { ShardHash.shard(of: $0, count: 64) })
    #expect(batches.map { $0.commands.map(\.session.number) } == [[1, 2, 3], [1, 2, 3]])
    #expect(outbox.flushed().isEmpty)
  }

  @Test func equalRequestIDsOfTwoSessionsAreToldApart() {
    var outbox = outbox()
    #expect(outbox.submit(command(session: 1), now: start) == .accepted)
    #expect(outbox.submit(command(session: 2), now: start) == .accepted)
    #expect(outbox.replied(session: 2, request: 1)?.command.session.number == 2)
    #expect(outbox.replied(session: 2, request: 1) == nil)
    #expect(outbox.replied(session: 1, request: 1)?.command.session.number == 1)
  }

  @Test func sameCommandAgainIsIgnoredAndAnotherRefused() {
    var outbox = outbox()
    #expect(outbox.submit(command(), now: start) == .accepted)
    #expect(outbox.submit(command(), now: start) == .repeated)
    #expect(
      outbox.submit(command(.call(CallID(high: 2, low: 2), .query)), now: start) == .conflicting)
    #expect(outbox.flushed().map(\.commands.count) == [1])
    // Once answered, the id may be used again.
    _ = outbox.replied(session: 1, request: 1)
    #expect(outbox.submit(command(), now: start) == .accepted)
  }

  @Test func itIsTheSameWhateverTheTimeAndWhateverTheEdgeAdds() {
    var attaches = outbox()
    #expect(attaches.submit(command(.attach(Attach(attachedAt: start))), now: start) == .accepted)
    let later = start + .milliseconds(10)
    let again = command(.attach(Attach(attachedAt: later, userName: "Ann")))
    #expect(attaches.submit(again, now: later) == .repeated)
    var places = outbox()
    var place = PlaceRequest(call: CallID(high: 1, low: 1), receivedAt: start)
    #expect(places.submit(command(.place(place)), now: start) == .accepted)
    (place.callerName, place.forward, place.busyWhileInCall) = ("Ann", ["carol"], true)
    #expect(places.submit(command(.place(place)), now: start) == .repeated)
    place.setup.description = "another"
    #expect(places.submit(command(.place(place)), now: start) == .conflicting)
  }

  @Test func unansweredCommandsAreSentAgainThenGivenUp() {
    var outbox = outbox()
    _ = outbox.submit(command(), now: start)
    _ = outbox.flushed()
    #expect(outbox.late(start + .milliseconds(999)).isEmpty && !outbox.hasUrgent)
    for second in 1...4 {
      #expect(outbox.late(start + .seconds(Int64(second))).isEmpty)
      #expect(outbox.sent() == [command()])
    }
    #expect(outbox.late(start + .seconds(5)) == [command()])
    #expect(outbox.flushed().isEmpty && outbox.pendingCount == 0)
    #expect(outbox.late(start + .seconds(60)).isEmpty)
  }

  @Test func answeredCommandsAreNotSentAgain() {
    var outbox = outbox()
    _ = outbox.submit(command(), now: start)
    _ = outbox.flushed()
    #expect(outbox.replied(session: 1, request: 1)?.since == start)
    // The same id, used again meanwhile, keeps its own time.
    _ = outbox.submit(command(), now: start + .milliseconds(900))
    _ = outbox.flushed()
    #expect(outbox.late(start + .seconds(1)).isEmpty && !outbox.hasUrgent)
    #expect(outbox.late(start + .milliseconds(1900)).isEmpty && outbox.hasUrgent)
  }

  /// A shard's new owner asks, since what its former owner had may be lost; or the bus is back.
  @Test(arguments: [true, false]) func commandsAreSaidAgainInOrder(toOneShard: Bool) {
    var outbox = outbox()
    for request in (UInt64(1)...20).reversed() {
      for command in [
        command(request: request), command(request: request + 100, callee: bob),
        command(session: 2, request: request),
      ] { _ = outbox.submit(command, now: start) }
    }
    _ = outbox.flushed()
    _ = outbox.replied(session: 1, request: 7)
    if toOneShard {
      outbox.retransmit(toShard: ShardHash.shard(of: ann, count: 64)) { $0 == 1 }
    } else {
      outbox.retransmit { $0 == 1 }
    }
    let said = outbox.sent()
    let own = (UInt64(1)...20).reversed().filter { $0 != 7 }
    #expect(said.filter { $0.callee == ann }.map(\.request) == own)
    #expect(said.count == (toOneShard ? 19 : 39))
    #expect(said.allSatisfy { $0.session.number == 1 })
    #expect(outbox.pendingCount == 59)
  }

  @Test func commandsOfSessionsThatAreGoneAreDropped() {
    var outbox = outbox()
    _ = outbox.submit(command(session: 1, .attach(Attach())), now: start)
    _ = outbox.submit(command(session: 2), now: start)
    _ = outbox.flushed()
    let resent = outbox.sweep(
      now: start + .seconds(1), isLive: { $0 == 2 },
      giveUp: { _ in Issue.record("nobody waits for this") })
    #expect(resent == 1 && outbox.pendingCount == 1)
    #expect(outbox.sent().map(\.session.number) == [2])
  }

  @Test func acknowledgementsWaitForCompanyAndJoin() {
    func ack(_ session: UInt64, _ versions: UInt64...) -> Command {
      let items = versions.map { Acknowledgement(call: CallID(high: 1, low: 1), version: $0) }
      return command(session: session, request: 0, .ack(items))
    }
    var outbox = outbox()
    for ack in [ack(1, 1), ack(2, 2), ack(1, 3)] { outbox.acknowledge(ack) }
    #expect(outbox.hasLazy && !outbox.hasUrgent)
    #expect(outbox.flushed().isEmpty)
    // A command that cannot wait takes them along, if it goes the same way.
    _ = outbox.submit(command(request: 2, callee: bob), now: start)
    #expect(outbox.sent().map(\.callee) == [bob])
    _ = outbox.submit(command(request: 3), now: start)
    let sent = outbox.sent()
    #expect(sent.map(\.session.number) == [1, 2, 1])
    #expect(sent.first?.body == ack(1, 1, 3).body)
    outbox.acknowledge(ack(1, 4))
    #expect(outbox.flushed(all: true).count == 1 && !outbox.hasLazy)
  }

  @Test func joinedAcknowledgementsFitIntoABatch() {
    var outbox = outbox { $0.batchBytesMax = 1000 }
    for number in UInt64(0)..<100 {
      let items = (0..<10).map {
        Acknowledgement(call: CallID(high: number, low: $0), version: 1)
      }
      outbox.acknowledge(command(session: 1, request: 0, .ack(items)))
    }
    let sizes = outbox.flushed(all: true).map { _, commands in
      commands.reduce(0) { sum, command in
        if case .ack(let items) = command.body { sum + items.count } else { sum }
      }
    }
    #expect(sizes.reduce(0, +) == 1000 && sizes.allSatisfy { 32 * $0 <= 1000 })
  }

  @Test func whatOvertookItsPlaceIsSaidAgainBehindIt() {
    var outbox = outbox()
    let call = CallID(high: 1, low: 1)
    let unknown = Reply.error(CallError(.unknownCall))
    _ = outbox.submit(command(request: 1, .place(PlaceRequest(call: call))), now: start)
    _ = outbox.submit(command(request: 2, .call(call, .cancel)), now: start)
    _ = outbox.submit(command(request: 3, .call(CallID(high: 2, low: 2), .cancel)), now: start)
    _ = outbox.flushed()
    #expect(outbox.hasOvertaken(session: 1, request: 2, unknown))
    #expect(!outbox.hasOvertaken(session: 1, request: 3, unknown))
    #expect(!outbox.hasOvertaken(session: 1, request: 2, .done))
    let resent = outbox.sweep(now: start + .seconds(1), isLive: { _ in true }, giveUp: { _ in })
    #expect(resent == 3)
    #expect(outbox.sent().map(\.request) == [1, 2, 3])
    _ = outbox.replied(session: 1, request: 1)
    #expect(!outbox.hasOvertaken(session: 1, request: 2, unknown))
  }

  @Test func largeBatchesGoInPartsInOrder() {
    var outbox = outbox { $0.batchBytesMax = 100_000 }
    let body = String(repeating: "x", count: 40_000)
    for request in 1...5 {
      let signal = Command.Body.call(CallID(high: 1, low: 1), .signal(.candidate, body: body))
      _ = outbox.submit(command(request: UInt64(request), signal), now: start)
    }
    let parts = outbox.flushed()
    #expect(parts.map { $0.commands.map(\.request) } == [[1, 2], [3, 4], [5]])
    #expect(parts.flatMap { $0.commands.map(\.after) } == [0, 1, 2, 3, 4])
  }
}

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

  /// An outbox that has given up what it got at the start, and the time when it has.
  private func gaveUp(_ requests: ClosedRange<UInt64>) -> CommandOutbox {
    var outbox = outbox()
    for request in requests { _ = outbox.submit(signal(request), now: start) }
    _ = outbox.flushed(all: true)
    #expect(outbox.late(start + .seconds(5)).map(\.request) == Array(requests))
    return outbox
  }
  private let after = start + .milliseconds(5001)

  private func submit(
    _ requests: ClosedRange<UInt64>, _ expected: CommandOutbox.Submission,
    to outbox: inout CommandOutbox, _ at: SourceLocation = #_sourceLocation
  ) {
    for request in requests {
      let submission = outbox.submit(signal(request), now: after)
      #expect(submission == expected, "\(request)", sourceLocation: at)
    }
  }

  @Test func aStreamIsGivenUpAsOne() {
    var outbox = outbox()
    _ = outbox.submit(signal(1), now: start)
    for request: UInt64 in 2...3 { _ = outbox.submit(signal(request), now: start + .seconds(4)) }
    #expect(outbox.late(start + .seconds(5)).map(\.request) == [1, 2, 3])
    #expect(outbox.pendingCount == 0)
    // Signals that the device sends before it got the error come out of turn.
    submit(4...4, .outOfTurn, to: &outbox)
    #expect(outbox.submit(command(request: 5, .call(call, .connected)), now: after) == .accepted)
    #expect(outbox.submit(signal(6, session: 2), now: after) == .accepted, "another device's")
    submit(1...2, .accepted, to: &outbox)
    // 3 was given up, too.
    submit(4...4, .outOfTurn, to: &outbox)
    submit(3...4, .accepted, to: &outbox)
    _ = outbox.flushed(all: true)
  }

  /// The signals that a device has in its socket when the first is given up are refused, and come again. One that it
  /// sends for the first time, before it reads of the refusals, waits for the last of them.
  @Test func aNewOneWaitsForAllThatWereRefused() {
    var outbox = gaveUp(1...1)
    submit(2...4, .outOfTurn, to: &outbox)
    for request: UInt64 in 1...3 {
      submit(request...request, .accepted, to: &outbox)
      submit((request + 4)...(request + 4), .outOfTurn, to: &outbox)
    }
    submit(4...7, .accepted, to: &outbox)
    #expect(outbox.signalGaps == 0)
    #expect(sent(&outbox) == (1...7).map { [$0, $0 - 1] })
  }

  /// A flood of those that are refused is not remembered without end.
  @Test func soManyThatWereRefusedAreRemembered() {
    var outbox = gaveUp(1...1)
    submit(2...1000, .outOfTurn, to: &outbox)
    for request: UInt64 in 1...256 {
      submit(request...request, .accepted, to: &outbox)
      _ = outbox.replied(session: 1, request: request)
    }
    // 257 was not remembered.
    submit(1000...1000, .accepted, to: &outbox)
  }

  /// A device that gives the first one up is not kept waiting for ever.
  @Test func aGapIsForgotten() {
    var outbox = gaveUp(1...2)
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
