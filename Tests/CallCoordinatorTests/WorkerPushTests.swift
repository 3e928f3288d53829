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

  /// Bob's device `b1` has the token `t1` and no session.
  @inline(never)
  private func withSleepingDevice(
    _ change: (inout CoordinatorConfiguration) -> Void = { _ in },
    _ body: (WorkerBench, _ bob: UserKey) async throws -> Void
  ) async throws {
    try await WorkerBench(change).serve { bench in
      let bob = bench.user(0)
      #expect(try await bench.register(bob, "b1", "t1").isRegistered)
      try await body(bench, bob)
    }
  }

  @Test("what was decided leaves, and is counted, when the journal has it, and not before")
  func leavesBehindTheJournal() async throws {
    try await withSleepingDevice { bench, bob in
      bench.journal.hold()
      bench.edge.send(
        .place(PlaceRequest(call: call)), from: 2, caller, "a1", to: bob, request: 900)
      try await eventually("the append waits") { bench.journal.waiting == 1 }
      try await bench.flush()
      #expect(bench.outlet.offered.isEmpty && bench.edge.reply(to: 2, request: 900) == nil)
      #expect(bench.metrics.calls.placed.value == 0)
      bench.journal.letGo()
      try await eventually("the push") { bench.outlet.kept.count == 1 }
      try await eventually("the reply") { bench.edge.reply(to: 2, request: 900) != nil }
      let job = try #require(bench.outlet.kept.first)
      #expect(job.device == "b1")
      #expect(job.purpose == .ring)
      #expect(job.token.token == "t1")
      #expect(job.token.lane == "apns-sandbox")
      #expect(bench.metrics.pushJobs[.ring]?.value == 1)
      try await eventually("it is counted") { bench.metrics.pushesAdded.value == 1 }
      try await eventually("so is the call") { bench.metrics.calls.placed.value == 1 }
      bench.edge.send(.call(call, .cancel), from: 2, caller, "a1", to: bob, request: 901)
      try await eventually("so is its end") { bench.metrics.calls.ended(.cancelled) == 1 }
      #expect(bench.metrics.calls.ringing.count == 1 && bench.metrics.calls.talking.count == 0)
    }
  }

  @Test("a queue that refuses at first is asked again") func askedAgain() async throws {
    try await withSleepingDevice { bench, bob in
      bench.outlet.be(.refuses)
      try await bench.edge.place(call, from: 2, caller, to: bob)
      try await eventually("a second attempt") { bench.outlet.offered.count >= 2 }
      bench.outlet.be(.takes)
      try await eventually("it is kept") { bench.outlet.kept.count == 1 }
      #expect(Set(bench.outlet.offered.map(\.id)).count == 1)
      #expect(bench.metrics.pushesFailed.value == 0)
    }
  }

  @Test("a queue without a leader is asked for as long as an election takes") func leaderless()
    async throws
  {
    try await withSleepingDevice { bench, bob in
      bench.outlet.be(.leaderless)
      try await bench.edge.place(call, from: 2, caller, to: bob)
      try await eventually("more attempts than a full queue gets") {
        bench.outlet.offered.count >= 7
      }
      #expect(bench.metrics.pushesFailed.value == 0 && bench.edge.stops(to: 2).isEmpty)
      bench.outlet.be(.takes)
      try await eventually("it is kept") { bench.outlet.kept.count == 1 }
    }
  }

  @Test("R19: a queue that takes nothing: the call ends, and it is counted")
  func neverTaken() async throws {
    try await withSleepingDevice { bench, bob in
      bench.outlet.be(.refuses)
      try await bench.edge.place(call, from: 2, caller, to: bob)
      try await eventually("the caller hears it") {
        bench.edge.stops(to: 2).contains { $0.reason == .unreachable }
      }
      #expect(bench.metrics.pushesFailed.value == 1)
      #expect(bench.metrics.pushRetries.value > 0)
    }
  }

  @Test("a ring that the queue has not taken when the call ends is not offered again")
  func notAfterTheEnd() async throws {
    try await withSleepingDevice { bench, bob in
      let told = Mutex<[CallID]>([])
      let subscription = try bench.bus.subscribe(bench.subjects.pushWithdrawals) { message in
        let calls = (try? ClusterCodec.pushWithdrawal(message.bytes))?.map(\.call) ?? []
        told.withLock { $0 += calls }
      }
      defer { subscription.cancel() }
      bench.outlet.be(.silent)
      try await bench.edge.place(call, from: 2, caller, to: bob)
      try await eventually("the ring is offered") { bench.outlet.offered.count == 1 }
      let reply = try await bench.edge.ask(.call(call, .cancel), from: 2, caller, "phone", to: bob)
      #expect(reply.call?.reason == .cancelled)
      try await eventually("the clean-up is offered") { bench.outlet.offered.count == 2 }
      try await eventually("gateways are told") { told.withLock { $0 } == [call] }
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
    try await withSleepingDevice { bench, bob in
      try await bench.edge.attach(bob, "b2", session: 7)
      bench.outlet.be(.silent)
      for number in 1...5 {
        let id = CallID(high: 8, low: UInt64(number))
        try await bench.edge.place(id, from: UInt64(20 + number), caller, to: bob)
      }
      try await eventually("all invites") { bench.edge.deliveries(to: 7).count >= 5 }
      #expect(bench.outlet.offered.count == 5)
      #expect(bench.metrics.pushesAdded.value == 0)
      try await eventually("five wait") { bench.metrics.pushesWaiting.value == 5 }
      #expect(bench.metrics.registrationWritesWaiting.value == 0)
      bench.outlet.be(.takes)
      try await eventually("then they are taken") { bench.metrics.pushesAdded.value == 5 }
    }
  }

  /// A gateway of the version before reports where edges speak, which counts during an upgrade only.
  @Test(
    "a node that is no edge has its reply, and is not taken for an edge",
    arguments: [CommandSource.gateways, .edges])
  func reportOfAPeer(source: CommandSource) async throws {
    try await withSleepingDevice { bench, bob in
      try await bench.edge.place(call, from: 2, caller, to: bob)
      try await eventually("the push") { bench.outlet.kept.count == 1 }
      let gateway = try bench.reportGone(of: call, from: source)
      try await eventually("its reply") { gateway.reply(to: 8, request: 8) == .done }
      #expect(await bench.voipToken(bob, "b1") == nil)
      #expect(!bench.reported.contains(.edgeSeen(1234)))
      #expect(bench.reported.contains(.edgeSeen(77)))
      try await eventually("the claim goes") { try await bench.owner("t1") == nil }
    }
  }
}
