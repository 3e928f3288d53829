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

  /// Ann's call to bob is the lower one, and bob's gives way to it.
  private func cross(_ bench: WorkerBench, _ ann: UserKey, _ bob: UserKey) async throws {
    try await bench.edge.attach(ann, "a1", session: 7)
    try await bench.edge.attach(bob, "b1", session: 8)
    _ = try await bench.edge.ask(place(Self.low), from: 7, ann, "a1", to: bob)
    _ = try await bench.edge.ask(place(Self.high), from: 8, bob, "b1", to: ann)
    let crossed = CrossedCall(call: Self.high, caller: bob.user, survivor: Self.low, by: "a1")
    bench.edge.send(.crossed(crossed), from: 8, bob, "b1", to: ann, request: 0)
  }

  private func answers(_ bench: WorkerBench, to session: UInt64) -> [Party] {
    bench.edge.items.compactMap {
      guard $0.session == session, case .delivery(let delivery) = $0.body,
        case .answered(let answered) = delivery.event
      else { return nil }
      return answered.by
    }
  }

  private func stops(_ bench: WorkerBench, to session: UInt64) -> [Stop] {
    bench.edge.items.compactMap {
      guard $0.session == session, case .delivery(let delivery) = $0.body,
        case .stop(let stop) = delivery.event
      else { return nil }
      return stop
    }
  }

  @Test("R8: one shard ends its call, and the other one connects both devices")
  func acrossShards() async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
      try await cross(bench, bench.user(0), bench.user(1))
      try await eventually("both are connected") {
        !answers(bench, to: 7).isEmpty && !answers(bench, to: 8).isEmpty
      }
      #expect(answers(bench, to: 7).allSatisfy { $0.device == "b1" })
      #expect(stops(bench, to: 8).contains { $0.reason == .glare && $0.survivor == Self.low })
      #expect(bench.metrics.crossings.value == 1)
      #expect(bench.metrics.crossingsUnconfirmed.value == 0)
    }
  }

  @Test("R8: the other shard has no owner yet: it is asked until it has one")
  func theOtherShardComesLate() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let term = try await bench.adopt(1)
      let (ann, bob) = (bench.user(0), bench.user(1))
      try await bench.edge.attach(ann, "a1", session: 7)
      try await bench.edge.attach(bob, "b1", session: 8)
      _ = try await bench.edge.ask(place(Self.low), from: 7, ann, "a1", to: bob)
      _ = try await bench.edge.ask(place(Self.high), from: 8, bob, "b1", to: ann)
      bench.worker.inbox.offer(.deposed(shard: 1, epoch: term.epoch + 1))
      try await eventually("the shard is given up") { await !bench.serves(term) }
      let crossed = CrossedCall(call: Self.high, caller: bob.user, survivor: Self.low, by: "a1")
      bench.edge.send(.crossed(crossed), from: 8, bob, "b1", to: ann, request: 0)
      try await eventually("bob's call gives way") {
        stops(bench, to: 8).contains { $0.reason == .glare }
      }
      #expect(answers(bench, to: 8).isEmpty)
      // The next owner has none of its calls here, and says so: the question ends.
      try await bench.adopt(1, epoch: term.epoch + 2)
      try await eventually("the question is answered") {
        bench.metrics.crossingsUnconfirmed.value == 1
      }
    }
  }
}
