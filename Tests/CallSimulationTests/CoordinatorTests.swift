import CallBus
import CallCore
import CallSimulation
import CallTelemetry
import CallWire
import Testing

/// Real coordinators in a world with plain edges: every accepted command is answered, despite faults.
@Suite struct CoordinatorTests {
  private final class Rig {
    let world: SimWorld
    let nats: SimNATS
    let options: SimCoordinatorOptions
    let invariants: StoreInvariants
    let coordinators: [SimCoordinator]
    var edges: [PlainEdge] = []
    private var random: SimRandom
    private var sessions: [(edge: PlainEdge, session: UInt64)] = []
    private var placed = 0
    private(set) var accepted = 0
    private static let users = 12

    init(seed: UInt64) throws {
      world = SimWorld(seed: seed)
      nats = SimNATS(world)
      var random = world.fork("rig")
      var options = SimCoordinatorOptions()
      options.shardCount = random.number(4...16)
      options.checkpointEveryRecords = random.number(10...60)
      self.options = options
      self.random = random
      invariants = StoreInvariants(nats, app: "sim", options: options)
      let (world, nats) = (world, nats)
      coordinators = (1...random.number(3...5)).map {
        SimCoordinator(name: "c\($0)", nats: nats, options: options)
      }
      for coordinator in coordinators { coordinator.start() }
      for number in 1...2 {
        edges.append(try PlainEdge(nats, number: UInt64(number), shardCount: options.shardCount))
      }
      for user in 0..<Self.users { attach(user) }
      world.run(for: .seconds(2))
    }

    private func user(_ number: Int) -> UserKey { UserKey(app: "sim", user: "u\(number)") }

    private func attach(_ number: Int) {
      for device in 0..<2 {
        let session = UInt64(number * 2 + device + 1)
        let edge = edges[random.below(2)]
        if device == 0 { sessions.append((edge, session)) }
        edge.attach(user(number), DeviceID("d\(device)"), session: session)
        edge.register(session: session)
        edge.onDelivery = { [unowned self, unowned edge] session, delivery in
          guard case .invite = delivery.event else { return }
          react(edge, session, delivery)
        }
      }
    }

    /// Half of the calls are answered, a quarter is declined, a quarter rings until it times out.
    private func react(_ edge: PlainEdge, _ session: UInt64, _ delivery: Delivery) {
      let callee = UserKey(app: "sim", user: delivery.callee)
      let id = delivery.call
      edge.ask(.call(id, .alerting), from: session, to: callee)
      let pause = random.span(.milliseconds(10), .seconds(3))
      guard id.low % 4 < 3 else { return }
      world.schedule(after: pause) {
        edge.ask(
          id.low % 4 < 2 ? .call(id, .answer(description: "")) : .call(id, .decline(.everywhere)),
          from: session, to: callee)
      }
    }

    func placeCalls(every span: Span, until end: Timestamp) {
      guard world.now < end else { return }
      let caller = random.below(Self.users)
      let callee = user((caller + 1 + random.below(Self.users - 1)) % Self.users)
      let (edge, session) = sessions[caller]
      placed += 1
      let id = CallID(high: UInt64(placed), low: random.next())
      edge.place(id, from: session, to: callee) { [unowned self] reply in
        if case .call = reply { accepted += 1 }
      }
      world.schedule(after: span) { [unowned self] in placeCalls(every: span, until: end) }
    }

    func settle() {
      world.run(for: .seconds(6))
      if world.failure == nil { invariants.checkOwners() }
      world.run(for: .seconds(8))
      if world.failure == nil { invariants.checkStore() }
      world.runJobs()
    }

    var waiting: Int { edges.reduce(0) { $0 + $1.waiting } }

    /// - Returns: the number of processes that did not end.
    func tearDown() -> Int {
      for coordinator in coordinators { coordinator.destroy() }
      world.unwind()
      let ghosts = coordinators.reduce(0) { $0 + $1.ghostCount }
      nats.tearDown()
      world.tearDown()
      return ghosts
    }
  }

  /// Brutal seed 98600500: a gateway stood still while it shut down, longer than the world waited for its end, and was not
  /// started again.
  @Test func whoShutsDownIsStartedAgainHoweverLongThatTakes() throws {
    let rig = try Rig(seed: 2)
    let coordinator = rig.coordinators[0]
    coordinator.shutDown()
    coordinator.freeze()
    rig.world.run(for: .seconds(1))
    coordinator.recover()
    #expect(coordinator.isLeaving)
    rig.world.run(for: .seconds(30))
    #expect(coordinator.isRunning && !coordinator.isLeaving)
    #expect(rig.tearDown() == 0)
  }

