import CallCore
import CallEdge
import Testing

private let start = Timestamp(microseconds: 1_000_000_000)
private let ann = UserKey(app: "demo", user: "ann")
private let bob = UserKey(app: "demo", user: "bob")

@Suite struct CommandOutboxTests {
  @Test func commandsOfOneTurnMakeOneBatchPerShard() {
    var outbox = outbox()
    for session in 1...3 {
      #expect(outbox.submit(command(session: UInt64(session)), now: start) == .accepted)
      #expect(
        outbox.submit(command(session: UInt64(session), request: 2, callee: bob), now: start)
          == .accepted)
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

  @Test func attachAgainIsTheSameWhateverTheTime() {
    var outbox = outbox()
    #expect(
      outbox.submit(command(.attach(Attach(attachedAt: start))), now: start) == .accepted)
    let later = start + .milliseconds(10)
    #expect(
      outbox.submit(
        command(.attach(Attach(attachedAt: later, userName: "Ann"))), now: later) == .repeated)
  }

  @Test func placeAgainIsTheSameWhateverTheEdgeAdds() {
    var outbox = outbox()
    var place = PlaceRequest(call: CallID(high: 1, low: 1), receivedAt: start)
    #expect(outbox.submit(command(.place(place)), now: start) == .accepted)
    (place.callerName, place.forward, place.busyWhileInCall) = ("Ann", ["carol"], true)
    #expect(outbox.submit(command(.place(place)), now: start) == .repeated)
    place.setup.description = "another"
    #expect(outbox.submit(command(.place(place)), now: start) == .conflicting)
  }

  @Test func tableIsBounded() {
    var outbox = outbox { $0.pendingMax = 2 }
    #expect(outbox.submit(command(request: 1), now: start) == .accepted)
    #expect(outbox.submit(command(request: 2), now: start) == .accepted)
    #expect(outbox.submit(command(request: 3), now: start) == .full)
  }

  @Test func unansweredCommandsAreSentAgainThenGivenUp() {
    var outbox = outbox()
    _ = outbox.submit(command(), now: start)
    _ = outbox.flushed()
    #expect(outbox.late(start + .milliseconds(999)).isEmpty && !outbox.hasUrgent)
    for second in 1...4 {
      #expect(outbox.late(start + .seconds(Int64(second))).isEmpty)
      #expect(outbox.flushed().flatMap(\.commands) == [command()])
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

  /// A shard's new owner asks: what its former owner had may be lost.
  @Test func aShardsCommandsAreSaidAgainInOrder() {
    var outbox = outbox()
    for request in (1...20).reversed() {
      _ = outbox.submit(command(session: 1, request: UInt64(request)), now: start)
      _ = outbox.submit(
        command(session: 1, request: UInt64(request + 100), callee: bob), now: start)
      _ = outbox.submit(command(session: 2, request: UInt64(request)), now: start)
    }
    _ = outbox.flushed()
    _ = outbox.replied(session: 1, request: 7)
    outbox.retransmit(toShard: ShardHash.shard(of: ann, count: 64)) { $0 == 1 }
    let said = outbox.flushed().flatMap(\.commands)
    #expect(said.map(\.request) == (1...20).reversed().filter { $0 != 7 })
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
    #expect(outbox.flushed().flatMap(\.commands).map(\.session.number) == [2])
  }

  @Test func whatHasNoAnswerIsSentInItsOrderWhenTheBusIsBack() {
    var outbox = outbox()
    for request in 1...5 { _ = outbox.submit(command(request: UInt64(request)), now: start) }
    _ = outbox.submit(command(session: 2, request: 1), now: start)
    _ = outbox.flushed()
    _ = outbox.replied(session: 1, request: 2)
    outbox.retransmit { $0 == 1 }
    let sent = outbox.flushed().flatMap(\.commands)
    #expect(sent.map(\.request) == [1, 3, 4, 5] && sent.allSatisfy { $0.session.number == 1 })
  }

  @Test func acknowledgementsWaitForCompanyAndJoin() {
    func ack(_ session: UInt64, _ version: UInt64) -> Command {
      command(
        session: session, request: 0,
        .ack([Acknowledgement(call: CallID(high: 1, low: 1), version: version)]))
    }
    var outbox = outbox()
    outbox.acknowledge(ack(1, 1))
    outbox.acknowledge(ack(2, 2))
    outbox.acknowledge(ack(1, 3))
    #expect(outbox.hasLazy && !outbox.hasUrgent)
    #expect(outbox.flushed().isEmpty)
    // A command that cannot wait takes them along, if it goes the same way.
    _ = outbox.submit(command(request: 2, callee: bob), now: start)
    #expect(outbox.flushed().flatMap(\.commands).map(\.callee) == [bob])
    _ = outbox.submit(command(request: 3), now: start)
    let sent = outbox.flushed().flatMap(\.commands)
    #expect(sent.map(\.session.number) == [1, 2, 1])
    guard case .ack(let items)? = sent.first?.body else {
      Issue.record("no acknowledgement")
      return
    }
    #expect(items.map(\.version) == [1, 3])
    outbox.acknowledge(ack(1, 4))
    #expect(outbox.flushed(all: true).count == 1 && !outbox.hasLazy)
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
    #expect(outbox.flushed().flatMap(\.commands).map(\.request) == [1, 2, 3])
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
