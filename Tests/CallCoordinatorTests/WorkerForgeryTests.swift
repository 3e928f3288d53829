import CallAuth
import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

/// Somebody who may publish what edges publish, and nothing else, speaks as others.
@Suite(.timeLimit(.minutes(2))) struct WorkerForgeryTests {
  private let rig = CommandAuthenticatorTests.Rig()

  /// Registers `b1` with the token `t1`, as its own edge does.
  private func own(_ bench: WorkerBench, _ bob: UserKey) async throws {
    let edge = try FakeEdge(bench, secret: EdgeSecret(high: 7, low: 7))
    let request = RegistrationRequest(voipToken: bench.token("t1"), capabilities: .cancel)
    let reply = try await edge.ask(
      .register(request), of: bob, "b1", .token(try await rig.token(bob, at: bench.clock.now())))
    #expect(reply.isRegistered)
  }

  private func publish(
    _ bench: WorkerBench, _ body: Command.Body, of user: UserKey, _ device: DeviceID,
    peer: UInt64 = 0, from source: CommandSource = .edges
  ) {
    let edge = peer == 0 ? FakeEdge.number(of: FakeEdge.taken) : 0
    let command = Command(
      session: SessionRef(edge: edge + peer, number: 8), request: 8, user: user, device: device,
      callee: user, body: body)
    bench.bus.publish(
      source.subject(of: 0, bench.subjects),
      ClusterCodec.encode(
        CommandBatch(
          edge: edge, peer: peer, secret: peer == 0 ? FakeEdge.taken : nil,
          commands: [command])))
  }

  private func bodies(_ bench: WorkerBench) -> [Command.Body] {
    let report = PushReport(
      call: CallID(high: 3, low: 4), device: "b1", purpose: .ring, fingerprint: "fpt1",
      outcome: .tokenGone(at: nil), at: bench.clock.now() + .seconds(60))
    let taken = TokenTaken(
      fingerprint: "fpt1", byUser: "mallory", byDevice: "m1",
      at: bench.clock.now() + .seconds(60))
    let call = CallID(high: 3, low: 4)
    let crossed = CrossedCall(
      call: call, caller: "ann", survivor: call, by: "b1", isSurvivorAnswered: true)
    let merge = MergeRequest(call: call, merged: call, caller: "mallory")
    return [
      .pushReport(report), .tokenTaken(taken), .crossed(crossed), .merge(merge),
      .history(.changed),
    ]
  }

  @Test("edges report no pushes and take no tokens, under no name")
  func edgesAreNoPeers() async throws {
    try await WorkerBench { $0.require(rig) }.serve { bench in
      let bob = bench.user(0)
      try await own(bench, bob)
      for body in bodies(bench) {
        publish(bench, body, of: bob, "b1")
        publish(bench, body, of: bob, "b1", peer: 1234)
      }
      try await eventually("all are turned away") { bench.metrics.commandsForged.value == 10 }
      #expect(await bench.voipToken(bob, "b1") == "t1")
    }
  }

  @Test("gateways and coordinators say what is theirs, and nothing else")
  func peersSayTheirOwn() async throws {
    try await WorkerBench { $0.require(rig) }.serve { bench in
      let bob = bench.user(0)
      try await own(bench, bob)
      let call = CallID(high: 9, low: 9)
      let forged: [(Command.Body, CommandSource)] = [
        (.place(PlaceRequest(call: call)), .gateways),
        (.place(PlaceRequest(call: call)), .coordinators),
        (.unregister("b1"), .gateways),
        (bodies(bench)[1], .gateways), (.call(call, .query), .coordinators),
        (.history(.changed), .gateways),
        (.history(.list(before: nil, limit: 10)), .coordinators),
        (.app(.end(call)), .gateways), (.app(.end(call)), .coordinators),
        (.rules(.write(UserRules())), .gateways),
        (.call(call, .hangUp), .gateways), (.call(call, .hangUp), .coordinators),
      ]
      let peer = try FakeEdge(
        1234, bench.bus, shards: WorkerBench.shards, clock: bench.clock, announces: false)
      for (body, source) in forged { publish(bench, body, of: bob, "b1", peer: 1234, from: source) }
      try await eventually("all are turned away") { bench.metrics.commandsForged.value == 12 }
      try await bench.flush()
      #expect(peer.reply(to: 8, request: 8) == nil)
      publish(bench, .call(call, .query), of: bob, "b1", peer: 1234, from: .gateways)
      try await eventually("a gateway may ask") { peer.reply(to: 8, request: 8) != nil }
      #expect(await bench.voipToken(bob, "b1") == "t1")
      #expect(await bench.inspect(bob)?.calls.newest.isEmpty == true)
      publish(bench, bodies(bench)[1], of: bob, "b1", peer: 1234, from: .coordinators)
      try await eventually("the token goes") { await bench.voipToken(bob, "b1") == nil }
    }
  }

  // MARK: Users

  /// Attaches through the edge, and returns the ticket.
  private func attach(
    _ user: UserKey, _ device: DeviceID, _ edge: FakeEdge, _ bench: WorkerBench
  ) async throws -> Credential {
    let now = bench.clock.now()
    let token = Credential.token(try await rig.token(user, at: now))
    guard
      case .attached(_, let ticket?, _) = try await edge.ask(
        .attach(Attach(attachedAt: now)), of: user, device, token)
    else { throw Timeout(what: "no ticket") }
    return .ticket(ticket)
  }

  private func phase(
    _ call: CallID, _ user: UserKey, _ ticket: Credential, _ edge: FakeEdge
  ) async throws -> CallPhase? {
    try await edge.ask(.call(call, .query), of: user, "b1", ticket).call?.phase
  }

  @Test("an edge speaks for those who attached through it, and for nobody else")
  func ticketsOnly() async throws {
    try await WorkerBench { $0.require(rig) }.serve { bench in
      let bob = bench.user(0)
      let now = bench.clock.now()
      let honest = try FakeEdge(bench, secret: EdgeSecret(high: 7, low: 7))
      let taken = try FakeEdge(bench)
      let ticket = try await attach(bob, "b1", honest, bench)
      let mine = bench.user(0, 1)
      let call = CallID(high: 9, low: 9)
      // Somebody else's device: announced, attached with another's token, with another edge's ticket.
      let forged: [(Command.Body, Credential)] = [
        (.attach(Attach(announce: true, attachedAt: now + .seconds(9))), .none),
        (.attach(Attach(announce: true, attachedAt: now + .seconds(9))), ticket),
        (.attach(Attach(attachedAt: now)), .token(try await rig.token(mine, at: now))),
        (.attach(Attach(attachedAt: now)), .token("a.b.c")),
        (.sessionClosed(graceful: true), ticket), (.unregister("b1"), ticket),
        (.place(PlaceRequest(call: call)), .none),
        (.place(PlaceRequest(call: call)), ticket),
      ]
      for (body, credential) in forged { taken.say(body, of: bob, "b1", credential) }
      // In the honest edge's name.
      taken.say(.sessionClosed(graceful: true), of: bob, "b1", ticket, edge: honest.number)
      try await eventually("all are turned away") {
        bench.metrics.commandsForged.value == UInt64(forged.count) + 1
      }
      // Behind all of it.
      #expect(try await phase(call, bob, ticket, honest) == .unknown)
      let devices = await bench.inspect(bob)?.devices ?? []
      #expect(devices.map(\.session) == [SessionRef(edge: honest.number, number: 8)])
      // Sessions without a good ticket are sent away, tokens that are no good are answered.
      #expect(taken.closed > 0 && honest.closed == 0)
      #expect(taken.errors == [.notAccepted, .notAccepted])
    }
  }

  @Test("a call is answered and ended by its own devices, whatever another edge says")
  func callsOfOthers() async throws {
    try await WorkerBench { $0.require(rig) }.serve { bench in
      let (bob, ann) = (bench.user(0), bench.user(0, 1))
      let honest = try FakeEdge(bench, secret: EdgeSecret(high: 7, low: 7))
      let taken = try FakeEdge(bench)
      let call = CallID(high: 9, low: 9)
      let tickets = [
        try await attach(bob, "b1", honest, bench), try await attach(ann, "a1", honest, bench),
      ]
      _ = try await honest.ask(
        .place(PlaceRequest(call: call, ringTimeoutSeconds: 180)), of: ann, "a1", tickets[1],
        to: bob)
      for credential in [Credential.none] + tickets {
        taken.say(.call(call, .answer(description: "mine")), of: bob, "b1", credential)
        taken.say(.call(call, .decline(.everywhere)), of: bob, "b1", credential)
        taken.say(.call(call, .cancel), of: ann, "a1", credential, to: bob)
        taken.say(.call(call, .resume), of: ann, "a1", credential, to: bob)
        taken.say(.callerGone([call]), of: ann, "a1", credential, to: bob)
      }
      try await eventually("all are turned away") { bench.metrics.commandsForged.value == 15 }
      #expect(try await phase(call, bob, tickets[0], honest) == .placed)
    }
  }

  @Test("nobody says for another edge that it has announced its sessions")
  func announcements() async throws {
    try await WorkerBench { $0.require(rig) }.serve { bench in
      let number = EdgeNumber.of(secret: 7, 7)
      for secret in [nil, FakeEdge.taken] {
        let done = AnnounceDone(shard: 0, epoch: 1, edge: number, number: 1, secret: secret)
        bench.worker.inbox.offer(.announceDone(shard: 0, done))
      }
      try await eventually("both are turned away") { bench.metrics.commandsForged.value == 2 }
    }
  }
}

