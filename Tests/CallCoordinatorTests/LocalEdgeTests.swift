import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

/// A worker in one process with an edge.
@Suite(.timeLimit(.minutes(1))) struct LocalEdgeTests {
  private final class LocalEdge: Sendable {
    let exchange = LocalExchange()
    private let taken = Mutex<[EdgeItem]>([])
    var items: [EdgeItem] { taken.withLock { $0 } }

    /// Where devices reach it.
    let address = Mutex("")

    func listen(as number: UInt64) -> any BusSubscription {
      exchange.receive(
        edge: number, at: { [self] in address.withLock { $0 } },
        { [self] items in taken.withLock { $0 += items } })
    }

    func replied(to request: UInt64) -> Bool {
      items.contains {
        if case .reply(request, _) = $0.body { true } else { false }
      }
    }
  }

  static func query(_ request: UInt64, _ bench: WorkerBench) -> CommandBatch {
    let user = bench.user(0)
    return CommandBatch(
      edge: bench.edge.number,
      commands: [
        Command(
          session: bench.edge.session(1), request: request, user: user, device: "d1",
          callee: user, body: .call(CallID(high: 1, low: request), .query))
      ])
  }

  @Test func commandsAndRepliesNeedNoBus() async throws {
    let edge = LocalEdge()
    try await WorkerBench(exchange: edge.exchange).run { bench in
      let subscription = edge.listen(as: bench.edge.number)
      #expect(!edge.exchange.offer(Self.query(1, bench), to: 0))
      bench.worker.inbox.offer(.beginRecovery(WorkerBench.term))
      try await eventually("the shard takes commands") {
        edge.exchange.offer(Self.query(2, bench), to: 0)
      }
      try await eventually("they wait until it is recovered") {
        bench.metrics.recoveryQueue.value > 0
      }
      bench.recovered(WorkerBench.term)
      try await eventually("it is answered") { edge.replied(to: 2) }
      try await bench.flush()
      #expect(!bench.isAnswered(2))
      // Without an edge in the process the answer goes over the bus.
      subscription.cancel()
      #expect(edge.exchange.offer(Self.query(3, bench), to: 0))
      try await eventually("the bus has the answer") { bench.isAnswered(3) }
      // When the shard is given up, the edge uses the bus again.
      try await bench.depose()
      #expect(!edge.exchange.offer(Self.query(4, bench), to: 0))
    }
  }

  /// Other edges send devices to the edge of the process as long as it takes some.
  @Test func requestsForSessionsSayWhereTheEdgeIs() async throws {
    let edge = LocalEdge()
    edge.address.withLock { $0 = "wss://here" }
    try await WorkerBench(exchange: edge.exchange).run { bench in
      let subscription = edge.listen(as: bench.edge.number)
      try await bench.adopt(0)
      #expect(bench.edge.announceRequests.map(\.nearer) == ["wss://here"])
      edge.address.withLock { $0 = "" }
      edge.exchange.edgeChanged()
      try await eventually("all edges learn it") { bench.edge.announceRequests.count == 2 }
      #expect(bench.edge.announceRequests.map(\.nearer) == ["wss://here", ""])
      subscription.cancel()
    }
  }

  /// It was sent to a former owner. What the edge handed over since may contradict it.
  @Test func whatTheEdgeOfTheProcessSentOverTheBusIsIgnored() async throws {
    let edge = LocalEdge()
    try await WorkerBench(exchange: edge.exchange).run { bench in
      let subscription = edge.listen(as: bench.edge.number)
      try await bench.adopt(0)
      bench.query(1, shard: 0)
      // Another edge's command comes behind it on the bus.
      let other = try FakeEdge(78, bench.bus, shards: WorkerBench.shards, clock: bench.clock)
      let user = bench.user(0)
      _ = try await other.ask(.call(CallID(high: 1, low: 1), .query), from: 1, user, "d1", to: user)
      #expect(edge.exchange.offer(Self.query(2, bench), to: 0))
      try await eventually("what was handed over is answered") { edge.replied(to: 2) }
      #expect(!edge.replied(to: 1) && !bench.isAnswered(1))
      subscription.cancel()
    }
  }
}
