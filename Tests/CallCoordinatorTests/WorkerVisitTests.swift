import CallBus
import CallCoordinator
import CallCore
import CallWire
import Testing

/// R25 between the shards of one worker: a call that went on to a user of another shard.
@Suite struct WorkerVisitTests {
  private static let call = CallID(high: 0, low: 1)

  @Test("R25 a new owner of the user's shard learns at once that the user has the call")
  func newOwner() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let term = try await bench.adopt(1)
      let (ann, bob, carol) = (bench.user(0, 1), bench.user(0), bench.user(1))
      try await bench.edge.attach(ann, "a1", session: 7)
      try await bench.edge.attach(carol, "c1", session: 9)
      var request = PlaceRequest(call: Self.call)
      request.forward = [carol.user]
      _ = try await bench.edge.ask(.place(request), from: 7, ann, "a1", to: bob)
      try await eventually("carol's device rings") { bench.edge.isInvited(9, to: Self.call) }
      let answer = Command.Body.call(Self.call, .answer(description: ""))
      guard
        case .answer(won: true, _) = try await bench.edge.ask(
          answer, from: 9, carol, "c1", to: bob)
      else { throw Timeout(what: "carol does not have the call") }

      bench.worker.inbox.offer(.deposed(shard: 1, epoch: term.epoch + 1))
      try await eventually("the shard is given up") { await !bench.serves(term) }
      let next = try await bench.adopt(1, epoch: term.epoch + 2)
      try await bench.edge.attach(carol, "c1", session: 9)
      bench.worker.inbox.offer(.recovered(next))
      // Its reply comes behind the question to carol's shard.
      _ = try await bench.edge.ask(
        .call(Self.call, .query), from: 7, ann, "a1", to: bob)
      var second = PlaceRequest(call: CallID(high: 0, low: 2))
      second.busyWhileInCall = true
      let placed = try await bench.edge.ask(.place(second), from: 7, ann, "a1", to: carol)
      guard case .call(let state) = placed else { throw Timeout(what: "placed: \(placed)") }
      #expect(state.reason == .busy)
    }
  }
}

extension FakeEdge {
  fileprivate func isInvited(_ session: UInt64, to call: CallID) -> Bool {
    items.contains { item in
      guard item.session == session, case .delivery(let delivery) = item.body else { return false }
      return delivery.call == call
    }
  }
}
