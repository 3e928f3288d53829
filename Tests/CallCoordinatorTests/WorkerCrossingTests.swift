import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

/// R8 between the shards of one worker: what one shard asks the other one goes over the bus.
@Suite struct WorkerCrossingTests {
  private static let low = CallID(high: 0, low: 1)
  private static let high = CallID(high: 0, low: 2)

  private func place(_ call: CallID) -> Command.Body { .place(PlaceRequest(call: call)) }

  /// Ann, of shard 0, calls bob, of shard 1, and bob calls her. Her call is the lower one, and his gives way to it.
  @inline(never)
  private func placeBoth(_ bench: WorkerBench) async throws {
    let (ann, bob) = (bench.user(0), bench.user(1))
    try await bench.edge.attach(ann, "a1", session: 7)
    try await bench.edge.attach(bob, "b1", session: 8)
    _ = try await bench.edge.ask(place(Self.low), from: 7, ann, "a1", to: bob)
    _ = try await bench.edge.ask(place(Self.high), from: 8, bob, "b1", to: ann)
  }

  private func cross(_ bench: WorkerBench) {
    let (ann, bob) = (bench.user(0), bench.user(1))
    let crossed = CrossedCall(call: Self.high, caller: bob.user, survivor: Self.low, by: "a1")
    bench.edge.send(.crossed(crossed), from: 8, bob, "b1", to: ann, request: 0)
  }

  @Test("R8: one shard ends its call, and the other one connects both devices")
  func acrossShards() async throws {
    try await WorkerBench().serve(0..<WorkerBench.shards) { bench in
      try await placeBoth(bench)
      cross(bench)
      try await eventually("both are connected") {
        !bench.edge.answers(to: 7).isEmpty && !bench.edge.answers(to: 8).isEmpty
      }
      #expect(bench.edge.answers(to: 7).allSatisfy { $0.device == "b1" })
      #expect(bench.edge.stops(to: 8).contains { $0.reason == .glare && $0.survivor == Self.low })
      #expect(bench.metrics.crossings.value == 1)
      #expect(bench.metrics.crossingsUnconfirmed.value == 0)
    }
  }

  @Test("R8: the other shard has no owner yet: it is asked until it has one")
  func theOtherShardComesLate() async throws {
    try await WorkerBench().serve(0..<2) { bench in
      try await placeBoth(bench)
      try await bench.depose(ShardTerm(shard: 1, epoch: 1))
      cross(bench)
      try await eventually("bob's call gives way") {
        bench.edge.stops(to: 8).contains { $0.reason == .glare }
      }
      #expect(bench.edge.answers(to: 8).isEmpty)
      // The next owner has none of its calls here, and says so: the question ends.
      try await bench.adopt(1, epoch: 3)
      try await eventually("the question is answered") {
        bench.metrics.crossingsUnconfirmed.value == 1
      }
    }
  }
}

/// R25 between the shards of one worker: a call that went on to a user of another shard.
@Suite struct WorkerVisitTests {
  private static let call = CallID(high: 0, low: 1)

  @Test("R25 a new owner of the user's shard learns at once that the user has the call")
  func newOwner() async throws {
    try await WorkerBench().serve(0..<2) { bench in
      let (ann, bob, carol) = (bench.user(0, 1), bench.user(0), bench.user(1))
      try await bench.edge.attach(ann, "a1", session: 7)
      try await bench.edge.attach(carol, "c1", session: 9)
      var request = PlaceRequest(call: Self.call)
      request.forward = [carol.user]
      _ = try await bench.edge.ask(.place(request), from: 7, ann, "a1", to: bob)
      try await eventually("carol's device rings") {
        bench.edge.deliveries(to: 9).contains { $0.call == Self.call }
      }
      let answer = Command.Body.call(Self.call, .answer(description: ""))
      guard
        case .answer(won: true, _) = try await bench.edge.ask(answer, from: 9, carol, "c1", to: bob)
      else { throw Timeout(what: "carol does not have the call") }

      try await bench.depose(ShardTerm(shard: 1, epoch: 1))
      let next = try await bench.adopt(1, epoch: 3)
      try await bench.edge.attach(carol, "c1", session: 9)
      bench.worker.inbox.offer(.recovered(next))
      // Its reply comes behind the question to carol's shard.
      _ = try await bench.edge.ask(.call(Self.call, .query), from: 7, ann, "a1", to: bob)
      var second = PlaceRequest(call: CallID(high: 0, low: 2))
      second.busyWhileInCall = true
      let placed = try await bench.edge.ask(.place(second), from: 7, ann, "a1", to: carol)
      #expect(placed.call?.reason == .busy)
    }
  }
}
