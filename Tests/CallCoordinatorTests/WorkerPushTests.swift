import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

/// A work queue that does as it is told.
final class TestOutlet: PushOutlet {
  typealias Completion = @Sendable (AppendResult) -> Void
  enum Mood: Sendable {
    case takes, refuses
    /// Says nothing until it takes or refuses again.
    case silent
  }
  private struct State {
    var mood = Mood.takes
    var offered: [PushJob] = []
    var kept: [PushJob] = []
    var waiting: [Completion] = []
  }
  private let state = Mutex(State())

  var offered: [PushJob] { state.withLock { $0.offered } }
  var kept: [PushJob] { state.withLock { $0.kept } }

  func be(_ mood: Mood) {
    let waiting = state.withLock { state in
      state.mood = mood
      defer { state.waiting = [] }
      return state.waiting
    }
    for completion in waiting { completion(mood == .takes ? .appended(sequence: 1) : .refused) }
  }

  func add(_ job: PushJob, completion: @escaping Completion) {
    let result: AppendResult? = state.withLock { state in
      state.offered.append(job)
      switch state.mood {
      case .takes:
        state.kept.append(job)
        return .appended(sequence: UInt64(state.kept.count))
      case .refuses: return .refused
      case .silent:
        state.waiting.append(completion)
        return nil
      }
    }
    if let result { completion(result) }
  }
}

extension WorkerBench {
  func token(_ text: String) -> PushToken {
    PushToken(
      provider: .apns, environment: "sandbox", topic: "org.example.voip", token: text,
      fingerprint: "fp\(text)")
  }

  func register(_ user: UserKey, _ device: DeviceID, _ text: String) async throws -> Reply {
    try await edge.ask(
      .register(RegistrationRequest(voipToken: token(text), capabilities: .cancel)), from: 50, user,
      device, to: user)
  }

  func owner(_ text: String, app: String = "app") async throws -> TokenOwner? {
    let key = Subjects.tokenKey("fp\(text)", app: app)
    guard let value = try await tokens.get(key)?.value else { return nil }
    return try ClusterCodec.tokenOwner(value)
  }

  func inspect(_ user: UserKey) async -> UserInspection? {
    let shard = ShardHash.shard(of: user, count: Self.shards)
    return await worker.inspect(user: user, shard: shard)
  }

  func voipToken(_ user: UserKey, _ device: DeviceID) async -> String? {
    await inspect(user)?.devices.first { $0.device == device }?.registration?.request.voipToken?
      .token
  }
}

@Suite struct WorkerPushTests {
  private let caller = UserKey.user("alice")
  private let call = CallID(high: 3, low: 4)

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

  /// What only gateways and coordinators may say is not believed where edges speak, and the other way round.
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
      for source in CommandSource.allCases where source != .gateways {
        say(.pushReport(report), source, 1)
      }
      say(.call(call, .query), .coordinators, 1)
      for source in CommandSource.allCases where source != .edges {
        say(.call(call, .hangUp), source, 1)
      }
      try await eventually("all are refused") { bench.metrics.commandsForged.value == 5 }
      say(.call(call, .query), .gateways, 2)
      try await eventually("a gateway may ask") { bench.isAnswered(2) }
      #expect(bench.metrics.commandsForged.value == 5 && !bench.isAnswered(1))
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

  // MARK: R13

