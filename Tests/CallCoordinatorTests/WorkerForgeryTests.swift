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
    let edge = try ForgingEdge(bench, secret: EdgeSecret(high: 7, low: 7))
    let request = RegistrationRequest(voipToken: bench.token("t1"), capabilities: .cancel)
    let reply = try await edge.ask(
      .register(request), of: bob, "b1", .token(try await rig.token(bob, at: bench.clock.now())))
    guard case .registered = reply else { throw Timeout(what: "\(reply)") }
  }

  private func publish(
    _ bench: WorkerBench, _ body: Command.Body, of user: UserKey, _ device: DeviceID,
    peer: UInt64 = 0, from source: CommandSource = .edges
  ) {
    let edge = peer == 0 ? ForgingEdge.number : 0
    let command = Command(
      session: SessionRef(edge: edge + peer, number: 8), request: 8, user: user, device: device,
      callee: user, body: body)
    bench.bus.publish(
      source.subject(of: 0, bench.subjects),
      ClusterCodec.encode(
        CommandBatch(
          edge: edge, peer: peer, secret: peer == 0 ? ForgingEdge.secret : nil,
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
    try await WorkerBench { $0.require(rig) }.run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      try await own(bench, bob)
      for body in bodies(bench) {
        publish(bench, body, of: bob, "b1")
        publish(bench, body, of: bob, "b1", peer: 1234)
      }
      try await eventually("all are turned away") {
        bench.metrics.commandsForged.value == 10
      }
      #expect(await bench.voipToken(bob, "b1") == "t1")
    }
  }

  @Test("gateways and coordinators say what is theirs, and nothing else")
  func peersSayTheirOwn() async throws {
    try await WorkerBench { $0.require(rig) }.run { bench in
      try await bench.adopt(0)
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
      ]
      for (body, source) in forged { publish(bench, body, of: bob, "b1", peer: 1234, from: source) }
      try await eventually("all are turned away") {
        bench.metrics.commandsForged.value == 10
      }
      #expect(await bench.voipToken(bob, "b1") == "t1")
      #expect(await bench.inspect(bob)?.calls.newest.isEmpty == true)
      publish(bench, bodies(bench)[1], of: bob, "b1", peer: 1234, from: .coordinators)
      try await eventually("the token goes") { await bench.voipToken(bob, "b1") == nil }
    }
  }

  // MARK: Users

  @Test("an edge speaks for those who attached through it, and for nobody else")
  func ticketsOnly() async throws {
    try await WorkerBench { $0.require(rig) }.run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      let now = bench.clock.now()
      let honest = try ForgingEdge(bench, secret: EdgeSecret(high: 7, low: 7))
      let taken = try ForgingEdge(bench)
      let token = try await rig.token(bob, at: now)
      guard
        case .attached(_, let ticket?, _) = try await honest.ask(
          .attach(Attach(attachedAt: now)), of: bob, "b1", .token(token))
      else { throw Timeout(what: "no ticket") }
      let mine = bench.user(0, 1)
      let call = CallID(high: 9, low: 9)
      // Somebody else's device: announced, attached with another's token, with another edge's ticket.
      let forged: [(Command.Body, Credential)] = [
        (.attach(Attach(announce: true, attachedAt: now + .seconds(9))), .none),
        (.attach(Attach(announce: true, attachedAt: now + .seconds(9))), .ticket(ticket)),
        (.attach(Attach(attachedAt: now)), .token(try await rig.token(mine, at: now))),
        (.attach(Attach(attachedAt: now)), .token("a.b.c")),
        (.sessionClosed(graceful: true), .ticket(ticket)), (.unregister("b1"), .ticket(ticket)),
        (.place(PlaceRequest(call: call)), .none),
        (.place(PlaceRequest(call: call)), .ticket(ticket)),
      ]
      for (body, credential) in forged { taken.say(body, of: bob, "b1", credential) }
      // In the honest edge's name.
      taken.say(
        .sessionClosed(graceful: true), of: bob, "b1", .ticket(ticket), edge: honest.number)
      try await eventually("all are turned away") {
        bench.metrics.commandsForged.value == UInt64(forged.count) + 1
      }
      // Behind all of it.
      let state = try await honest.ask(.call(call, .query), of: bob, "b1", .ticket(ticket))
      guard case .call(let found) = state else { throw Timeout(what: "\(state)") }
      #expect(found.phase == .unknown)
      let devices = await bench.inspect(bob)?.devices ?? []
      #expect(devices.map(\.session) == [SessionRef(edge: honest.number, number: 8)])
      // Sessions without a good ticket are sent away, tokens that are no good are answered.
      #expect(taken.closed > 0 && honest.closed == 0)
      #expect(taken.errors == [.notAccepted, .notAccepted])
    }
  }

  @Test("a call is answered and ended by its own devices, whatever another edge says")
  func callsOfOthers() async throws {
    try await WorkerBench { $0.require(rig) }.run { bench in
      try await bench.adopt(0)
      let (bob, ann) = (bench.user(0), bench.user(0, 1))
      let now = bench.clock.now()
      let honest = try ForgingEdge(bench, secret: EdgeSecret(high: 7, low: 7))
      let taken = try ForgingEdge(bench)
      let call = CallID(high: 9, low: 9)
      var tickets: [Credential] = []
      for (user, device) in [(bob, DeviceID("b1")), (ann, DeviceID("a1"))] {
        let token = Credential.token(try await rig.token(user, at: now))
        guard
          case .attached(_, let ticket?, _) = try await honest.ask(
            .attach(Attach(attachedAt: now)), of: user, device, token)
        else { throw Timeout(what: "no ticket") }
        tickets.append(.ticket(ticket))
      }
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
      try await eventually("all are turned away") {
        bench.metrics.commandsForged.value == 15
      }
      let state = try await honest.ask(.call(call, .query), of: bob, "b1", tickets[0])
      guard case .call(let found) = state else { throw Timeout(what: "\(state)") }
      #expect(found.phase == .placed)
    }
  }

  @Test("nobody says for another edge that it has announced its sessions")
  func announcements() async throws {
    try await WorkerBench { $0.require(rig) }.run { bench in
      try await bench.adopt(0)
      let number = EdgeNumber.of(secret: 7, 7)
      for secret in [nil, ForgingEdge.secret] {
        let done = AnnounceDone(shard: 0, epoch: 1, edge: number, number: 1, secret: secret)
        bench.worker.inbox.offer(.announceDone(shard: 0, done))
      }
      try await eventually("both are turned away") {
        bench.metrics.commandsForged.value == 2
      }
    }
  }
}
