import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Foundation
import NIOCore
import Testing

private let call = CallID(high: 1, low: 2)
private let begin = Timestamp(microseconds: 1_000_000_000)

/// When sessions are notified, and when they are closed.
@Suite struct DrainScheduleTests {
  @Test func manyAreToldEvenlyAndThoseThatStayClosedEvenly() {
    var schedule = DrainSchedule(begins: begin, span: .seconds(15), count: 10_000)
    #expect(schedule.notified(at: begin) == 1)
    #expect((4990...5010).contains(schedule.notified(at: begin + .seconds(5))))
    #expect(schedule.notified(at: begin + .seconds(10)) == 10_000)
    check(.max, schedule.mayStay(of: 10_000, at: begin + .milliseconds(9999)))
    check(1000, schedule.mayStay(of: 1000, at: begin + .seconds(10)))
    check(500, schedule.mayStay(of: 700, at: begin + .milliseconds(12_500)))
    check(0, schedule.mayStay(of: 300, at: begin + .seconds(15)))
  }

  private func check(_ expected: Int, _ found: Int) { #expect(found == expected) }

  @Test func fewAreToldSoon() {
    let schedule = DrainSchedule(begins: begin, span: .seconds(600), count: 100)
    #expect(schedule.notified(at: begin + .milliseconds(400)) == 100)
  }

  @Test func withoutTimeAllAreClosedAtOnce() {
    var schedule = DrainSchedule(begins: begin, span: .seconds(0), count: 100)
    #expect(schedule.notified(at: begin) == 100)
    let stay = schedule.mayStay(of: 100, at: begin)
    #expect(stay == 0)
  }
}

/// R20: how an edge gives its devices up, and takes them again.
@Suite struct EdgeDrainTests {
  private func order(
    _ edge: EdgeFixture, _ action: DrainRequest.Action, seconds: Int? = nil
  ) async throws {
    let request = DrainRequest(node: "edge-1", action: action, seconds: seconds)
    let answer = try await edge.bus.request(
      edge.shards.subjects.order(action.rawValue, by: "ann"),
      Array(try JSONEncoder().encode(request)),
      timeout: .seconds(10))
    #expect(
      try JSONDecoder().decode(OrderAnswer.self, from: Data(answer.bytes))
        == OrderAnswer(node: "edge-1", role: "edge"))
    let record = try await edge.bus.openAudit(AuditOptions(role: "")).records(limit: 1).last
    let text = String(decoding: try #require(record).bytes, as: UTF8.self)
    #expect(text.contains(#""operator":"ann""#) && text.contains(#""order":"\#(action.rawValue)""#))
  }

  private func status(_ edge: EdgeFixture) async throws -> NodeStatus {
    let answer = try await edge.bus.request(
      edge.shards.subjects.adminStatus, [], timeout: .seconds(10))
    return try JSONDecoder().decode(NodeStatus.self, from: Data(answer.bytes))
  }

  /// Asks again and again, as an operator does.
  private func until(_ state: String, _ edge: EdgeFixture) async throws {
    while try await status(edge).state != state { try Task.checkCancellation() }
  }

  private func goAway(_ client: RawClient) async throws {
    while true {
      if case .notice(let notice) = try await client.message() {
        #expect(notice.kind == .goAway)
        return
      }
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func nothingNewEntersAndWhatIsThereGoesOn() async throws {
    try await EdgeFixture.run { edge in
      let (client, session) = try await edge.device("ann", "phone")
      let late = try await edge.client()
      try await late.upgrade()
      try await order(edge, .drain, seconds: 600)
      try await goAway(client)
      #expect(try await status(edge).state == "draining")
      client.say(2, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
      #expect(try await client.errorReply() == (2, .draining))
      client.say(3, .call(CallAddress(call: call), .query))
      #expect(try await client.reply().id == 3, "what goes on, goes on")
      late.say(
        1, .attach(AttachRequest(token: try await edge.token("bob"), device: "phone")))
      try await goAway(late)
      #expect(try await late.errorReply() == (1, .draining))
      #expect(try await late.frame().closeCode == 4002)
      #expect(edge.node.readiness.missing.contains("the edge drains"))
      let other = try await edge.client()
      let answer = try await other.request(
        "GET", "/v1/connect",
        headers: [
          "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
          "Sec-WebSocket-Protocol: callmesh.v1.pb",
        ])
      #expect(answer.status == 503 && answer.errorCode == 502)
      #expect(answer.headers["retry-after"] == "1")
      // It goes by itself: the drain need not wait for its time.
      try await client.channel.close().get()
      _ = try await edge.shards.next { $0.session.number == session && $0.request == 0 }
      try await until("drained", edge)
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func itServesAgain() async throws {
    try await EdgeFixture.run { edge in
      try await order(edge, .drain)
      try await until("drained", edge)
      try await order(edge, .resume)
      try await until("serving", edge)
      let (client, _) = try await edge.device("ann", "phone")
      client.say(2, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
      #expect(try await client.reply().id == 2)
      try await client.channel.close().get()
    }
  }

  @Test(.timeLimit(.minutes(1)))
  func whoIsInACallIsClosedLast() async throws {
    // All users are of one shard: items for several shards in one turn of the loop have no order between them.
    let users = Array(
      (0...).lazy.map { "user-\($0)" }
        .filter { ShardHash.shard(of: UserKey(app: "demo", user: $0), count: 8) == 0 }.prefix(8))
    var order: [String] = []
    var clients: [(String, RawClient)] = []
    let closed = Inbox<String>(capacity: 100)
    try await EdgeFixture.run {
      $0.eventLoops = 1
      $0.drainSeconds = 1
    } _: { edge in
      let subjects = edge.shards.subjects
      for shard in 0..<8 {
        _ = try edge.bus.subscribe(subjects.commands(shard: shard)) { message in
          for command in (try? ClusterCodec.commandBatch(message.bytes))?.commands ?? [] {
            if case .sessionClosed = command.body { closed.offer(command.user.user) }
          }
        }
      }
      for index in 0..<8 {
        let (client, session) = try await edge.device(users[index], "phone")
        clients.append((users[index], client))
        guard index < 2 else { continue }
        edge.say(
          EdgeItem(
            session: session,
            body: .delivery(
              Delivery(
                call: call, callee: users[index], version: 1, at: begin,
                event: .invite(
                  Invite(
                    caller: Party(user: "x", device: "y"), deadline: .distantFuture))))))
        _ = try await client.message()
      }
    }
    order = await closed.next(until: .now)
    #expect(order.count == 8)
    #expect(Set(order.suffix(2)) == Set(users.prefix(2)))
  }

  @Test func anOrderForAnotherNodeIsNotOurs() async throws {
    try await EdgeFixture.run { edge in
      let request = DrainRequest(node: "edge-2", action: .drain)
      edge.bus.publish(
        edge.shards.subjects.order("drain", by: "ann"), Array(try JSONEncoder().encode(request)))
      #expect(try await status(edge).state == "serving")
    }
  }
}
