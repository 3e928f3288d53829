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

private func isClosed(_ command: Command) -> Bool {
  if case .sessionClosed = command.body { true } else { false }
}

/// How sessions and edges end.
@Suite struct EdgeEndTests {
  @Test func brokenSocketIsReportedWithItsCalls() async throws {
    try await EdgeFixture.run { edge in
      let (client, session) = try await edge.device("ann", "phone")
      client.say(2, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
      _ = try await client.reply()
      try await client.channel.close().get()
      var bodies: [Command.Body] = []
      while bodies.count < 2 {
        let command = try await edge.shards.next {
          switch $0.body {
          case .sessionClosed, .callerGone: true
          default: false
          }
        }
        #expect(command.session == SessionRef(edge: edge.node.incarnation, number: session))
        #expect(command.request == 0 && command.user.user == "ann" && command.device == "phone")
        bodies.append(command.body)
      }
      #expect(bodies.contains(.sessionClosed(graceful: false)))
      #expect(bodies.contains(.callerGone([call])))
    }
  }

  @Test func detachIsAnsweredAndCloses() async throws {
    try await EdgeFixture.run { edge in
      let (client, _) = try await edge.device("ann", "phone")
      client.say(2, .detach)
      #expect(try await client.reply() == (2, .done))
      #expect(try await client.frame().closeCode == 1000)
      #expect(try await edge.shards.next(isClosed).body == .sessionClosed(graceful: true))
      client.send(clientFrame(8, [0x03, 0xe8]))
      try await client.end()
    }
  }

  @Test func whoDoesNotAnswerTheCloseIsCutOff() async throws {
    try await EdgeFixture.run { edge in
      let (client, _) = try await edge.device("ann", "phone")
      client.say(2, .detach)
      try await client.end()
    }
  }

  @Test func replacedSessionIsToldAndClosed() async throws {
    try await EdgeFixture.run { edge in
      let (old, session) = try await edge.device("ann", "phone")
      let (new, _) = try await edge.device("ann", "phone")
      let notice = Notice(kind: .sessionReplaced, message: "attached elsewhere")
      edge.say(EdgeItem(session: session, body: .close(notice)))
      #expect(try await old.message() == .notice(notice))
      #expect(try await old.frame().closeCode == 4000)
      #expect(try await edge.shards.next(isClosed).session.number == session)
      new.say(2, .call(CallAddress(call: call), .query))
      #expect(try await new.reply().id == 2)
    }
  }

  /// A shard that still sends deliveries to a session that ended has missed the end, which is reported again.
  @Test func shardThatMissedTheEndIsToldAgain() async throws {
    try await EdgeFixture.run { edge in
      let (client, session) = try await edge.device("ann", "phone")
      try await client.channel.close().get()
      #expect(try await edge.shards.next(isClosed).session.number == session)
      func deliver(callee: String) {
        edge.say(
          EdgeItem(
            session: session,
            body: .delivery(
              Delivery(
                call: call, callee: callee, version: 1, at: Timestamp(microseconds: 0),
                event: .stop(Stop(reason: .cancelled))))))
      }
      // As a shard retransmits. Within a second of the last report the edge does not react.
      let started = ContinuousClock.now
      var callee = "bob"
      var told: Command.Body?
      while told != .sessionClosed(graceful: false), .now < started + patience {
        deliver(callee: callee)
        for command in await edge.shards.heard.next(until: .now + .milliseconds(100)) {
          #expect(command.session.number == session && command.callee.user == callee)
          told = command.body
          if told == .callerGone([call]) { callee = "ann" }
        }
      }
      #expect(told == .sessionClosed(graceful: false))
    }
  }

  @Test func idleConnectionsAreClosed() async throws {
    let time = StillTime()
    try await EdgeFixture.run(at: time) { edge in
      let silent = try await edge.client()
      let half = try await edge.client()
      half.send("GET /healthz HTTP/1.1\r\nHost")
      let done = try await edge.client()
      #expect(try await done.request("GET", "/healthz").status == 200)
      let socket = try await edge.client()
      try await socket.upgrade()
      try await edge.until("callmesh_edge_connections") { $0 == 4 }
      // The edge may notice only now that it has answered and upgraded. So each look lets more time pass than a connection
      // may be idle.
      try await edge.until("callmesh_edge_connections") {
        time.pass(.seconds(31))
        return $0 == 0
      }
      #expect(try await socket.frame().closeCode == 4003)
      for client in [silent, half, done, socket] { try await client.end() }
    }
  }

  @Test func silentDevicesAreFoundDead() async throws {
    try await EdgeFixture.run {
      $0.pingInterval = .milliseconds(100)
    } _: { edge in
      let (client, _) = try await edge.device("ann", "phone")
      for _ in 0..<2 { #expect(try await client.frame().opcode == 9) }
      #expect(try await client.frame().closeCode == 4007)
      try await client.end()
      #expect(try await edge.shards.next(isClosed).body == .sessionClosed(graceful: false))
    }
  }

  @Test func slowConsumerIsClosedAndCounted() async throws {
    try await EdgeFixture.run {
      $0.peers.outboundBytesMax = 100_000
    } _: { edge in
      let (slow, session) = try await edge.device("ann", "phone")
      let (good, _) = try await edge.device("bob", "phone")
      try await slow.channel.setOption(.autoRead, value: false).get()
      let text = String(repeating: "x", count: 60_000)
      let item = EdgeItem(
        session: session,
        body: .delivery(
          Delivery(
            call: call, callee: "ann", version: 1, at: Timestamp(microseconds: 0),
            event: .invite(
              Invite(
                caller: Party(user: "bob", device: "phone"),
                deadline: Timestamp(microseconds: 0), description: text)))))
      // More than the sockets of both sides can hold.
      for _ in 0..<400 { edge.say(item) }
      #expect(try await edge.shards.next(isClosed).session.number == session)
      #expect(edge.metric(#"callmesh_edge_closes_total{reason="slow_consumer"}"#) == 1)
      good.say(2, .call(CallAddress(call: call), .query))
      #expect(try await good.reply().id == 2)
    }
  }

  // MARK: The cluster

  @Test func sessionsAreAnnouncedToANewOwner() async throws {
    try await EdgeFixture.run { edge in
      var expected: Set<String> = []
      var clients: [RawClient] = []
      let shard = ShardHash.shard(of: UserKey(app: "demo", user: "user-0"), count: 8)
      for index in 0..<20 {
        let user = "user-\(index)"
        clients.append(try await edge.device(user, "phone").client)
        if ShardHash.shard(of: UserKey(app: "demo", user: user), count: 8) == shard {
          expected.insert(user)
        }
      }
      // One that is open but not attached is not announced.
      try await edge.client().upgrade()
      let done = Inbox<AnnounceDone>(capacity: 10)
      let subjects = edge.shards.subjects
      _ = try edge.bus.subscribe(subjects.announceDone(shard: shard)) { message in
        if let value = try? ClusterCodec.announceDone(message.bytes) { done.offer(value) }
      }
      edge.bus.publish(
        subjects.announceRequests,
        ClusterCodec.encode(AnnounceRequest(shard: UInt32(shard), epoch: 7, number: 3)))
      let answer = try #require(await done.next(until: .now + patience).first)
      #expect(
        answer
          == AnnounceDone(
            shard: UInt32(shard), epoch: 7, edge: edge.node.incarnation, sessions: expected.count,
            number: 3, secret: answer.secret))
      #expect(answer.secret.map { EdgeNumber.of(secret: $0.high, $0.low) } == answer.edge)
      // By now all have arrived.
      var announced: Set<String> = []
      for command in await edge.shards.heard.next(until: .now) {
        guard case .attach(let attach) = command.body else { continue }
        #expect(attach.announce && command.request == 0 && command.device == "phone")
        announced.insert(command.user.user)
      }
      #expect(announced == expected)
      for client in clients { try await client.channel.close().get() }
    }
  }

  @Test func readinessNeedsAnOwnerOfEveryShard() async throws {
    try await EdgeFixture.run { edge in
      #expect(edge.node.readiness.missing == ["8 shards have no owner"])
      let bucket = try await edge.bus.openBucket(
        edge.shards.subjects.leaseBucket, BucketOptions())
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
  }

  @Test func operatorsAreAnswered() async throws {
    try await EdgeFixture.run { edge in
      let (client, _) = try await edge.device("ann", "phone")
      let subjects = edge.shards.subjects
      let answer = try await edge.bus.request(
        subjects.adminStatus, [], timeout: .seconds(10))
      let status = try JSONDecoder().decode(NodeStatus.self, from: Data(answer.bytes))
      #expect(status.node == "edge-1" && status.role == "edge" && status.state == "serving")
      #expect(status.edge?.sessions == 1 && status.edge?.commandsTotal == 1)
      #expect(status.edge?.incarnation == edge.node.incarnation && status.shardCount == 8)
      let call = try await edge.bus.request(subjects.adminCall, [], timeout: .seconds(10))
      #expect(
        try JSONDecoder().decode(CallReport.self, from: Data(call.bytes))
          == CallReport(found: false, node: "edge-1"))
      try await client.channel.close().get()
    }
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
      var kinds: [Notice.Kind] = []
      var code: Int?
      while code == nil {
        let frame = try await client.frame()
        code = frame.closeCode
        if code != nil { break }
        let message = try frame.payload.withUnsafeBytes {
          try DeviceCodec.protobuf.decodeServer($0)
        }
        if case .notice(let notice) = message { kinds.append(notice.kind) }
      }
      #expect(code == 4002 && kinds.first == .goAway)
      try await client.end()
    }
    let states = await heartbeats.next(until: .now).map(\.state)
    #expect(states.contains(.leaving) && states.last == .gone)
  }
}
