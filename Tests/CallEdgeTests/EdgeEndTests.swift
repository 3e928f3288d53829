import CallAuth
import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Foundation
import NIOCore
import Testing

private let call = CallID(high: 1, low: 2)
private let query = ClientCommand.call(CallAddress(call: call), .query)

/// How sessions and edges end.
@Suite struct EdgeEndTests {
  @Test(.edge()) func brokenSocketIsReportedWithItsCalls() async throws {
    let (client, session) = try await edge.device("ann", "phone")
    try await client.ask(2, .place(call))
    try await client.channel.close().get()
    var bodies: [Command.Body] = []
    while bodies.count < 2 {
      let command = try await edge.shards.next {
        if case .callerGone = $0.body { true } else { $0.isEnd }
      }
      #expect(command.session == SessionRef(edge: edge.node.incarnation, number: session))
      #expect(command.request == 0 && command.user.user == "ann" && command.device == "phone")
      bodies.append(command.body)
    }
    #expect(bodies.contains(.sessionClosed(graceful: false)))
    #expect(bodies.contains(.callerGone([call])))
  }

  @Test(.edge()) func detachIsAnsweredAndCloses() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    #expect(try await client.ask(2, .detach) == .done)
    #expect(try await client.frame().closeCode == 1000)
    #expect(try await edge.shards.next(\.isEnd).body == .sessionClosed(graceful: true))
    client.send(clientFrame(8, [0x03, 0xe8]))
    try await client.end()
  }

  @Test(.edge()) func replacedSessionIsToldAndClosed() async throws {
    let (old, session) = try await edge.device("ann", "phone")
    let (new, _) = try await edge.device("ann", "phone")
    let notice = Notice(kind: .sessionReplaced, message: "attached elsewhere")
    edge.say(EdgeItem(session: session, body: .close(notice)))
    #expect(try await old.message() == .notice(notice))
    #expect(try await old.frame().closeCode == 4000)
    #expect(try await edge.shards.next(\.isEnd).session.number == session)
    try await new.ask(2, query)
    // Who does not answer the close is cut off.
    try await old.end()
  }

  /// A shard that still sends deliveries to a session that ended has missed the end, which is reported again.
  @Test(.edge()) func shardThatMissedTheEndIsToldAgain() async throws {
    let (client, session) = try await edge.device("ann", "phone")
    try await client.channel.close().get()
    #expect(try await edge.shards.next(\.isEnd).session.number == session)
    // As a shard retransmits. Within a second of the last report the edge does not react.
    let started = ContinuousClock.now
    // The call's shard may have it from the shard of the device's user, to whom the call went on.
    var told: [String: Command.Body] = [:]
    while told.count < 2, .now < started + patience {
      edge.say(.delivery(.stop(Stop(reason: .cancelled)), to: session, of: "bob"))
      for command in await edge.shards.heard.next(until: .now + .milliseconds(100)) {
        #expect(command.session.number == session)
        told[command.callee.user] = command.body
      }
    }
    #expect(told == ["ann": .sessionClosed(graceful: false), "bob": .callerGone([call])])
  }

  @Test(.stillEdge()) func idleConnectionsAreClosed() async throws {
    let silent = try await edge.client()
    let half = try await edge.client()
    half.send("GET /healthz HTTP/1.1\r\nHost")
    let done = try await edge.client()
    #expect(try await done.request("GET", "/healthz").status == 200)
    let socket = try await edge.socket()
    try await edge.until("callmesh_edge_connections") { $0 == 4 }
    // The edge may notice only now that it has answered and upgraded. So each look lets more time pass than a connection
    // may be idle.
    try await edge.until("callmesh_edge_connections") {
      edge.pass(.seconds(31))
      return $0 == 0
    }
    #expect(try await socket.frame().closeCode == 4003)
    for client in [silent, half, done, socket] { try await client.end() }
  }

  @Test(.edge { $0.pingInterval = .milliseconds(100) })
  func silentDevicesAreFoundDead() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    for _ in 0..<2 { #expect(try await client.frame().opcode == 9) }
    #expect(try await client.frame().closeCode == 4007)
    try await client.end()
    #expect(try await edge.shards.next(\.isEnd).body == .sessionClosed(graceful: false))
  }

  @Test(.edge { $0.peers.outboundBytesMax = 100_000 })
  func slowConsumerIsClosedAndCounted() async throws {
    let (slow, session) = try await edge.device("ann", "phone")
    let (good, _) = try await edge.device("bob", "phone")
    try await slow.stopReading()
    edge.flood(session)
    #expect(try await edge.shards.next(\.isEnd).session.number == session)
    #expect(edge.metric(#"callmesh_edge_closes_total{reason="slow_consumer"}"#) == 1)
    try await good.ask(2, query)
    // It reads the reason behind what waited.
    try await slow.readAgain()
    #expect(try await slow.closeCode() == 4005)
    try? await slow.channel.close().get()
    try await good.channel.close().get()
    try await edge.connectionsEnd()
  }

  @Test(.edge()) func sessionsAreAnnouncedToANewOwner() async throws {
    func shard(of user: String) -> Int {
      ShardHash.shard(of: UserKey(app: "demo", user: user), count: 8)
    }
    let users = (0..<20).map { "user-\($0)" }
    let expected = Set(users.filter { shard(of: $0) == shard(of: "user-0") })
    var clients: [RawClient] = []
    for user in users { clients.append(try await edge.device(user, "phone").client) }
    // One that is open but not attached is not announced.
    try await edge.client().upgrade()
    let done = Inbox<AnnounceDone>(capacity: 10)
    let subject = edge.shards.subjects.announceDone(shard: shard(of: "user-0"))
    _ = try edge.bus.subscribe(subject) { message in
      if let value = try? ClusterCodec.announceDone(message.bytes) { done.offer(value) }
    }
    edge.askForSessions(of: "user-0", epoch: 7, number: 3)
    let answer = try #require(await done.next(until: .now + patience).first)
    #expect(
      answer
        == AnnounceDone(
          shard: UInt32(shard(of: "user-0")), epoch: 7, edge: edge.node.incarnation,
          sessions: expected.count, number: 3, secret: answer.secret))
    #expect(answer.secret.map { EdgeNumber.of(secret: $0.high, $0.low) } == answer.edge)
    // By now all have arrived.
    var announced: Set<String> = []
    for command in await edge.shards.heard.next(until: .now) where command.isAttach {
      #expect(command.isAnnouncement && command.request == 0 && command.device == "phone")
      announced.insert(command.user.user)
    }
    #expect(announced == expected)
    for client in clients { try await client.channel.close().get() }
  }

  @Test(.edge()) func ofACallItsShardLearnsWhenTheSessionWasAttached() async throws {
    let client = try await edge.socket()
    try await client.attach(AttachRequest(token: try edge.token("ann"), device: "phone"))
    let attachedAt = try #require(try await edge.shards.next(\.isAttach).attach).attachedAt
    #expect(attachedAt != Timestamp(microseconds: 0))
    let call = CallID(high: 5, low: 6)
    client.say(2, .place(call))
    #expect(try await edge.shards.next(\.isPlace).attachedAt == attachedAt)
    edge.askForSessions(of: "bob", epoch: 1, number: 1)
    let resume = try await edge.shards.next { $0.body == .call(call, .resume) }
    #expect(resume.request == 0 && resume.attachedAt == attachedAt)
    // With these the device may take the caller's side.
    let verbs: [CallVerb] = [.pull(PullRequest(from: "tablet")), .answer(description: "offer")]
    for (number, verb) in zip(UInt64(3)..., verbs) {
      client.say(number, .call(CallAddress(callee: "bob", call: call), verb))
      let command = try await edge.shards.next { $0.request == number && $0.body.call == call }
      #expect(command.attachedAt == attachedAt)
    }
    try await client.channel.close().get()
  }

  @Test(.edge()) func readinessNeedsAnOwnerOfEveryShard() async throws {
    #expect(edge.node.readiness.missing == ["8 shards have no owner"])
    let bucket = try await edge.bus.openBucket(edge.shards.subjects.leaseBucket, BucketOptions())
    func put(_ shard: Int, released: Bool) async {
      let lease = Lease(owner: "c", incarnation: 1, epoch: 1, released: released)
      await withCheckedContinuation { continuation in
        bucket.put("\(shard)", ClusterCodec.encode(lease), expecting: nil) { _ in
          continuation.resume()
        }
      }
    }
    for shard in 0..<8 { await put(shard, released: shard == 3) }
    #expect(edge.node.readiness.shardsWithoutOwner == [3])
    await put(3, released: false)
    #expect(edge.node.readiness == Readiness())
  }

  @Test(.edge()) func operatorsAreAnswered() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    let status = try await edge.status()
    #expect(status.node == "edge-1" && status.role == "edge" && status.state == "serving")
    #expect(status.edge?.sessions == 1 && status.edge?.commandsTotal == 1)
    #expect(status.edge?.incarnation == edge.node.incarnation && status.shardCount == 8)
    let call = try await edge.bus.request(edge.shards.subjects.adminCall, [], timeout: .seconds(10))
    #expect(
      try JSONDecoder().decode(CallReport.self, from: Data(call.bytes))
        == CallReport(found: false, node: "edge-1"))
    try await client.channel.close().get()
  }

  @Test func drainTellsEveryDeviceAndLeavesNothing() async throws {
    let heartbeats = Inbox<Heartbeat>(capacity: 1000)
    var clients: [RawClient] = []
    try await EdgeFixture.run { edge in
      _ = try edge.bus.subscribe(edge.shards.subjects.heartbeats(of: "edge")) { message in
        if let beat = try? ClusterCodec.heartbeat(message.bytes) { heartbeats.offer(beat) }
      }
      for index in 0..<6 { clients.append(try await edge.device("user-\(index)", "phone").client) }
    }
    for client in clients {
      #expect(try await client.notice().kind == .goAway)
      #expect(try await client.closeCode() == 4002)
      try await client.end()
    }
    let states = await heartbeats.next(until: .now).map(\.state)
    #expect(states.contains(.leaving) && states.last == .gone)
  }
}
