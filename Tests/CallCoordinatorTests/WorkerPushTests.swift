import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

@Suite struct WorkerPushTests {
  let caller = UserKey.user("alice")
  let call = CallID(high: 3, low: 4)

  @Test("a sleeping device's push leaves when the journal has it, and not before")
  func leavesBehindTheJournal() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      guard case .registered = try await bench.register(bob, "b1", "t1") else {
        Issue.record("not registered")
        return
      }
      bench.journal.hold()
      bench.edge.send(
        .place(PlaceRequest(call: call)), from: 2, caller, "a1", to: bob, request: 900)
      try await eventually("the append waits") { bench.journal.waiting == 1 }
      #expect(bench.outlet.offered.isEmpty)
      bench.journal.letGo()
      try await eventually("the push") { bench.outlet.kept.count == 1 }
      let job = try #require(bench.outlet.kept.first)
      #expect(job.device == "b1")
      #expect(job.purpose == .ring)
      #expect(job.token.token == "t1")
      #expect(job.token.lane == "apns-sandbox")
      #expect(bench.metrics.pushJobs[.ring]?.value == 1)
      try await eventually("it is counted") { bench.metrics.pushesAdded.value == 1 }
    }
  }

  @Test("a queue that refuses at first is asked again") func askedAgain() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      _ = try await bench.register(bob, "b1", "t1")
      bench.outlet.be(.refuses)
      try await bench.edge.place(call, from: 2, caller, to: bob)
      try await eventually("a second attempt") { bench.outlet.offered.count >= 2 }
      bench.outlet.be(.takes)
      try await eventually("it is kept") { bench.outlet.kept.count == 1 }
      #expect(Set(bench.outlet.offered.map(\.id)).count == 1)
      #expect(bench.metrics.pushesFailed.value == 0)
    }
  }

  @Test("R19: a queue that takes nothing: the call ends, and it is counted")
  func neverTaken() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      _ = try await bench.register(bob, "b1", "t1")
      bench.outlet.be(.refuses)
      try await bench.edge.place(call, from: 2, caller, to: bob)
      try await eventually("the caller hears it") {
        bench.edge.deliveries(to: 2).contains {
          if case .stop(let stop) = $0.event { stop.reason == .unreachable } else { false }
        }
      }
      #expect(bench.metrics.pushesFailed.value == 1)
      #expect(bench.metrics.pushRetries.value > 0)
    }
  }

  @Test("a ring that the queue has not taken when the call ends is not offered again")
  func notAfterTheEnd() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      _ = try await bench.register(bob, "b1", "t1")
      let told = Told()
      let subscription = try bench.bus.subscribe(bench.subjects.pushWithdrawals) {
        told.take($0.bytes)
      }
      defer { subscription.cancel() }
      bench.outlet.be(.silent)
      try await bench.edge.place(call, from: 2, caller, to: bob)
      try await eventually("the ring is offered") { bench.outlet.offered.count == 1 }
      let reply = try await bench.edge.ask(.call(call, .cancel), from: 2, caller, "phone", to: bob)
      guard case .call(let state) = reply, state.reason == .cancelled else {
        Issue.record("not cancelled: \(reply)")
        return
      }
      try await eventually("the clean-up is offered") { bench.outlet.offered.count == 2 }
      try await eventually("gateways are told") { told.calls == [call] }
      bench.outlet.be(.refuses)
      try await eventually("the ring is dropped") { bench.metrics.pushesUnwanted.value == 1 }
      bench.outlet.be(.takes)
      try await eventually("the clean-up is kept") { bench.outlet.kept.count == 1 }
      #expect(bench.outlet.kept.map(\.purpose) == [.cancel])
      #expect(bench.outlet.offered.count { $0.purpose == .ring } == 1)
    }
  }

  @Test("R14: a queue that says nothing holds up nobody who has a socket")
  func silentQueue() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      _ = try await bench.register(bob, "b1", "t1")
      try await bench.edge.attach(bob, "b2", session: 7)
      bench.outlet.be(.silent)
      for number in 1...5 {
        let id = CallID(high: 8, low: UInt64(number))
        try await bench.edge.place(id, from: UInt64(20 + number), caller, to: bob)
      }
      try await eventually("all invites") { bench.edge.deliveries(to: 7).count >= 5 }
      #expect(bench.outlet.offered.count == 5)
      #expect(bench.metrics.pushesAdded.value == 0)
      bench.outlet.be(.takes)
      try await eventually("then they are taken") { bench.metrics.pushesAdded.value == 5 }
    }
  }

  @Test("a node that is no edge has its reply, and is not taken for an edge")
  func reportOfAPeer() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      _ = try await bench.register(bob, "b1", "t1")
      try await bench.edge.place(call, from: 2, caller, to: bob)
      try await eventually("the push") { bench.outlet.kept.count == 1 }
      let gateway = try reportGone(bench, of: bob)
      try await eventually("its reply") { gateway.reply(to: 8, request: 8) == .done }
      #expect(await bench.voipToken(bob, "b1") == nil)
      #expect(!bench.reported.contains(.edgeSeen(1234)))
      #expect(bench.reported.contains(.edgeSeen(77)))
      try await eventually("the claim goes") { try await bench.owner("t1") == nil }
    }
  }

  /// A gateway says that the token of `b1` is gone. Apart from the test: the compiler's optimiser
  /// (6.3.1) cannot split a coroutine that holds all of this.
  @inline(never)
  private func reportGone(
    _ bench: WorkerBench, of bob: UserKey, from source: CommandSource = .gateways
  ) throws -> FakeEdge {
    let gateway = try FakeEdge(
      1234, bench.bus, shards: WorkerBench.shards, clock: bench.clock, announces: false)
    let report = PushReport(
      call: call, device: "b1", purpose: .ring, fingerprint: "fpt1",
      outcome: .tokenGone(at: nil), at: bench.clock.now() + .seconds(60))
    let command = Command(
      session: SessionRef(edge: 1234, number: 8), request: 8, user: bob, device: "b1",
      callee: bob, body: .pushReport(report))
    bench.bus.publish(
      source.subject(of: 0, bench.subjects),
      ClusterCodec.encode(CommandBatch(peer: 1234, commands: [command])))
    return gateway
  }

  // MARK: Who may say what

  /// A command that only gateways and coordinators may send is not believed where edges speak, and the other way round.
  @Test func eachKindOfNodeSaysItsOwn() async throws {
    try await WorkerBench { $0.sessionTickets = .required }.run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      let report = PushReport(
        call: call, device: "b1", purpose: .ring, fingerprint: "fpt1", outcome: .accepted,
        at: bench.clock.now())
      func say(_ body: Command.Body, _ source: CommandSource, _ request: UInt64) {
        let command = Command(
          session: SessionRef(edge: 77, number: 1), request: request, user: bob, device: "b1",
          callee: bob, body: body)
        bench.bus.publish(
          source.subject(of: 0, bench.subjects),
          ClusterCodec.encode(CommandBatch(peer: 77, commands: [command])))
      }
      // Coordinators pass reports on: of a call that was diverted, to the shard of the pushed device's user.
      say(.pushReport(report), .edges, 1)
      say(.call(call, .query), .coordinators, 1)
      for source in CommandSource.allCases where source != .edges {
        say(.call(call, .hangUp), source, 1)
      }
      try await eventually("all are refused") { bench.metrics.commandsForged.value == 4 }
      say(.call(call, .query), .gateways, 2)
      try await eventually("a gateway may ask") { bench.isAnswered(2) }
      #expect(bench.metrics.commandsForged.value == 4 && !bench.isAnswered(1))
    }
  }

  /// A gateway of the version before reports where edges speak, which counts during an upgrade only.
  @Test func besideNodesOfTheVersionBefore() async throws {
    try await WorkerBench { $0.sessionTickets = .offered }.run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      _ = try await bench.register(bob, "b1", "t1")
      try await bench.edge.place(call, from: 2, caller, to: bob)
      try await eventually("the push") { bench.outlet.kept.count == 1 }
      let gateway = try reportGone(bench, of: bob, from: .edges)
      try await eventually("its reply") { gateway.reply(to: 8, request: 8) == .done }
      #expect(await bench.voipToken(bob, "b1") == nil)
    }
  }
}

/// Calls that gateways were notified of.
private final class Told: Sendable {
  private let state = Mutex<[CallID]>([])
  var calls: [CallID] { state.withLock { $0 } }
  func take(_ bytes: [UInt8]) {
    state.withLock { $0 += (try? ClusterCodec.pushWithdrawal(bytes))?.map(\.call) ?? [] }
  }
}
