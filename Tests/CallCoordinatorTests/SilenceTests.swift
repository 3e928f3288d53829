import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

/// R23: a former owner that wakes after its shard moved speaks to no device and no node, whatever it is asked.
@Suite struct SilenceTests {
  /// Everything that a device may ask for, each with its request number.
  static func commands(_ user: UserKey) -> [Command.Body] {
    let call = CallID(high: 7, low: 7)
    return [
      .attach(Attach()), .register(RegistrationRequest()), .unregister("d2"),
      .place(PlaceRequest(call: call)), .call(call, .alerting),
      .call(call, .answer(description: "")),
      .call(call, .decline(.everywhere)), .call(call, .busy), .call(call, .cancel),
      .call(call, .connected), .call(call, .hangUp),
      .call(call, .signal(.candidate, body: "c")), .call(call, .resume), .call(call, .query),
    ]
  }

  /// Another owner's record, as a take-over writes it.
  static func fence(_ bench: WorkerBench) async throws -> [UInt8] {
    let end = try await bench.journal.last(shard: 0)?.sequence ?? 0
    return ClusterCodec.encode(
      JournalRecord(
        epoch: 9, number: 0, writer: "other", at: bench.clock.now(), entries: [], previous: end))
  }

  static func takeOver(_ bench: WorkerBench) async throws {
    let end = try await bench.journal.last(shard: 0)?.sequence ?? 0
    let fence = try await fence(bench)
    let result = await bench.journal.inner.append(shard: 0, expecting: end, fence)
    guard case .appended = result else { throw Timeout(what: "\(result)") }
  }

  @inline(never)
  func attach(_ bench: WorkerBench) async throws {
    let user = bench.user(0)
    bench.edge.send(.attach(Attach()), from: 1, user, "d1", to: user, request: 1)
    try await eventually("attached") { bench.isAnswered(1) }
  }

  func ask(_ bench: WorkerBench, _ bodies: [Command.Body]) {
    let user = bench.user(0)
    for (index, body) in bodies.enumerated() {
      bench.edge.send(body, from: 1, user, "d1", to: user, request: UInt64(100 + index))
    }
  }

  /// It was stopped, its shard moved, and it wakes with commands waiting.
  @Test func whoWakesWithCommandsWaitingSaysNothing() async throws {
    try await WorkerBench().serve(0..<2) { bench in
      try await attach(bench)
      let said = bench.edge.items.count
      let appends = bench.journal.records.count
      try await Self.takeOver(bench)
      ask(bench, Self.commands(bench.user(0)))
      try await bench.stepsDown()
      try await bench.flush()
      #expect(bench.edge.items.count == said + 1, "only the marker of the flush may have come")
      #expect(bench.journal.records.count == appends + 1, "one refused attempt tells enough")
      #expect(bench.metrics.heldBack.value == 0)
      // Commands that come later are not even taken.
      ask(bench, Self.commands(bench.user(0)))
      try await bench.flush()
      #expect(bench.edge.items.count == said + 2)
      // The other shard serves on.
      try await bench.ask(900, shard: 1)
      #expect(bench.metrics.appendsRefused.value == 1 && bench.metrics.shards.value == 1)
    }
  }

  /// Each command alone: none has a way around the journal.
  @Test(arguments: 0..<14) func noCommandHasAWayAroundTheJournal(index: Int) async throws {
    try await WorkerBench().serve { bench in
      try await Self.takeOver(bench)
      let body = Self.commands(bench.user(0))[index]
      ask(bench, [body])
      try await bench.stepsDown()
      try await bench.flush()
      #expect(bench.edge.items.count == 1, "\(body)")
    }
  }

  /// Deadlines that passed while it slept say nothing either.
  @Test func whatFellDueMeanwhileIsNotSaid() async throws {
    try await WorkerBench().serve { bench in
      try await attach(bench)
      try await Self.takeOver(bench)
      let said = bench.edge.items.count
      // An edge is lost: the rules decide something by themselves.
      bench.worker.inbox.offer(.edgeLost(bench.edge.number, awaitedUntil: .distantFuture))
      bench.query(2, shard: 0)
      try await bench.stepsDown()
      try await bench.flush()
      #expect(bench.edge.items.count == said + 1)
    }
  }

  /// It was cut off from NATS: its appends had no answer, nor had its look at the journal; meanwhile
  /// the shard moved. When the network heals it finds another's record.
  @Test func whoWasCutOffSaysNothing() async throws {
    try await WorkerBench().serve { bench in
      let fence = try await Self.fence(bench)
      let end = try await bench.journal.last(shard: 0)?.sequence ?? 0
      let journal = bench.journal.inner
      let attempts = Inbox<Void>(capacity: 100)
      bench.bus.setFaults { faults in
        faults.onAppend = { _, bytes in
          if bytes == fence { return nil }
          attempts.offer(())
          // The other one comes in after this one has tried some times.
          if attempts.depth == 3 { journal.append(shard: 0, expecting: end, fence) { _ in } }
          return .unknown(stored: false)
        }
      }
      ask(bench, Self.commands(bench.user(0)))
      try await bench.stepsDown()
      try await bench.flush()
      #expect(bench.edge.items.count == 1)
    }
  }

  /// The lease says that it lost the shard, before the journal could.
  @Test func whoIsDeposedSaysNothing() async throws {
    try await WorkerBench().serve { bench in
      bench.journal.hold()
      ask(bench, Self.commands(bench.user(0)))
      try await eventually("an append waits") { bench.journal.waiting == 1 }
      try await bench.depose()
      bench.journal.letGo()
      try await bench.flush()
      #expect(bench.edge.items.count == 1)
    }
  }

  /// While a node does not receive its own heartbeats, no edge can notify it that a caller is back. The caller's grace
  /// does not run out, and begins anew when the node hears itself again.
  @Test func graceDoesNotRunOutWhileTheNodeDoesNotHearItself() async throws {
    try await WorkerBench { $0.leaseTimeout = .milliseconds(400) }.run { bench in
      var limits = CallLimits()
      // Longer than the node may be without its heartbeats, half of leaseTimeout.
      limits.resumeGraceRinging = .milliseconds(250)
      limits.reattachGrace = .milliseconds(50)
      try await bench.adopt(0, limits: limits)
      let (caller, callee) = (bench.user(1), bench.user(0))
      let call = CallID(high: 7, low: 7)
      func phase(_ request: UInt64) async throws -> CallPhase? {
        bench.edge.send(.call(call, .query), from: 1, callee, "phone", to: callee, request: request)
        try await eventually("an answer") { bench.edge.reply(to: 1, request: request) != nil }
        return bench.edge.reply(to: 1, request: request)?.call?.phase
      }
      try await bench.edge.attach(callee, "phone", session: 1)
      try await bench.edge.place(call, from: 2, caller, to: callee)
      bench.worker.inbox.offer(.receivedOwnHeartbeat(since: bench.clock.now()))
      bench.edge.send(.callerGone([call]), from: 2, caller, "phone", to: callee, request: 0)
      let over = bench.clock.now() + .milliseconds(400)
      try await eventually("the grace is long over") { bench.clock.now() > over }
      #expect(try await phase(100) == .placed)

      let since = bench.clock.now()
      var request: UInt64 = 200
      try await eventually("it ends, once the node hears itself") {
        bench.worker.inbox.offer(.receivedOwnHeartbeat(since: since))
        request += 1
        return try await phase(request) == .ended
      }
    }
  }
}