/// An edge that says what it likes. All of its sessions have the number 8.
extension FakeEdge {
  /// The secret of an edge that an attacker has taken.
  static let taken = EdgeSecret(high: 6, low: 6)

  static func number(of secret: EdgeSecret) -> UInt64 {
    EdgeNumber.of(secret: secret.high, secret.low)
  }

  convenience init(_ bench: WorkerBench, secret: EdgeSecret = FakeEdge.taken) throws {
    try self.init(
      Self.number(of: secret), bench.bus, shards: WorkerBench.shards, clock: bench.clock,
      secret: secret, announces: false, repeatsAfter: nil)
  }

  var closed: Int { items.count { if case .close = $0.body { true } else { false } } }
  var errors: [CallError.Code] {
    items.compactMap {
      if case .reply(_, .error(let error)) = $0.body { error.code } else { nil }
    }
  }

  /// - Parameter edge: in whose name it speaks; nil: in its own.
  func say(
    _ body: Command.Body, of user: UserKey, _ device: DeviceID, _ credential: Credential,
    to callee: UserKey? = nil, edge: UInt64? = nil
  ) {
    send(
      body, from: 8, user, device, to: callee ?? user, request: nextRequest(), credential,
      as: edge)
  }

  func ask(
    _ body: Command.Body, of user: UserKey, _ device: DeviceID, _ credential: Credential,
    to callee: UserKey? = nil
  ) async throws -> Reply {
    try await ask(body, from: 8, user, device, to: callee ?? user, credential)
  }
}

extension CoordinatorConfiguration {
  mutating func require(_ rig: CommandAuthenticatorTests.Rig) {
    sessionTickets = .required
    authority = rig.authority
  }
}

extension CommandAuthenticatorTests.Rig {
  func token(_ user: UserKey, at now: Timestamp) async throws -> String {
    try keys.mintToken(
      app: user.app, user: user.user, lifetimeSeconds: 600, now: now.microseconds / 1_000_000)
  }
}