  @Test("R13: another shard's device loses the token before the new one is told")
  func acrossShards() async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
      let bob = bench.user(0)
      let carol = bench.user(1)
      try await bench.edge.attach(bob, "b1", session: 7)
      guard case .registered = try await bench.register(bob, "b1", "t1") else {
        Issue.record("bob is not registered")
        return
      }
      #expect(try await bench.owner("t1")?.user == bob)
      guard case .registered = try await bench.register(carol, "c1", "t1") else {
        Issue.record("carol is not registered")
        return
      }
      #expect(await bench.voipToken(bob, "b1") == nil)
      #expect(await bench.voipToken(carol, "c1") == "t1")
      #expect(try await bench.owner("t1")?.user == carol)
      #expect(
        bench.edge.items.contains {
          if case .notice(let notice) = $0.body { notice.kind == .tokenTaken } else { false }
        })
      // More where a slow machine had a question retransmitted.
      #expect(bench.metrics.tokenClaims.value >= 2)
    }
  }

  /// It took the token before, and the device of the first app was not reached any more.
  @Test("an app takes no token from another") func apps() async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
      let bob = bench.user(0)
      let mallory = UserKey(app: "other", user: "mallory")
      try await bench.edge.attach(bob, "b1", session: 7)
      for (user, device) in [(bob, "b1"), (mallory, "m1"), (bob, "b1")] as [(UserKey, DeviceID)] {
        guard case .registered = try await bench.register(user, device, "t1") else {
          Issue.record("\(user) is not registered")
          return
        }
      }
      #expect(await bench.voipToken(bob, "b1") == "t1")
      #expect(try await bench.owner("t1")?.user == bob)
      #expect(try await bench.owner("t1", app: "other")?.user == mallory)
      #expect(
        try await bench.edge.ask(.unregister("m1"), from: 50, mallory, "m1", to: mallory) == .done)
      try await eventually("the claim is gone") {
        try await bench.owner("t1", app: "other") == nil
      }
      #expect(try await bench.owner("t1")?.user == bob)
      #expect(
        !bench.edge.items.contains {
          if case .notice(let notice) = $0.body { notice.kind == .tokenTaken } else { false }
        })
    }
  }

  /// Earlier versions had one key for all apps.
  @Test("a claim of an earlier version counts for its app alone", arguments: [true, false])
  func earlierClaim(isOwn: Bool) async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
      let (bob, carol) = (bench.user(0), bench.user(1))
      _ = try await bench.register(carol, "c1", "t1")
      let key = Subjects.tokenKey("fpt1", app: carol.app)
      let value = try #require(try await bench.tokens.get(key)?.value)
      let own = try ClusterCodec.tokenOwner(value)
      let other = TokenOwner(
        user: UserKey(app: "other", user: "mallory"), device: "m1", claimedAt: own.claimedAt)
      for (key, value) in [
        ("fpt1", ClusterCodec.encode(isOwn ? own : other) as [UInt8]?), (key, nil),
      ] {
        await withCheckedContinuation { done in
          if let value {
            bench.tokens.put(key, value, expecting: nil) { _ in done.resume() }
          } else {
            bench.tokens.delete(key, expecting: nil) { _ in done.resume() }
          }
        }
      }
      guard case .registered = try await bench.register(bob, "b1", "t1") else {
        Issue.record("not registered")
        return
      }
      #expect(try await bench.owner("t1")?.user == bob)
      #expect(await bench.voipToken(carol, "c1") == (isOwn ? nil : "t1"))
    }
  }

  @Test("R13: two race for one token: one owner, and nobody else has it", arguments: 0..<5)
  func race(round: Int) async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
      let users = (0..<WorkerBench.shards).map { bench.user($0, round) }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for user in users {
          group.addTask {
            // As a device does: until it is registered.
            while true {
              if case .registered = try await bench.register(user, "d", "t1") { return }
            }
          }
        }
        try await group.waitForAll()
      }
      let owner = try #require(try await bench.owner("t1"))
      var holders: [UserKey] = []
      for user in users where await bench.voipToken(user, "d") != nil { holders.append(user) }
      #expect(holders == [owner.user])
    }
  }

  @Test("R13: the former owner's shard is silent: try again, and later it works")
  func silentShard() async throws {
    try await WorkerBench { $0.formerOwnerTimeout = .milliseconds(50) }.run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      let carol = bench.user(1)
      let former = TokenOwner(user: carol, device: "c1", claimedAt: bench.clock.now())
      _ = await withCheckedContinuation { done in
        bench.tokens.put("fpt1", ClusterCodec.encode(former), expecting: nil) {
          done.resume(returning: $0)
        }
      }
      let refused = try await bench.register(bob, "b1", "t1")
      guard case .error(let error) = refused, error.code == .tryAgain else {
        Issue.record("not refused: \(refused)")
        return
      }
      #expect(await bench.voipToken(bob, "b1") == nil)
      try await bench.adopt(1)
      try await eventually("bob is registered") {
        if case .registered = try await bench.register(bob, "b1", "t1") { true } else { false }
      }
      #expect(try await bench.owner("t1")?.user == bob)
    }
  }

  @Test("R13: the claims' bucket fails: try again; a claim of unknown fate is looked up")
  func bucketFails() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      let once = Once()
      bench.bus.setFaults {
        $0.onPut = { bucket, _ in
          bucket == "tokens" && once.first() ? .unknown(stored: true) : nil
        }
      }
      guard case .registered = try await bench.register(bob, "b1", "t1") else {
        Issue.record("a claim that arrived is a claim")
        return
      }
      bench.bus.setFaults { $0.onPut = { bucket, _ in bucket == "tokens" ? .refuse : nil } }
      let refused = try await bench.register(bob, "b2", "t2")
      guard case .error(let error) = refused, error.code == .tryAgain else {
        Issue.record("not refused: \(refused)")
        return
      }
      bench.bus.setFaults { $0.onPut = nil }
      guard case .registered = try await bench.register(bob, "b2", "t2") else {
        Issue.record("still refused")
        return
      }
    }
  }

  @Test("a claim is released with its registration, unless it is another's by then")
  func released() async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
      let bob = bench.user(0)
      _ = try await bench.register(bob, "b1", "t1")
      #expect(try await bench.edge.ask(.unregister("b1"), from: 50, bob, "b1", to: bob) == .done)
      try await eventually("the claim is gone") { try await bench.owner("t1") == nil }
      let carol = bench.user(1)
      _ = try await bench.register(bob, "b1", "t2")
      _ = try await bench.register(carol, "c1", "t2")
      #expect(try await bench.edge.ask(.unregister("b1"), from: 50, bob, "b1", to: bob) == .done)
      try await bench.flush()
      #expect(try await bench.owner("t2")?.user == carol)
    }
  }

  @Test("while a coordinator of an earlier version lives, nobody is pushed and nothing claimed")
  func switchedOff() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      bench.worker.inbox.offer(.mayPush(false))
      guard case .registered = try await bench.register(bob, "b1", "t1") else {
        Issue.record("not registered")
        return
      }
      #expect(try await bench.owner("t1") == nil)
      let reply = try await bench.edge.ask(
        .place(PlaceRequest(call: call)), from: 2, caller, "a1", to: bob)
      guard case .call(let state) = reply else {
        Issue.record("\(reply)")
        return
      }
      #expect(state.phase == .placed, "it waits for devices between two edges")
      #expect(bench.outlet.kept.isEmpty)
      bench.worker.inbox.offer(.mayPush(true))
      let next = CallID(high: 3, low: 5)
      try await bench.edge.place(next, from: 3, caller, to: bob)
      try await eventually("pushed") { bench.outlet.kept.count == 1 }
    }
  }
}

/// Calls that gateways were told of.
private final class Told: Sendable {
  private let state = Mutex<[CallID]>([])
  var calls: [CallID] { state.withLock { $0 } }
  func take(_ bytes: [UInt8]) {
    state.withLock { $0 += (try? ClusterCodec.pushWithdrawal(bytes)) ?? [] }
  }
}