  @Test func withoutFaultsEverythingIsAnswered() throws {
    let rig = try Rig(seed: 1)
    rig.placeCalls(every: .milliseconds(300), until: rig.world.now + .seconds(20))
    rig.world.run(for: .seconds(20))
    rig.settle()
    #expect(rig.world.failure == nil)
    #expect(rig.waiting == 0)
    #expect(rig.accepted > 50)
    #expect(rig.tearDown() == 0)
  }

  @Test(arguments: SimIntensity.allCases)
  func whateverHappensEverythingIsAnsweredInTheEnd(_ intensity: SimIntensity) throws {
    for seed in UInt64(1)...15 {
      let rig = try Rig(seed: seed)
      let faults = SimFaults(rig.nats, rig.coordinators, intensity)
      faults.begin()
      rig.placeCalls(every: .milliseconds(400), until: rig.world.now + .seconds(30))
      rig.world.run(for: .seconds(30))
      faults.end()
      rig.settle()
      #expect(rig.world.failure == nil, "seed \(seed)")
      #expect(rig.waiting == 0, "seed \(seed)")
      #expect(rig.tearDown() == 0, "seed \(seed)")
    }
  }

  /// A store that ignores what an append expects is not among them: the chain of records prevents its
  /// effects. Simulated clusters find it once readers ignore the chain, too.
  enum StoreSabotage: CaseIterable {
    case speaksBeforeTheAppend
    case purgeGoesTooFar

    func carryOut(_ nats: SimNATS) {
      switch self {
      case .speaksBeforeTheAppend: nats.tamper.answersAppendsEarly = true
      case .purgeGoesTooFar: nats.tamper.purgesThrough = { _ in .max }
      }
    }
  }

  @Test(arguments: StoreSabotage.allCases)
  func sabotageOfTheStoreIsFoundWithinThirtySeeds(_ sabotage: StoreSabotage) throws {
    for seed in UInt64(1)...30 {
      let rig = try Rig(seed: seed)
      sabotage.carryOut(rig.nats)
      let faults = SimFaults(rig.nats, rig.coordinators, .usual)
      faults.begin()
      rig.placeCalls(every: .milliseconds(400), until: rig.world.now + .seconds(30))
      rig.world.run(for: .seconds(30))
      let isFound = rig.world.failure != nil
      _ = rig.tearDown()
      if isFound { return }
    }
    Issue.record("not found")
  }

  /// It received no heartbeats because of its own fault.
  @Test func aCoordinatorThatWasCutOffTakesNothingFromTheLiving() throws {
    for seed in UInt64(200)...210 {
      let rig = try Rig(seed: seed)
      let node = try #require(rig.coordinators[0].node)
      var claimed: [Int: UInt64] = [:]
      rig.nats.observers.written.append { bucket, entry in
        guard bucket.hasSuffix("leases"), let shard = Int(entry.key), let value = entry.value,
          let lease = try? ClusterCodec.lease(value), !lease.released
        else { return }
        claimed[shard] = lease.epoch
      }
      rig.nats.cut([node], for: .seconds(4), notice: .milliseconds(100))
      rig.world.run(for: .seconds(3))
      let taken = claimed
      rig.world.run(for: .seconds(7))
      // It gets its former shards back with one hand-over each. No other shard moves.
      #expect(Set(claimed.keys) == Set(taken.keys), "seed \(seed)")
      for (shard, epoch) in claimed { #expect(epoch <= taken[shard, default: 0] + 1) }
      rig.settle()
      #expect(rig.world.failure == nil, "seed \(seed)")
      #expect(rig.tearDown() == 0, "seed \(seed)")
    }
  }

  /// All rules hold in this world, but a state machine counted an internal fault.
  @Test func anInternalFaultFailsTheSeed() async throws {
    var options = try await SimOptions()
    options.activity = .seconds(1)
    options.settling = .seconds(20)
    #expect(Simulation(seed: 1, options: options).run().failure == nil)
    let simulation = Simulation(seed: 1, options: options)
    simulation.world.schedule(after: .seconds(1)) {
      simulation.coordinators[0].internalFaults[0].increment()
    }
    let reason = try #require(simulation.run().failure?.reason)
    #expect(reason == "a state machine of c1 counted an internal fault")
  }

  @Test func aFrozenCoordinatorThatWakesUpLateSaysNothing() throws {
    for seed in UInt64(100)...120 {
      let rig = try Rig(seed: seed)
      rig.placeCalls(every: .milliseconds(100), until: rig.world.now + .seconds(8))
      rig.world.run(for: .seconds(2))
      rig.coordinators[0].freeze()
      rig.world.run(for: .seconds(4))
      // The invariants check every message that it sends now.
      rig.coordinators[0].thaw()
      rig.world.run(for: .seconds(4))
      rig.settle()
      #expect(rig.world.failure == nil, "seed \(seed)")
      #expect(rig.waiting == 0, "seed \(seed)")
      #expect(rig.tearDown() == 0, "seed \(seed)")
    }
  }
}
