import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallTestKit
import Crypto
import NIOPosix
import Testing

@Suite("APNs: the sender against a strict server", .serialized)
struct APNsSimulatorTests {
  /// A fault and its permitted consequences.
  struct Fault: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let script: APNsScript
    /// The fate of some attempts is unknown: these may reach a device twice, with the same id.
    let mayDouble: Bool
    /// Whether it is noticed because something takes too long.
    let isSilence: Bool
    /// One, where the server cuts a line once it holds so many requests: with two it might hold fewer on each until its
    /// time is up, and then cut those that are sent again, too.
    let connections: Int
    /// The metrics by which the sender must have noticed the fault.
    let noticed: @Sendable (APNsMetrics) -> Bool

    init(
      _ name: String, _ script: APNsScript, mayDouble: Bool = false, isSilence: Bool = false,
      connections: Int = 2, noticed: @escaping @Sendable (APNsMetrics) -> Bool = { _ in true }
    ) {
      (testDescription, self.script, self.mayDouble) = (name, script, mayDouble)
      (self.isSilence, self.connections, self.noticed) = (isSilence, connections, noticed)
    }
  }

  private static func rule(_ fault: APNsFault, from: Int = 20, every: Int = 1, times: Int? = nil)
    -> APNsScript
  {
    APNsScript([.init(fault, from: from, every: every, times: times)])
  }

  /// A fault that leaves the fate unknown strikes each of these pushes once. A rule that counts requests might strike a
  /// repetition as well, and a push of unknown fate is repeated only once.
  private static func first(_ fault: APNsFault, of pushes: Int...) -> APNsScript {
    APNsScript(pushes.map { .init(fault, tokens: [SimulatedAPNs.token($0)], times: 1) })
  }

  static let goAways: [Fault] = [
    Fault("GOAWAY, this one the last", rule(.goAway(.init(reason: .shutdown)), every: 60)) {
      $0.goAways.value > 0
    },
    Fault(
      "GOAWAY before this one", rule(.goAway(.init(reason: .shutdown, last: .before)), every: 60)
    ) { $0.requeued.value > 0 },
    Fault(
      "GOAWAY, nothing in flight is answered", rule(.goAway(.init(last: .zero)), every: 60)
    ) { $0.requeued.value > 0 },
    Fault(
      "GOAWAY in two phases",
      rule(.goAway(.init(last: .before, warning: .milliseconds(30))), every: 100)
    ) { $0.goAways.value >= 2 },
    Fault("GOAWAY, closing left to us", rule(.goAway(.init(closes: false)), every: 100)) {
      $0.goAways.value > 0
    },
    Fault(
      "GOAWAY with an error", rule(.goAway(.init(code: 2, last: .before)), times: 1),
      mayDouble: true
    ) { $0.goAways.value > 0 },
    Fault(
      "GOAWAY and a TCP reset", rule(.goAway(.init(abruptly: true)), times: 1), mayDouble: true),
    Fault(
      "many in flight at a GOAWAY",
      rule(
        .gather(40, within: .seconds(2), then: .goAway(reason: .shutdown, answering: 10)),
        times: 80)
    ) { $0.requeued.value >= 30 },
  ]

  static let faults: [Fault] = [
    Fault("none", APNsScript()),
    Fault(
      "many in flight when the line is cut",
      rule(.gather(40, within: .seconds(30), then: .cut(answering: 10)), times: 40),
      mayDouble: true, connections: 1
    ) { $0.repeated.value >= 1 },
    Fault("TCP reset", rule(.cut, times: 1), mayDouble: true),
    Fault("REFUSED_STREAM, each fifth", rule(.refuse, from: 1, every: 5)) {
      $0.requeued.value >= 50
    },
    Fault("more resets than HTTP/2 libraries bear", rule(.refuse, from: 2, times: 280)) {
      $0.requeued.value >= 250
    },
    Fault(
      "a storm of resets of one stream", rule(.reset(code: 7, times: 300), times: 1),
      mayDouble: true),
    Fault(
      "resets that tell nothing", first(.reset(code: 2), of: 19, 69, 119, 169), mayDouble: true
    ) { $0.repeated.value == 4 },
    Fault("SETTINGS to and fro", rule(.flipSettings(400), times: 2)),
    Fault("one stream for a while", rule(.limitStreams(1), times: 1)),
    Fault("answers delayed", rule(.delay(.milliseconds(40)), every: 3)),
    Fault(
      "answers in reverse", rule(.gather(20, within: .milliseconds(200), then: .reversed))),
    Fault(
      "answers in every shape",
      APNsScript([
        .init(.shape([.splitBody, .padding, .continuation, .emptyEnd]), every: 2),
        .init(.answer(.serviceUnavailable), from: 5, every: 61),
      ])),
    Fault("no answer to some", first(.noAnswer, of: 19, 99), mayDouble: true, isSilence: true) {
      $0.overdue.value + $0.repeated.value >= 1
    },
    Fault(
      "delivered, but not answered", first(.deliverWithoutAnswer, of: 19, 99), mayDouble: true,
      isSilence: true
    ) { $0.repeated.value >= 1 },
    Fault(
      "the first connection is refused in TLS", APNsScript(connections: [(1...1, .silent)]),
      isSilence: true),
    Fault("the first two are cut", APNsScript(connections: [(1...2, .cut)])),
    Fault(
      "the first sends no SETTINGS", APNsScript(connections: [(1...1, .noSettings)]),
      isSilence: true),
    Fault(
      "the first is a black hole", APNsScript(connections: [(1...1, .blackHole)]), isSilence: true
    ) { $0.repeated.value >= 1 },
  ]

  static let answers: [Fault] =
    ([
      (.internalServerError, 40, 4), (.shutdown, 80, 3), (.idleTimeout, 80, 2),
      (.tooManyRequests, 80, 3), (.unrelatedKeyIDInToken, 90, 1), (.expiredProviderToken, 90, 1),
    ] as [(APNsReason, Int, Int)]).map {
      Fault("answer \($0.rawValue)", rule(.answer($0), every: $1, times: $2))
    }

  @Test(
    "no push is lost, none doubled but where its fate was unknown",
    arguments: goAways + faults + answers)
  func survives(_ fault: Fault) async throws {
    var limits = fault.isSilence ? SimulatedAPNs.limits : SimulatedAPNs.patientLimits
    limits.connections = fault.connections
    let world = try await SimulatedAPNs(devices: 300, limits: limits) { $0.script = fault.script }
    let outcomes = await world.send(0..<300)
    let delivered = world.deliveredByID
    for index in 0..<300 {
      let id = SimulatedAPNs.id(index)
      #expect(outcomes[id] == .accepted, "push \(index): \(String(describing: outcomes[id]))")
      let times = delivered[id, default: 0]
      #expect(times >= 1, "push \(index) reached no device")
      #expect(times <= (fault.mayDouble ? 2 : 1), "push \(index) was delivered \(times) times")
    }
    let metrics = try #require(world.sender.metrics(of: "test"))
    #expect(fault.noticed(metrics))
    #expect(metrics.queueFull.value == 0)
    try await finish(world)
  }

  @Test("a server that ends each connection after 40 requests: all of 200 rings are sent")
  func fortyRequestsForEachConnection() async throws {
    var limits = SimulatedAPNs.patientLimits
    // No more answers are lost with a connection than it has pushes under way.
    limits.inFlightPerConnection = 10
    let world = try await SimulatedAPNs(devices: 200, limits: limits) {
      $0.script = APNsScript([.init(.cut, from: 41, perConnection: true)])
    }
    let outcomes = await world.send(0..<200)
    let unsent = outcomes.filter { $0.value != .accepted }
    #expect(outcomes.count == 200 && unsent.isEmpty, "\(unsent.values)")
    #expect(world.deliveredByID.count == 200)
    let metrics = try #require(world.sender.metrics(of: "test"))
    #expect(metrics.connectionsOpened.value >= 5)
    try await finish(world)
  }

  /// Closes everything, and checks the violations that the server counted.
  func finish(
    _ world: SimulatedAPNs, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    await world.stop()
    let report = world.apns.report
    #expect(
      report.violationsTotal == 0, "\(report.violations) \(report.remarks)",
      sourceLocation: sourceLocation)
    #expect(report.abandoned == 0, sourceLocation: sourceLocation)
    for statistics in world.sender.statistics {
      #expect(statistics.status.inFlight == 0, sourceLocation: sourceLocation)
      #expect(statistics.status.connected == 0, sourceLocation: sourceLocation)
    }
    for index in 0..<400 {
      #expect(!world.log.all.contains(SimulatedAPNs.token(index)))
    }
    #expect(!world.log.all.contains("bearer"))
  }

  @Test("gone, not for this topic, an alert token for a VoIP push") func tokens() async throws {
    let world = try await SimulatedAPNs(devices: 2)
    let since = Timestamp(microseconds: 1_700_000_000_123_000)
    world.apns.unregister(SimulatedAPNs.token(1), at: since)
    for index in 2...3 { world.register(index, suffix: "") }
    #expect(await world.send(1) == .tokenGone(at: since))
    #expect(await world.send(2) == .tokenRefused(reason: "DeviceTokenNotForTopic", isSure: true))
    #expect(await world.send(SimulatedAPNs.message(3, kind: .alert)) == .accepted)
    #expect(await world.send(SimulatedAPNs.message(3, kind: .background)) == .accepted)
    let none = PushOutcome.rejected(reason: "no APNs sender for this topic and environment")
    #expect(await world.send(SimulatedAPNs.message(2, topic: "org.example.other")) == none)
    #expect(await world.send(SimulatedAPNs.message(2, environment: "sandbox")) == none)
    #expect(await world.send(SimulatedAPNs.message(2, for: .seconds(-1))) == .expired)
    await world.stop()
  }

  @Test("a token of unknown environment is tried in both; one that neither knows is gone")
  func environments() async throws {
    var options = APNsSimulatorOptions()
    let production = try await APNsSimulator.start(options)
    options.environment = .development
    let sandbox = try await APNsSimulator.start(options)
    sandbox.register(SimulatedAPNs.token(1), topic: SimulatedAPNs.bundle + ".voip")
    production.register(SimulatedAPNs.token(2), topic: SimulatedAPNs.bundle + ".voip")
    let sender = try APNsSender(
      [
        SimulatedAPNs.configuration(production, name: "production"),
        SimulatedAPNs.configuration(sandbox, name: "sandbox", environment: .sandbox),
      ], group: MultiThreadedEventLoopGroup.singleton, clock: SimulatedAPNs.clock,
      logger: SimulatedAPNs.LogCapture().logger)
    for (index, environment, outcome) in [
      (1, "", .acceptedIn(environment: "sandbox")), (2, "", .acceptedIn(environment: "production")),
      (3, "", SimulatedAPNs.wrong), (1, "production", .acceptedIn(environment: "sandbox")),
      (2, "sandbox", .acceptedIn(environment: "production")), (1, "sandbox", .accepted),
    ] as [(Int, String, PushOutcome)] {
      let message = SimulatedAPNs.message(index, environment: environment)
      #expect(await sender.send(message) == outcome, "\(index) \(environment)")
    }
    #expect(sandbox.report.accepted == 3)
    #expect(sandbox.report.responses["400 BadDeviceToken"] == 2)
    // Its environment is known, so the other one is not asked.
    let known = SimulatedAPNs.message(
      3, environment: "sandbox", for: .milliseconds(300), trust: .proven)
    #expect(await sender.send(known) == .tokenRefused(reason: "BadDeviceToken"))
    #expect(production.report.responses["400 BadDeviceToken"] == 3)
    await sender.close()
    #expect(production.report.violationsTotal + sandbox.report.violationsTotal == 0)
    await production.stop()
    await sandbox.stop()
  }

  @Test("a token that was accepted before is tried until the deadline, and stays")
  func doubted() async throws {
    let world = try await SimulatedAPNs(devices: 2)
    world.apns.play(
      APNsScript([
        .init(.answer(.badDeviceToken), tokens: [SimulatedAPNs.token(0)], times: 2),
        .init(.answer(.badDeviceToken), tokens: [SimulatedAPNs.token(1)]),
      ]))
    #expect(await world.send(SimulatedAPNs.message(0, trust: .proven)) == .accepted)
    let refused = PushOutcome.tokenRefused(reason: "BadDeviceToken")
    var known = SimulatedAPNs.message(1, for: .seconds(1), trust: .doubted)
    #expect(await world.send(known) == refused)
    known.purpose = .missedNotice
    known.deadline = SimulatedAPNs.clock.now() + .seconds(60)
    #expect(await world.send(known) == refused)
    await world.stop()
  }

  @Test("while most tokens are refused no registration goes, and rings are tried on")
  func wave() async throws {
    let world = try await SimulatedAPNs(devices: 10)
    world.apns.play(APNsScript([.init(.answer(.badDeviceToken), times: 12)]))
    func message(_ index: Int) -> PushMessage {
      var message = SimulatedAPNs.message(index)
      message.token.fingerprint = "fp-\(index)"
      return message
    }
    // Each is refused in vain until the wave is seen.
    for index in 0..<4 { #expect(await world.send(message(index)) == SimulatedAPNs.wrong) }
    let outcomes = await world.send((4..<10).map(message))
    #expect(outcomes.values.allSatisfy { $0 == .accepted }, "\(outcomes)")
    #expect(world.log.all.contains("The provider refuses most tokens"))
    await world.stop()
  }

  @Test("a server that cannot be trusted, or speaks no h2, gets nothing", arguments: 0..<4)
  func noConnection(kind: Int) async throws {
    let world = try await SimulatedAPNs { options in
      switch kind {
      case 0: options.certificate = .otherName
      case 1: options.certificate = .expired
      case 2: options.certificate = .untrusted
      default: options.protocols = ["http/1.1"]
      }
    }
    #expect(await world.send(SimulatedAPNs.message(1, for: .milliseconds(400))) == .expired)
    #expect(world.apns.report.streams == 0)
    #expect(world.sender.statistics[0].status.lastError != nil)
    await world.stop()
  }

  /// No timeout ends before the push does: it is the refusals that make it try again.
  @Test("a server that refuses connections for a while") func awayAndBack() async throws {
    let world = try await SimulatedAPNs(devices: 3, limits: SimulatedAPNs.patientLimits)
    #expect(await world.send(0) == .accepted)
    await world.apns.stopListening()
    world.apns.cutConnections()
    // So that the push waits for a connection, and is not lost with a dying one and sent again.
    await until { world.sender.statistics[0].status.connected == 0 }
    async let push = world.send(SimulatedAPNs.message(1, for: .seconds(20)))
    // Two that were there, and two attempts for each in vain at least.
    await until { world.sender.metrics(of: "test")?.connectionsOpened.value ?? 0 >= 6 }
    // Another test may have been given the port meanwhile, and gives it back.
    await until { (try? await world.apns.listenAgain()) != nil }
    #expect(await push == .accepted)
    #expect(await world.send(2) == .accepted)
    try await finish(world)
  }

  @Test("R33: all nodes of the provider behind one limit of streams: what is refused goes later")
  func oneLimitForAllNodes() async throws {
    let budget = APNsStreamBudget(5)
    func node() async throws -> SimulatedAPNs {
      try await SimulatedAPNs(devices: 30) {
        $0.streamBudget = budget
        $0.script = APNsScript([.init(.delay(.milliseconds(5)), from: 2)])
      }
    }
    let nodes = [try await node(), try await node()]
    await withTaskGroup(of: Void.self) { group in
      for node in nodes {
        group.addTask {
          let outcomes = await node.send(0..<30)
          #expect(node.isAllSent(30, outcomes), "\(outcomes)")
        }
      }
    }
    #expect(budget.openMax <= 5)
    #expect(budget.refused > 0)
    for node in nodes { try await finish(node) }
  }

  @Test("a new key while pushes are under way: none is lost, later ones are signed with it")
  func newKey() async throws {
    let old = APNsProviderKey(id: "OLDKEY1234", team: "TEAMID1234")
    let new = APNsProviderKey(id: "NEWKEY1234", team: "TEAMID1234")
    let world = try await SimulatedAPNs(devices: 300) {
      $0 = APNsSimulatorOptions(keys: [old, new])
    }
    async let first = world.send(0..<200)
    var configuration = try SimulatedAPNs.configuration(world.apns)
    configuration.credentials = try APNsCredentials(
      team: new.team, keyID: new.id, pem: new.privateKeyPEM)
    try world.sender.update(configuration)
    let second = await world.send(200..<300)
    let all = await first.merging(second) { $1 }
    #expect(world.isAllSent(300, all))
    configuration.port += 1
    #expect(throws: APNsConfigurationError.needsRestart("test")) {
      try world.sender.update(configuration)
    }
    try await finish(world)
  }

  @Test(
    "a key that APNs does not know: tried until the deadline, with alarms, and not in a tight loop")
  func wrongKey() async throws {
    let world = try await SimulatedAPNs(
      devices: 5, pem: P256.Signing.PrivateKey().pemRepresentation)
    let outcomes = await world.send((0..<5).map { SimulatedAPNs.message($0, for: .seconds(2)) })
    #expect(outcomes.values.allSatisfy { $0.kind == .failed })
    let streams = world.apns.report.streams
    #expect((2...100).contains(streams))
    #expect((1...streams).contains(Int(world.sender.metrics(of: "test")?.alarms.value ?? 0)))
    #expect(world.log.all.contains("InvalidProviderToken"))
    await world.stop()
  }

  @Test("close waits for what is under way, and then sends nothing more")
  func closing() async throws {
    let world = try await SimulatedAPNs(devices: 20) {
      $0.script = APNsScript([.init(.delay(.milliseconds(200)), from: 2)])
    }
    #expect(await world.send(0) == .accepted)
    async let under = world.send(1..<20)
    await until { world.apns.report.streams >= 20 }
    await world.sender.close()
    #expect(await under.values.allSatisfy { $0 == .accepted })
    #expect(await world.send(1) == .failed(reason: "closing"))
    try await finish(world)
  }
}
