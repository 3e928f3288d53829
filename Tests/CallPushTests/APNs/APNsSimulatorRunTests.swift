import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallTestKit
import Crypto
import NIOCore
import NIOPosix
import Testing

/// Tokens, environments, certificates, keys and outages.
extension APNsSimulatorTests {
  @Test("refused tokens among good ones: one stream again and again, and GOAWAY at the tenth")
  func badTokens() async throws {
    var options = APNsSimulatorOptions()
    options.badTokensMax = 10
    let world = try await SimulatedAPNs(options)
    for index in 0..<300 where index % 5 != 0 {
      world.apns.register(SimulatedAPNs.token(index), topic: SimulatedAPNs.bundle + ".voip")
    }
    let outcomes = await world.send((0..<300).map { SimulatedAPNs.message($0) })
    for index in 0..<300 {
      #expect(
        outcomes[SimulatedAPNs.id(index)] == (index % 5 == 0 ? SimulatedAPNs.wrong : .accepted))
    }
    #expect(world.deliveredByID.count == 240)
    #expect(world.deliveredByID.values.allSatisfy { $0 == 1 })
    try await finish(world)
  }

  @Test("gone, not for this topic, an alert token for a VoIP push")
  func tokens() async throws {
    let world = try await SimulatedAPNs()
    let since = Timestamp(microseconds: 1_700_000_000_123_000)
    world.apns.register(SimulatedAPNs.token(1), topic: SimulatedAPNs.bundle + ".voip")
    world.apns.unregister(SimulatedAPNs.token(1), at: since)
    world.apns.register(SimulatedAPNs.token(2), topic: SimulatedAPNs.bundle)
    world.apns.register(SimulatedAPNs.token(3), topic: SimulatedAPNs.bundle)
    let sender = world.sender
    #expect(await sender.send(SimulatedAPNs.message(1)) == .tokenGone(at: since))
    #expect(
      await sender.send(SimulatedAPNs.message(2))
        == .tokenRefused(reason: "DeviceTokenNotForTopic", isSure: true))
    #expect(await sender.send(SimulatedAPNs.message(3, kind: .alert)) == .accepted)
    #expect(await sender.send(SimulatedAPNs.message(3, kind: .background)) == .accepted)
    #expect(
      await sender.send(SimulatedAPNs.message(2, topic: "org.example.other"))
        == .rejected(reason: "no APNs sender for this topic and environment"))
    #expect(
      await sender.send(SimulatedAPNs.message(2, environment: "sandbox"))
        == .rejected(reason: "no APNs sender for this topic and environment"))
    #expect(await sender.send(SimulatedAPNs.message(2, for: .seconds(-1))) == .expired)
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
    func send(_ index: Int, _ environment: String) async -> PushOutcome {
      await sender.send(SimulatedAPNs.message(index, environment: environment))
    }
    #expect(await send(1, "") == .acceptedIn(environment: "sandbox"))
    #expect(await send(2, "") == .acceptedIn(environment: "production"))
    #expect(await send(3, "") == SimulatedAPNs.wrong)
    #expect(await send(1, "production") == .acceptedIn(environment: "sandbox"))
    #expect(await send(2, "sandbox") == .acceptedIn(environment: "production"))
    #expect(await send(1, "sandbox") == .accepted)
    #expect(sandbox.report.accepted == 3)
    #expect(sandbox.report.responses["400 BadDeviceToken"] == 2)
    // Its environment is known, so the other one is not asked.
    var known = SimulatedAPNs.message(3, environment: "sandbox", for: .milliseconds(300))
    known.trust = .proven
    #expect(await sender.send(known) == .tokenRefused(reason: "BadDeviceToken"))
    #expect(production.report.responses["400 BadDeviceToken"] == 3)
    await sender.close()
    #expect(production.report.violationsTotal + sandbox.report.violationsTotal == 0)
    await production.stop()
    await sandbox.stop()
  }

  @Test("a token that was accepted before is tried until the deadline, and stays")
  func doubted() async throws {
    let world = try await SimulatedAPNs()
    world.registerVoIP(2)
    world.apns.play(
      APNsScript([
        .init(.answer(.badDeviceToken), tokens: [SimulatedAPNs.token(0)], times: 2),
        .init(.answer(.badDeviceToken), tokens: [SimulatedAPNs.token(1)]),
      ]))
    var known = SimulatedAPNs.message(0)
    known.trust = .proven
    #expect(await world.sender.send(known) == .accepted)
    known = SimulatedAPNs.message(1, for: .seconds(1))
    known.trust = .doubted
    #expect(await world.sender.send(known) == .tokenRefused(reason: "BadDeviceToken"))
    known.purpose = .missedNotice
    known.deadline = SimulatedAPNs.clock.now() + .seconds(60)
    #expect(await world.sender.send(known) == .tokenRefused(reason: "BadDeviceToken"))
    await world.stop()
  }

  @Test("while most tokens are refused no registration goes, and rings are tried on")
  func wave() async throws {
    let world = try await SimulatedAPNs()
    world.registerVoIP(10)
    world.apns.play(APNsScript([.init(.answer(.badDeviceToken), times: 12)]))
    func message(_ index: Int) -> PushMessage {
      var message = SimulatedAPNs.message(index)
      message.token.fingerprint = "fp-\(index)"
      return message
    }
    // Each is refused in vain until the wave is seen.
    for index in 0..<4 {
      #expect(await world.sender.send(message(index)) == SimulatedAPNs.wrong)
    }
    let outcomes = await world.send((4..<10).map(message))
    #expect(outcomes.values.allSatisfy { $0 == .accepted }, "\(outcomes)")
    #expect(world.log.all.contains("The provider refuses most tokens"))
    await world.stop()
  }

  @Test("a server that cannot be trusted, or speaks no h2, gets nothing", arguments: 0..<4)
  func noConnection(kind: Int) async throws {
    var options = APNsSimulatorOptions()
    switch kind {
    case 0: options.certificate = .otherName
    case 1: options.certificate = .expired
    case 2: options.certificate = .untrusted
    default: options.protocols = ["http/1.1"]
    }
    let world = try await SimulatedAPNs(options)
    #expect(await world.sender.send(SimulatedAPNs.message(1, for: .milliseconds(400))) == .expired)
    #expect(world.apns.report.streams == 0)
    #expect(world.sender.statistics[0].status.lastError != nil)
    await world.stop()
  }

  @Test("a server that is away and comes back")
  func awayAndBack() async throws {
    let world = try await SimulatedAPNs()
    world.registerVoIP(3)
    #expect(await world.sender.send(SimulatedAPNs.message(0)) == .accepted)
    await world.apns.stopListening()
    world.apns.cutConnections()
    // So that the push waits for a connection, and is not lost with a dying one and sent again.
    await until { world.sender.statistics[0].status.connected == 0 }
    async let push = world.sender.send(SimulatedAPNs.message(1))
    // Not before it has tried in vain, as its figures show.
    await until { world.sender.metrics(of: "test")?.connectionsOpened.value ?? 0 >= 4 }
    try await world.apns.listenAgain()
    #expect(await push == .accepted)
    #expect(await world.sender.send(SimulatedAPNs.message(2)) == .accepted)
    try await finish(world)
  }

  @Test("an idle connection that the server ends is replaced")
  func idleTimeout() async throws {
    var options = APNsSimulatorOptions()
    options.idleTimeout = .milliseconds(100)
    let world = try await SimulatedAPNs(options)
    world.registerVoIP(2)
    #expect(await world.sender.send(SimulatedAPNs.message(0)) == .accepted)
    await until { world.sender.metrics(of: "test")?.goAways.value ?? 0 >= 2 }
    #expect(await world.sender.send(SimulatedAPNs.message(1)) == .accepted)
    try await finish(world)
  }

  @Test("R33: all nodes of the provider behind one limit of streams: what is refused goes later")
  func oneLimitForAllNodes() async throws {
    let budget = APNsStreamBudget(5)
    var options = APNsSimulatorOptions()
    options.streamBudget = budget
    options.script = APNsScript([.init(.delay(.milliseconds(5)), from: 2)])
    let nodes = [try await SimulatedAPNs(options), try await SimulatedAPNs(options)]
    await withTaskGroup(of: Void.self) { group in
      for node in nodes {
        node.registerVoIP(30)
        group.addTask {
          let outcomes = await node.send((0..<30).map { SimulatedAPNs.message($0) })
          #expect(outcomes.count == 30)
          #expect(outcomes.values.allSatisfy { $0 == .accepted })
        }
      }
    }
    #expect(budget.openMax <= 5)
    #expect(budget.refused > 0)
    for node in nodes {
      #expect(node.deliveredByID.count == 30)
      #expect(node.deliveredByID.values.allSatisfy { $0 == 1 })
      try await finish(node)
    }
  }

  @Test("a new key while pushes are under way: none is lost, later ones are signed with it")
  func newKey() async throws {
    let old = APNsProviderKey(id: "OLDKEY1234", team: "TEAMID1234")
    let new = APNsProviderKey(id: "NEWKEY1234", team: "TEAMID1234")
    let world = try await SimulatedAPNs(APNsSimulatorOptions(keys: [old, new]))
    world.registerVoIP(300)
    async let first = world.send((0..<200).map { SimulatedAPNs.message($0) })
    var configuration = try SimulatedAPNs.configuration(world.apns)
    configuration.credentials = try APNsCredentials(
      team: new.team, keyID: new.id, pem: new.privateKeyPEM)
    try world.sender.update(configuration)
    let second = await world.send((200..<300).map { SimulatedAPNs.message($0) })
    let all = await first.merging(second) { $1 }
    #expect(all.count == 300)
    #expect(all.values.allSatisfy { $0 == .accepted })
    #expect(world.deliveredByID.values.allSatisfy { $0 == 1 })
    configuration.port += 1
    #expect(throws: APNsConfigurationError.needsRestart("test")) {
      try world.sender.update(configuration)
    }
    try await finish(world)
  }

  @Test(
    "a key that APNs does not know: tried until the deadline, with alarms, and not in a tight loop")
  func wrongKey() async throws {
    let world = try await SimulatedAPNs(pem: P256.Signing.PrivateKey().pemRepresentation)
    world.registerVoIP(5)
    let outcomes = await world.send((0..<5).map { SimulatedAPNs.message($0, for: .seconds(2)) })
    #expect(outcomes.values.allSatisfy { $0.kind == .failed })
    let streams = world.apns.report.streams
    #expect((2...100).contains(streams))
    #expect((1...streams).contains(Int(world.sender.metrics(of: "test")?.alarms.value ?? 0)))
    #expect(world.log.all.contains("InvalidProviderToken"))
    await world.stop()
  }

  @Test("headers as Apple wants them arrive so")
  func headers() async throws {
    let world = try await SimulatedAPNs()
    world.registerVoIP(2)
    world.apns.register(SimulatedAPNs.token(7), topic: SimulatedAPNs.bundle)
    var alert = SimulatedAPNs.message(7, kind: .alert)
    alert.collapseKey = "missed"
    #expect(await world.sender.send(SimulatedAPNs.message(1)) == .accepted)
    #expect(await world.sender.send(alert) == .accepted)
    let voip = try #require(world.delivered.first)
    #expect(voip.topic == SimulatedAPNs.bundle + ".voip")
    #expect(voip.priority == 10)
    #expect(voip.id == SimulatedAPNs.id(1))
    #expect(voip.payload == SimulatedAPNs.message(1).payload)
    let shown = try #require(world.delivered.last)
    #expect(shown.topic == SimulatedAPNs.bundle)
    #expect(shown.collapseID == "missed")
    #expect(shown.expiration == alert.deadline.microseconds / 1_000_000)
    try await finish(world)
  }

  @Test("close waits for what is under way, and then sends nothing more")
  func closing() async throws {
    var options = APNsSimulatorOptions()
    options.script = APNsScript([.init(.delay(.milliseconds(200)), from: 2)])
    let world = try await SimulatedAPNs(options)
    world.registerVoIP(20)
    #expect(await world.sender.send(SimulatedAPNs.message(0)) == .accepted)
    async let under = world.send((1..<20).map { SimulatedAPNs.message($0) })
    await until { world.apns.report.streams >= 20 }
    await world.sender.close()
    #expect(await under.values.allSatisfy { $0 == .accepted })
    #expect(await world.sender.send(SimulatedAPNs.message(1)) == .failed(reason: "closing"))
    try await finish(world)
  }
}
